// quarry functions [NAME]: the functions of the expression language, from the tables that bind them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <set>

#include "quarry/apps/language/library.h"
#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/failure.h"
#include "quarry/local/base/message.h"

namespace quarry::apps {

using expression::Function;
using expression::Memory;
using expression::Registry;

namespace {

// A name and its functions over local and over chunked arrays, of which one may be null.
struct Entry {
  std::string name;
  const Function* local = nullptr;
  const Function* chunked = nullptr;

  const Function& any() const { return local != nullptr ? *local : *chunked; }
  const char* where() const { return local == nullptr ? "chunked" : chunked == nullptr ? "local" : "both"; }
  Memory memory() const { return chunked == nullptr ? Memory::unknown : chunked->memory; }
};

const char* word(Memory memory) {
  switch (memory) {
    case Memory::unknown:
      break;
    case Memory::streams:
      return "streams";
    case Memory::settles:
      return "settles";
    case Memory::whole:
      return "whole";
  }
  return "";
}

const char* meaning(Memory memory) {
  switch (memory) {
    case Memory::unknown:
      break;
    case Memory::streams:
      return "It streams: some chunks at a time are in memory.";
    case Memory::settles:
      return "It settles: the call computes what the result's shape depends on, on all ranks; then it streams.";
    case Memory::whole:
      return "One device holds the whole array.";
  }
  return "";
}

// Those of one kind, in the order of their names.
std::vector<Entry> entries_of(std::vector<std::string> (Registry::*names)() const,
                              const Function* (Registry::*find)(std::string_view) const) {
  const Registry& local = expression::local_library().registry();
  const Registry& chunked = expression::chunked_library().registry();
  std::set<std::string> all;
  for (const Registry* registry : {&local, &chunked}) {
    for (std::string& name : (registry->*names)()) all.insert(std::move(name));
  }
  std::vector<Entry> entries;
  for (const std::string& name : all) entries.push_back({name, (local.*find)(name), (chunked.*find)(name)});
  return entries;
}

std::vector<Entry> all_methods() { return entries_of(&Registry::method_names, &Registry::method); }

// Python's functions by their names alone, methods of ufuncs (add.reduce), and all others.
struct Functions {
  std::vector<std::string> pythons;
  std::vector<Entry> of_ufuncs, others;
};

// The methods of ufuncs are the same for each: those of add stand for all.
Functions all_functions() {
  Functions result;
  const std::string builtin = "builtins.";
  const Registry& local = expression::local_library().registry();
  for (Entry& entry : entries_of(&Registry::function_names, &Registry::function)) {
    const std::string object = entry.name.substr(0, std::min(entry.name.rfind('.'), entry.name.size()));
    const bool of_ufunc = object != entry.name && local.function(object + ".at") != nullptr;
    if (entry.name.starts_with(builtin))
      result.pythons.push_back(entry.name.substr(builtin.size()));
    else if (!of_ufunc)
      result.others.push_back(std::move(entry));
    else if (object == "add")
      result.of_ufuncs.push_back(std::move(entry));
  }
  return result;
}

// "both, streams"
std::string place_of(const Entry& entry) {
  const std::string memory = word(entry.memory());
  return entry.where() + (memory.empty() ? "" : ", " + memory);
}

void print_markdown() {
  const auto print = [](const std::string& prefix, const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
      const Function& function = entry.any();
      fmt::print("- `{}{}{}` ({}){}{}\n", prefix, entry.name, function.signature.text(), place_of(entry),
                 function.summary.empty() ? "" : ": ", function.summary);
    }
  };
  const Functions functions = all_functions();
  fmt::print(
      "Behind each stands which arrays have it: `local` (`quarry eval --local`, the whole array in the memory of one "
      "device), `chunked` (`quarry eval`), or `both`; and what the chunked function needs:\n\n"
      "- `streams`: some chunks at a time are in memory.\n"
      "- `settles`: the call computes, on all ranks, what the shape of the result depends on; then it streams.\n"
      "- `whole`: one device holds the whole array.\n\n"
      "Chunked arrays are never written in place: they take no `out`.\n\n");
  fmt::print("## Functions\n\n");
  print("", functions.others);
  fmt::print("\n## Methods of ufuncs\n\n`at` is every ufunc's, the others are those of two arguments.\n\n");
  print("", functions.of_ufuncs);
  std::string pythons;
  for (const std::string& name : functions.pythons) pythons += (pythons.empty() ? "`" : ", `") + name + "`";
  fmt::print(
      "\n## Python's functions\n\n{} act as Python's on numbers, text and flat sequences. With arrays, nested "
      "sequences "
      "or NumPy's keywords the names alone mean NumPy's functions, which `np.NAME` always does.\n",
      pythons);
  fmt::print("\n## Methods of arrays\n\n");
  print("x.", all_methods());
}

void print_list() {
  const auto print = [](const std::string& prefix, const std::vector<Entry>& entries) {
    for (const Entry& entry : entries)
      fmt::print("{:<32} {:<7} {:<8} {}\n", prefix + entry.name, entry.where(), word(entry.memory()),
                 entry.any().summary);
  };
  const Functions functions = all_functions();
  print("", functions.others);
  print("", functions.of_ufuncs);
  print("x.", all_methods());
}

void describe(const std::string& prefix, const Entry& entry) {
  const bool differ = entry.local != nullptr && entry.chunked != nullptr &&
                      entry.local->signature.text() != entry.chunked->signature.text();
  fmt::print("{}{}{}\n", prefix, entry.name, entry.any().signature.text());
  if (differ) fmt::print("{}{}{} for chunked arrays\n", prefix, entry.name, entry.chunked->signature.text());
  if (!entry.any().summary.empty()) fmt::print("    {}\n", entry.any().summary);
  const std::string_view where = entry.where();
  fmt::print("    {} {}\n",
             where == "both"    ? "For chunked arrays, and for local ones (--local)."
             : where == "local" ? "For local arrays alone (--local)."
                                : "For chunked arrays alone.",
             meaning(entry.memory()));
}

// A function, a method of arrays, or both of the name.
void print_one(std::string name) {
  for (const std::string_view prefix : {"np.", "numpy.", "scipy.", "x."}) {
    if (name.starts_with(prefix)) name = name.substr(prefix.size());
  }
  std::vector<std::string> known;
  bool found = false;
  const auto look = [&](const std::string& prefix, const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
      if (entry.name == name) {
        describe(prefix, entry);
        found = true;
      }
      known.push_back(entry.name);
    }
  };
  look("", entries_of(&Registry::function_names, &Registry::function));
  look("x.", all_methods());
  if (!found)
    throw local::InvalidArgument("there is no function '" + local::excerpt(name) + "'" +
                                 local::suggestion(name, known));
}

}  // namespace

RunCommand add_functions_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand("functions", "List the functions of expressions, or describe one");
  struct Options {
    std::string name;
    bool markdown = false;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("name", options->name, "A function or a method of arrays, as linalg.eigh")->type_name("NAME");
  command->add_flag("--markdown", options->markdown, "The list as the page of functions")->group("");
  return [options](int& /*argc*/, char**& /*argv*/) {
    if (launcher_rank() != 0) return 0;
    if (!options->name.empty())
      print_one(options->name);
    else if (options->markdown)
      print_markdown();
    else
      print_list();
    return 0;
  };
}

}  // namespace quarry::apps
