// quarry eval EXPR -i NAME=FILE:/PATH ... [-o FILE[:/PATH]]: NumPy expressions over data sets.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "quarry/apps/binding/masked.h"
#include "quarry/apps/binding/sparse_values.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/display.h"
#include "quarry/apps/quarry/eval_input.h"
#include "quarry/apps/quarry/failure.h"
#include "quarry/apps/quarry/job.h"
#include "quarry/apps/quarry/local_eval.h"
#include "quarry/apps/quarry/matrix_files.h"
#include "quarry/apps/quarry/script.h"
#include "quarry/chunked/api/saved_steps.h"
#include "quarry/chunked/api/sparse_files.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/format.h"

namespace quarry::apps {

using expression::Environment;
using expression::Value;
using local::InvalidArgument;

namespace {

std::vector<Array> shown_arrays(std::span<const Value> values) {
  std::vector<Array> arrays, parts;
  for (const Value& value : values) collect_arrays(value, arrays);
  for (const Array& array : arrays) parts.push_back(shown_part(array));
  return parts;
}

// Shown is what is known of a sparse matrix without its values.
std::vector<Array> planned_arrays(std::span<const Value> values) {
  std::vector<Array> arrays = shown_arrays(values);
  for (const Value& value : values)
    if (const auto* sparse = value.as<expression::SparseValue>()) arrays.push_back(sparse->matrix->data());
  return arrays;
}

void reject_for_sparse(const Input& input, bool masked, const OpenOptions& options) {
  if (!masked && !options.decode) return;
  throw InvalidArgument(fmt::format("-i {}: {}:{} is a sparse matrix, which {} is not for", input.name, input.file,
                                    input.object, masked ? "--masked" : "--decode"));
}

// A file, or several whose names match a pattern, one after the other along axis 0.
Value opened(const Input& input, bool masked, const OpenOptions& options) {
  if (sparse::is_matrix_market(input.file)) {
    reject_for_sparse(input, masked, options);
    if (sparse::is_dense_matrix_market(input.file)) return sparse::mmread_dense(input.file);
    return expression::sparse_value(sparse::mmread(input.file));
  }
  std::error_code none;
  const bool is_pattern = input.file.find_first_of("*?[") != std::string::npos;
  if (is_pattern && !std::filesystem::exists(input.file, none)) {
    if (masked) return expression::masked_value(ma::open_hdf5(input.file, input.object, /*axis=*/0, options));
    return open_hdf5(input.file, input.object, /*axis=*/0, options);
  }
  try {
    if (masked) return expression::masked_value(ma::open_hdf5(input.file, input.object, options));
    return open_hdf5(input.file, input.object, options);
  } catch (const InvalidArgument&) {  // a group, among other mistakes; the same on every rank
    if (!sparse::holds_matrix(input.file, input.object)) throw;
  }
  reject_for_sparse(input, masked, options);
  return expression::sparse_value(sparse::open_hdf5(input.file, input.object));
}

class Evaluation {
 public:
  Evaluation(const EvalOptions& options, Job& job) : options_(options), job_(job) {}

  int run() {
    environment_.other = {&expression::local_library(), "--local has it"};
    std::vector<std::string> names;
    job_.read_inputs([&] {
      for (const Input& input : parse_inputs(options_.inputs)) {
        environment_.variables.emplace(input.name, opened(input, options_.masked, {.decode = options_.decode}));
        names.push_back(input.file + ":" + input.object);
      }
    });
    job_.note_inputs(names);
    std::vector<Array> inputs;
    for (const auto& [name, value] : environment_.variables) collect_arrays(value, inputs);
    job_.warn_of_unused_chunks(inputs);
    if (options_.resume && !options_.common.plan()) steps_.emplace(parse_output(options_.output).file);
    environment_.session.random = std::make_shared<random::Generator>(options_.common.seed_value());
    return options_.script.empty() ? run_expression() : run_script();
  }

 private:
  int run_expression() {
    check_known_outputs();
    const expression::Source source{options_.expression, options_.command, 0};
    const Value value = evaluate(source, *expression::parse(source), environment_);
    if (!options_.output.empty()) return store_values({{"", 0, value}});
    if (options_.common.plan()) {
      job_.print_plan(options_.expression, planned_arrays(std::span(&value, 1)), /*write=*/false);
      return 0;
    }
    job_.note_plan(options_.expression, shown_arrays(std::span(&value, 1)), /*write=*/false);
    const std::vector<std::string> text = display(std::span(&value, 1));
    if (job_.root()) fmt::print("{}\n", text[0]);
    return 0;
  }

