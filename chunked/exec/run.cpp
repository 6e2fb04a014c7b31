#include "chunked/exec/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>

#include "chunked/exec/balance.h"
#include "chunked/exec/lowering.h"
#include "chunked/exec/service.h"
#include "chunked/expr/build.h"
#include "chunked/runtime.h"
#include "io/hdf5/byte_file.h"
#include "io/partial.h"
#include "local/program/engine.h"

namespace quarry {
namespace exec {
namespace {

plan::PlanOptions plan_options() {
  Runtime& runtime = Runtime::current();
  return {runtime.size(), runtime.job_device_kind(), std::max<int64_t>(runtime.plan_bytes(), 1)};
}

// A result that is a data set or a persisted array itself becomes a stage that copies it, so that it has chunks of this
// run.
plan::ArrayRef stage_of(plan::Plan& plan, const plan::ArrayRef& array, const expr::Node& node) {
  if (array.kind == plan::ArrayRef::Kind::stage) return array;
  plan::Fused copy;
  const bool swapped = array.kind == plan::ArrayRef::Kind::dataset && array.dataset->info().swapped;
  copy.program.output(copy.program.input(node.dtype, swapped));
  copy.inputs.push_back({array, plan::AccessMap::identity(node.shape.size()), node.dtype, node.shape, node.grid});
  plan.stages.push_back({std::move(copy), "copy", node.shape, node.grid, {{node.shape, node.dtype, node.grid}}});
  plan::ArrayRef result;
  result.stage = static_cast<int>(plan.stages.size()) - 1;
  return result;
}

plan::Plan make_plan(std::span<const Array> arrays, const plan::PlanOptions& options) {
  std::vector<expr::NodePtr> nodes;
  for (const Array& array : arrays) nodes.push_back(array.node());
  plan::Plan plan = plan::make_plan(nodes, options);
  for (size_t i = 0; i < nodes.size(); ++i) plan.results[i] = stage_of(plan, plan.results[i], *nodes[i]);
  return plan;
}

// The memory budget that a graph and, on the CPU, the bounce buffers of the service fit into.
int64_t least_budget(const scheduler::Graph& graph, const Runtime& runtime) {
  const int64_t graph_bytes = scheduler::least_workable_bytes(graph);
  if (runtime.device().kind != local::DeviceKind::cpu) return graph_bytes;
  // The buffers grow with the budget, by a small part of it: this converges in a few steps, from below.
  int64_t least = graph_bytes;
  for (int64_t before = -1; before != least;) {
    before = least;
    least = graph_bytes + Service::staging_bytes(least, /*on_device=*/false, runtime.size());
  }
  return least;
}

plan::Plan make_plan(std::span<const Array> arrays) { return make_plan(arrays, plan_options()); }

[[noreturn]] void throw_budget(int64_t given, int64_t least) {
  throw local::BudgetError(fmt::format("the computation does not fit a memory budget of {} bytes per rank; the least "
                                       "that works with these chunks is {} bytes",
                                       given, least),
                           least);
}

// Throws on every rank, with the largest rank's number, if the graph cannot run in the smallest rank's budget.
void check_budget(const scheduler::Graph& graph, Runtime& runtime) {
  int64_t least[] = {least_budget(graph, runtime)};
  int64_t given[] = {runtime.memory_bytes()};
  runtime.communicator().all_reduce(least, comm::ReduceOp::max);
  runtime.communicator().all_reduce(given, comm::ReduceOp::min);
  if (least[0] <= given[0]) return;
  throw_budget(given[0], least[0]);
}

std::atomic<bool> run_started = false;

// The data sets that a plan reads.
std::set<std::shared_ptr<io::Dataset>> datasets_of(const plan::Plan& plan) {
  std::set<std::shared_ptr<io::Dataset>> datasets;
  const auto add = [&](const plan::Input& input) {
    if (input.array.dataset) datasets.insert(input.array.dataset);
  };
  for (const plan::Stage& stage : plan.stages) {
    if (const auto* fused = std::get_if<plan::Fused>(&stage.work)) {
      for (const plan::Input& input : fused->inputs) add(input);
    } else if (const auto* assemble = std::get_if<plan::Assemble>(&stage.work)) {
      for (const plan::Assemble::Part& part : assemble->parts) add(part.input);
    } else if (const auto* product = std::get_if<plan::MatMul>(&stage.work)) {
      add(product->a);
      add(product->b);
    } else if (const auto* eigh = std::get_if<plan::Eigh>(&stage.work)) {
      add(eigh->a);
    }
  }
  return datasets;
}

int64_t bytes_read(const std::set<std::shared_ptr<io::Dataset>>& datasets) {
  int64_t bytes = 0;
  for (const auto& dataset : datasets) bytes += dataset->bytes_read();
  return bytes;
}

LoweringContext lowering_context(Runtime& runtime, Service* service) {
  LoweringContext context{runtime.rank(), runtime.size(), runtime.device(), nullptr, service, runtime.memory_bytes()};
  if (service != nullptr) context.executor = &runtime.executor();
  if (runtime.balances()) {
    context.takers = runtime.device().kind == local::DeviceKind::cpu ? runtime.threads() : kTakersOfDevice;
  }
  return context;
}

// States of chunks that were computed for other ranks stay within a part of the budget that no task needs, so that they
// never hold up admission.
void allow_taking(Runtime& runtime, Service& service, const scheduler::Graph& graph) {
  constexpr int64_t kShare = 16, kPinnedShare = 64;
  if (!runtime.balances()) return;
  const bool on_cpu = runtime.device().kind == local::DeviceKind::cpu;
  local::Budget& budget = on_cpu ? runtime.executor().memory_budget() : runtime.executor().host_budget();
  Balance::Settings settings;
  for (const local::DeviceKind kind : runtime.device_kinds()) settings.mates.push_back(kind == runtime.device().kind);
  settings.budget = &budget;
  const int64_t share = budget.limit_bytes() / (on_cpu ? kShare : kPinnedShare);
  const int64_t free = on_cpu ? budget.limit_bytes() - least_budget(graph, runtime) : share;
  settings.room_bytes = std::clamp<int64_t>(free, 0, share);
  settings.taken = [&runtime] { runtime.count_taken(); };
  service.balance().configure(std::move(settings));
}

// Lowers and runs; the owned chunks of each `keep` sink.
std::vector<std::shared_ptr<StoredArray>> execute(const plan::Plan& plan, const std::vector<Sink>& sinks) {
  static uint64_t epoch = 0;
  ++epoch;
  Runtime& runtime = Runtime::current();
  comm::Communicator& communicator = runtime.communicator();
  const auto service = Service::create(communicator, runtime.executor(), epoch, runtime.peers());
  std::unique_ptr<Lowered> lowered;
  std::exception_ptr error;
  try {
    lowered = lower(plan, sinks, lowering_context(runtime, service.get()));
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, plan.hash);
  check_budget(lowered->graph, runtime);
  exchange_pulls(*lowered, communicator, *service);
  allow_taking(runtime, *service, lowered->graph);
  const auto datasets = datasets_of(plan);
  const int64_t read_before = bytes_read(datasets);
  run_started = true;
  service->run(lowered->graph);
  runtime.count_io(bytes_read(datasets) - read_before, 0);

  std::vector<std::shared_ptr<StoredArray>> kept;
  for (size_t i = 0; i < sinks.size(); ++i) {
    if (sinks[i].kind != Sink::Kind::keep) continue;
    const auto& output =
        plan.stages[static_cast<size_t>(sinks[i].array.stage)].outputs[static_cast<size_t>(sinks[i].array.output)];
    std::vector<std::shared_ptr<scheduler::StoredBlock>> blocks;
    for (scheduler::BlockId block : lowered->kept[i]) blocks.push_back(runtime.executor().stored(block));
    const int64_t first = plan::owned(runtime.rank(), output.grid.count(), runtime.size()).first;
    kept.push_back(std::make_shared<StoredArray>(output.dtype, output.grid, first, std::move(blocks)));
  }
  return kept;
}

// Copies a box between C-contiguous host arrays: all of one is a box of the other.
void copy_box(void* to, const Dims& to_strides, const void* from, const Dims& from_strides, const Dims& count,
              local::DType dtype) {
  local::Program program;
  program.output(program.input(dtype));
  local::Launch launch;
  launch.shape = count;
  launch.inputs.push_back({const_cast<void*>(from), from_strides});
  launch.outputs.push_back({to, to_strides});
  const local::DeviceScope scope(local::kCpu);
  local::engine(local::kCpu).run(program, launch, local::current_context());
}

int64_t offset_of(const Dims& start, const Dims& strides) {
  int64_t offset = 0;
  for (int d = 0; d < start.size(); ++d) offset += start[d] * strides[d];
  return offset;
}

}  // namespace

namespace {

// The least bytes per rank of the plan that is made for a budget of `memory_bytes`. Collective.
int64_t least_bytes_of_plan(std::span<const Array> arrays, bool write, int64_t memory_bytes) {
  Runtime& runtime = Runtime::current();
  plan::PlanOptions options = plan_options();
  const bool on_device = runtime.device().kind != local::DeviceKind::cpu;
  int64_t for_tasks[] = {Service::bytes_for_tasks(memory_bytes, on_device, runtime.size())};
  runtime.communicator().all_reduce(for_tasks, comm::ReduceOp::min);
  options.memory_bytes = std::max<int64_t>(for_tasks[0], 1);
  const plan::Plan plan = make_plan(arrays, options);
  std::vector<Sink> sinks;
  for (const plan::ArrayRef& result : plan.results) {
    sinks.push_back({write ? Sink::Kind::write : Sink::Kind::keep, result, {}});
  }
  LoweringContext context = lowering_context(runtime, /*service=*/nullptr);
  context.memory_bytes = 0;  // chunks do not share tasks
  const auto lowered = lower(plan, sinks, context);
  int64_t least[] = {least_budget(lowered->graph, runtime)};
  runtime.communicator().all_reduce(least, comm::ReduceOp::max);
  return least[0];
}

// Runs; where the budget is too small, says one that works, to within 1/64. The plan for a larger budget may have
// larger chunks and need more, so it is made anew for each budget tried: raised by a quarter until it fits, then halved
// between.
std::vector<std::shared_ptr<StoredArray>> execute(std::span<const Array> arrays, bool write, const plan::Plan& plan,
                                                  const std::vector<Sink>& sinks) {
  try {
    return execute(plan, sinks);
  } catch (const local::BudgetError& error) {
    constexpr int kMostRaises = 24;
    constexpr int64_t kTolerance = 64;
    const auto works = [&](int64_t bytes) { return least_bytes_of_plan(arrays, write, bytes) <= bytes; };
    int64_t failing = Runtime::current().memory_bytes(), working = error.least_bytes();
    for (int i = 0; i < kMostRaises && !works(working); ++i) {
      failing = working;
      working += working / 4;
    }
    while (working - failing > working / kTolerance) {
      const int64_t middle = failing + (working - failing) / 2;
      (works(middle) ? working : failing) = middle;
    }
    throw_budget(Runtime::current().memory_bytes(), working);
  }
}

}  // namespace

bool any_run_started() { return run_started; }

PlanSummary summarize(std::span<const Array> arrays, bool write) {
  Runtime& runtime = Runtime::current();
  const plan::Plan plan = make_plan(arrays);
  std::vector<Sink> sinks;
  for (const plan::ArrayRef& result : plan.results)
    sinks.push_back({write ? Sink::Kind::write : Sink::Kind::keep, result, {}});
  LoweringContext context = lowering_context(runtime, /*service=*/nullptr);
  auto lowered = lower(plan, sinks, context);
  PlanSummary summary;
  summary.stages = plan::describe(plan);
  for (const plan::Stage& stage : plan.stages) summary.chunks += stage.grid.count();
  int64_t sums[] = {lowered->graph.task_count(), lowered->read_bytes, lowered->write_bytes};
  if (lowered->grouped) {  // in less memory, chunks do not share tasks
    context.memory_bytes = 0;
    lowered = lower(plan, sinks, context);
  }
  int64_t least[] = {least_budget(lowered->graph, runtime)};
  int64_t given[] = {runtime.memory_bytes()};
  runtime.communicator().all_reduce(sums, comm::ReduceOp::sum);
  runtime.communicator().all_reduce(least, comm::ReduceOp::max);
  runtime.communicator().all_reduce(given, comm::ReduceOp::min);
  summary.tasks = sums[0];
  summary.read_bytes = sums[1];
  summary.write_bytes = sums[2];
  summary.least_bytes = least[0];
  summary.memory_bytes = given[0];
  return summary;
}

std::vector<std::shared_ptr<StoredArray>> keep(std::span<const Array> arrays) {
  const plan::Plan plan = make_plan(arrays);
  std::vector<Sink> sinks;
  for (const plan::ArrayRef& result : plan.results) sinks.push_back({Sink::Kind::keep, result, {}});
  return execute(arrays, /*write=*/false, plan, sinks);
}

NdArray gather(const StoredArray& array) {
  if (array.replicated()) return array.value();
  Runtime& runtime = Runtime::current();
  const local::DeviceScope scope(local::kCpu);
  NdArray result(array.grid().shape(), array.dtype());
  const int64_t itemsize = local::itemsize(array.dtype());
  const Dims strides = local::contiguous_strides(result.shape(), itemsize);
  const int64_t chunks = array.grid().count();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const Region box = array.grid().chunk(chunk);
    const int64_t bytes = box.elements() * itemsize;
    if (bytes == 0) continue;
    const int owner = plan::owner(chunk, chunks, runtime.size());
    // A chunk that is contiguous in the result travels without a copy.
    const Dims box_strides = local::contiguous_strides(box.count, itemsize);
    const bool in_place = chunks == 1 || box.count.size() == 1;
    auto* const place = static_cast<std::byte*>(result.raw()) + offset_of(box.start, strides);
    std::vector<std::byte> buffer(in_place ? 0 : static_cast<size_t>(bytes));
    void* const data = in_place ? place : buffer.data();
    if (owner == runtime.rank()) runtime.executor().read_stored(*array.block(chunk), 0, bytes, data);
    if (runtime.size() > 1) runtime.communicator().broadcast(data, bytes, owner);
    if (!in_place) copy_box(place, strides, data, box_strides, box.count, array.dtype());
  }
  return result;
}

}  // namespace exec

