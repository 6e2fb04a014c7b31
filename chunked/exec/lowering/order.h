// The global order of tasks (see chunked/exec/lowering/lowering.h): phase, progress and depth, from closed forms that
// every rank evaluates alike. It reads the plan's maps of chunks itself, for chunks of other ranks too, and not what
// lowering finds for the own ones.
#pragma once

#include <unordered_map>
#include <vector>

#include "quarry/chunked/exec/lowering/lowering.h"

namespace quarry::exec {

// Order of a stage's tasks inside one progress value.
inline constexpr int64_t kDepthsPerStage = 64;
enum Depth : int64_t { kSupport = 0, kMain = 8, kChain = 12, kTake = 14, kTreeDepth = 16, kFinish = 48, kSink = 60 };
inline constexpr int64_t kProgressEnd = (int64_t{1} << 32) - 1;

// Whether an output is complete only when all chunks of its stage were read: that of a reduction, product or
// decomposition.
bool is_barrier(const plan::Stage& stage, int output);

std::vector<const plan::Input*> inputs_of(const plan::Stage& stage);

class Order {
 public:
  // Both must outlive it.
  Order(const plan::Plan& plan, const std::vector<Sink>& sinks);

  // Of chunk `chunk` of a stage: i/n of kProgressEnd, or that of the latest chunk it reads.
  int64_t progress(int stage, int64_t chunk);
  // The latest progress of the chunks of `input` under a box of the space of `stage`; 0 where they belong to an earlier
  // phase.
  int64_t latest(int stage, const plan::Input& input, const Region& box);
  int64_t position(int stage, int64_t progress, int64_t depth) const;

 private:
  int find_phase(int stage);
  void delay_operands(const std::vector<Sink>& sinks);
  bool waits(const plan::Input& input, int phase) const;
  int64_t latest_in_phase(const plan::Input& input, const Region& box, int phase);
  int64_t latest_input(int stage, int64_t chunk, int phase);
  const plan::Stage& stage(int number) const { return plan_.stages[static_cast<size_t>(number)]; }
  int phase(int stage) const { return phases_[static_cast<size_t>(stage)]; }

  const plan::Plan& plan_;
  std::vector<int> phases_;
  std::vector<std::unordered_map<int64_t, int64_t>> progress_;  // per stage: chunk -> progress
};

}  // namespace quarry::exec
