// Between HDF5's types and quarry's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/parse/datatype.h"
#include "quarry/io/hdf5/stored.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"

namespace quarry::io::hdf5 {

struct FileType {
  local::DType dtype = local::DType::float64;
  bool swapped = false;    // elements are stored in foreign byte order
  bool bitfield = false;   // an unsigned integer that the library calls a bit field
  std::string conversion;  // why the bytes in the file are not those of `dtype`; empty: they are, up to byte order
  IntegerBits bits;        // of an integer that fills only a part of its bytes
};

// What a stored type is to quarry. bool is h5py's enum FALSE/TRUE, complex a compound of r and i, other enums are their
// integers, bit fields unsigned integers; integers of unusual size and floats of unusual precision are the smallest
// dtype that holds them. Throws TypeError naming the type where there is none.
FileType describe_type(const Type& type);

// What a data set's elements are: numbers, alone or as a field of a compound, or arrays of them.
struct ElementType {
  FileType number;
  local::Dims array;   // axes of the arrays; empty: none
  int64_t offset = 0;  // in bytes, of the field in an element
  int64_t bytes = 0;   // of a whole element
};
// `fields` are the names of a field and of fields in it; empty: the element itself. Throws TypeError as above, and
// InvalidArgument where there is no such field.
ElementType describe_element(const Type& type, const std::vector<std::string>& fields);
// "string", "compound of a, b", "24-bit integer" ... for messages.
std::string type_name(const Type& type);

// The type that quarry stores a dtype as, and reads it into memory through the library as (little-endian).
Handle memory_type(local::DType dtype);
// The same for what the library reads: a field comes as a compound of it alone.
Handle memory_type(local::DType dtype, bool bitfield, const std::vector<std::string>& fields);

}  // namespace quarry::io::hdf5