namespace {

using exec::Sink;

// Chunks of a file that nobody specified: about a mebibyte, halving the longest axis.
Dims default_file_chunks(const Dims& shape, local::DType dtype) {
  constexpr int64_t kBytes = 1 << 20;
  Dims chunks = shape;
  for (int64_t& extent : chunks) extent = std::max<int64_t>(extent, 1);
  while (local::element_count(chunks) * local::itemsize(dtype) > kBytes) {
    int64_t& longest = *std::max_element(chunks.begin(), chunks.end());
    longest = (longest + 1) / 2;
  }
  return chunks;
}

// Encoded chunks of this rank, kept in a file beside the output until the creating rank registers them.
class Spool {
 public:
  explicit Spool(std::string path) : partial_(std::move(path)) {}
  ~Spool() {
    if (file_) std::fclose(file_);
  }
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  void append(const Dims& chunk, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    if (!file_) file_ = std::fopen(partial_.path().c_str(), "wb");  // over what a killed run left
    std::vector<int64_t> record{static_cast<int64_t>(bytes.size())};
    record.insert(record.end(), chunk.begin(), chunk.end());
    if (!file_ || std::fwrite(record.data(), sizeof(int64_t), record.size(), file_) != record.size() ||
        std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
      throw local::IoError(fmt::format("cannot write '{}': {}", partial_.path(), io::hdf5::system_reason(errno)));
    }
  }
  void flush() {
    if (file_ && std::fflush(file_) != 0)
      throw local::IoError(fmt::format("cannot write '{}': {}", partial_.path(), io::hdf5::system_reason(errno)));
  }

