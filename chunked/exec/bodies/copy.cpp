#include "quarry/chunked/exec/bodies/copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "quarry/chunked/exec/bodies/batch.h"
#include "quarry/chunked/exec/bodies/operand.h"
#include "quarry/chunked/exec/device_pack.h"
#include "quarry/chunked/plan/grids.h"
#include "quarry/local/base/error.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {

namespace {

local::Program copy_program(const CopySegment& segment) {
  local::Program program;
  const local::ValueId value = program.input(segment.dtype, segment.swapped);
  program.output(segment.conjugate ? program.apply("conjugate"_op, {&value, 1}) : value);
  return program;
}

local::Launch copy_launch(const CopySegment& segment, void* from, void* to) {
  local::Launch launch;
  launch.shape = segment.count;
  launch.inputs.push_back({static_cast<std::byte*>(from) + segment.access.offset, segment.source_strides});
  launch.outputs.push_back({static_cast<std::byte*>(to) + segment.offset, segment.strides});
  return launch;
}

// The bytes of the block from the first to the last that a segment of some elements reads.
struct Span {
  int64_t begin, bytes;
};
Span span_of(const CopySegment& segment) {
  Span span{segment.access.offset, local::itemsize(segment.dtype)};
  for (int d = 0; d < segment.count.size(); ++d) {
    const int64_t reach = (segment.count[d] - 1) * segment.source_strides[d];
    span.begin += std::min<int64_t>(reach, 0);
    span.bytes += std::abs(reach);
  }
  return span;
}

// Whether the bytes of the span are those of the output, one after the other.
bool lies_alike(const CopySegment& segment) {
  if (segment.swapped || segment.conjugate) return false;
  for (int d = 0; d < segment.count.size(); ++d)
    if (segment.count[d] > 1 && segment.source_strides[d] != segment.strides[d]) return false;
  const Span span = span_of(segment);
  return span.begin == segment.access.offset &&
         span.bytes == local::element_count(segment.count) * local::itemsize(segment.dtype);
}

// The first or the second half along an axis.
CopySegment half_of(const CopySegment& segment, int axis, bool second) {
  CopySegment half = segment;
  const int64_t middle = segment.count[axis] / 2;
  half.count[axis] = second ? segment.count[axis] - middle : middle;
  if (!second) return half;
  half.access.offset += middle * segment.source_strides[axis];
  half.offset += middle * segment.strides[axis];
  return half;
}

template <size_t kSize>
void copy_line(const std::byte* from, int64_t from_stride, std::byte* to, int64_t stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * from_stride, kSize);
}

// The elements of a segment from axis `axis` on, without a program: what that takes depends on how the elements lie,
// and pieces of a segment lie otherwise than the whole, for which the task has scratch.
void copy_elements(const CopySegment& segment, int axis, const std::byte* from, std::byte* to) {
  const int64_t itemsize = local::itemsize(segment.dtype);
  if (axis == segment.count.size()) {
    std::memcpy(to, from, static_cast<size_t>(itemsize));
    return;
  }
  const int64_t count = segment.count[axis], from_stride = segment.source_strides[axis], stride = segment.strides[axis];
  if (axis + 1 < segment.count.size()) {
    for (int64_t i = 0; i < count; ++i) copy_elements(segment, axis + 1, from + i * from_stride, to + i * stride);
    return;
  }
  if (from_stride == itemsize && stride == itemsize) {
    std::memcpy(to, from, static_cast<size_t>(count * itemsize));
    return;
  }
  switch (itemsize) {
    case 1:
      copy_line<1>(from, from_stride, to, stride, count);
      break;
    case 2:
      copy_line<2>(from, from_stride, to, stride, count);
      break;
    case 4:
      copy_line<4>(from, from_stride, to, stride, count);
      break;
    case 8:
      copy_line<8>(from, from_stride, to, stride, count);
      break;
    default:
      QUARRY_CHECK(itemsize == 16);
      copy_line<16>(from, from_stride, to, stride, count);
      break;
  }
}

