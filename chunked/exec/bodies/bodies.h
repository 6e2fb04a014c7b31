// The code of tasks, one class per family. They keep no state per task: what a task touches is computed again from its
// chunk number.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/exec/service.h"
#include "quarry/chunked/exec/stored_array.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/program/combining.h"
#include "quarry/local/program/engine.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

inline int64_t align_up(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }
// Scratch that a task must declare for one run of a program.
int64_t run_scratch_bytes(const local::Device& device, const local::Program& program, const local::Launch& launch);

// Layout of the states of a stage's reductions in one block: a kept-shape array per field.
struct StateLayout {
  struct Field {
    int reduction;
    local::DType dtype;
    int64_t offset;
  };
  std::vector<Field> fields;
  int64_t bytes = 0;
  StateLayout(const local::Program& program, int64_t elements);
};

// Launches of one program that are run together; they keep the memory of earlier ones.
class Batch {
 public:
  // The calling thread's, empty.
  static Batch& mine();
  // The next launch, of unspecified content, until another one is added; and the one before it.
  local::Launch& add(const local::ExecContext& context);
  const local::Launch* before() const { return size_ > 1 ? &launches_[size_ - 2] : nullptr; }
  size_t size() const { return size_; }
  // Runs them and is empty again.
  void run(const local::Program& program);

 private:
  std::vector<local::Launch> launches_;
  std::vector<local::ExecContext> contexts_;
  size_t size_ = 0;
};

// A run-time operand: where an access finds its data in the block that arrived.
local::Operand operand(const Access& access, const plan::AccessMap& map, void* block);

// Reads regions of a data set into packed blocks.
class ReadBody : public scheduler::TaskBody {
 public:
  ReadBody(std::shared_ptr<io::Dataset> dataset, scheduler::Executor* executor)
      : dataset_(std::move(dataset)), executor_(executor) {}
  // The index of the task that reads `region`. Before the run only.
  int64_t add(const Region& region) {
    regions_.push_back(region);
    return static_cast<int64_t>(regions_.size()) - 1;
  }
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override { read(regions_[static_cast<size_t>(run.index)], run); }
  // A region that need not be one of those added, into the first output of `run`.
  void read(const Region& region, scheduler::TaskRun& run) const;
  int64_t scratch_bytes(const Region& region, const local::Device& device) const;

 private:
  std::shared_ptr<io::Dataset> dataset_;
  scheduler::Executor* executor_;
  std::vector<Region> regions_;
};

// Pulls boxes from other ranks.
class ReceiveBody : public scheduler::TaskBody {
 public:
  struct Pull {
    int owner;
    BlockKey key;
    BlockBox box;
    std::string label;
  };
  explicit ReceiveBody(Service* service) : service_(service) {}
  int64_t add(Pull pull) {
    pulls_.push_back(std::move(pull));
    return static_cast<int64_t>(pulls_.size()) - 1;
  }
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;

 private:
  Service* service_;
  std::vector<Pull> pulls_;
};

// Host data that every rank has, as a block.
class UploadBody : public scheduler::TaskBody {
 public:
  explicit UploadBody(std::shared_ptr<StoredArray> array) : array_(std::move(array)) {}
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;

 private:
  std::shared_ptr<StoredArray> array_;
};

// Hands a finished chunk to a sink, in host memory; on a GPU in parts, unless the sink wants chunks whole.
class WriteBody : public scheduler::TaskBody {
 public:
  WriteBody(Grid grid, std::string label, scheduler::Executor* executor, bool whole,
            std::function<void(const Region&, const void*)> write)
      : grid_(std::move(grid)),
        label_(std::move(label)),
        executor_(executor),
        whole_(whole),
        write_(std::move(write)) {}
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;

 private:
  Grid grid_;
  std::string label_;
  scheduler::Executor* executor_;
  bool whole_;
  std::function<void(const Region&, const void*)> write_;
};

// One chunk of a fused stage. Inputs: one block per plan input, except the streamed one, which is read from its file
// piece by piece while computing (CPU).
class FusedBody : public scheduler::TaskBody {
 public:
  FusedBody(const plan::Stage& stage, int rank, const Ownership& owners, const local::Device& device);
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  bool takes_several() const override { return streamed_ < 0; }
  void run_several(std::span<scheduler::TaskRun* const> runs) override;
  // Adds chunk `chunk` to a batch of the stage's program.
  local::Launch& add(Batch& batch, int64_t chunk, std::span<const scheduler::BlockView> inputs,
                     std::span<const scheduler::BlockView> outputs, void* states,
                     const local::ExecContext& context) const;

  const plan::Stage& stage() const { return stage_; }
  const local::Program& program() const { return fused_.program; }
  int file_input() const { return file_input_; }  // the number of the largest data set that it reads, or -1
  int streamed() const { return streamed_; }      // the same where it reads it itself, on the CPU; else -1
  // Whether chunks of one shape have the same launch but for addresses and positions.
  bool aligned() const { return aligned_ && streamed_ < 0; }
  // Whether chunk i of the stage reads chunk i of the input as it lies.
  bool reads_whole_chunks(int input) const {
    const plan::Input& in = fused_.inputs[static_cast<size_t>(input)];
    return aligned_ && in.array.kind != plan::ArrayRef::Kind::dataset;
  }
  Access access(int input, int64_t chunk) const;
  Region input_region(int input, int64_t chunk) const;
  int64_t scratch_bytes(int64_t chunk) const;
  int64_t state_bytes(int64_t chunk) const;
  Dims kept_shape(const Dims& shape) const;  // extents of the axes that are not reduced

 private:
  local::Launch launch(int64_t chunk) const;  // shapes and strides; no addresses
  void run_streamed(scheduler::TaskRun& run, int64_t chunk, const local::Launch& whole);
  Dims state_strides(const Dims& kept_axes_shape, int64_t itemsize) const;

