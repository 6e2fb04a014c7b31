#include "quarry/apps/quarry/tool.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <map>
#include <sstream>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/failure.h"
#include "quarry/apps/quarry/help.h"
#include "quarry/apps/quarry/job.h"
#include "quarry/apps/quarry/signals.h"
#include "quarry/io/byte_file.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"

namespace quarry::apps {

using local::InvalidArgument;
using local::suggestion;

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
        throw InvalidArgument("unknown option " + local::excerpt(name) + hint.substr(0, hint.find('\'') + 1) + "--" +
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

// "info, eval, pca"
std::string command_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

bool any_command_has(const CLI::App& app, const std::string& option) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_option_no_throw(option) != nullptr) return true;
  }
  return false;
}

// What nobody took, an option or a word, where `app` is the command as far as it was understood.
std::string unknown_argument(const CLI::App& app, const std::string& path, const std::string& extra) {
  const std::string name = extra.substr(0, extra.find('=')), shown = local::excerpt(extra);
  if (extra.starts_with("-")) {
    // Every letter is near every other one.
    const std::string hint = name.starts_with("--") ? suggestion(name, option_names(app)) : "";
    if (hint.empty() && any_command_has(app, name)) {
      return "unknown option " + shown + "; options stand after the command, as in " + path + " eval " + name;
    }
    return "unknown option " + shown + (hint.empty() ? "; " + path + " --help lists the options" : hint);
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (names.empty()) return "unexpected argument " + shown;
  const std::string hint = suggestion(extra, names);
  return "unknown command " + shown + (hint.empty() ? "; there are " + command_names(app) : hint);
}

// CLI11's complaint in the tool's words, as one line.
std::string usage_error(const CLI::App& parser, const CLI::ParseError& error) {
  const CLI::App* app = &parser;
  std::string path = parser.get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands()[0];
    path += " " + app->get_name();
  }
  std::string message = one_line(error.what());
  const std::vector<std::string> extras = parser.remaining(/*recurse=*/true);
  const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool lacks_command = lacks && !app->get_subcommands(nullptr).empty();
  if (!extras.empty() && (lacks_command || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)) {
    return unknown_argument(*app, path, extras[0]);
  }
  if (lacks_command && app == &parser) {
    return "a command is missing: " + command_names(*app) + "; quarry --help says what they do";
  }
  if (lacks_command) return path + " needs a command: " + command_names(*app);
  if (lacks) return message + "; " + path + " --help says what it takes";
  const auto before = [&](const std::string& mark) { return message.substr(0, message.find(mark)); };
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && message.ends_with("missing")) {
    return before(":") + " needs a value";
  }
  // Only flags are converted by CLI11: "Could not convert: --overwrite = maybe".
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    return before(" =").substr(std::min(before(" =").size(), std::string("Could not convert: ").size())) +
           " takes no value";
  }
  return message;
}

// `quarry help`, `help COMMAND` and `version` as the options --help and --version.
void replace_words(std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  if (arguments[0] == "version") arguments[0] = "--version";
  if (arguments[0] != "help") return;
  arguments.erase(arguments.begin());
  arguments.emplace_back("--help");
}

// The expression of `eval` as the value of a hidden option, which CLI11 does not look into.
void hide_expression(const CLI::App& eval, std::vector<std::string>& arguments) {
  arguments.erase(arguments.begin());
  const std::vector<std::string> expressions = take_expressions(eval, arguments);
  if (expressions.size() > 1) {
    std::string message = "one expression at a time: '" + local::excerpt(expressions[0]) + "' and '" +
                          local::excerpt(expressions[1]) + "' are given";
    for (const std::string& text : expressions) {
      const std::string name = text.substr(0, text.find('='));
      const bool word = std::ranges::all_of(name, [](unsigned char c) { return c == '-' || std::isalpha(c) != 0; });
      if (!name.starts_with("-") || !word) continue;
      message += "; eval has no option " + local::excerpt(name);
      break;
    }
    throw InvalidArgument(message);
  }
  if (!expressions.empty() && expressions[0].empty()) throw InvalidArgument("the expression is empty");
  // First: after an option whose value is missing it would be that.
  if (!expressions.empty()) arguments.insert(arguments.begin(), "--expression=" + expressions[0]);
  arguments.insert(arguments.begin(), "eval");
}

