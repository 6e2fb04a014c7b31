#include "quarry/chunked/api/files.h"

namespace quarry {

Array load(const std::string& file, const std::string& object) { return open_hdf5(file, object); }

void save(const std::string& file, const Array& array) {
  StoreOptions options;
  options.overwrite = true;
  store(file, {{"/data", array}}, options);
}

}  // namespace quarry