  // Rank 0 reads the file.
  std::string script_text() {
    std::string text;
    job_.on_root([&] { text = read_text(options_.script); });
    return job_.runtime().communicator().broadcast_string(text, /*root=*/0);
  }

  int run_script() {
    const Script script = evaluate_script(options_.script, script_text(), environment_, options_.keep_going,
                                          [](const Value& value) { store_items("/", value); });
    for (const std::string& error : script.errors) {
      if (job_.root()) print_error(error);
    }
    const int status = script.results.empty() && script.errors.empty() ? 0 : finish_script(script);
    return script.errors.empty() ? status : kFailureStatus;
  }

  int finish_script(const Script& script) {
    if (script.results.empty()) return 0;
    if (!options_.output.empty()) return store_values(script.results);
    std::vector<Value> values;
    for (const ScriptResult& result : script.results) values.push_back(result.value);
    if (options_.common.plan()) {
      job_.print_plan(options_.script, planned_arrays(values), /*write=*/false);
      return 0;
    }
    job_.note_plan(options_.script, shown_arrays(values), /*write=*/false);
    const std::vector<std::string> texts = display(values);
    for (size_t i = 0; i < texts.size() && job_.root(); ++i) {
      fmt::print("{} = {}\n", script.results[i].name, texts[i]);
    }
    return 0;
  }

  // Of expressions whose results are known, before they are evaluated: some are computed then.
  void check_known_outputs() const {
    if (options_.results == 0 || options_.output.empty()) return;
    const FileObject output = parse_output(options_.output);
    std::vector<std::string> paths;
    for (int i = 0; i < options_.results; ++i) paths.push_back(fmt::format("{}.{}", output_path("", output.object), i));
    job_.on_root([&] { check_output(output.file, paths, options_.overwrite); });
  }

  // Data sets, and the attributes of groups that are sparse matrices.
  struct Outputs {
    std::vector<ma::FilledItem> items;
    detail::GroupAttributes groups;
    std::vector<Value> results;

    void add(const ScriptResult& result, const std::string& object) {
      const std::string path = output_path(result.name, object);
      const std::vector<ma::FilledItem> parts = store_items(path, result.value);
      items.insert(items.end(), parts.begin(), parts.end());
      groups.merge(store_groups(path, result.value));
      results.push_back(result.value);
    }
    // The only result, where it is sparse.
    const sparse::SparseArray* matrix() const {
      const auto* value = results.size() == 1 ? results[0].as<expression::SparseValue>() : nullptr;
      return value != nullptr ? value->matrix.get() : nullptr;
    }
    void write(const std::string& file, const StoreOptions& options) const {
      if (matrix() != nullptr && sparse::is_matrix_market(file)) return sparse::mmwrite(file, *matrix(), options);
      if (groups.empty()) return ma::store(file, items, options);
      std::vector<detail::OutputItem> outputs;
      for (const ma::FilledItem& item : items)
        outputs.push_back({.filled = item, .chunks = options.chunks, .filters = options.filters});
      for (detail::OutputItem& output : outputs)
        if (output.chunks && output.chunks->size() != output.filled.item.array.ndim()) output.chunks.reset();
      detail::store_outputs(file, outputs, groups, options);
    }
  };
  void check_groups(const Outputs& outputs, const std::string& file) const {
    if (sparse::is_matrix_market(file)) return check_matrix(outputs, file);
    if (outputs.groups.empty()) return;
    if (is_change(options_))
      throw local::NotSupported("--append and --region are for arrays, and a result is a sparse matrix");
    check_holds_sparse(file);
  }
  // What Matrix Market cannot hold is said before it is computed.
  void check_matrix(const Outputs& outputs, const std::string& file) const {
    const auto fail = [&](const std::string& what) {
      throw InvalidArgument(fmt::format("{} is Matrix Market, which {}: call the output NAME.h5", file, what));
    };
    if (is_change(options_)) fail("--append and --region are not for");
    if (options_.resume) fail("--resume is not for");
    if (outputs.matrix() != nullptr) return;
    if (outputs.items.size() != 1 || !outputs.groups.empty())
      fail(fmt::format("holds one matrix, and there are {} results", outputs.items.size() - 2 * outputs.groups.size()));
    const auto& [item, fill_value] = outputs.items[0];
    if (fill_value) fail("has no masked elements");
    if (item.array.ndim() < 1 || item.array.ndim() > 2)
      fail(fmt::format("holds matrices and vectors, and the result has {} axes", item.array.ndim()));
  }

