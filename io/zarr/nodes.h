// Folders of Zarr arrays and groups.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace quarry::io::zarr {

// Which kind of node a folder is, by the files of version 2 and 3.
enum class Node : uint8_t { none, array2, array3, group2, group3 };
// Throws IoError.
Node node_of(const std::filesystem::path& folder);
inline bool is_array(Node node) { return node == Node::array2 || node == Node::array3; }
inline bool is_group(Node node) { return node == Node::group2 || node == Node::group3; }

// The folder of an object. Throws InvalidArgument for a path that leaves the file.
std::filesystem::path folder_of(const std::string& file, const std::string& object);

bool is_file(const std::filesystem::path& path);
// Of metadata: throws IoError for what is longer than that can be.
std::string read_text(const std::filesystem::path& path);

}  // namespace quarry::io::zarr
