// What `quarry eval` is given.
#pragma once

#include <string>
#include <vector>

#include "quarry/apps/quarry/options.h"

namespace quarry::apps {

struct EvalOptions {
  CommonOptions common;
  std::string expression, script, output;
  std::string command;  // whose expression it is, in messages; "": the user's
  std::vector<std::string> inputs;
  int results = 0;                              // dense ones, of an expression that has several; 0: not known
  std::string append, region, unlimited, dims;  // as they are given
  bool overwrite = false, keep_going = false, local = false, resume = false, masked = false, decode = false;
};

// Computes what the options say and shows or stores it; returns the exit status. Throws InvalidArgument for options
// that do not go together, and what the computation throws.
int run_evaluation(const EvalOptions& options, int& argc, char**& argv);

// Whether the output is a change of data sets that are there.
inline bool is_change(const EvalOptions& options) { return !options.append.empty() || !options.region.empty(); }
// What --append, --region, --unlimited and --dims say. Throws InvalidArgument.
void read_change_options(const EvalOptions& options, StoreOptions& store);

// One -i NAME=FILE:/PATH.
struct Input {
  std::string name, file, object;
};
Input parse_input(const std::string& text);
// Several. Throws InvalidArgument for names that can be no variables in expressions, and for those given twice.
std::vector<Input> parse_inputs(const std::vector<std::string>& texts);

// The contents of a file. Throws InvalidArgument.
std::string read_text(const std::string& path);

// Where a result goes: an expression's value to the output's path (default /result), the value of `name` of a script
// to /name below it.
std::string output_path(const std::string& name, const std::string& object);

}  // namespace quarry::apps