  int store_values(const std::vector<ScriptResult>& results) {
    const FileObject output = parse_output(options_.output);
    Outputs outputs;
    for (const ScriptResult& result : results) outputs.add(result, output.object);
    job_.on_root([&] { check_groups(outputs, output.file); });
    const std::vector<ma::FilledItem>& items = outputs.items;
    std::vector<std::string> paths;
    std::set<std::string> seen;
    for (const auto& [item, fill_value] : items) {
      if (!seen.insert(item.path).second) throw InvalidArgument("two results would be stored as " + item.path);
      paths.push_back(item.path);
    }
    StoreOptions store_options = options_.common.store(options_.overwrite);
    store_options.resume = options_.resume;
    read_change_options(options_, store_options);
    job_.on_root([&] { check_output(output.file, paths, options_.overwrite || is_change(options_)); });
    std::vector<Array> arrays;
    for (const auto& [item, fill_value] : items) arrays.push_back(item.array);
    const std::string& title = options_.script.empty() ? options_.expression : options_.script;
    if (options_.common.plan()) {
      job_.print_plan(title, arrays, /*write=*/true);
      return 0;
    }
    if (!options_.keep_going) job_.note_plan(title, arrays, /*write=*/true);
    if (!options_.keep_going) {
      outputs.write(output.file, store_options);
      if (steps_) steps_->complete();
      return 0;
    }
    return store_what_works(output.file, results, output.object, store_options);
  }

  // Together if that works; else each result by itself, so that the failing ones are known.
  int store_what_works(const std::string& file, const std::vector<ScriptResult>& results, const std::string& object,
                       const StoreOptions& store_options) {
    Outputs all, good;
    for (const ScriptResult& result : results) all.add(result, object);
    try {
      all.write(file, store_options);
      return 0;
    } catch (const local::Cancelled&) {
      throw;
    } catch (const local::Error&) {  // found out one by one below
    }
    int status = 0;
    for (const ScriptResult& result : results) {
      try {
        Outputs parts;
        parts.add(result, object);
        for (auto& [part, fill_value] : parts.items) part.array = part.array.persist();
        good.items.insert(good.items.end(), parts.items.begin(), parts.items.end());
        good.results.push_back(result.value);
        good.groups.merge(parts.groups);
      } catch (const local::Cancelled&) {
        throw;
      } catch (const local::Error& error) {
        const std::string place = result.line > 0 ? options_.script + ":" + std::to_string(result.line) + ": " : "";
        if (job_.root()) print_error(place + error.what());
        status = kFailureStatus;
      }
    }
    if (!good.items.empty()) good.write(file, store_options);
    return status;
  }

  const EvalOptions& options_;
  Job& job_;
  std::optional<SavedSteps> steps_;  // with --resume
  Environment environment_;
};

// CLI11 does not see the expression, so it cannot name it.
class EvalHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return "Usage: " + name + " [OPTIONS] EXPR\n       " + name + " [OPTIONS] -f SCRIPT\n\n";
  }
};

// What does not go together is said before anything is computed.
void check_change(const EvalOptions& options) {
  StoreOptions none;
  read_change_options(options, none);
  const char* const option = !options.append.empty()   ? "--append"
                             : !options.region.empty() ? "--region"
                             : !none.unlimited.empty() ? "--unlimited"
                             : none.dims.empty()       ? nullptr
                                                       : "--dims";
  if (option == nullptr) return;
  if (options.output.empty()) throw InvalidArgument(fmt::format("{} needs an output (-o)", option));
  const auto reject = [&](bool is_given, const char* what) {
    if (is_given) throw InvalidArgument(fmt::format("{} does not go with {}", option, what));
  };
  reject(options.local, "--local");
  if (!is_change(options)) return;
  reject(!options.append.empty() && !options.region.empty(), "--region");
  reject(options.overwrite, "--overwrite");
  reject(options.resume, "--resume");
  reject(options.keep_going, "--keep-going");
  reject(!options.region.empty() && !none.unlimited.empty(), "--unlimited");
  reject(!options.region.empty() && !none.dims.empty(), "--dims");
}

}  // namespace

