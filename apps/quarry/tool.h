// The command-line tool, for main() and for tests.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace quarry::apps {

// The program `quarry`: parses the command line, runs the command, returns the exit status.
int run_tool(int argc, char** argv);

// An expression may begin with '-', stand before or after the options, and look like an option. Takes the one argument
// out of `arguments` (what follows `eval`) that is neither a known option of `command` nor an option's value, or what
// follows "--"; nothing is taken where there is none or where it is a misspelt option. Throws InvalidArgument for
// several expressions and for misspelt options.
std::vector<std::string> take_expressions(const CLI::App& command, std::vector<std::string>& arguments);

}  // namespace quarry::apps
