// Zarr as a format: a folder whose folders are groups and arrays.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quarry/io/format.h"

namespace quarry::io::zarr {

const Format& format();

// --- reading ---

std::shared_ptr<Dataset> open_dataset(const std::string& file, const std::string& object);
std::vector<ObjectInfo> list_objects(const std::string& file, const std::string& object);
std::shared_ptr<Dataset> dataset_of(const std::string& layout);

// --- writing ---

// Chunks where there are none, and what can be checked before the folder is looked at.
void prepare(OutputSpec& spec);
std::unique_ptr<OutputFile> create_output(const std::string& file, std::vector<OutputSpec> specs, bool overwrite);
std::unique_ptr<OutputFile> resume_output(const std::string& file, const std::string& kept);
std::shared_ptr<Writer> writer_of(const std::string& layout);

}  // namespace quarry::io::zarr
