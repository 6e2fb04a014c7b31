// quarry pca FILE:/PATH -k N [--standardize] -o OUT.h5
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/job.h"
#include "quarry/apps/quarry/pca.h"
#include "quarry/apps/quarry/text.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/saved_steps.h"
#include "quarry/io/format.h"

namespace quarry::apps {

using local::InvalidArgument;

namespace {

struct PcaOptions {
  CommonOptions common;
  std::string input, output, missing;
  int64_t components = 0;
  bool standardise = false, overwrite = false, resume = false;
};

Array open_matrix(const PcaOptions& options) {
  const FileObject input = parse_array(options.input, "pca");
  Array data = open_hdf5(input.file, input.object);
  if (data.ndim() != 2) {
    throw InvalidArgument(options.input + " has shape " + local::to_string(data.shape()) + "; pca takes a matrix");
  }
  if (local::is_complex(data.dtype())) throw local::TypeError(options.input + " is complex; pca takes real numbers");
  if (options.components < 1 || options.components > data.shape(1)) {
    throw InvalidArgument("-k takes 1 to the number of columns (" + std::to_string(data.shape(1)) + "), not " +
                          std::to_string(options.components));
  }
  if (data.shape(0) < 2) {
    throw InvalidArgument(options.input + " has " + std::to_string(data.shape(0)) + " rows; at least 2 are needed");
  }
  return data;
}

void print_table(const NdArray& variance, const NdArray& ratio) {
  constexpr int64_t kMostRows = 20;
  fmt::print("{:>9}  {:>14}  {:>9}  {:>10}\n", "component", "variance", "explained", "cumulative");
  double cumulative = 0;
  for (int64_t i = 0; i < variance.size(); ++i) {
    cumulative += ratio.data<double>()[i];
    if (i >= kMostRows && i + 1 < variance.size()) {
      if (i == kMostRows) fmt::print("{:>9}\n", "...");
      continue;
    }
    fmt::print("{:>9}  {:>14.8g}  {:>8.3f}%  {:>9.3f}%\n", i + 1, variance.data<double>()[i],
               100 * ratio.data<double>()[i], 100 * cumulative);
  }
}

std::vector<double> values_of(const NdArray& array) {
  return {array.data<double>(), array.data<double>() + array.size()};
}

void note_results(Job& job, const NdArray& variance, const NdArray& ratio) {
  job.note_result(report::BarChart{"Scree plot", "component", "share of the variance", values_of(ratio), true});
  report::Table table{"Explained variance", {"component", "variance", "share"}, {}};
  for (int64_t i = 0; i < variance.size(); ++i) {
    table.rows.push_back({std::to_string(i + 1), fmt::format("{:.8g}", variance.data<double>()[i]),
                          fmt::format("{:.3f}%", 100 * ratio.data<double>()[i])});
  }
  job.note_result(std::move(table));
}

// What the three steps would run, with stand-ins for the means and deviations that the first one finds.
void print_plans(const PcaOptions& options, Job& job, const Array& data) {
  const Array row = ones({data.shape(1)});
  const Array z = standardised(data, {row, row, 0}, options.standardise);
  const Components components = planned_components(z, options.components);
  const std::vector<Array> all = {components.variance, components.ratio, components.components, scores(z, components)};
  job.print_plan("pca, after a pass for means and deviations", all, /*write=*/true);
}

int pca(const PcaOptions& options, Job& job) {
  const Array data = open_matrix(options);
  job.warn_of_unused_chunks(std::span(&data, 1));
  const std::vector<std::string> paths = {"/mean",       "/std",   "/explained_variance", "/explained_variance_ratio",
                                          "/components", "/scores"};
  const FileObject output = parse_output(options.output);
  if (!output.object.empty()) throw InvalidArgument("pca's -o takes a file, not '" + options.output + "'");
  StoreOptions store_options = options.common.store(options.overwrite);
  store_options.resume = options.resume;
  const auto rows = static_cast<double>(data.shape(0)), columns = static_cast<double>(data.shape(1));
  const auto k = static_cast<double>(options.components);
  // Filtered, they may be smaller.
  const double bytes = store_options.filters.empty() ? 8 * (2 * columns + 2 * k + k * columns + rows * k) : 0;
  job.on_root([&] {
    if (options.resume) io::format_to_write(output.file).check_resumable(output.file);
    check_output(output.file, paths, options.overwrite, options.resume ? 0 : bytes);  // what is kept has taken its room
  });
  job.note_inputs(std::vector<std::string>{options.input});
  if (options.common.plan()) {
    print_plans(options, job, data);
    return 0;
  }

  job.note_fact("data", fmt::format("{}, {} x {} {}, {}", options.input, data.shape(0), data.shape(1),
                                    local::name(data.dtype()), format_bytes(data.nbytes())));
  job.note_fact("chunks", data.chunks().to_string());
  job.step("1/3 means and deviations");
  std::optional<SavedSteps> steps;
  if (options.resume) steps.emplace(output.file);
  ColumnStatistics statistics;
  try {
    statistics = column_statistics(data, options.input, options.missing == "mean");
    if (options.standardise) check_deviations(statistics, options.input);
  } catch (const InvalidArgument&) {
    if (steps) steps->discard();  // no later run can go on: the data are none for this command
    throw;
  }
  if (job.root() && statistics.missing > 0) {
    fmt::print("{} NaN replaced by their column's mean\n", format_count(statistics.missing));
  }

  job.step(options.standardise ? "2/3 correlations" : "2/3 covariances");
  const Array z = standardised(data, statistics, options.standardise);
  const Components planned = planned_components(z, options.components);
  job.note_plan("components", std::vector<Array>{planned.variance, planned.ratio, planned.components},
                /*write=*/false);
  Components components;
  if (std::optional<Components> small = small_side_components(z, options.components)) {
    components = std::move(*small);
  } else {
    const Components large = principal_components(z, options.components);
    const std::vector<Array> kept = persist(std::vector<Array>{large.variance, large.ratio, large.components});
    components = {kept[0], kept[1], kept[2]};
  }

  job.step("3/3 scores");
  const Array projected = scores(z, components);
  job.note_plan("scores", std::span(&projected, 1), /*write=*/true);
  const std::vector<NdArray> shown = to_host(std::vector<Array>{components.variance, components.ratio});
  store(output.file,
        {{paths[0], statistics.mean},
         {paths[1], statistics.deviation},
         {paths[2], components.variance},
         {paths[3], components.ratio},
         {paths[4], components.components},
         {paths[5], projected}},
        store_options);
  if (steps) steps->complete();
  if (job.root()) print_table(shown[0], shown[1]);
  note_results(job, shown[0], shown[1]);
  return 0;
}

}  // namespace

RunCommand add_pca_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand("pca", "Principal components of a matrix: rows are samples");
  const auto options = std::make_shared<PcaOptions>();
  command->add_option("FILE:/PATH", options->input, "The matrix")->required();
  add_integer_option(*command, "-k,--components", options->components, "How many components")->required();
  command->add_flag("--standardize,--standardise", options->standardise, "Divide by the columns' standard deviations");
  command->add_option("--missing", options->missing, "What replaces NaN; without it they are an error")
      ->type_name("mean")
      ->check(CLI::IsMember({"mean"}));
  command
      ->add_option("-o,--output", options->output,
                   "The file for /mean, /std, /explained_variance, "
                   "/explained_variance_ratio, /components and /scores")
      ->required()
      ->type_name("OUT.h5");
  command->add_flag("--overwrite", options->overwrite, "Replace existing objects of the output");
  command->add_flag(
      "--resume", options->resume,
      "Keep what is done where the run ends early, and go on with what an earlier run of the same command "
      "has kept, on any number of ranks");
  add_common_options(*command, options->common);
  return [options](int& argc, char**& argv) {
    return run_job(options->common, argc, argv, [&](Job& job) { return pca(*options, job); });
  };
}

}  // namespace quarry::apps
