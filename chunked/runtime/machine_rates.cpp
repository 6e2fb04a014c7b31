#include "quarry/chunked/runtime/machine_rates.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/nameless_file.h"
#include "quarry/local/base/options.h"
#include "quarry/local/device/device.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/program/disk_cache.h"
#include "quarry/local/program/engine.h"

namespace quarry::exec {
namespace {

using local::Dims;
using local::DType;
using local::NdArray;
using plan::Work;
using Clock = std::chrono::steady_clock;

constexpr int64_t kFileBytes = 32 << 20;  // read and written
constexpr double kLongEnough = 1e-3;      // seconds of the repeats together
constexpr double kTooLong = 0.1;          // of a first call, to be made again

// What is measured: smaller matrices take longer for an operation.
struct Sizes {
  int64_t elements = 1 << 14;         // of a program: what a core's cache holds
  double call_elements = 250'000;     // of an operator, at most
  double cubic_elements = 768 * 768;  // of a matrix
  int64_t product = 384;
};
// Starting work takes a GPU longer than the work of a core's sizes.
constexpr Sizes kOfGpu{1 << 22, 4e6, 2048 * 2048, 2048};
bool is_on_gpu() { return local::current_context().device.kind == local::DeviceKind::cuda; }
Sizes sizes() { return is_on_gpu() ? kOfGpu : Sizes{}; }

// Of the calling thread's processor.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double wall_seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// What work takes that the calling thread does by itself: rates are kept, and must not be those of a moment in which
// others had the processor.
double work_seconds() {
  return local::current_context().device.kind == local::DeviceKind::cpu ? processor_seconds() : wall_seconds();
}

// The best of a few calls, after one that warms up.
double seconds_of_call(const std::function<void()>& call, double (*clock)() = work_seconds) {
  constexpr int kMostRepeats = 16;
  double best = 0, all = 0;
  for (int i = 0; i <= kMostRepeats && (i < 2 || all < kLongEnough); ++i) {
    const double begin = clock();
    call();
    const double seconds = clock() - begin;
    all += seconds;
    if (i == 0 && seconds > kTooLong && !is_on_gpu()) return seconds;  // a GPU's first call compiles
    if (i > 0) best = i == 1 ? seconds : std::min(best, seconds);
  }
  return best;
}

// Values between 0 and 1, or of a period of 251 for integers: nothing sorted, no NaN, no power of two.
NdArray sample(const Dims& shape, DType dtype) {
  std::vector<double> values(static_cast<size_t>(local::element_count(shape)));
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto bits = static_cast<double>(state >> 40u);
    value = local::is_float(dtype) || local::is_complex(dtype) ? (bits + 1) / (1 << 24) : std::fmod(bits, 251);
  }
  return local::from_vector(values, shape).astype(dtype);
}

// The same with a diagonal that makes it positive definite and far from singular.
NdArray definite(const Dims& shape, DType dtype) {
  const int64_t n = shape[shape.size() - 1], rows = shape[shape.size() - 2];
  std::vector<double> values(static_cast<size_t>(local::element_count(shape)));
  for (int64_t at = 0; at < std::ssize(values); ++at) {
    const int64_t i = at / n % rows, j = at % n;
    uint64_t mixed = static_cast<uint64_t>(std::min(i, j) * n + std::max(i, j)) * 0x9e3779b97f4a7c15u;  // symmetric
    mixed = (mixed ^ mixed >> 29u) * 0xbf58476d1ce4e5b9u;
    values[static_cast<size_t>(at)] =
        static_cast<double>(mixed >> 11u) * 0x1p-53 - 0.5 + (i == j ? static_cast<double>(n) : 0);
  }
  return local::from_vector(values, shape).astype(dtype);
}

void wait() { local::current_context().stream->synchronize(); }

double seconds_of_program(const local::Program& program, const std::vector<DType>& inputs,
                          const std::vector<DType>& results, bool reduces) {
  const Dims shape{sizes().elements};
  std::vector<NdArray> arrays;
  local::Launch launch;
  launch.shape = shape;
  const auto operand = [&](const NdArray& array, int64_t stride) {
    arrays.push_back(array);
    return local::Operand{array.raw(), Dims{stride}};
  };
  for (const DType dtype : inputs) launch.inputs.push_back(operand(sample(shape, dtype), local::itemsize(dtype)));
  for (const DType dtype : results) {
    const NdArray made = NdArray(reduces ? Dims{1} : shape, dtype);
    (reduces ? launch.states : launch.outputs).push_back(operand(made, reduces ? 0 : local::itemsize(dtype)));
  }
  if (reduces) launch.reduce_axes = 1;
  const local::ExecContext& context = local::current_context();
  return seconds_of_call([&] {
    local::engine(context.device).run(program, launch, context);
    wait();
  });
}

double measure_ufunc(const Work& work) {
  const local::Value& value = *work.value;
  local::Program program;
  std::vector<DType> dtypes;
  std::vector<local::ValueId> args;
  for (int i = 0; i < value.nargs; ++i) {
    const local::Value& arg = work.program->values()[static_cast<size_t>(value.args[i])];
    if (arg.kind == local::Value::Kind::constant) {
      args.push_back(program.constant(work.program->constants()[static_cast<size_t>(arg.slot)], arg.dtype));
      continue;
    }
    if (i == 0 && local::info(value.op).rule == local::OpRule::random) {
      args.push_back(program.index(0));  // consecutive positions, as programs have them
      continue;
    }
    args.push_back(program.input(arg.dtype));
    dtypes.push_back(arg.dtype);
  }
  const bool casts = local::info(value.op).rule == local::OpRule::cast;
  const bool is_random = local::info(value.op).rule == local::OpRule::random;
  const std::optional<DType> forced = is_random ? std::optional(value.dtype) : std::nullopt;
  program.output(casts ? program.cast(args[0], value.dtype) : program.apply(value.op, args, forced));
  if (program.dtype(program.outputs()[0]) != value.dtype)  // a loop that its arguments alone do not name
    throw local::NotSupported("the loop is another one");
  return seconds_of_program(program, dtypes, {value.dtype}, /*reduces=*/false) / static_cast<double>(sizes().elements);
}

double measure_reduction(const Work& work) {
  const auto reduction = static_cast<local::Reduction>(work.number);
  local::Program program;
  std::vector<local::ValueId> args{program.input(work.dtype)};
  if (local::info(reduction).has_position) args.push_back(program.index(0));
  program.reduce(reduction, args, work.dtype);
  return seconds_of_program(program, {work.dtype}, local::state_dtypes(reduction, work.dtype), /*reduces=*/true) /
         static_cast<double>(sizes().elements);
}

// Chunk 0 of an operator whose functions are made for the sizes of its chunks.
std::optional<double> measure_chunk(const plan::Applied& applied) {
  constexpr double kMostElements = 1e7;
  const op::Call& call = applied.call;
  if (call.outputs.empty() || call.outputs[0].grid.count() == 0) return std::nullopt;
  std::vector<op::Need> needs;
  applied.op->needs(call, /*chunk=*/0, needs);
  op::Call part;
  double elements = 0;
  for (const op::Need& need : needs) {
    part.arguments.push_back(
        op::in_one_chunk(need.box.count, call.arguments[static_cast<size_t>(need.argument)].dtype));
    elements += static_cast<double>(need.box.elements());
  }
  for (const op::ArraySpec& output : call.outputs) {
    part.outputs.push_back(op::in_one_chunk(output.grid.chunk(0).count, output.dtype));
    elements += static_cast<double>(local::element_count(part.outputs.back().shape));
  }
  const double units = plan::units_of_call(applied.op->name(), part);
  if (elements > kMostElements || units <= 0) return std::nullopt;
  std::vector<NdArray> pieces, outputs;
  for (const op::ArraySpec& spec : part.arguments) {
    const NdArray piece = sample(spec.shape, spec.dtype);
    pieces.push_back(applied.op->reads_sorted() ? local::ops::sort(piece, 0) : piece);
  }
  for (const op::ArraySpec& spec : part.outputs) outputs.emplace_back(spec.shape, spec.dtype);
  const double seconds = seconds_of_call([&] {
    applied.op->make_chunk(call, /*chunk=*/0, pieces, outputs);
    wait();
  });
  return seconds / units;
}

// The operator on arguments of the same form, made smaller.
std::optional<double> measure_call(const Work& work) {
  if (work.applied->op->makes_chunks() && !work.applied->one_chunk) return measure_chunk(*work.applied);
  op::Call call = work.applied->call;
  double elements = 0;
  for (const op::ArraySpec& spec : call.arguments)
    elements = std::max(elements, static_cast<double>(local::element_count(spec.shape)));
  const bool cubic = plan::is_cubic(work.applied->op->name());
  const double most = cubic ? sizes().cubic_elements : sizes().call_elements;
  // Axes of one extent stay so; the others shrink alike, from the longest.
  while (elements > most) {
    int64_t longest = 1;
    for (const op::ArraySpec& spec : call.arguments)
      for (const int64_t extent : spec.shape) longest = std::max(longest, extent);
    elements = 0;
    for (op::ArraySpec& spec : call.arguments) {
      for (int64_t& extent : spec.shape)
        if (extent == longest) extent = (extent + 1) / 2;
      elements = std::max(elements, static_cast<double>(local::element_count(spec.shape)));
    }
  }
  std::vector<NdArray> arguments;
  for (op::ArraySpec& spec : call.arguments) {
    spec = op::in_one_chunk(spec.shape, spec.dtype);
    arguments.push_back(cubic && spec.shape.size() >= 2 ? definite(spec.shape, spec.dtype)
                                                        : sample(spec.shape, spec.dtype));
  }
  call.outputs = work.applied->op->infer(call.arguments, /*room=*/0);
  const double units = plan::units_of_call(work.applied->op->name(), call);
  if (units <= 0) return std::nullopt;
  const double seconds = seconds_of_call([&] {
    const std::vector<NdArray> results = work.applied->op->local(arguments);
    wait();
  });
  return seconds / units;
}

double measure_product(const Work& work) {
  const int64_t n = sizes().product;
  const Dims shape{n, n};
  const NdArray a = sample(shape, work.dtype), b = sample(shape, work.dtype);
  const double seconds = seconds_of_call([&] {
    const NdArray c = local::ops::matmul(a, b);
    wait();
  });
  return seconds / std::pow(static_cast<double>(n), 3);
}

double measure_copy() {
  const NdArray from = sample({kFileBytes / 8}, DType::float64), to({kFileBytes / 8}, DType::float64);
  const local::ExecContext& context = local::current_context();
  return seconds_of_call([&] {
           context.stream->copy(to.raw(), from.raw(), kFileBytes);
           wait();
         }) /
         static_cast<double>(kFileBytes);
}

// The first chunk of a file through its filters, the reading included.
std::optional<double> measure_decode(const io::Dataset& dataset) {
  const io::DatasetInfo& info = dataset.info();
  if (!info.chunks) return std::nullopt;
  Dims count = *info.chunks;
  for (int d = 0; d < count.size(); ++d) count[d] = std::min(count[d], info.shape[d]);
  const local::Region region = local::Region::box(Dims::filled(count.size()), count);
  const int64_t bytes = region.elements() * local::itemsize(info.dtype);
  if (bytes <= 0 || bytes > kFileBytes) return std::nullopt;
  std::vector<std::byte> data(static_cast<size_t>(bytes));
  std::vector<std::byte> scratch(static_cast<size_t>(dataset.read_scratch_bytes(region)));
  // Another process may decode it.
  return seconds_of_call([&] { dataset.read(region, data.data(), scratch); }, wall_seconds) /
         static_cast<double>(bytes);
}

// Pages that the system makes zero, and takes back.
std::optional<double> measure_fresh() {
  constexpr int64_t kPage = 4096;
  const double begin = processor_seconds();
  void* const memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::nullopt;
  for (int64_t at = 0; at < kFileBytes; at += kPage) static_cast<volatile char*>(memory)[at] = 1;
  munmap(memory, kFileBytes);
  return (processor_seconds() - begin) / static_cast<double>(kFileBytes);
}

bool is_of_files(Work::Kind kind) {
  return kind == Work::Kind::read || kind == Work::Kind::write || kind == Work::Kind::sync;
}

// All of is_of_files(), by one file in the folder for spilled data: pages are written to the cache and read from it by
// the thread itself; `sync` is what the disk takes between. False where there is no room for it.
bool measure_files(const std::string& directory, plan::Rates& rates) {
  const int file = local::open_nameless_file(directory, "rates");
  if (file < 0) return false;
  std::vector<char> data(kFileBytes, 1);
  bool whole = true;
  const auto transfer = [&](auto call) {
    constexpr size_t kPart = 4 << 20;
    for (int64_t at = 0; at < kFileBytes && whole;) {
      const ssize_t n = call(at, std::min<size_t>(kPart, static_cast<size_t>(kFileBytes - at)));
      whole = n > 0;
      at += n;
    }
  };
  const auto write = [&] { transfer([&](int64_t at, size_t n) { return pwrite(file, data.data() + at, n, at); }); };
  const auto read = [&] { transfer([&](int64_t at, size_t n) { return pread(file, data.data() + at, n, at); }); };
  // The file grows, as outputs do: once.
  const double begin = processor_seconds();
  write();
  const double write_seconds = processor_seconds() - begin, begin_sync = wall_seconds();
  fdatasync(file);
  const double sync_seconds = wall_seconds() - begin_sync, read_seconds = seconds_of_call(read);
  close(file);
  if (!whole) return false;
  const std::pair<Work::Kind, double> found[] = {
      {Work::Kind::read, read_seconds}, {Work::Kind::write, write_seconds}, {Work::Kind::sync, sync_seconds}};
  for (const auto& [kind, seconds] : found)
    rates.set(Work{.kind = kind}.name(), seconds / static_cast<double>(kFileBytes));
  return true;
}

std::optional<double> measure(const Work& work) {
  switch (work.kind) {
    case Work::Kind::ufunc:
      return measure_ufunc(work);
    case Work::Kind::reduction:
      return measure_reduction(work);
    case Work::Kind::product:
      return measure_product(work);
    case Work::Kind::call:
      return measure_call(work);
    case Work::Kind::copy:
      return measure_copy();
    case Work::Kind::fresh:
      return measure_fresh();
    case Work::Kind::decode:
      return work.dataset == nullptr ? std::nullopt : measure_decode(*work.dataset);
    case Work::Kind::read:
    case Work::Kind::write:
    case Work::Kind::sync:
    case Work::Kind::task:
      return std::nullopt;
  }
  return std::nullopt;
}

// In the cache of compiled kernels; without a complaint where the user has none.
local::DiskCache cache() {
  const bool any = !local::OptionValue(local::Option::cache_dir).text().empty() ||
                   !local::environment("XDG_CACHE_HOME", "").empty() || !local::environment("HOME", "").empty();
  return local::DiskCache(any ? local::DiskCache::default_folder() : "");
}

// What rates depend on.
std::string entry_name(const Runtime& runtime) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const local::Device device = runtime.device();
  constexpr int kForm = 4;  // of the measurements: those of others do not count
  return "rates-" + local::content_name(fmt::format("{} {} {} {} {}", kForm, host.data(), local::name(device.kind),
                                                    device.index, std::thread::hardware_concurrency()));
}

}  // namespace