 private:
  io::Partial partial_;
  std::mutex mutex_;
  std::FILE* file_ = nullptr;
};

// The creating rank reads another rank's spool.
void register_spool(const std::string& path, int ndim,
                    const std::function<void(const Dims&, std::span<const std::byte>)>& add) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (!file) return;  // that rank had no chunk
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> closer(file, std::fclose);
  std::vector<int64_t> record(static_cast<size_t>(ndim) + 1);
  std::vector<std::byte> bytes;
  while (std::fread(record.data(), sizeof(int64_t), record.size(), file) == record.size()) {
    bytes.resize(static_cast<size_t>(record[0]));
    if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size())
      throw local::IoError(fmt::format("'{}' is incomplete", path));
    add(Dims(record.begin() + 1, record.end()), bytes);
  }
}

std::string spool_path(const std::string& file, size_t item, int rank) {
  return fmt::format("{}.partial.{}.{}", file, item, rank);
}

// Writes the file chunks inside a chunk of the computation through the filters.
void write_filtered(const io::Writer& writer, const Region& box, const void* data,
                    const std::function<void(const Dims&, std::span<const std::byte>)>& put) {
  const Dims& file_chunk = *writer.spec().chunks;
  const int64_t itemsize = local::itemsize(writer.spec().dtype);
  const Dims strides = local::contiguous_strides(box.count, itemsize);
  std::vector<std::byte> buffer;
  Dims first(box.ndim());
  for (int d = 0; d < box.ndim(); ++d) {
    QUARRY_CHECK(box.start[d] % file_chunk[d] == 0);
    first[d] = box.start[d] / file_chunk[d];
  }
  const Grid inside = Grid::regular(box.count, file_chunk);
  for (int64_t i = 0; i < inside.count(); ++i) {
    const Region part = inside.chunk(i);
    if (part.elements() == 0) continue;
    buffer.resize(static_cast<size_t>(part.elements() * itemsize));
    const auto* from = static_cast<const std::byte*>(data) + exec::offset_of(part.start, strides);
    exec::copy_box(buffer.data(), local::contiguous_strides(part.count, itemsize), from, strides, part.count,
                   writer.spec().dtype);
    Dims coordinates = inside.coordinates(i);
    for (int d = 0; d < coordinates.size(); ++d) coordinates[d] += first[d];
    put(coordinates, writer.encode(coordinates, buffer.data(), part.count));
  }
}