int run_evaluation(const EvalOptions& options, int& argc, char**& argv) {
  if (options.resume && options.output.empty()) throw InvalidArgument("--resume needs an output (-o)");
  check_change(options);
  if (!options.expression.empty()) expression::parse({options.expression, "", 0});  // complains at once
  parse_inputs(options.inputs);
  if (!options.output.empty()) parse_output(options.output);
  if (options.local) return run_local_eval(options);
  return run_job(options.common, argc, argv, [&](Job& job) { return Evaluation(options, job).run(); });
}

RunCommand add_eval_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand("eval", "Evaluate a NumPy expression over data sets");
  command->formatter(std::make_shared<EvalHelp>());
  command->footer(
      "EXPR may begin with '-' and stand before or after the options; quarry eval OPTIONS -- EXPR works too.");
  const auto options = std::make_shared<EvalOptions>();
  command->add_option("--expression", options->expression, "The expression, also without this option")->group("");
  command
      ->add_option("-i,--input", options->inputs,
                   "A data set under a name; repeats. FILE may be a pattern, 'day-*.h5': those files, by name, "
                   "one after the other along axis 0. A Matrix Market file (NAME=FILE.mtx) and a group with data, "
                   "indices and indptr are sparse matrices")
      ->type_name("NAME=FILE:/PATH")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--masked", options->masked,
                    "Inputs are masked arrays, by their attributes _FillValue, missing_value, valid_min, valid_max and "
                    "valid_range");
  command->add_flag(
      "--decode", options->decode,
      "Inputs are what their stored numbers mean by netCDF's conventions: scale_factor and add_offset are "
      "applied, missing numbers are NaN (with --masked: masked)");
  command
      ->add_option("-o,--output", options->output,
                   "Where the result is stored (default path /result); a masked one with its fill value in place of "
                   "masked elements, and as the attribute _FillValue")
      ->type_name("FILE[:/PATH]");
  command->add_option("-f,--file", options->script, "Statements `name = EXPR`, one a line; all are computed together")
      ->type_name("SCRIPT");
  command->add_flag("--overwrite", options->overwrite, "Replace existing objects of the output");
  command
      ->add_option("--append", options->append,
                   "Put the result behind the end of the data set that is there, along this axis; the first time it "
                   "is made, so that it can grow (HDF5)")
      ->type_name("AXIS");
  command
      ->add_option("--region", options->region,
                   "Write the result into these elements of the data set that is there: integers, slices of step 1, "
                   "and ... (HDF5)")
      ->type_name("'0:10,:'");
  command->add_option("--unlimited", options->unlimited, "Axes of the output that can grow later (HDF5)")
      ->type_name("AXIS,...");
  command
      ->add_option("--dims", options->dims,
                   "Names of the output's axes; a data set of one axis and that name beside it holds the coordinates "
                   "(HDF5, as netCDF)")
      ->type_name("NAME,...");
  command->add_flag("--resume", options->resume,
                    "Keep what is done of the output where the run ends early, and go on with what an earlier run of "
                    "the same expression has kept, on any number of ranks (HDF5, Zarr, .npy)");
  command->add_flag("--local", options->local,
                    "Evaluate on local arrays, all in the memory of one device, with all of NumPy's functions");
  command->add_flag("--keep-going", options->keep_going, "Store what works of a script, report each line that fails");
  add_common_options(*command, options->common);
  return [options](int& argc, char**& argv) {
    if (options->expression.empty() == options->script.empty()) {
      throw InvalidArgument(options->script.empty() ? "eval needs an expression or -f SCRIPT"
                                                    : "eval takes an expression or -f SCRIPT, not both");
    }
    if (options->resume && (options->local || options->keep_going))
      throw InvalidArgument(fmt::format("--resume does not go with {}", options->local ? "--local" : "--keep-going"));
    if (options->keep_going && options->script.empty()) throw InvalidArgument("--keep-going is for scripts (-f)");
    return run_evaluation(*options, argc, argv);
  };
}

}  // namespace quarry::apps
