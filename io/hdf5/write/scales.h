// Names of axes, as HDF5's dimension scales have them, and netCDF.
#pragma once

#include <string>
#include <vector>

#include "quarry/io/hdf5/library.h"
#include "quarry/io/output.h"

namespace quarry::io::hdf5 {

// Throws InvalidArgument for names that are too few, empty, twice there or with a slash.
void check_dims(const OutputSpec& spec);

// Of data sets that were just created: every axis that has a name gets as scale the data set of one axis and that name
// in the same group, which then is one. Where there is none, an empty one is made, as netCDF does for dimensions
// without coordinates. Throws InvalidArgument where one has another extent, IoError.
void attach_scales(hid_t file, const std::vector<OutputSpec>& specs);

// Before the data set is replaced: scales do not refer to it any more. Does nothing to others. Throws IoError.
void detach_scales(hid_t file, const std::string& object);

// The names of scales of a data set of that shape that are in its own group, empty where an axis has none: for the
// library's process (io/hdf5/process). Throws IoError.
std::vector<std::string> library_axis_names(const std::string& file, const std::string& path, const local::Dims& shape);

}  // namespace quarry::io::hdf5