// The other byte order, in place: of a segment of an output.
void swap_bytes(const CopySegment& segment, int axis, std::byte* at) {
  if (axis < segment.count.size()) {
    for (int64_t i = 0; i < segment.count[axis]; ++i) swap_bytes(segment, axis + 1, at + i * segment.strides[axis]);
    return;
  }
  const int parts = local::is_complex(segment.dtype) ? 2 : 1;
  const int64_t bytes = local::itemsize(segment.dtype) / parts;
  for (int part = 0; part < parts; ++part) std::reverse(at + part * bytes, at + (part + 1) * bytes);
}

// Copies segments of one task out of the blocks that it visits, on the CPU.
class Visit {
 public:
  explicit Visit(scheduler::TaskRun& run) : run_(run), staging_bytes_(plan::copy_staging_bytes(run.outputs[0].bytes)) {}

  // Segment i of input i. Neighbours with one program go together: on a device one kernel takes many of them.
  void copy(std::span<const CopySegment> segments) {
    for (size_t i = 0; i < segments.size(); ++i) {
      if (local::element_count(segments[i].count) == 0) continue;
      if (run_.inputs[i].data == nullptr) {
        copy_from_disk(segments[i], i);
        continue;
      }
      if (batch_.size() > 0 && !has_program_of(*first_, segments[i])) batch_.run(copy_program(*first_));
      if (batch_.size() == 0) first_ = &segments[i];
      batch_.add(run_.context) = copy_launch(segments[i], run_.inputs[i].data, run_.outputs[0].data);
    }
    if (batch_.size() > 0) batch_.run(copy_program(*first_));
  }

 private:
  static bool has_program_of(const CopySegment& a, const CopySegment& b) {
    return a.dtype == b.dtype && a.swapped == b.swapped && a.conjugate == b.conjugate;
  }

  void copy_from_disk(const CopySegment& segment, size_t input) {
    const Span span = span_of(segment);
    if (lies_alike(segment)) {
      run_.read_visited(input, span.begin, span.bytes, static_cast<std::byte*>(run_.outputs[0].data) + segment.offset);
      return;
    }
    if (span.bytes <= staging_bytes_) {
      if (staging_ == nullptr) {
        staging_ = static_cast<std::byte*>(run_.context.memory->allocate(staging_bytes_, run_.context.stream));
      }
      run_.read_visited(input, span.begin, span.bytes, staging_);
      std::byte* const to = static_cast<std::byte*>(run_.outputs[0].data) + segment.offset;
      QUARRY_CHECK(!segment.conjugate);
      copy_elements(segment, 0, staging_ + (segment.access.offset - span.begin), to);
      if (segment.swapped) swap_bytes(segment, 0, to);
      return;
    }
    // Along the axis whose elements are farthest apart, so that halves are of bytes that lie together.
    int axis = -1;
    for (int d = 0; d < segment.count.size(); ++d) {
      if (segment.count[d] == 1) continue;
      if (axis < 0 || std::abs(segment.source_strides[d]) > std::abs(segment.source_strides[axis])) axis = d;
    }
    QUARRY_CHECK(axis >= 0);
    copy_from_disk(half_of(segment, axis, /*second=*/false), input);
    copy_from_disk(half_of(segment, axis, /*second=*/true), input);
  }

  scheduler::TaskRun& run_;
  const int64_t staging_bytes_;
  std::byte* staging_ = nullptr;  // given back when the task ends
  Batch& batch_ = Batch::mine();
  const CopySegment* first_ = nullptr;  // of the batch
};

CopySegment segment_of(const Hyperslab& hyperslab, local::DType dtype) {
  CopySegment segment{{},
                      hyperslab.count,
                      local::contiguous_strides(hyperslab.shape, hyperslab.itemsize),
                      local::contiguous_strides(hyperslab.count, hyperslab.itemsize),
                      0,
                      dtype};
  for (int d = 0; d < hyperslab.count.size(); ++d)
    segment.access.offset += hyperslab.start[d] * segment.source_strides[d];
  return segment;
}

}  // namespace

