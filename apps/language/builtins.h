// Python's functions of its own values.
#pragma once

#include "quarry/apps/language/function.h"

namespace quarry::apps::expression {

// Adds "builtins.NAME" for abs, all, any, bytes, divmod, len, list, max, min, pow, range, reversed, round, sorted, sum
// and tuple. The language looks there first for a name alone, never for np.NAME. These functions act as Python's for
// what Python has: numbers, text, flat sequences. Arrays, nested sequences and NumPy's keywords go to the function of
// `registry` with the same name.
void add_builtins(Registry& registry);

// int(), float(), complex() and bool() of anything but arrays. Throws TypeError and InvalidArgument with Python's
// messages.
Value call_python_type(DType type, const std::vector<Value>& args, const std::vector<KeywordValue>& keywords);

// Attributes and methods of str and bytes that are values or functions of no argument; nothing for other names.
std::optional<Value> text_attribute(const Value& text, std::string_view name);

}  // namespace quarry::apps::expression
