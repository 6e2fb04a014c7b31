#include "quarry/apps/quarry/local_eval.h"

#include <fmt/format.h>

#include <set>
#include <thread>

#include "quarry/apps/binding/local_values.h"
#include "quarry/apps/binding/masked.h"
#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/failure.h"
#include "quarry/apps/quarry/job.h"
#include "quarry/apps/quarry/script.h"
#include "quarry/chunked/api/sparse_files.h"
#include "quarry/chunked/runtime/memory_size.h"
#include "quarry/chunked/runtime/resolve_options.h"
#include "quarry/io/dataset.h"
#include "quarry/io/output.h"
#include "quarry/local/device/device.h"
#include "quarry/local/memory/policy.h"
#include "quarry/local/memory/slab_pool.h"

namespace quarry::apps {

using expression::Environment;
using expression::Value;
using local::InvalidArgument;
using local::NdArray;
using local::Option;

namespace {

// An array or a text.
struct LocalItem {
  std::string path;
  std::optional<NdArray> array;
  std::optional<io::OutputText> text = {};
  std::optional<local::Scalar> fill_value = {};  // of a masked array
};

// str, bytes, and a dtype as its name.
std::optional<io::OutputText> text_of(const Value& value) {
  if (const auto* text = value.as<std::string>()) return io::OutputText{*text};
  if (const auto* bytes = value.as<expression::Bytes>()) return io::OutputText{bytes->text, /*is_bytes=*/true};
  if (const auto* dtype = value.as<expression::DTypeValue>()) return io::OutputText{local::name(dtype->dtype)};
  return std::nullopt;
}

// A tuple, or a list that holds arrays or text, is stored item by item, everything else as np.asarray makes it.
bool is_split(const Value& value) {
  const expression::SequenceValue* sequence = value.sequence();
  if (sequence == nullptr) return false;
  if (!sequence->is_list || !sequence->fields.empty()) return true;
  return std::any_of(sequence->items.begin(), sequence->items.end(), [](const Value& item) {
    return item.is<NdArray>() || item.is<expression::MaskedValue>() || text_of(item) || is_split(item);
  });
}

void collect_items(const std::string& path, const Value& value, std::vector<LocalItem>& items) {
  if (is_split(value)) {
    const expression::SequenceValue& sequence = *value.sequence();
    if (sequence.items.empty()) throw local::TypeError("an empty tuple has nothing to store");
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      collect_items(path + "." + std::to_string(i), sequence.items[i], items);
    }
    return;
  }
  if (const std::optional<io::OutputText> text = text_of(value)) {
    if (!text->is_bytes && text->value.find('\0') != std::string::npos)
      throw InvalidArgument("the result holds a zero character, at which a string of HDF5 ends; bytes may hold them");
    items.push_back({path, std::nullopt, text});
    return;
  }
  if (const auto* masked = expression::masked_in<local::ma::Local>(value)) {
    std::optional<local::Scalar> fill_value;
    if (masked->mask_or_none()) fill_value = local::Scalar::strong(masked->fill_value(), masked->dtype());
    items.push_back({path, masked->filled(), std::nullopt, fill_value});
    return;
  }
  if (!expression::is_local_operand(value)) {
    throw local::TypeError("the result is a " + type_name(value) + ", which cannot be stored");
  }
  items.push_back({path, expression::to_ndarray(value)});
}

// A file's data set, whole, on the current device.
NdArray read_whole(const io::Dataset& dataset) {
  const io::DatasetInfo& info = dataset.info();
  const local::Region region = local::Region::whole(info.shape);
  std::vector<std::byte> scratch(static_cast<size_t>(dataset.read_scratch_bytes(region)));
  const local::ExecContext host = local::default_context(local::kCpu);
  const NdArray array(info.shape, info.dtype, host);
  if (array.size() == 0) return array.to(local::current_context().device);
  dataset.read(region, array.raw(), scratch);
  if (dataset.info().swapped) {
    const auto part = static_cast<size_t>(local::itemsize(local::real_type(info.dtype)));
    auto* bytes = static_cast<char*>(array.raw());
    for (int64_t at = 0; at < array.nbytes(); at += static_cast<int64_t>(part)) {
      std::reverse(bytes + at, bytes + at + static_cast<int64_t>(part));
    }
  }
  return array.to(local::current_context().device);
}

// Masked and decoded by its attributes, if wanted.
Value read_input(const Input& input, const EvalOptions& options) {
  if (sparse::is_matrix_market(input.file))
    throw local::NotSupported(fmt::format("-i {}: {}: --local reads no Matrix Market files; without --local eval does",
                                          input.name, input.file));
  const std::shared_ptr<io::Dataset> dataset = io::Dataset::open(input.file, input.object);
  const NdArray array = read_whole(*dataset);
  if (!options.masked && !options.decode) return array;
  const auto& attributes = dataset->info().attributes;
  const ma::MissingValues missing = ma::missing_values(attributes);
  const local::ma::MaskedArray known = options.decode ? local::ma::unpacked(array, missing, ma::packing(attributes))
                                                      : local::ma::masked_missing(array, missing);
  if (options.masked) return expression::masked_value(known);
  return known.mask_or_none() ? known.filled(std::numeric_limits<double>::quiet_NaN()) : known.data();
}

void reject(const local::OptionValue& value) {
  if (value.is_given()) throw InvalidArgument(value.source() + " is not for --local");
}

class LocalEvaluation {
 public:
  // Sets `writing` once results go to the output.
  LocalEvaluation(const EvalOptions& options, bool& writing) : options_(options), writing_(writing) {
    environment_.library = &expression::local_library();
    environment_.other = {&expression::chunked_library(), "it is there without --local"};
  }

