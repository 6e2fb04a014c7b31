// Names of objects inside files, in all formats.
#pragma once

#include <span>
#include <string>

#include "quarry/io/output.h"

namespace quarry::io {

// An absolute object path without empty or trailing components.
std::string normalized_object(const std::string& object);

// Throws InvalidArgument: there is no such object, with the nearest of `names`.
[[noreturn]] void throw_no_object(const std::string& file, const std::string& object,
                                  std::span<const std::string> names);

// Throws InvalidArgument where two of the outputs, of normalized paths, have one path, or one is the group of another.
void check_paths(std::span<const OutputSpec> specs);

}  // namespace quarry::io
