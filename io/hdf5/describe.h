// Descriptions of data sets and files through the HDF5 library.
#pragma once

#include <string>

#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/stored.h"
#include "quarry/io/storage/objects.h"

namespace quarry::io::hdf5 {

// H5Oopen after check_object_header(): a handle that may be empty, or IoError where the header is damaged. Says whether
// the attributes can be read.
Handle open_object(hid_t file_id, const std::string& file, const std::string& object, bool* attributes_sound = nullptr);

// Opens and describes. Throws as Dataset::open.
StoredDataset describe_dataset(const std::string& file, const std::string& object);
// The same for an object of an open file, whose size and system file come with it.
StoredDataset describe_dataset(hid_t file_id, const std::string& file, const std::string& object);

// Attributes of an open object: numbers, strings, numeric arrays (one element: a number); others are left out.
std::map<std::string, Attribute> read_attributes(hid_t object);
void write_attributes(hid_t object, const std::map<std::string, Attribute>& attributes);

// Whether a link of that path exists, every component of it.
bool object_exists(hid_t file, const std::string& object);
// The data set or group whose path is most like `object`; empty where none is close.
std::string nearest_object(hid_t file, const std::string& object);

}  // namespace quarry::io::hdf5
