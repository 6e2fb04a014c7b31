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
// Format::for_each_stored() of chunked data sets; false of others, where nothing was done.
bool for_each_stored_chunk(const Dataset& dataset, const std::function<bool(const local::Region&)>& use);

// --- io/hdf5/write ---

std::unique_ptr<OutputFile> create_output(const std::string& file, std::vector<OutputSpec> specs, bool overwrite);
// As OutputFile::change().
std::unique_ptr<OutputFile> change_output(const std::string& file, std::vector<ChangeSpec> specs);
// As Format::axis_names(): of scales that are in the data set's own group.
std::vector<std::string> axis_names_of(const std::string& file, const std::string& object);
// Completes a change of the file that was interrupted. Does nothing to others. Throws IoError.
void finish_change(const std::string& file);
std::unique_ptr<OutputFile> resume_output(const std::string& file, const std::string& kept);
std::shared_ptr<Writer> writer_of(const std::string& layout);

}  // namespace quarry::io::hdf5
