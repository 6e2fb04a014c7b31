// Every option of the library, the program and the tests: one table (options.def), and the only place that reads the
// environment.
//
// A row is the parser of its option, its line in --help and in docs/options.md, and its variable in the environment. To
// add an option, add a row and read OptionValue(Option::NAME) where it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/shape.h"

namespace quarry::local {

enum class OptionType : uint8_t {
  flag,     // on or off
  integer,  // a whole number, at least 0
  number,   // a real number
  size,     // bytes: "1536", "256MiB", "1.5 GiB", "512 MB", "50%"
  seconds,  // a real number, at least 0
  choice,   // one of a row's words
  extents,  // of chunks: "4096,512", -1 for a whole axis; "auto"
  path,
  text,
};
enum class OptionScope : uint8_t {
  runtime,      // how a job runs, whatever program it is
  tool,         // of the program `quarry`
  diagnostics,  // to find out what goes on
  test,         // of the tests
};

enum class Option : uint8_t {
#define QUARRY_OPTION(member, ...) member,
#include "quarry/local/base/options.def"
#undef QUARRY_OPTION
};
inline constexpr size_t kOptionCount = 0
#define QUARRY_OPTION(...) +1
#include "quarry/local/base/options.def"
#undef QUARRY_OPTION
    ;

// A row of the table; options.def says what the columns hold.
struct OptionRow {
  Option id;
  std::string_view member;
  OptionType type;
  std::string_view option, environment, values, otherwise, shown;
  OptionScope scope;
  std::string_view layer, help;

  std::string_view default_text() const { return shown.empty() ? otherwise : shown; }
  // What help calls a value: "SIZE", "auto|cpu", "N"; "" for a flag.
  std::string_view placeholder() const;
};
// In the order of Option.
std::span<const OptionRow> option_table();
const OptionRow& option_row(Option option);
std::string_view name(OptionType type);
std::string_view name(OptionScope scope);

// Who says what an option is.
enum class OptionGiver : uint8_t { command_line, program, file, environment, nobody };

// What an option is and who says so, as text, and one function per type that parses it. These throw InvalidArgument,
// which names the place where the text came from and says what was expected:
//   "QUARRY_THREADS=many: expected a whole number from 1 to 4096".
// To call the function of another type than the row's is an InternalError.
class OptionValue {
 public:
  // As the environment says, or the default. An empty variable says nothing.
  explicit OptionValue(Option option);
  // As `text` from `giver` says, or, where it is empty, as above. `file`: for OptionGiver::file, as "jobs.conf:3".
  OptionValue(Option option, std::string text, OptionGiver giver, std::string file = {});

  const OptionRow& row() const { return *row_; }
  OptionGiver giver() const { return giver_; }
  bool is_given() const { return giver_ != OptionGiver::nobody; }
  // The default's text where nobody says anything.
  const std::string& text() const { return text_; }
  // Where the text came from: "--memory", "memory" of a program, "jobs.conf:3: memory", "QUARRY_MEMORY".
  std::string source() const;
  // The place and the text, as messages begin: "--memory 1Gibi", "QUARRY_MEMORY=1Gibi", "memory: \"1Gibi\"".
  std::string shown() const;

  bool flag() const;
  uint64_t natural() const;  // type integer
  int64_t integer() const;
  double number() const;
  double seconds() const;
  // `free_bytes`: of which "50%" is the half; without it, percentages are an error.
  int64_t bytes(std::optional<int64_t> free_bytes = std::nullopt) const;
  // The number of the word among the row's, or the enumerator of that number.
  size_t word() const;
  template <class Enum>
  Enum choice() const {
    return static_cast<Enum>(word());
  }
  std::optional<Dims> extents() const;  // nothing for "auto" and the row's other words

  // Parses the text by the row's type.
  void check() const;

 private:
  [[noreturn]] void reject(const std::string& expected) const;
  void require_type(OptionType type) const;
  double real() const;

  const OptionRow* row_;
  std::string text_, file_;
  OptionGiver giver_;
};

// Bytes of "1536", "256MiB", "1.5 GiB", "512 MB", "50%" (of `free_bytes`; an error without). Throws InvalidArgument.
int64_t parse_size(const std::string& text, std::optional<int64_t> free_bytes);
// A whole number; nothing for any other text, and where it is too large.
std::optional<int64_t> parse_integer(std::string_view text);

// A variable of the system, of a launcher or of another library; nothing where it is not set. quarry's own variables
// are rows. Not safe beside a thread that sets variables.
std::optional<std::string> environment(const char* name);
std::string environment(const char* name, const std::string& otherwise);
// Sets the variable unless it is set: for libraries that have no other way to be told.
void set_default_environment(const char* name, const char* value);
void unset_environment(const char* name);
// All variables as "NAME=VALUE", as a program that is started gets them.
std::vector<std::string> environment_entries();

// Parses what the environment says of the rows of these scopes but for those that are `given`, which hides it. Throws
// InvalidArgument.
void check_environment(std::span<const OptionScope> scopes, std::span<const Option> given = {});
// A line for each variable QUARRY_... that is no row but is spelt nearly as one: "QUARRY_MEMROY is no option; did you
// mean 'QUARRY_MEMORY'?". Others may be somebody's own and are left alone.
std::vector<std::string> misspelt_variables();

}  // namespace quarry::local
