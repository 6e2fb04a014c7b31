#include "quarry/chunked/exec/bodies/stealing.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <variant>

#include "quarry/chunked/exec/stealing.h"
#include "quarry/local/base/trace.h"
#include "quarry/scheduler/blocks/block_memory.h"
#include "quarry/scheduler/graph.h"

namespace quarry::exec {
namespace {

// One chunk's scratch memory inside that of the task.
class ChunkScratch final : public local::MemoryResource {
 public:
  ChunkScratch(local::Device device, void* data, int64_t bytes) : device_(device), bytes_(bytes), slab_(data, bytes) {}

  local::Device device() const override { return device_; }
  void* allocate(int64_t bytes, local::DeviceStream* /*stream*/) override {
    const std::lock_guard lock(mutex_);
    void* const data = slab_.allocate(local::rounded_allocation(bytes), /*at_top=*/false);
    if (data == nullptr) {
      throw local::OutOfMemory(fmt::format("scratch memory: {} bytes do not fit: {} of a chunk's {} are in use", bytes,
                                           bytes_ - slab_.free_bytes(), bytes_));
    }
    return data;
  }
  void deallocate(void* data, int64_t bytes, local::DeviceStream* /*stream*/) noexcept override {
    const std::lock_guard lock(mutex_);
    slab_.deallocate(data, local::rounded_allocation(bytes));
  }
  int64_t used_bytes() const override {
    const std::lock_guard lock(mutex_);
    return bytes_ - slab_.free_bytes();
  }
  int64_t acquired_bytes() const override { return bytes_; }
  int64_t peak_bytes() const override { return used_bytes(); }

 private:
  const local::Device device_;
  const int64_t bytes_;
  mutable std::mutex mutex_;
  scheduler::Slab slab_;
};

// A chunk's part of a longer task.
class ChunkRun final : public scheduler::TaskRun {
 public:
  explicit ChunkRun(const scheduler::TaskRun& whole) : whole_(whole) {}
  std::shared_ptr<scheduler::Completion> defer() override {
    throw local::InternalError("a part of a task cannot be deferred");
  }
  bool is_cancelled() const override { return whole_.is_cancelled(); }
  void read_visited(size_t /*input*/, int64_t /*offset*/, int64_t /*bytes*/, void* /*to*/) override {
    throw local::InternalError("a part of a task visits no blocks");
  }

 private:
  const scheduler::TaskRun& whole_;
};

}  // namespace

void StealableBody::run(scheduler::TaskRun& run) {
  const int computed_by = service_->stealing().claim(key_.stage, run.index);
  if (computed_by == rank_) {
    fused_.run(run);
    return;
  }
  BlockKey key = key_;
  key.part |= kStolen;
  key.chunk = run.index;
  const int64_t bytes = run.outputs[0].bytes;
  fetch_output(*service_, run, computed_by, key, {Dims{bytes}, Dims{0}, Dims{bytes}, 1});
}

void StealableReadBody::run(scheduler::TaskRun& run) {
  if (service_->stealing().claim(stage_, run.index) != rank_) return;  // nobody looks at the block
  reader_.read(fused_.input_region(fused_.file_input(), run.index), run);
}

StealBody::StealBody(FusedBody& fused, const local::Device& device, uint32_t number, Service* service,
                     scheduler::Executor* executor)
    : fused_(fused),
      device_(device),
      number_(number),
      service_(service),
      reader_(file_input().array.dataset, executor, /*decoding=*/{}) {
  // In a regular grid the first chunk is the largest, and all are as long as the first or the last one along each axis.
  const Grid& grid = fused.stage().grid;
  const Dims counts = grid.counts();
  for (uint32_t corner = 0; corner < 1U << counts.size(); ++corner) {
    Dims coordinates = Dims::filled(counts.size());
    for (int d = 0; d < counts.size(); ++d) coordinates[d] = (corner >> d & 1) != 0 ? counts[d] - 1 : 0;
    scratch_bytes_ = std::max(scratch_bytes_, fused.scratch_bytes(grid.flat(coordinates)));
  }
}

std::string StealBody::name(int64_t /*index*/) const { return fused_.stage().label + " for other ranks"; }

const plan::Input& StealBody::file_input() const {
  return std::get<plan::Fused>(fused_.stage().work).inputs[static_cast<size_t>(fused_.file_input())];
}

int64_t StealBody::input_bytes(int64_t chunk) const {
  return fused_.input_region(fused_.file_input(), chunk).elements() * local::itemsize(file_input().dtype);
}

int64_t StealBody::state_bytes(int64_t chunk) const {
  const Dims kept = fused_.kept_shape(fused_.stage().grid.chunk_shape(chunk));
  return AggregateLayout(fused_.program(), local::element_count(kept)).bytes;
}

// On a device also for what is read and for the states, as a task of the owner's has blocks for them.
int64_t StealBody::scratch_bytes() const {
  if (device_.kind == local::DeviceKind::cpu) return scratch_bytes_;
  return scheduler::charged_bytes(scratch_bytes_) + scheduler::charged_bytes(input_bytes(0)) +
         scheduler::charged_bytes(state_bytes(0));
}

void StealBody::run(scheduler::TaskRun& run) {
  WorkStealing& stealing = service_->stealing();
  void* const memory = run.context.memory->allocate(scratch_bytes(), run.context.stream);
  while (!run.is_cancelled()) {
    const std::shared_ptr<std::byte> states = stealing.reserve(state_bytes(0));
    if (!states) return;
    const auto stolen = stealing.steal(number_, [&run] { return run.is_cancelled(); });
    if (!stolen) return;
    const int64_t chunk = stolen->key.chunk;
    const local::TraceScope trace(fmt::format("{} for rank {}", fused_.name(chunk), stolen->victim), "compute",
                                  input_bytes(chunk));
    if (device_.kind == local::DeviceKind::cpu) {
      compute(run, chunk, memory, states.get());
    } else {
      compute_on_device(run, chunk, memory, states.get());
    }
    service_->publish_stolen(stolen->key, states);
    stealing.count_stolen();
  }
}

// The stage's task for the chunk, within `scratch`.
void StealBody::compute(scheduler::TaskRun& run, int64_t chunk, void* scratch, void* states) const {
  ChunkScratch memory(run.context.device, scratch, scheduler::charged_bytes(scratch_bytes_));
  const scheduler::BlockView output{states, state_bytes(chunk)};
  ChunkRun part(run);
  part.index = chunk;
  part.inputs = run.inputs;
  part.outputs = {&output, 1};
  part.context = run.context;
  part.context.memory = &memory;
  const local::DeviceScope scope(part.context);
  fused_.run(part);
}

// The same with what it reads and its states in `memory` as well; the states then go to the host.
void StealBody::compute_on_device(scheduler::TaskRun& run, int64_t chunk, void* memory, void* states) const {
  auto* const input = static_cast<std::byte*>(memory) + scheduler::charged_bytes(scratch_bytes_);
  std::byte* const output = input + scheduler::charged_bytes(input_bytes(0));
  const scheduler::BlockView block{input, input_bytes(chunk)};
  ChunkRun whole(run);
  whole.context = run.context;
  whole.outputs = {&block, 1};
  reader_.read(fused_.input_region(fused_.file_input(), chunk), whole);
  std::vector<scheduler::BlockView> inputs(run.inputs.begin(), run.inputs.end());
  inputs.insert(inputs.begin() + fused_.file_input(), block);
  whole.inputs = inputs;
  compute(whole, chunk, memory, output);
  run.context.stream->copy(states, output, state_bytes(chunk));
  run.context.stream->synchronize();
}

}  // namespace quarry::exec
