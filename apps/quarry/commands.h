// The commands of the program: each adds its options to the parser and returns what runs it.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace CLI {
class App;
}

namespace quarry::apps {

// argc and argv as the Runtime may change them.
using RunCommand = std::function<int(int& argc, char**& argv)>;

RunCommand add_info_command(CLI::App& parser);
RunCommand add_eval_command(CLI::App& parser);
RunCommand add_pca_command(CLI::App& parser);
// Those of matrices: solve, lstsq, cholesky, lu, qr, svd, eigh, inv, matmul. By name.
std::map<std::string, RunCommand> add_matrix_commands(CLI::App& parser);
RunCommand add_generate_command(CLI::App& parser);
RunCommand add_sort_command(CLI::App& parser);
RunCommand add_report_command(CLI::App& parser);
RunCommand add_functions_command(CLI::App& parser);
RunCommand add_convert_command(CLI::App& parser);
RunCommand add_diff_command(CLI::App& parser);
RunCommand add_verify_command(CLI::App& parser);
RunCommand add_doctor_command(CLI::App& parser);

}  // namespace quarry::apps
