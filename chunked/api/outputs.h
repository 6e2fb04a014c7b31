// store() of data sets that each have a layout and attributes of their own, for programs that copy files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quarry/chunked/api/ma.h"
#include "quarry/io/attribute.h"
#include "quarry/io/filter.h"

namespace quarry::detail {

struct OutputItem {
  ma::FilledItem filled;
  std::map<std::string, io::Attribute> attributes = {};
  // In place of StoreOptions::chunks and filters.
  std::optional<Dims> chunks = {};
  std::vector<io::Filter> filters = {};
  std::vector<std::string> dims = {};  // names of the axes, as StoreOptions::dims has them; none: they have none
};
// By the paths of groups.
using GroupAttributes = std::map<std::string, std::map<std::string, io::Attribute>>;
// As store(), of whose options `overwrite` and `version` alone count. `groups` are made too, where the format has
// groups; attributes of one that is there stay, but with `overwrite` those of the same names are replaced.
void store_outputs(const std::string& file, const std::vector<OutputItem>& items, const GroupAttributes& groups,
                   const StoreOptions& options);

}  // namespace quarry::detail