plan::Rates known_rates(const Runtime& runtime) {
  plan::Rates rates;
  std::string text;
  if (!cache().load(entry_name(runtime), text)) return rates;
  std::istringstream lines(text);
  double seconds = 0;
  std::string name;
  while (lines >> seconds && std::getline(lines >> std::ws, name))
    if (seconds >= 0 && std::isfinite(seconds)) rates.set(name, seconds);
  return rates;
}

void measure_rates(plan::Rates& rates, std::span<const plan::Stage> stages, const Runtime& runtime,
                   double most_seconds) {
  const auto begin = Clock::now();
  local::ExecContext context = local::default_context(runtime.device());
  context.threads = 1;
  const local::DeviceScope scope(context);
  std::set<std::string> tried;
  bool any = false;
  const auto try_one = [&](const Work& work) {
    const std::string name = work.name();
    const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    if (rates.is_known(name) || spent > most_seconds || !tried.insert(name).second) return;
    try {
      if (is_of_files(work.kind)) {
        any |= measure_files(runtime.options().spill_dir, rates);
        return;
      }
      const std::optional<double> seconds = measure(work);
      if (!seconds) return;
      rates.set(name, *seconds);
      any = true;
    } catch (const local::Error& error) {  // arguments that it does not take, memory that there is not
      local::log(local::LogLevel::debug, fmt::format("no rate of {}: {}", name, error.what()));
    }
  };
  // The longest first, as far as is known.
  std::vector<Work> works;
  for (const plan::Stage& stage : stages) {
    const std::vector<Work> more = plan::work_of(stage);
    works.insert(works.end(), more.begin(), more.end());
  }
  std::ranges::stable_sort(works, std::greater<>(),
                           [&](const Work& work) { return work.units * rates.seconds_per_unit(work); });
  for (const Work& work : works) try_one(work);
  for (const Work::Kind kind :
       {Work::Kind::fresh, Work::Kind::copy, Work::Kind::read, Work::Kind::write, Work::Kind::sync})
    try_one({.kind = kind});
  if (!any) return;
  std::string text;
  for (const auto& [name, seconds] : rates.known()) text += fmt::format("{:.6g} {}\n", seconds, name);
  cache().store(entry_name(runtime), text);
}

double measured_flop_rate(const Runtime& runtime) {
  constexpr double kOfProduct = 2;
  plan::Rates rates = known_rates(runtime);
  const Work product{.kind = Work::Kind::product};
  if (!rates.is_known(product.name())) {
    try {
      local::ExecContext context = local::default_context(runtime.device());
      context.threads = 1;
      const local::DeviceScope scope(context);
      rates.set(product.name(), measure_product(product));
    } catch (const local::Error&) {  // the device's memory may be taken
      return 0;
    }
  }
  return kOfProduct / rates.seconds_per_unit(product);
}

}  // namespace quarry::exec
