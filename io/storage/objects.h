// Objects inside files, in all formats: their names, and what is said of those to be written.
#pragma once

#include <span>
#include <string>

#include "quarry/io/output.h"
#include "quarry/io/storage/bytes.h"

namespace quarry::io {

// An absolute object path without empty or trailing components.
std::string normalized_object(const std::string& object);

// Throws InvalidArgument: there is no such object, with the nearest of `names`.
[[noreturn]] void throw_no_object(const std::string& file, const std::string& object,
                                  std::span<const std::string> names);

// Throws InvalidArgument where two of the outputs, of normalized paths, have one path, or one is the group of another.
void check_paths(std::span<const OutputSpec> specs);

// Bytes of the arrays that are not filtered: the files hold as many.
double unfiltered_bytes(std::span<const OutputSpec> specs);

// Path, shape, dtype, chunks and filters of an array, from the rank that creates it to the others that write.
void serialize_array(const OutputSpec& spec, ByteWriter& out);
OutputSpec deserialize_array(ByteReader& in);

}  // namespace quarry::io
