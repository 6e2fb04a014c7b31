#include "quarry/chunked/exec/hyperslab.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace quarry::exec {

HyperslabRuns::HyperslabRuns(const Hyperslab& hyperslab) {
  const int ndim = hyperslab.shape.size();
  bool inside = hyperslab.itemsize > 0 && hyperslab.start.size() == ndim && hyperslab.count.size() == ndim;
  for (int d = 0; inside && d < ndim; ++d) {
    inside = hyperslab.start[d] >= 0 && hyperslab.count[d] >= 0 &&
             hyperslab.start[d] <= hyperslab.shape[d] - hyperslab.count[d];
  }
  if (!inside) {
    throw local::InvalidArgument(fmt::format("hyperslab of {} from {} in a block of {} elements of {} bytes",
                                             local::to_string(hyperslab.count), local::to_string(hyperslab.start),
                                             local::to_string(hyperslab.shape), hyperslab.itemsize));
  }
  const local::Dims strides = local::contiguous_strides(hyperslab.shape, hyperslab.itemsize);
  block_bytes_ = local::element_count(hyperslab.shape) * hyperslab.itemsize;
  bytes_ = local::element_count(hyperslab.count) * hyperslab.itemsize;
  if (bytes_ == 0) return;
  for (int d = 0; d < ndim; ++d) base_ += hyperslab.start[d] * strides[d];
  // The last axes that are whole, and one more, make a run.
  run_bytes_ = hyperslab.itemsize;
  int inner = ndim;
  for (bool whole = true; whole && inner > 0;) {
    --inner;
    run_bytes_ *= hyperslab.count[inner];
    whole = hyperslab.count[inner] == hyperslab.shape[inner];
  }
  for (int d = 0; d < inner; ++d) outer_.push_back({hyperslab.count[d], strides[d]});
}

int64_t HyperslabRuns::offset_of(int64_t run) const {
  int64_t offset = base_;
  for (size_t d = outer_.size(); d-- > 0;) {
    offset += run % outer_[d].count * outer_[d].stride;
    run /= outer_[d].count;
  }
  return offset;
}

std::optional<local::BoxCopy> HyperslabRuns::device_copy(const void* block, void* to) const {
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

void HyperslabRuns::read(int64_t begin, int64_t bytes, std::byte* to, std::span<std::byte> scratch,
                         const Read& read) const {
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
