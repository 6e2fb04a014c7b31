// The options that every command has: those rows of the option table (local/base/options.def) that have an option.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace quarry::apps {

struct CommonOptions {
  // What the command line says, by Option; "": nothing.
  std::array<std::string, local::kOptionCount> given;

  // From the command line, else the environment, else the default.
  local::OptionValue value(local::Option option) const;
  std::string text(local::Option option) const { return value(option).text(); }
  // Parses all of them. Throws InvalidArgument naming the option or the variable.
  void check() const;

  // What the command line says; the rest is left to the Runtime.
  RuntimeOptions runtime() const;
  // What all ranks must say alike, for agree_on_options(): the tool's own options, but what rank 0 alone shows. Of
  // files and pages only whether there are any.
  std::string alike() const;
  bool plan() const { return value(local::Option::plan).flag(); }
  uint64_t seed_value() const { return value(local::Option::seed).natural(); }
  // What store() gets for an output; `overwrite` is the command's.
  StoreOptions store(bool overwrite) const;
  bool show_progress() const { return text(local::Option::progress) != "off"; }
  bool always_draws_bar() const { return text(local::Option::progress) == "bar"; }
};

// Adds the rows of the option table that have an option; they are checked when the command line has been read.
void add_common_options(CLI::App& command, CommonOptions& options);
// An option of the command's own that takes a whole number.
CLI::Option* add_integer_option(CLI::App& command, const std::string& names, int64_t& value, const std::string& help);

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
// The same of an array that is read: the object is "/" of a file that is one array. `what` it is for begins the message
// of the InvalidArgument where file or object are missing.
FileObject parse_array(const std::string& text, const std::string& what);
// The same of an output. Throws InvalidArgument for a file with the extension of a format that quarry does not write,
// unless the object is given ("x.csv:/a") or an HDF5 file of that name is there.
FileObject parse_output(const std::string& text);

}  // namespace quarry::apps
