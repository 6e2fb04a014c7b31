// The header of NumPy's .npy format, versions 1 to 3: what one array of a file is.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "quarry/io/attribute.h"
#include "quarry/io/byte_file.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"

namespace quarry::io::npy {

// The array itself, or a field of its records.
struct Field {
  std::string path;     // "" of an array of numbers; "/a" or "/a/b" of a field
  std::string problem;  // why it is not readable; else empty
  local::DType dtype = local::DType::float64;
  bool swapped = false;                              // in foreign byte order
  int64_t offset = 0;                                // in the record
  int64_t bytes = 0;                                 // of one element
  local::Dims subarray;                              // axes that a field has besides the array's
  std::map<std::string, Attribute> attributes = {};  // `units` of dates and durations
};

struct Header {
  int version = 1;
  local::Dims shape;
  bool fortran_order = false;
  std::vector<Field> fields;  // in the file's order
  int64_t record_bytes = 0;   // between neighbouring elements
  int64_t data_offset = 0;
};

// The magic bytes, which version is told by the two that follow.
bool begins_as_npy(const ByteSource& source, int64_t offset);

// Reads the header at `offset` of a source, without believing it: the text is parsed as the Python literals that NumPy
// writes and nothing else, and the data that it promises lies before `end`. `name`: what messages call it. Dates
// (datetime64) and durations (timedelta64) are int64 with the attribute `units`, "days since 1970-01-01" or "days", and
// NaT is the attribute `_FillValue`; two bytes of void (as ml_dtypes writes its bfloat16) are bfloat16. Throws IoError
// (damaged, truncated), NotSupported (more axes than quarry has).
Header read_header(const ByteSource& source, int64_t offset, int64_t end, const std::string& name);

// The type of a text such as "<f8" or "|b1". Throws IoError for what is none.
Field parse_type(const std::string& code);

// The text of a type, little-endian: "<f8", "|b1".
std::string type_code(local::DType dtype);

// What numpy.save() writes before the data: version 1.0, C order, little-endian.
std::string header_text(local::DType dtype, const local::Dims& shape);
// The same for a text (dtype <U) or bytes (|S) of 0 axes and `characters` code points or bytes; text_code() is its
// type.
std::string text_header(bool is_bytes, int64_t characters);
// The element that NumPy makes of a text in UTF-8, which is UTF-32, or of bytes; an empty one has a zero character.
std::string text_element(const std::string& text, bool is_bytes);
std::string text_code(bool is_bytes, int64_t characters);

}  // namespace quarry::io::npy
