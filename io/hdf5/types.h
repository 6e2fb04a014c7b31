// Between HDF5's types and quarry's.
#pragma once

#include <string>

#include "quarry/io/hdf5/library.h"
#include "quarry/local/base/dtype.h"

namespace quarry::io::hdf5 {

struct FileType {
  local::DType dtype = local::DType::float64;
  bool swapped = false;    // elements are stored in foreign byte order
  bool bitfield = false;   // an unsigned integer that the library calls a bit field
  std::string conversion;  // why the bytes in the file are not those of `dtype`; empty: they are, up to byte order
};

// What a stored type is to quarry. bool is h5py's enum FALSE/TRUE over one byte, complex a compound of r and i, other
// enums are their integers, bit fields unsigned integers; integers and floats of unusual precision are the smallest
// dtype that holds them. Throws TypeError naming the type where there is none.
FileType describe_type(hid_t type);
// "string", "compound of a, b", "24-bit integer" ... for messages.
std::string type_name(hid_t type);

// The type that quarry stores a dtype as, and reads it into memory through the library as (little-endian).
Handle memory_type(local::DType dtype);
// The same for data of `stored`, which the library can convert to it.
Handle memory_type(const FileType& stored);

}  // namespace quarry::io::hdf5
