// quarry solve, lstsq, cholesky, lu, qr, svd, eigh, inv, matmul: linear algebra on data sets. Each is an expression of
// `quarry eval` with its inputs in order.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/eval_input.h"
#include "quarry/local/base/error.h"
#include "quarry/local/program/precision.h"

namespace quarry::apps {
namespace {

struct MatrixCommand {
  const char* name;
  const char* help;
  std::vector<const char*> inputs;  // what each is, for the help
  const char* expression;           // of `a` and `b`
  int results = 0;                  // where there are several
  bool has_precision = false;       // its function takes one, behind the inputs
};
const std::vector<MatrixCommand>& matrix_commands() {
  static const std::vector<MatrixCommand> rows = {
      {"solve", "Solve a x = b by LU with partial pivoting", {"MATRIX", "SIDES"}, "linalg.solve(a, b)"},
      {"lstsq",
       "Minimise |a x - b|: x, residuals, rank, singular values",
       {"MATRIX", "SIDES"},
       "linalg.lstsq(a, b)",
       4},
      {"inv", "Invert a matrix", {"MATRIX"}, "linalg.inv(a)"},
      {"cholesky", "L of a = L L^H, of a positive definite matrix", {"MATRIX"}, "linalg.cholesky(a)"},
      {"lu", "P, L and U of a = P L U", {"MATRIX"}, "linalg.lu(a)", 3},
      {"qr", "Q and R of a = Q R, reduced", {"MATRIX"}, "linalg.qr(a)", 2},
      {"svd", "U, S and Vh of a = U diag(S) Vh, reduced", {"MATRIX"}, "linalg.svd(a, full_matrices=False)", 3},
      {"eigh", "Eigenvalues and eigenvectors of a symmetric or Hermitian matrix", {"MATRIX"}, "linalg.eigh(a)", 2},
      {"matmul",
       "The product of two matrices, or of stacks of them",
       {"LEFT", "RIGHT"},
       "matmul(a, b)",
       /*results=*/0,
       /*has_precision=*/true},
  };
  return rows;
}

RunCommand add_matrix_command(CLI::App& parser, const MatrixCommand& row) {
  CLI::App* command = parser.add_subcommand(row.name, row.help);
  command->footer(fmt::format("The same as quarry eval '{}' with these inputs.", row.expression));
  const auto options = std::make_shared<EvalOptions>();
  const auto files = std::make_shared<std::vector<std::string>>(row.inputs.size());
  const auto precision = std::make_shared<std::string>(local::name(local::Precision::exact));
  for (size_t i = 0; i < row.inputs.size(); ++i)
    command->add_option(row.inputs[i], (*files)[i], "A data set")->type_name("FILE:/PATH")->required();
  const char* const where = row.results > 0
                                ? "Where the results are stored, at PATH.0, PATH.1 and so on (default /result)"
                                : "Where the result is stored (default path /result)";
  command->add_option("-o,--output", options->output, where)->type_name("FILE[:/PATH]");
  command->add_flag("--overwrite", options->overwrite, "Replace existing objects of the output");
  command->add_flag("--resume", options->resume, "Go on with what an earlier run of the same command has kept");
  if (row.has_precision) {
    command
        ->add_option("--precision", *precision,
                     "Of products of float32 on GPUs, whose tensor cores are fast on fewer bits")
        ->check(CLI::IsMember(std::vector<std::string>(local::kPrecisionNames.begin(), local::kPrecisionNames.end())))
        ->capture_default_str();
  }
  add_common_options(*command, options->common);
  return [options, files, precision, expression = row.expression, results = row.results](int& argc, char**& argv) {
    options->expression = expression;
    options->results = results;
    if (local::parse_precision(*precision) != local::Precision::exact)
      options->expression.insert(options->expression.rfind(')'), fmt::format(", precision='{}'", *precision));
    for (size_t i = 0; i < files->size(); ++i)
      options->inputs.push_back(fmt::format("{}={}", static_cast<char>('a' + static_cast<char>(i)), (*files)[i]));
    return run_evaluation(*options, argc, argv);
  };
}

}  // namespace

std::map<std::string, RunCommand> add_matrix_commands(CLI::App& parser) {
  std::map<std::string, RunCommand> commands;
  for (const MatrixCommand& row : matrix_commands()) commands[row.name] = add_matrix_command(parser, row);
  return commands;
}

}  // namespace quarry::apps
