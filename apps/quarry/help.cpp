#include "quarry/apps/quarry/help.h"

#include <fmt/format.h>

#include "quarry/local/base/options.h"

namespace quarry::apps {

using local::OptionRow;
using local::OptionScope;

namespace {

struct Chapter {
  OptionScope scope;
  const char *title, *about;
};
constexpr Chapter kChapters[] = {
    {OptionScope::runtime, "How a job runs",
     "Of every program: an option of the command line of quarry, a field of RuntimeOptions or a variable."},
    {OptionScope::tool, "The program quarry", "Of its commands."},
    {OptionScope::diagnostics, "Diagnostics", "To find out what goes on."},
    {OptionScope::test, "Tests", "What tests set and read; nothing for users."},
};

// "--memory SIZE, QUARRY_MEMORY"
std::string names_of(const OptionRow& row) {
  std::string text(row.option);
  if (!text.empty() && !row.placeholder().empty()) text += fmt::format(" {}", row.placeholder());
  if (!row.environment.empty()) text += (text.empty() ? "" : ", ") + std::string(row.environment);
  if (!text.empty() && row.option.empty() && !row.placeholder().empty()) text += fmt::format("={}", row.placeholder());
  return text.empty() ? fmt::format("RuntimeOptions::{}", row.member) : text;
}

// What a value may be.
std::string value_of(const OptionRow& row) {
  const std::string_view type = local::name(row.type);
  switch (row.type) {
    case local::OptionType::flag:
      return "on or off";
    case local::OptionType::integer:
    case local::OptionType::number:
      return row.values.empty() ? std::string(type) : fmt::format("{} from {}", type, row.values);
    case local::OptionType::choice:
    case local::OptionType::extents:
      return std::string(row.values);
    case local::OptionType::size:
    case local::OptionType::seconds:
    case local::OptionType::path:
    case local::OptionType::text:
      break;
  }
  return std::string(type);
}

std::string code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

// '|' separates the cells of a table.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

}  // namespace

std::string options_text() {
  std::string text = "Options: the command line comes before the environment, the environment before the default [].\n";
  for (const auto& [scope, title, about] : kChapters) {
    text += fmt::format("\n{}. {}\n", title, about);
    for (const OptionRow& row : local::option_table()) {
      if (row.scope != scope) continue;
      text += fmt::format("  {}\n      {} [{}]\n", names_of(row), row.help, row.default_text());
    }
  }
  return text;
}

std::string options_markdown() {
  std::string text =
      "The command line comes before the environment, the environment before the default. A bad value is an error that "
      "names where it came from.\n";
  for (const auto& [scope, title, about] : kChapters) {
    text += fmt::format(
        "\n## {}\n\n{}\n\n| option | variable | value | default | read by | meaning |\n"
        "| --- | --- | --- | --- | --- | --- |\n",
        title, about);
    for (const OptionRow& row : local::option_table()) {
      if (row.scope != scope) continue;
      text +=
          fmt::format("| {} | {} | {} | {} | {} | {} |\n", code(row.option), code(row.environment), cell(value_of(row)),
                      cell(std::string(row.default_text())), row.layer, cell(std::string(row.help)));
    }
  }
  return text;
}

}  // namespace quarry::apps