  const plan::Stage& stage_;
  const plan::Fused& fused_;
  int rank_;
  Ownership owners_;
  local::Device device_;
  int file_input_ = -1, streamed_ = -1;
  bool aligned_ = false;                 // every input arrives laid out as the chunk, and nothing else
  std::vector<local::Program> combine_;  // per reduction
};

// Tasks that are run together wherever several are ready.
class TogetherBody : public scheduler::TaskBody {
 public:
  bool takes_several() const final { return true; }
  void run(scheduler::TaskRun& run) final {
    scheduler::TaskRun* const one = &run;
    run_several({&one, 1});
  }
  void run_several(std::span<scheduler::TaskRun* const> runs) override = 0;
};

// The states of several chunks of a fused stage without elementwise outputs, one behind the other in one block.
class LeavesBody : public TogetherBody {
 public:
  // `chunks` lists those of a task.
  LeavesBody(const FusedBody& fused, std::function<void(int64_t, std::vector<int64_t>&)> chunks)
      : fused_(fused), chunks_(std::move(chunks)) {}
  std::string name(int64_t index) const override;
  void run_several(std::span<scheduler::TaskRun* const> runs) override;

 private:
  const FusedBody& fused_;
  std::function<void(int64_t, std::vector<int64_t>&)> chunks_;
};

// Merges states, as a chain or in pairs. An input holds one state or several behind each other.
class CombineBody : public TogetherBody {
 public:
  CombineBody(const plan::Stage& stage, const local::Device& device, local::MergeOrder order,
              std::function<int64_t(int64_t)> elements);
  // States that one kernel merges: of pairs, a task has no more.
  int64_t most() const { return most_; }
  std::string name(int64_t index) const override;
  void run_several(std::span<scheduler::TaskRun* const> runs) override;
  // Of a task that merges so many states.
  int64_t scratch_bytes(int64_t index, int64_t states);

 private:
  void merge(std::span<scheduler::TaskRun* const> runs, const StateLayout& layout, int64_t elements,
             const std::vector<void*>& states);
  const local::Program& merging(int64_t states);

  const plan::Stage& stage_;
  const plan::Fused& fused_;
  local::Device device_;
  std::function<int64_t(int64_t)> elements_;  // of a task's kept chunk
  local::MergeOrder order_;
  int64_t most_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const local::Program>> merging_;    // by number of states
  std::map<std::pair<int64_t, int64_t>, int64_t> known_scratch_;  // by elements and states
};

// A state block to the results of all reductions of the stage.
class FinalizeBody : public TogetherBody {
 public:
  FinalizeBody(const plan::Stage& stage, const local::Device& device, std::function<int64_t(int64_t)> elements);
  std::string name(int64_t index) const override;
  void run_several(std::span<scheduler::TaskRun* const> runs) override;
  int64_t scratch_bytes(int64_t index) const;

 private:
  void fill(local::Launch& launch, size_t output, int64_t elements, void* states, void* result) const;

  const plan::Stage& stage_;
  const plan::Fused& fused_;
  local::Device device_;
  std::function<int64_t(int64_t)> elements_;
  std::vector<local::Program> finalize_;
};

// A copy into an output block: the source's layout comes from `access`, the destination is the box at `offset` of the
// block.
struct CopyAtom {
  Access access;
  Dims count;           // of the copied box, in destination axes
  Dims source_strides;  // per destination axis, bytes
  Dims strides;         // of the destination, bytes
  int64_t offset;       // of the destination, bytes
  local::DType dtype;
  bool swapped = false;
  bool conjugate = false;
  const plan::Input* input = nullptr;  // whose part it is, where the block has yet to be brought
};

// Copies blocks together into one. Atom k of a task reads input block k.
class CopyBody : public scheduler::TaskBody {
 public:
  CopyBody(std::string label, std::function<std::vector<CopyAtom>(int64_t)> atoms)
      : label_(std::move(label)), atoms_(std::move(atoms)) {}
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  static int64_t scratch_bytes(const std::vector<CopyAtom>& atoms, const local::Device& device);

 private:
  std::string label_;
  std::function<std::vector<CopyAtom>(int64_t)> atoms_;
};

// c += a b for some successive chunks of k. Inputs: the sum so far (unless it is the first task of its segment), then a
// and b blocks per chunk of k (syrk: b only). Output: the sum.
class ProductBody : public scheduler::TaskBody {
 public:
  struct Operands {
    bool first;                              // no sum so far
    Dims shape;                              // (..., m, n)
    std::vector<Access> a, b;                // per chunk of k; a empty for syrk of a diagonal tile
    std::vector<Dims> a_strides, b_strides;  // over (..., m, k) and (..., k, n)
    std::vector<int64_t> k;
    bool conjugate_a = false;  // syrk off the diagonal: a is a transposed view of b's array
  };
  ProductBody(std::string label, local::DType dtype, local::Device device, std::function<Operands(int64_t)> operands)
      : label_(std::move(label)), dtype_(dtype), device_(device), operands_(std::move(operands)) {}
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  int64_t scratch_bytes(const Operands& operands) const;

 private:
  std::string label_;
  local::DType dtype_;
  local::Device device_;
  std::function<Operands(int64_t)> operands_;
};

// The elementwise sum of two partial products.
class SumBody : public scheduler::TaskBody {
 public:
  SumBody(std::string label, local::DType dtype) : label_(std::move(label)), dtype_(dtype) {}
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  int64_t scratch_bytes(int64_t bytes, const local::Device& device) const;

 private:
  local::Launch launch(int64_t bytes, void* a, void* b, void* sum) const;

  std::string label_;
  local::DType dtype_;
};

}  // namespace quarry::exec
