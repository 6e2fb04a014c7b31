// quarry generate market: a synthetic market data set with a known factor structure (model.h).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/job.h"
#include "quarry/apps/quarry/model.h"
#include "quarry/apps/quarry/text.h"

namespace quarry::apps {

using local::InvalidArgument;

namespace {

struct GenerateOptions {
  CommonOptions common;
  int64_t rows = 0, columns = 0, factors = 0;
  std::string output, dtype = "float64", filter;
  bool overwrite = false, resume = false;
};

int generate(const GenerateOptions& options, Job& job) {
  FileObject output = parse_output(options.output);
  if (output.object.empty() || output.object == "/") output.object = "/returns";
  const std::optional<DType> dtype = local::parse_dtype(options.dtype);
  if (!dtype || !local::is_float(*dtype)) {
    throw InvalidArgument("--dtype takes float16, bfloat16, float32 or float64, not '" + options.dtype + "'");
  }
  if (options.rows < 1) throw InvalidArgument("--rows takes at least 1, not " + std::to_string(options.rows));
  if (options.columns < 1) throw InvalidArgument("--cols takes at least 1, not " + std::to_string(options.columns));
  StoreOptions store_options;
  store_options.overwrite = options.overwrite;
  store_options.resume = options.resume;
  store_options.chunks = options.common.value(local::Option::chunks).extents();
  store_options.filters = parse_filters(options.filter, "--filter");
  if (store_options.chunks && store_options.chunks->size() != 2) {
    throw InvalidArgument(options.common.value(local::Option::chunks).source() +
                          " takes two extents for a matrix, not " + options.common.text(local::Option::chunks));
  }
  const std::string model_path = output.object + "_model";
  const std::vector<std::string> paths = {output.object, model_path + "/loadings", model_path + "/variances",
                                          model_path + "/means", model_path + "/volatilities"};
  if (options.factors < 1 || options.factors > options.columns) {
    throw InvalidArgument("--factors takes 1 to the number of columns (" + std::to_string(options.columns) + "), not " +
                          std::to_string(options.factors));
  }
  const double bytes = store_options.filters.empty()
                           ? static_cast<double>(options.rows) * static_cast<double>(options.columns) *
                                 static_cast<double>(local::itemsize(*dtype))
                           : 0;  // filtered, it may be smaller
  job.on_root([&] { check_output(output.file, paths, options.overwrite, bytes); });

  random::Generator generator(options.common.seed_value());
  if (options.common.plan()) {
    const Array returns = planned_returns(options.columns, options.factors, options.rows, generator).astype(*dtype);
    job.print_plan("generate market", std::span(&returns, 1), /*write=*/true);
    return 0;
  }
  const MarketModel model = make_market_model(options.columns, options.factors, generator);
  job.step("generating");
  const Array returns = market_returns(model, options.rows, generator).astype(*dtype);
  job.note_plan("generate market", std::span(&returns, 1), /*write=*/true);
  store(output.file,
        {{paths[0], returns},
         {paths[1], model.loadings},
         {paths[2], model.variances},
         {paths[3], model.means},
         {paths[4], model.volatilities}},
        store_options);
  if (job.root()) {
    fmt::print("{}:{}: {} x {} {}, {}, {} factors; the model is in {}\n", output.file, output.object, options.rows,
               options.columns, local::name(*dtype), format_bytes(returns.nbytes()), options.factors, model_path);
  }
  return 0;
}

}  // namespace

RunCommand add_generate_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand("generate", "Make a synthetic data set");
  command->require_subcommand(1);
  CLI::App* market = command->add_subcommand(
      "market", "Daily returns of assets under a factor model; its parameters are stored beside them in /PATH_model");
  const auto options = std::make_shared<GenerateOptions>();
  add_integer_option(*market, "--rows", options->rows, "Days")->required();
  add_integer_option(*market, "--cols", options->columns, "Assets")->required()->type_name("M");
  add_integer_option(*market, "--factors", options->factors, "Common factors")->required()->type_name("K");
  market->add_option("-o,--output", options->output, "Where it is stored (default path /returns)")
      ->required()
      ->type_name("FILE[:/PATH]");
  market->add_option("--dtype", options->dtype, "float16, bfloat16, float32 or float64 [float64]")->type_name("T");
  market->add_option("--filter", options->filter, "Filters of the file, as deflate:4,shuffle [none]")
      ->type_name("LIST");
  market->add_flag("--overwrite", options->overwrite, "Replace existing objects of the output");
  market->add_flag("--resume", options->resume, "Go on with what an earlier run of the same command has kept");
  add_common_options(*market, options->common);
  return [options](int& argc, char**& argv) {
    CommonOptions common = options->common;
    common.given[static_cast<size_t>(local::Option::chunks)].clear();  // of the file here, not of the computation
    return run_job(common, argc, argv, [&](Job& job) { return generate(*options, job); });
  };
}

}  // namespace quarry::apps
