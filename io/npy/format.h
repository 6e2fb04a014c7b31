// NumPy's files as file formats: .npy holds one array, .npz several in a ZIP archive.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quarry/io/format.h"

namespace quarry::io::npy {

const Format& npy_format();
const Format& npz_format();

// --- reading ---

std::shared_ptr<Dataset> open_npy(const std::string& file, const std::string& object);
std::vector<ObjectInfo> list_npy(const std::string& file, const std::string& object);
std::shared_ptr<Dataset> open_npz(const std::string& file, const std::string& object);
std::vector<ObjectInfo> list_npz(const std::string& file, const std::string& object);
std::shared_ptr<Dataset> dataset_of(const Format& format, const std::string& layout);

// --- writing ---

std::unique_ptr<OutputFile> create_npy(const std::string& file, std::vector<OutputSpec> specs, bool overwrite);
// A .npy file that was kept.
std::unique_ptr<OutputFile> resume_npy(const std::string& file, const std::string& kept);
std::unique_ptr<OutputFile> create_npz(const std::string& file, std::vector<OutputSpec> specs, bool overwrite);
// Deflated members are made of parts of whole rows.
void prepare_npz(OutputSpec& spec);
std::shared_ptr<Writer> writer_of(const Format& format, const std::string& layout);

}  // namespace quarry::io::npy
