// HDF5 as a file format.
#pragma once

#include "quarry/io/format.h"

namespace quarry::io::hdf5 {

const Format& format();

// --- its parts: io/hdf5/read ---

std::shared_ptr<Dataset> open_dataset(const std::string& file, const std::string& object);
std::shared_ptr<Dataset> dataset_of(const std::string& layout);

// --- io/hdf5 ---

std::vector<ObjectInfo> list_objects(const std::string& file, const std::string& object);

// --- io/hdf5/write ---

std::unique_ptr<OutputFile> create_output(const std::string& file, std::vector<OutputSpec> specs, bool overwrite);
std::shared_ptr<Writer> writer_of(const std::string& layout);

}  // namespace quarry::io::hdf5
