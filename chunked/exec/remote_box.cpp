#include "quarry/chunked/exec/remote_box.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace quarry::exec {

BoxRuns::BoxRuns(const BlockBox& box) {
  const int ndim = box.shape.size();
  bool inside = box.itemsize > 0 && box.start.size() == ndim && box.count.size() == ndim;
  for (int d = 0; inside && d < ndim; ++d) {
    inside = box.start[d] >= 0 && box.count[d] >= 0 && box.start[d] <= box.shape[d] - box.count[d];
  }
  if (!inside) {
    throw local::InvalidArgument(fmt::format("box of {} from {} in a block of {} elements of {} bytes",
                                             local::to_string(box.count), local::to_string(box.start),
                                             local::to_string(box.shape), box.itemsize));
  }
  const local::Dims strides = local::contiguous_strides(box.shape, box.itemsize);
  block_bytes_ = local::element_count(box.shape) * box.itemsize;
  bytes_ = local::element_count(box.count) * box.itemsize;
  if (bytes_ == 0) return;
  for (int d = 0; d < ndim; ++d) base_ += box.start[d] * strides[d];
  // The last axes that are whole, and one more, make a run.
  run_bytes_ = box.itemsize;
  int inner = ndim;
  for (bool whole = true; whole && inner > 0;) {
    --inner;
    run_bytes_ *= box.count[inner];
    whole = box.count[inner] == box.shape[inner];
  }
  for (int d = 0; d < inner; ++d) outer_.push_back({box.count[d], strides[d]});
}

int64_t BoxRuns::offset_of(int64_t run) const {
  int64_t offset = base_;
  for (size_t d = outer_.size(); d-- > 0;) {
    offset += run % outer_[d].count * outer_[d].stride;
    run /= outer_[d].count;
  }
  return offset;
}

std::optional<local::BoxCopy> BoxRuns::device_copy(const void* block, void* to) const {
  local::BoxCopy copy;
  copy.from = static_cast<const std::byte*>(block) + base_;
  copy.to = static_cast<std::byte*>(to);
  copy.run_bytes = run_bytes_;
  for (const Axis& axis : outer_) {
    if (axis.count == 1) continue;
    // Axes that are one behind the other in steps of the same length are one.
    if (copy.axes > 0) {
      local::BoxCopy::Axis& before = copy.outer[static_cast<size_t>(copy.axes) - 1];
      if (before.stride == axis.count * axis.stride) {
        before = {before.count * axis.count, axis.stride};
        continue;
      }
    }
    if (copy.axes == local::BoxCopy::kMostAxes) return std::nullopt;
    copy.outer[static_cast<size_t>(copy.axes++)] = {axis.count, axis.stride};
  }
  return copy;
}

void BoxRuns::read(int64_t begin, int64_t bytes, std::byte* to, std::span<std::byte> scratch, const Read& read) const {
  constexpr int64_t kLongRun = 64 << 10;  // worth a call of its own
  constexpr int64_t kDensity = 8;         // read gaps too while at least 1/8 of what is read is wanted
  const auto scratch_bytes = static_cast<int64_t>(scratch.size());
  const Axis row = outer_.empty() ? Axis{1, run_bytes_} : outer_.back();
  const bool dense = run_bytes_ < kLongRun && row.stride <= kDensity * run_bytes_;
  while (bytes > 0) {
    const int64_t run = begin / run_bytes_, skip = begin % run_bytes_;
    const int64_t offset = offset_of(run);
    // Whole runs of one row of the last outer axis.
    int64_t together = 0;
    if (dense && skip == 0 && scratch_bytes >= run_bytes_) {
      together =
          std::min({row.count - run % row.count, bytes / run_bytes_, (scratch_bytes - run_bytes_) / row.stride + 1});
    }
    int64_t moved = 0;
    if (together > 1) {
      read(offset, (together - 1) * row.stride + run_bytes_, scratch.data());
      for (int64_t i = 0; i < together; ++i) {
        std::memcpy(to + i * run_bytes_, scratch.data() + i * row.stride, static_cast<size_t>(run_bytes_));
      }
      moved = together * run_bytes_;
    } else {
      moved = std::min(bytes, run_bytes_ - skip);
      read(offset + skip, moved, to);
    }
    begin += moved;
    bytes -= moved;
    to += moved;
  }
}

}  // namespace quarry::exec
