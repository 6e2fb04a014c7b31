// Blocks copied together into one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "quarry/chunked/exec/access.h"
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

// Copies blocks together into one. Segment k of a task reads input block k.
class CopyBody : public scheduler::TaskBody {
 public:
  CopyBody(std::string label, std::function<std::vector<CopySegment>(int64_t)> segments)
      : label_(std::move(label)), segments_(std::move(segments)) {}
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  static int64_t scratch_bytes(const std::vector<CopySegment>& segments, const local::Device& device);

 private:
  std::string label_;
  std::function<std::vector<CopySegment>(int64_t)> segments_;
};

}  // namespace quarry::exec
