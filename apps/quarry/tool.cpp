#include "quarry/apps/quarry/tool.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "quarry/apps/language/suggest.h"
#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/failure.h"
#include "quarry/apps/quarry/signals.h"
#include "quarry/local/base/error.h"

namespace quarry::apps {

using local::InvalidArgument;

namespace {

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

bool takes_value(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  return option != nullptr && option->get_items_expected_max() > 0;
}

}  // namespace

std::vector<std::string> take_expressions(const CLI::App& command, std::vector<std::string>& arguments) {
  const std::vector<std::string> names = option_names(command);
  const auto known = [&](const std::string& text) {
    return std::find(names.begin(), names.end(), text) != names.end();
  };
  std::vector<std::string> expressions, rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::string name = argument.starts_with("--") ? argument.substr(0, argument.find('=')) : argument;
    if (argument == "--") {
      expressions.insert(expressions.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    if (known(name)) {
      const bool wants_value = name == argument && takes_value(command, name);
      const bool has_value = i + 1 < arguments.size() && !known(arguments[i + 1]);
      // `-i -i i=f.h5:/x`: the first one is the negative of i.
      if (wants_value && !has_value && !name.starts_with("--")) {
        expressions.push_back(argument);
        continue;
      }
      rest.push_back(argument);
      if (wants_value && i + 1 < arguments.size()) rest.push_back(arguments[++i]);
      continue;
    }
    if (argument.starts_with("--")) {
      std::vector<std::string> words;
      for (const std::string& option : names) {
        if (option.starts_with("--")) words.push_back(option.substr(2));
      }
      const std::string hint = suggestion(name.substr(2), words);
      if (!hint.empty())
        throw InvalidArgument("unknown option " + name + hint.substr(0, hint.find('\'') + 1) + "--" +
                              hint.substr(hint.find('\'') + 1));
    }
    expressions.push_back(argument);
  }
  arguments = std::move(rest);
  return expressions;
}

namespace {

// CLI11 may word an error over several lines; the tool says one.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text;
}

std::string usage_error(const CLI::App& parser, const CLI::ParseError& error) {
  std::string message = one_line(error.what());
  if (parser.get_subcommands().empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    std::string names;
    for (const CLI::App* command : parser.get_subcommands(nullptr)) {
      names += (names.empty() ? "" : ", ") + command->get_name();
    }
    return "a command is missing: " + names + "; quarry --help says what they do";
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return message;
  const std::vector<CLI::App*> chosen = parser.get_subcommands();
  std::vector<std::string> names, extras = parser.remaining(/*recurse=*/true);
  if (chosen.empty()) {
    for (const CLI::App* command : parser.get_subcommands(nullptr)) names.push_back(command->get_name());
  } else {
    names = option_names(*chosen[0]);
  }
  if (extras.empty()) return message;
  const std::string what = extras[0].starts_with("-") ? "unknown option " : "unexpected argument ";
  return what + extras[0] + suggestion(extras[0].substr(0, extras[0].find('=')), names);
}

}  // namespace

int run_tool(int argc, char** argv) {
  start_signal_thread();
  CLI::App parser("quarry: chunked arrays in HDF5 files, larger than memory, on CPUs, GPUs and many ranks", "quarry");
  parser.set_version_flag("--version", std::string("quarry ") + QUARRY_VERSION);
  parser.require_subcommand(1);
  std::map<std::string, RunCommand> commands;
  commands["info"] = add_info_command(parser);
  commands["eval"] = add_eval_command(parser);
  commands["pca"] = add_pca_command(parser);
  commands["generate"] = add_generate_command(parser);
  commands["report"] = add_report_command(parser);
  for (CLI::App* command : parser.get_subcommands(nullptr)) {
    command->set_version_flag("--version", std::string("quarry ") + QUARRY_VERSION);
  }
  const bool root = launcher_rank() == 0;
  try {
    std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    std::vector<std::string> expressions;
    if (!arguments.empty() && arguments[0] == "eval") {
      CLI::App* eval = parser.get_subcommand("eval");
      arguments.erase(arguments.begin());
      expressions = take_expressions(*eval, arguments);
      if (expressions.size() > 1) {
        throw InvalidArgument("one expression at a time: '" + expressions[0] + "' and '" + expressions[1] +
                              "' are given");
      }
      // CLI11 sees the expression as the value of a hidden option, which it does not look into.
      if (!expressions.empty()) arguments.push_back("--expression=" + expressions[0]);
      arguments.insert(arguments.begin(), "eval");
    }
    if (!arguments.empty() && !arguments[0].starts_with("-") && !commands.contains(arguments[0])) {
      std::vector<std::string> names;
      for (const auto& [name, run] : commands) names.push_back(name);
      throw InvalidArgument("unknown command " + arguments[0] + suggestion(arguments[0], names));
    }
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    parser.parse(arguments);
  } catch (const CLI::Success& success) {  // --help, --version
    return root ? parser.exit(success) : 0;
  } catch (const CLI::ParseError& error) {
    if (root) print_error(usage_error(parser, error));
    return kUsageStatus;
  } catch (const InvalidArgument& error) {
    if (root) print_error(error.what());
    return kUsageStatus;
  }
  try {
    return commands.at(parser.get_subcommands()[0]->get_name())(argc, argv);
  } catch (...) {  // before a Job exists
    const std::exception_ptr error = std::current_exception();
    if (root) print_error(error_message(error));
    return exit_status(error, /*computing=*/false);
  }
}

}  // namespace quarry::apps
