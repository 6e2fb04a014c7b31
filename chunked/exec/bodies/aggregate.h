// The aggregate states of a fused stage's reductions: their layout, and the bodies that update, combine and finalize
// them. Every state begins with the identity or with the first chunk that is read (bodies/fused.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/exec/bodies/batch.h"
#include "quarry/chunked/exec/bodies/fused.h"
#include "quarry/chunked/grid/tree.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/program/combining.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

// Layout of the aggregate states of a stage's reductions in one block: a kept-shape array per field.
struct AggregateLayout {
  struct Field {
    int reduction;
    local::DType dtype;
    int64_t offset;
  };
  std::vector<Field> fields;
  int64_t bytes = 0;
  AggregateLayout(const local::Program& program, int64_t elements);
};

// The states of several chunks of a fused stage without elementwise outputs, one behind the other in one block.
class UpdateBody : public BatchedBody {
 public:
  static constexpr bool kRunsAgain = true;
  // `chunks` lists those of a task.
  UpdateBody(const FusedBody& fused, std::function<void(int64_t, std::vector<int64_t>&)> chunks)
      : fused_(fused), chunks_(std::move(chunks)) {}
  std::string name(int64_t index) const override;
  void run_batch(std::span<scheduler::TaskRun* const> runs) override;

 private:
  const FusedBody& fused_;
  std::function<void(int64_t, std::vector<int64_t>&)> chunks_;
};

// Kernels that merge many states at once, as a chain or in pairs.
class StateMerger {
 public:
  StateMerger(const plan::Fused& fused, const local::Device& device, local::MergeOrder order);
  // States that one kernel merges: of pairs, there are no more.
  int64_t most() const { return most_; }
  // Of a merge of so many states of so many elements.
  int64_t scratch_bytes(int64_t elements, int64_t states);

  struct Result {
    void* state;
    const local::ExecContext* context;
  };
  // `states` are those of all results, one result after the other, as many of each. Each one's first states become it,
  // which the next ones are merged into.
  void merge(std::span<const Result> results, const AggregateLayout& layout, int64_t elements,
             const std::vector<void*>& states);

 private:
  const local::Program& merging(int64_t states);

  const plan::Fused& fused_;
  local::Device device_;
  local::MergeOrder order_;
  int64_t most_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const local::Program>> merging_;    // by number of states
  std::map<std::pair<int64_t, int64_t>, int64_t> known_scratch_;  // by elements and states
};

// Merges states, as a chain or in pairs. An input holds one state or several behind each other.
class CombineBody : public BatchedBody {
 public:
  static constexpr bool kRunsAgain = true;
  CombineBody(const plan::Stage& stage, const local::Device& device, local::MergeOrder order,
              std::function<int64_t(int64_t)> elements);
  int64_t most() const { return merger_.most(); }
  std::string name(int64_t index) const override;
  void run_batch(std::span<scheduler::TaskRun* const> runs) override;
  // Of a task that merges so many states.
  int64_t scratch_bytes(int64_t index, int64_t states) { return merger_.scratch_bytes(elements_(index), states); }

 private:
  const plan::Stage& stage_;
  std::function<int64_t(int64_t)> elements_;  // of a task's kept chunk
  StateMerger merger_;
};

// A state block to the results of all reductions of the stage.
class FinalizeBody : public BatchedBody {
 public:
  static constexpr bool kRunsAgain = true;
  FinalizeBody(const plan::Stage& stage, const local::Device& device, std::function<int64_t(int64_t)> elements);
  std::string name(int64_t index) const override;
  void run_batch(std::span<scheduler::TaskRun* const> runs) override;
  int64_t scratch_bytes(int64_t index) const;
  // The results of one kept chunk.
  void run_on(void* states, int64_t index, std::span<const scheduler::BlockView> results,
              const local::ExecContext& context) const;

 private:
  void fill(local::Launch& launch, size_t output, int64_t elements, void* states, void* result) const;

  const plan::Stage& stage_;
  const plan::Fused& fused_;
  local::Device device_;
  std::function<int64_t(int64_t)> elements_;
  std::vector<local::Program> finalize_;
};

// All that follows the leaves of a tree (tree.h) over states that are here: the chains of its segments, their pairs and
// the results. Inputs are blocks of one state or several, in order of the leaves.
class TreeBody : public scheduler::TaskBody {
 public:
  static constexpr bool kRunsAgain = true;
  TreeBody(const plan::Stage& stage, const local::Device& device, const Tree& tree,
           std::function<int64_t(int64_t)> elements);
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  int64_t scratch_bytes(int64_t index);

 private:
  const plan::Stage& stage_;
  const plan::Fused& fused_;
  const Tree tree_;
  std::function<int64_t(int64_t)> elements_;
  StateMerger chain_, pairs_;
  FinalizeBody finalize_;
};

}  // namespace quarry::exec
