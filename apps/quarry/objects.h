// What the commands that go through whole files share: which of a file's objects are arrays, and which are damaged.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "quarry/io/dataset.h"

namespace quarry::apps {

struct FileObjects {
  std::vector<io::DatasetInfo> arrays;                                 // what can be read
  std::vector<std::pair<std::string, std::string>> left_out;           // path and reason of what is no array of numbers
  std::vector<std::pair<std::string, std::string>> damaged;            // the same of what is damaged
  std::map<std::string, std::map<std::string, io::Attribute>> groups;  // the attributes of each
};
// At or below `object`. A table in HDF5 is its fields, in CSV its columns. Throws as io::list_objects.
FileObjects objects_of(const std::string& file, const std::string& object);

}  // namespace quarry::apps