bool are_alike(const CopySegment& a, const CopySegment& b) {
  return a.dtype == b.dtype && a.swapped == b.swapped && a.conjugate == b.conjugate && a.count == b.count &&
         a.source_strides == b.source_strides && a.strides == b.strides;
}

std::string CopyBody::name(int64_t index) const { return fmt::format("copy {}[{}]", label_, index); }

int64_t CopyBody::scratch_bytes(const std::vector<CopySegment>& segments, const local::Device& device) {
  int64_t bytes = 0;
  const CopySegment* before = nullptr;
  for (const CopySegment& segment : segments) {
    if (before == nullptr || !are_alike(*before, segment))
      bytes = std::max(bytes, run_scratch_bytes(device, copy_program(segment), copy_launch(segment, nullptr, nullptr)));
    before = &segment;
  }
  return bytes;
}

int64_t CopyBody::visit_scratch_bytes(const std::vector<CopySegment>& segments, const local::Device& device,
                                      int64_t output_bytes) {
  return scratch_bytes(segments, device) + plan::copy_staging_bytes(output_bytes);
}

void CopyBody::run(scheduler::TaskRun& run) {
  const std::vector<CopySegment> segments = segments_(run.index);
  QUARRY_CHECK(segments.size() == run.inputs.size());
  Visit(run).copy(segments);
}

std::string PullBody::name(int64_t index) const {
  return fmt::format("take {} out of {}[{}]", local::to_string(parts_.hyperslab(index).count),
                     parts_.source(index).label, parts_[index].key.chunk);
}

int64_t PullBody::scratch_bytes(int64_t index, const local::Device& device) const {
  if (device.kind != local::DeviceKind::cpu) return 0;
  const Hyperslab hyperslab = parts_.hyperslab(index);
  return CopyBody::visit_scratch_bytes({segment_of(hyperslab, parts_.source(index).dtype)}, device,
                                       local::element_count(hyperslab.count) * hyperslab.itemsize);
}

int64_t PullBody::staging_bytes(int64_t bytes, int64_t host_bytes) {
  return std::min(local::memory_policy::staging_piece_bytes(host_bytes), std::max<int64_t>(bytes, 1));
}

void PullBody::run(scheduler::TaskRun& run) {
  const Hyperslab hyperslab = parts_.hyperslab(run.index);
  if (run.context.device.kind != local::DeviceKind::cpu) {
    run_on_device(run, hyperslab);
    return;
  }
  const CopySegment segment = segment_of(hyperslab, parts_.source(run.index).dtype);
  Visit(run).copy({&segment, 1});
}

void PullBody::run_on_device(scheduler::TaskRun& run, const Hyperslab& hyperslab) const {
  auto* const to = static_cast<std::byte*>(run.outputs[0].data);
  local::DeviceStream& stream = *run.context.stream;
  if (run.inputs[0].data != nullptr) {
    pack_on_device(hyperslab, run.inputs[0].data, to, stream);
    return;
  }
  const HyperslabRuns runs(hyperslab);
  const local::Buffer staging(staging_bytes(runs.bytes(), executor_->host_budget().limit_bytes()), executor_->staging(),
                              nullptr);
  for (int64_t begin = 0; begin < runs.bytes(); begin += staging.bytes()) {
    const int64_t bytes = std::min(staging.bytes(), runs.bytes() - begin);
    runs.read(begin, bytes, static_cast<std::byte*>(staging.data()), {},
              [&](int64_t offset, int64_t count, void* part) { run.read_visited(0, offset, count, part); });
    stream.copy(to + begin, staging.data(), bytes);
    stream.synchronize();
  }
}

}  // namespace quarry::exec
