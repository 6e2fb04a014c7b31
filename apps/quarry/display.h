// Printing results as Python and NumPy print them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "quarry/apps/language/value.h"

namespace quarry::apps {

// Every array inside a value, in the order it is printed.
void collect_arrays(const expression::Value& value, std::vector<Array>& arrays);

// What printing an array shows: the array, or of a large one only what NumPy's summary shows, so that nothing else is
// computed.
Array shown_part(const Array& array);

// As print() of each value in Python; computes what is shown of all of them in one plan. Collective.
std::vector<std::string> display(std::span<const expression::Value> values);

}  // namespace quarry::apps
