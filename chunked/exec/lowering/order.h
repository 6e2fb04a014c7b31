// The global order of tasks (see chunked/exec/lowering/lowering.h): phase, progress and depth, from closed forms that
// every rank evaluates alike. It reads the plan's maps of chunks itself, for chunks of other ranks too, and not what
// lowering finds for the own ones.
#pragma once

#include <unordered_map>
#include <vector>

#include "quarry/chunked/exec/lowering/lowering.h"

namespace quarry::exec {

// Order of a stage's tasks inside one progress value.
inline constexpr int kDepthBits = 6;
inline constexpr int64_t kDepthsPerStage = int64_t{1} << kDepthBits;
enum Depth : int64_t {
  kTransfer = 0,
  kMain = 8,
  kChain = 12,
  kSteal = 14,
  kTreeDepth = 16,
  kFinalize = 48,
  kSink = 60
};
inline constexpr int kProgressBits = 32;
inline constexpr int64_t kProgressEnd = (int64_t{1} << kProgressBits) - 1;
// A position is phase, progress, stage and depth in 63 bits. Phase and stage have the bits that a plan's number of
// stages takes (a phase holds a stage at least); in a plan of very many stages progress is told less finely, but never
// by fewer bits than this: then there would be too many stages.
inline constexpr int kLeastProgressBits = 16;
inline constexpr int64_t kMostStages = int64_t{1} << ((63 - kLeastProgressBits - kDepthBits) / 2);

// Throws InvalidArgument for more than kMostStages.
void check_stage_count(size_t stages);

class Order {
 public:
  // Both must outlive it. Throws InvalidArgument for a plan of more than kMostStages.
  Order(const plan::Plan& plan, const std::vector<Sink>& sinks);

  // Of chunk `chunk` of a stage: i/n of kProgressEnd, or that of the latest chunk it reads.
  int64_t progress(int stage, int64_t chunk);
  // Whether the chunks of a fused stage wait for no other of their phase: their progress is i/n.
  bool waits_for_none(int stage) const;
  // Whether chunks of an input of the stage are made in its phase.
  bool waits_for(int stage, const plan::Input& input) const { return waits(input, phase(stage)); }
  // The latest progress of the chunks of `input` under a box of the space of `stage`; 0 where they belong to an earlier
  // phase.
  int64_t latest(int stage, const plan::Input& input, const Region& box);
  // Increases with phase, then progress, stage and depth.
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
  int stage_bits_ = 0, progress_bits_ = kProgressBits;  // in a position
  std::vector<int> phases_;
  std::vector<std::unordered_map<int64_t, int64_t>> progress_;  // per stage: chunk -> progress
};

}  // namespace quarry::exec