[[noreturn]] void throw_unwritten() {
  throw local::IoError("cannot write to the standard output" + (errno != 0 ? ": " + io::system_reason(errno) : ""));
}

void print(const std::string& text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) throw_unwritten();
}

// The status of what fails before a Job exists.
int fail(const std::exception_ptr& error, int& argc, char**& argv) {
  if (launcher_rank() == 0) print_error(error_message(error));
  tell_others(error, argc, argv);
  return exit_status(error, /*computing=*/false);
}

int run_arguments(int argc, char** argv) {
  CLI::App parser("quarry: chunked arrays in HDF5 files, larger than memory, on CPUs, GPUs and many ranks", "quarry");
  parser.set_version_flag("--version", std::string("quarry ") + QUARRY_VERSION);
  parser.footer("quarry help COMMAND and quarry help options say more.");
  parser.require_subcommand(1);
  std::map<std::string, RunCommand> commands;
  commands["info"] = add_info_command(parser);
  commands["eval"] = add_eval_command(parser);
  commands["pca"] = add_pca_command(parser);
  commands.merge(add_matrix_commands(parser));
  commands["generate"] = add_generate_command(parser);
  commands["sort"] = add_sort_command(parser);
  commands["report"] = add_report_command(parser);
  commands["convert"] = add_convert_command(parser);
  commands["diff"] = add_diff_command(parser);
  commands["verify"] = add_verify_command(parser);
  commands["doctor"] = add_doctor_command(parser);
  commands["functions"] = add_functions_command(parser);
  for (CLI::App* command : parser.get_subcommands(nullptr)) {
    command->set_version_flag("--version", std::string("quarry ") + QUARRY_VERSION);
  }
  const bool root = launcher_rank() == 0;
  try {
    std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    using Words = std::vector<std::string>;
    if (const bool page = arguments == Words{"help", "options", "--markdown"};
        page || arguments == Words{"help", "options"}) {
      if (root) print(page ? options_markdown() : options_text());
      return 0;
    }
    replace_words(arguments);
    if (!arguments.empty() && arguments[0] == "eval") hide_expression(*parser.get_subcommand("eval"), arguments);
    if (!arguments.empty() && !arguments[0].starts_with("-") && !commands.contains(arguments[0])) {
      throw InvalidArgument(unknown_argument(parser, parser.get_name(), arguments[0]));
    }
    if (!arguments.empty() && arguments[0].starts_with("-") &&
        parser.get_option_no_throw(arguments[0].substr(0, arguments[0].find('='))) == nullptr) {
      throw InvalidArgument(unknown_argument(parser, parser.get_name(), arguments[0]));
    }
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    parser.parse(arguments);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    const int status = parser.exit(success, text, text);
    if (root) print(text.str());
    return root ? status : 0;
  } catch (const CLI::ParseError& error) {
    return fail(std::make_exception_ptr(InvalidArgument(usage_error(parser, error))), argc, argv);
  } catch (const InvalidArgument&) {
    return fail(std::current_exception(), argc, argv);
  }
  try {
    return commands.at(parser.get_subcommands()[0]->get_name())(argc, argv);
  } catch (...) {
    return fail(std::current_exception(), argc, argv);
  }
}

}  // namespace

int run_tool(int argc, char** argv) {
  try {
    prepare_for_failure();
    start_signal_thread();
    const int status = run_arguments(argc, argv);
    // What was printed may not have reached its file.
    errno = 0;
    if (status == 0 && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) throw_unwritten();
    return status;
  } catch (...) {  // no thread for signals, no memory for the commands, or what was printed did not reach its file
    print_error(error_message(std::current_exception()));
    return kFailureStatus;
  }
}

}  // namespace quarry::apps
