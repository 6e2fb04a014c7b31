// quarry solve, lstsq, cholesky, lu, qr, svd, eigh, inv, matmul: linear algebra on data sets. Each is an expression of
// `quarry eval` with its inputs in order.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/eval_input.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"
#include "quarry/local/program/precision.h"

namespace quarry::apps {
namespace {

// An option that becomes a keyword of the function.
struct KeywordOption {
  const char* flag;
  const char* keyword;  // {} is the option's value: "rcond={}"
  const char* help;
  int numbers = 0;                        // that it takes, separated by commas
  std::vector<std::string> choices = {};  // or one of these; else it is a flag without a value
  const char* one_result = "";            // the keyword with which the function has one result
};
struct MatrixCommand {
  const char* name;
  const char* help;
  std::vector<const char*> inputs;  // what each is, for the help
  const char* expression;           // of `a` and `b`
  int results = 0;                  // where there are several
  std::vector<KeywordOption> options = {};
};
const std::vector<MatrixCommand>& matrix_commands() {
  static const std::vector<MatrixCommand> rows = {
      {"solve",
       "Solve a x = b by LU with partial pivoting",
       {"MATRIX", "SIDES"},
       "linalg.solve(a, b)",
       /*results=*/0,
       {{"--assume-a",
         "assume_a='{}'",
         "What the matrix is: Hermitian and positive definite ones go by Cholesky's factor [gen]",
         0,
         {"gen", "sym", "her", "pos"}},
        {"--lower", "lower=True", "With --assume-a: the lower triangle is read, not the upper one"},
        {"--refine", "refine=True", "Factors in single precision, and steps of refinement to double precision"}}},
      {"lstsq",
       "Minimise |a x - b|: x, residuals, rank, singular values",
       {"MATRIX", "SIDES"},
       "linalg.lstsq(a, b)",
       4,
       {{"--rcond", "rcond={}", "Singular values of at most so much of the largest count as 0 [by rounding]", 1}}},
      {"inv", "Invert a matrix", {"MATRIX"}, "linalg.inv(a)"},
      {"cholesky",
       "L of a = L L^H, of a positive definite matrix",
       {"MATRIX"},
       "linalg.cholesky(a)",
       /*results=*/0,
       {{"--upper", "upper=True", "U of a = U^H U instead"}}},
      {"lu", "P, L and U of a = P L U", {"MATRIX"}, "linalg.lu(a)", 3},
      {"qr",
       "Q and R of a = Q R, reduced",
       {"MATRIX"},
       "linalg.qr(a)",
       2,
       {{"--mode",
         "mode='{}'",
         "Q with as many columns as rows (complete), or R alone (r) [reduced]",
         0,
         {"reduced", "complete", "r"},
         /*one_result=*/"mode='r'"}}},
      {"svd",
       "U, S and Vh of a = U diag(S) Vh, reduced",
       {"MATRIX"},
       "linalg.svd(a, full_matrices=False)",
       3,
       {{"--values-only", "compute_uv=False", "S alone", 0, {}, /*one_result=*/"compute_uv=False"}}},
      {"eigh",
       "Eigenvalues and eigenvectors of a symmetric or Hermitian matrix",
       {"MATRIX"},
       "linalg.eigh(a)",
       2,
       {{"--upper", "UPLO='U'", "The upper triangle is read, not the lower one"},
        {"--values-only", "eigvals_only=True", "Eigenvalues alone", 0, {}, /*one_result=*/"eigvals_only=True"},
        {"--by-index", "subset_by_index=({})", "Those with numbers FIRST to LAST alone, of ascending ones from 0", 2},
        {"--by-value", "subset_by_value=({})", "Those above LOW and at most HIGH alone", 2}}},
      {"matmul",
       "The product of two matrices, or of stacks of them",
       {"LEFT", "RIGHT"},
       "matmul(a, b)",
       /*results=*/0,
       {{"--precision",
         "precision='{}'",
         "Of products of float32 on GPUs, whose tensor cores are fast on fewer bits [exact]",
         0,
         {local::kPrecisionNames.begin(), local::kPrecisionNames.end()}}}},
  };
  return rows;
}

// Throws unless the text is so many numbers, separated by commas.
void check_numbers(const std::string& text, const KeywordOption& option) {
  const auto fail = [&] {
    throw local::InvalidArgument(fmt::format("{} takes {}, not '{}'", option.flag,
                                             option.numbers == 1 ? "a number" : "two numbers, as '0,9'",
                                             local::excerpt(text)));
  };
  std::stringstream in(text);
  int count = 0;
  for (std::string part; std::getline(in, part, ','); ++count) {
    size_t used = 0;
    try {
      static_cast<void>(std::stod(part, &used));
    } catch (const std::exception&) {
      fail();
    }
    if (used != part.size()) fail();
  }
  if (count != option.numbers || text.back() == ',') fail();
}

// What the command line says of one option: its values, the last of which counts.
struct GivenOption {
  const KeywordOption* option;
  const CLI::Option* parsed;
  std::shared_ptr<std::string> value;
};
GivenOption add_keyword_option(CLI::App& command, const KeywordOption& option) {
  const auto value = std::make_shared<std::string>();
  if (option.numbers == 0 && option.choices.empty())
    return {&option, command.add_flag(option.flag, option.help), value};
  CLI::Option* parsed = command.add_option(option.flag, *value, option.help);
  if (!option.choices.empty())
    parsed->check(CLI::IsMember(option.choices));
  else
    parsed->type_name(option.numbers == 1 ? "NUMBER" : "A,B");
  return {&option, parsed, value};
}

RunCommand add_matrix_command(CLI::App& parser, const MatrixCommand& row) {
  CLI::App* command = parser.add_subcommand(row.name, row.help);
  command->footer(fmt::format("The same as quarry eval '{}' with these inputs.", row.expression));
  const auto options = std::make_shared<EvalOptions>();
  const auto files = std::make_shared<std::vector<std::string>>(row.inputs.size());
  for (size_t i = 0; i < row.inputs.size(); ++i)
    command->add_option(row.inputs[i], (*files)[i], "A data set")->type_name("FILE:/PATH")->required();
  const char* const where = row.results > 0
                                ? "Where the results are stored, at PATH.0, PATH.1 and so on (default /result)"
                                : "Where the result is stored (default path /result)";
  command->add_option("-o,--output", options->output, where)->type_name("FILE[:/PATH]");
  command->add_flag("--overwrite", options->overwrite, "Replace existing objects of the output");
  command->add_flag("--resume", options->resume, "Go on with what an earlier run of the same command has kept");
  std::vector<GivenOption> keywords;
  for (const KeywordOption& option : row.options) keywords.push_back(add_keyword_option(*command, option));
  add_common_options(*command, options->common);
  return [options, files, keywords, &row](int& argc, char**& argv) {
    options->command = row.name;
    options->expression = row.expression;
    options->results = row.results;
    for (const GivenOption& given : keywords) {
      if (given.parsed->count() == 0) continue;
      if (given.option->numbers > 0) check_numbers(*given.value, *given.option);
      const std::string keyword = fmt::format(fmt::runtime(given.option->keyword), *given.value);
      options->expression.insert(options->expression.rfind(')'), ", " + keyword);
      if (keyword == given.option->one_result) options->results = 0;
    }
    for (size_t i = 0; i < files->size(); ++i) {
      static_cast<void>(parse_array((*files)[i], fmt::format("{}: {}", row.name, row.inputs[i])));
      options->inputs.push_back(fmt::format("{}={}", static_cast<char>('a' + static_cast<char>(i)), (*files)[i]));
    }
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
