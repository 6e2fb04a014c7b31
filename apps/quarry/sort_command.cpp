// quarry sort FILE:/PATH [--axis N | --by COLUMN] [--descending] [--resume] -o OUT.h5[:/PATH]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/job.h"
#include "quarry/apps/quarry/text.h"
#include "quarry/chunked/api/quarry.h"
#include "quarry/local/ops/manipulation/arrange.h"

namespace quarry::apps {

using local::InvalidArgument;

namespace {

struct SortOptions {
  CommonOptions common;
  std::string input, output;
  std::optional<int64_t> axis, by;
  bool descending = false, overwrite = false, resume = false;
};

Array open_array(const SortOptions& options) {
  const FileObject input = parse_array(options.input, "sort");
  Array data = open_hdf5(input.file, input.object);
  if (data.ndim() == 0) throw InvalidArgument(options.input + " is a number; sort takes an array");
  if (options.by) {
    if (options.axis) throw InvalidArgument("sort takes --axis or --by, not both");
    if (data.ndim() != 2)
      throw InvalidArgument(
          fmt::format("{} has shape {}; --by takes a matrix", options.input, local::to_string(data.shape())));
    if (*options.by < -data.shape(1) || *options.by >= data.shape(1))
      throw InvalidArgument(fmt::format("--by {}: {} has {} columns", *options.by, options.input, data.shape(1)));
  }
  return data;
}

// Falling elements: those of an array that is turned round, turned round again, so that equal ones keep their order.
Array sorted(const Array& data, const SortOptions& options) {
  if (options.by) return sort_by(data, data(local::full_slice, *options.by), options.descending);
  const auto axis = static_cast<int>(local::normalize_axis(options.axis.value_or(-1), data.ndim()));
  const auto turned = [&](const Array& array) {
    return options.descending ? local::arrange::backwards(array, axis) : array;
  };
  return turned(sort(turned(data), axis, "stable"));
}

int sort_file(const SortOptions& options, Job& job) {
  const Array data = open_array(options);
  job.warn_of_unused_chunks(std::span(&data, 1));
  FileObject output = parse_output(options.output);
  if (output.object.empty() || output.object == "/") output.object = parse_array(options.input, "sort").object;
  if (output.object == "/") output.object = "/result";
  ::quarry::StoreOptions store_options = options.common.store(options.overwrite);
  store_options.resume = options.resume;
  const std::vector<std::string> paths{output.object};
  const double bytes =
      store_options.filters.empty() && !options.resume ? static_cast<double>(data.nbytes()) : 0;  // it may be less
  job.on_root([&] { check_output(output.file, paths, options.overwrite, bytes); });
  job.note_inputs(std::vector<std::string>{options.input});
  const std::string method = options.by ? fmt::format("{} rows by column {}", format_count(data.shape(0)), *options.by)
                                        : sort_method(data, options.axis.value_or(-1));
  job.note_fact("sort", method);
  if (options.common.plan() && job.root()) fmt::print("sort of {}\n", method);
  job.step("sorting");
  std::optional<SavedSteps> steps;
  if (options.resume && !options.common.plan()) steps.emplace(output.file);
  const Array result = sorted(data, options);
  if (options.common.plan()) {
    job.print_plan("sort", std::span(&result, 1), /*write=*/true);
    return 0;
  }
  job.note_plan("sort", std::span(&result, 1), /*write=*/true);
  store(output.file, {{output.object, result}}, store_options);
  if (steps) steps->complete();
  if (job.root()) fmt::print("{}:{}: {}\n", output.file, output.object, method);
  return 0;
}

}  // namespace

RunCommand add_sort_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand("sort", "Sort an array along an axis, or the rows of a matrix by a column");
  const auto options = std::make_shared<SortOptions>();
  command->add_option("FILE:/PATH", options->input, "The array")->required();
  const auto numbers = std::make_shared<std::pair<int64_t, int64_t>>(-1, 0);
  const CLI::Option* axis =
      add_integer_option(*command, "--axis", numbers->first, "The axis along which it is sorted [-1]");
  const CLI::Option* by = add_integer_option(*command, "--by", numbers->second,
                                             "The column by which rows are sorted; equal ones keep their order");
  command->add_flag("--descending", options->descending, "From the greatest to the smallest; NaN comes first");
  command->add_option("-o,--output", options->output, "Where the result is stored (default path: that of the array)")
      ->required()
      ->type_name("FILE[:/PATH]");
  command->add_flag("--overwrite", options->overwrite, "Replace existing objects of the output");
  command->add_flag("--resume", options->resume, "Go on with what an earlier run of the same command has kept");
  add_common_options(*command, options->common);
  return [options, numbers, axis, by](int& argc, char**& argv) {
    if (axis->count() > 0) options->axis = numbers->first;
    if (by->count() > 0) options->by = numbers->second;
    return run_job(options->common, argc, argv, [&](Job& job) { return sort_file(*options, job); });
  };
}

}  // namespace quarry::apps
