// Files without a name, which vanish with the process that made them.
#pragma once

#include <string>
#include <string_view>

namespace quarry::local {

// The descriptor of a new file in `folder`, for reading and writing; programs that this one starts do not get it. The
// caller closes it. -1 where the folder takes no file, with the reason in errno. lsof and /proc show it as deleted, by
// the name quarry-PURPOSE-...
int open_nameless_file(const std::string& folder, std::string_view purpose);

}  // namespace quarry::local
