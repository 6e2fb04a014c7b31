// The options that every command has: one table (options.def) of name, environment variable, default and help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/runtime/runtime.h"

namespace CLI {
class App;
}

namespace quarry::apps {

struct CommonOptions {
#define QUARRY_OPTION(member, option, environment, placeholder, shown, help) std::string member;
#define QUARRY_FLAG(member, option, help) bool member = false;
#include "quarry/apps/quarry/options.def"
#undef QUARRY_OPTION
#undef QUARRY_FLAG

  // The text as values. Throw InvalidArgument naming the option.
  RuntimeOptions runtime() const;
  uint64_t seed_value() const;
  // What store() gets for an output; `overwrite` is the command's.
  StoreOptions store(bool overwrite) const;
  bool show_progress() const;
};

void add_common_options(CLI::App& command, CommonOptions& options);

// "4096,512" as extents (-1 allowed); nothing for "auto" and "". Throws InvalidArgument naming `option`.
std::optional<Dims> parse_chunks(const std::string& text, const std::string& option);
// "deflate:4,shuffle": the filters in the order HDF5 applies them (shuffle before deflate before fletcher32, whatever
// the order given). Throws InvalidArgument.
std::vector<io::Filter> parse_filters(const std::string& text, const std::string& option);
// A whole number; `option` names it in the error. Throws InvalidArgument.
int64_t parse_integer(const std::string& text, const std::string& option);

// FILE[:/OBJECT] as its two parts; the object is "" where absent. The last ":/" separates.
struct FileObject {
  std::string file, object;
};
FileObject parse_file_object(const std::string& text);

}  // namespace quarry::apps