  int run() {
    for (const Input& input : parse_inputs(options_.inputs))
      environment_.variables.emplace(input.name, read_input(input, options_));
    return options_.script.empty() ? run_expression() : run_script();
  }

 private:
  int run_expression() {
    const expression::Source source{options_.expression, "", 0};
    const Value value = evaluate(source, *expression::parse(source), environment_);
    if (!options_.output.empty()) {
      store({{"", 0, value}});
    } else {
      fmt::print("{}\n", display_local(value));
    }
    return 0;
  }

  int run_script() {
    const bool stores = !options_.output.empty();
    const Script script = evaluate_script(options_.script, read_text(options_.script), environment_,
                                          options_.keep_going, [&](const Value& value) {
                                            std::vector<LocalItem> items;
                                            if (stores) collect_items("", value, items);
                                          });
    for (const std::string& error : script.errors) print_error(error);
    if (stores) {
      if (!script.results.empty()) store(script.results);
    } else {
      for (const ScriptResult& result : script.results) {
        fmt::print("{} = {}\n", result.name, display_local(result.value));
      }
    }
    return script.errors.empty() ? 0 : kFailureStatus;
  }

  void store(const std::vector<ScriptResult>& results) {
    const FileObject output = parse_output(options_.output);
    std::vector<LocalItem> items;
    for (const ScriptResult& result : results) {
      collect_items(output_path(result.name, output.object), result.value, items);
    }
    std::vector<std::string> paths;
    std::set<std::string> seen;
    std::vector<io::OutputSpec> specs;
    const StoreOptions how = options_.common.store(options_.overwrite);
    for (const LocalItem& item : items) {
      if (!seen.insert(item.path).second) throw InvalidArgument("two results would be stored as " + item.path);
      paths.push_back(item.path);
      if (item.text)
        specs.push_back({item.path, {}, DType::uint8, std::nullopt, {}, {}, item.text});
      else
        specs.push_back(
            {item.path, item.array->shape(), item.array->dtype(), std::nullopt, {}, {}, {}, item.fill_value});
      specs.back().version = how.version;
    }
    if (how.chunks || !how.filters.empty()) throw InvalidArgument("--out-chunks and --out-filter are not for --local");
    check_output(output.file, paths, options_.overwrite);
    writing_ = true;
    const std::unique_ptr<io::OutputFile> file =
        io::OutputFile::create(output.file, std::move(specs), options_.overwrite);
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].text) continue;  // written already
      const NdArray host = items[i].array->to(local::kCpu);
      const NdArray packed = host.is_contiguous() ? host : host.copy(local::default_context(local::kCpu));
      if (packed.size() > 0) file->writer(i)->write(local::Region::whole(packed.shape()), packed.raw());
    }
    file->commit();
  }

  const EvalOptions& options_;
  bool& writing_;
  Environment environment_;
};

local::Device chosen_device(const EvalOptions& options) {
  const auto wanted = local::parse_device_kind(options.common.text(Option::device));  // none for auto
  if (wanted) return {*wanted, 0};
  return {local::available(local::DeviceKind::cuda) ? local::DeviceKind::cuda : local::DeviceKind::cpu, 0};
}

// A line that asks for more is an error and not the end of the process.
int64_t memory_limit(const EvalOptions& options, local::Device device) {
  constexpr double kShare = local::memory_policy::kLocalShare;
  const bool on_gpu = device.kind == local::DeviceKind::cuda;
  const int64_t free_bytes =
      on_gpu ? local::backend(device.kind).info(device.index).free_bytes
             : free_share_bytes(/*ranks_of_node=*/1, static_cast<int>(std::thread::hardware_concurrency()));
  const local::OptionValue memory = options.common.value(Option::memory);
  if (memory.is_given()) return memory.bytes(free_bytes);
  return static_cast<int64_t>(kShare * static_cast<double>(free_bytes));
}

}  // namespace

int run_local_eval(const EvalOptions& options) {
  if (launcher_rank() != 0) return 0;
  for (const Option option : {Option::trace, Option::report, Option::stats}) reject(options.common.value(option));
  if (options.common.plan()) throw InvalidArgument("--plan is not for --local");
  warn_of_misspelt_variables();
  bool writing = false;
  try {
    const local::Device device = chosen_device(options);
    const std::unique_ptr<local::SlabPool> pool =
        local::SlabPool::growing(device, local::SlabPool::kDefaultSlabBytes, memory_limit(options, device));
    local::ExecContext context = local::default_context(device);
    context.memory = pool.get();
    const local::DeviceScope scope(context);
    return LocalEvaluation(options, writing).run();
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    print_error(error_message(error));
    return exit_status(error, /*computing=*/writing);
  }
}

std::string display_local(const Value& value) { return expression::local_text(value); }

}  // namespace quarry::apps
