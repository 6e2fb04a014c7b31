// What error messages are made of: hints at misspelt names and excerpts of long texts.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "quarry/local/base/detail.h"

namespace quarry::local {

// How many edits make one word of the other: letters changed, added or removed, or neighbours swapped. Letters are
// compared without case.
size_t edit_distance(std::string_view a, std::string_view b);

// "; did you mean 'NAME'?" for the candidate nearest to `word`, or nothing if none is near.
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

// The text, or its beginning and its end with "..." between where it has more than `most` bytes. UTF-8 stays whole.
std::string excerpt(std::string_view text, size_t most = 80);

}  // namespace quarry::local