// Chunks of the computation that hold whole file chunks.
Array aligned(const Array& array, const Dims& file_chunks) {
  Dims chunk = array.chunks().largest();
  for (int d = 0; d < chunk.size(); ++d) {
    chunk[d] = std::max<int64_t>(file_chunks[d], chunk[d] / file_chunks[d] * file_chunks[d]);
    chunk[d] = std::min(chunk[d], std::max<int64_t>(1, array.shape(d) + file_chunks[d] - 1));
  }
  const Grid grid = Grid::regular(array.shape(), chunk);
  return grid == array.chunks() ? array : array.rechunk(grid);
}

}  // namespace

std::vector<NdArray> to_host(std::span<const Array> arrays) {
  std::vector<NdArray> values;
  for (const auto& stored : exec::keep(arrays)) values.push_back(exec::gather(*stored));
  return values;
}

NdArray Array::to_host() const { return quarry::to_host(std::span<const Array>(this, 1)).front(); }

std::vector<Array> persist(std::span<const Array> arrays) {
  static uint64_t identity = 0;  // the same on every rank, since every rank persists the same arrays
  std::vector<Array> result;
  for (const auto& stored : exec::keep(arrays)) {
    result.emplace_back(expr::stored(stored, ++identity, stored->grid().shape(), stored->dtype(), stored->grid()));
  }
  return result;
}

