// Hints at misspelt names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace quarry::apps {

// "; did you mean 'NAME'?" for the candidate nearest to `word` by edits (swaps of neighbours count as one), or nothing
// if none is near.
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

}  // namespace quarry::apps
