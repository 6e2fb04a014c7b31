// Blocks copied together into one, and parts taken out of blocks. On the CPU these tasks visit the blocks that they
// read (scheduler::TaskDecl::visits): of a block on disk they read what they copy and no more than the pieces that the
// spill file keeps checksums of, straight to its place where it lies there as it lies on disk.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/exec/part_table.h"
#include "quarry/chunked/exec/service.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

// A copy into an output block: the source's layout comes from `access`, the destination is the box at `offset` of the
// block.
struct CopySegment {
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

// Whether both are copied in the same way, from and to whatever place: that takes the same scratch.
bool are_alike(const CopySegment& a, const CopySegment& b);

// Copies blocks together into one. Segment k of a task reads input block k.
class CopyBody : public scheduler::TaskBody {
 public:
  static constexpr bool kRunsAgain = true;
  CopyBody(std::string label, std::function<std::vector<CopySegment>(int64_t)> segments)
      : label_(std::move(label)), segments_(std::move(segments)) {}
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  static int64_t scratch_bytes(const std::vector<CopySegment>& segments, const local::Device& device);
  // The same for tasks that visit.
  static int64_t visit_scratch_bytes(const std::vector<CopySegment>& segments, const local::Device& device,
                                     int64_t output_bytes);

 private:
  std::string label_;
  std::function<std::vector<CopySegment>(int64_t)> segments_;
};

// Takes hyperslabs out of blocks, packed. Its tasks visit their one input.
class PullBody : public scheduler::TaskBody {
 public:
  static constexpr bool kRunsAgain = true;
  // The executor is where its tasks run; null when only planning.
  explicit PullBody(scheduler::Executor* executor) : executor_(executor) {}
  // Task i takes part i. Changes before the run only.
  PartTable& parts() { return parts_; }
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  int64_t scratch_bytes(int64_t index, const local::Device& device) const;
  // Of a task that takes so many bytes out of a block, on a device with that host budget.
  static int64_t staging_bytes(int64_t bytes, int64_t host_bytes);

 private:
  void run_on_device(scheduler::TaskRun& run, const Hyperslab& hyperslab) const;

  scheduler::Executor* executor_;
  PartTable parts_;
};

}  // namespace quarry::exec