Array Array::persist() const { return quarry::persist(std::span<const Array>(this, 1)).front(); }

void store(const std::string& file, const std::vector<StoreItem>& items, const StoreOptions& options) {
  Runtime& runtime = Runtime::current();
  comm::Communicator& communicator = runtime.communicator();
  const bool creator = runtime.rank() == 0;

  std::vector<io::OutputSpec> specs;
  std::vector<Array> arrays;
  for (const StoreItem& item : items) {
    io::OutputSpec spec{item.path, item.array.shape(), item.array.dtype(), {}, {}, {}};
    if (item.array.ndim() > 0) {
      if (options.chunks && options.chunks->size() == item.array.ndim()) spec.chunks = options.chunks;
      spec.filters = options.filters;
      if (!spec.filters.empty() && !spec.chunks) spec.chunks = default_file_chunks(spec.shape, spec.dtype);
    }
    arrays.push_back(spec.filters.empty() ? item.array : aligned(item.array, *spec.chunks));
    specs.push_back(std::move(spec));
  }

  // The plan is made before anything is created, so that its errors leave no trace.
  plan::Plan plan = exec::make_plan(arrays);
  std::unique_ptr<io::OutputFile> output;
  std::vector<std::string> layouts(items.size());
  std::exception_ptr error;
  std::vector<std::shared_ptr<io::Writer>> writers;
  if (creator) {
    try {
      output = io::OutputFile::create(file, specs, options.overwrite);
      for (size_t i = 0; i < items.size(); ++i) {
        writers.push_back(output->writer(i));
        layouts[i] = writers.back()->serialize();
      }
    } catch (...) {
      error = std::current_exception();
    }
  }
  comm::agree(communicator, error, plan.hash);
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string layout = communicator.broadcast_string(layouts[i], 0);
    if (!creator) writers.push_back(io::Writer::deserialize(layout));
  }

  std::vector<std::unique_ptr<Spool>> spools;
  std::mutex registering;
  std::vector<Sink> sinks;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::shared_ptr<io::Writer>& writer = writers[i];
    spools.push_back(std::make_unique<Spool>(spool_path(file, i, runtime.rank())));
    Spool* const spool = spools.back().get();
    Sink sink{Sink::Kind::write, plan.results[i], {}};
    if (specs[i].filters.empty()) {
      sink.write = [writer](const Region& box, const void* data) {
        if (box.elements() > 0) writer->write(box, data);
      };
    } else {
      sink.whole = true;
      sink.write = [&, i, writer, spool](const Region& box, const void* data) {
        write_filtered(*writer, box, data, [&](const Dims& chunk, std::span<const std::byte> bytes) {
          if (!output) return spool->append(chunk, bytes);
          const std::lock_guard lock(registering);
          output->write_encoded(i, chunk, bytes);
        });
      };
    }
    sinks.push_back(std::move(sink));
  }
  exec::execute(arrays, /*write=*/true, plan, sinks);

  // Every rank's data is in place before the creating rank commits; its failure is everyone's.
  try {
    for (const auto& spool : spools) spool->flush();
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, plan.hash);
  if (creator) {
    try {
      for (size_t i = 0; i < items.size(); ++i) {
        if (specs[i].filters.empty()) continue;
        for (int rank = 1; rank < runtime.size(); ++rank) {
          register_spool(
              spool_path(file, i, rank), specs[i].shape.size(),
              [&](const Dims& chunk, std::span<const std::byte> bytes) { output->write_encoded(i, chunk, bytes); });
        }
      }
      output->commit();
    } catch (...) {
      error = std::current_exception();
    }
  }
  comm::agree(communicator, error, plan.hash);
  for (const auto& writer : writers) runtime.count_io(0, writer->bytes_written());
}

Array open_hdf5(const std::string& file, const std::string& object) {
  comm::Communicator& communicator = Runtime::current().communicator();
  std::shared_ptr<io::Dataset> dataset;
  std::string layout;
  std::exception_ptr error;
  if (communicator.rank() == 0) {
    try {
      dataset = io::Dataset::open(file, object);
      if (communicator.size() > 1) layout = dataset->serialize();
    } catch (...) {
      error = std::current_exception();
    }
  }
  comm::agree(communicator, error, /*plan_hash=*/0);
  layout = communicator.broadcast_string(layout, 0);
  if (!dataset) dataset = io::Dataset::deserialize(layout);
  return Array(expr::source(dataset));
}

}  // namespace quarry
