// Scans by generated kernels (kernel/scan.cuh). Where memory runs across the lines, a thread takes a line; lines too
// few to fill the device are cut into segments, in three passes: their folds, what precedes each, the scans. Where
// memory runs along the lines, a warp takes a line, or, where lines are few and long, a block takes a tile and waits
// for what precedes it: one read and one write. All of it is a function of shape and strides alone, and so is the
// grouping: bits depend neither on the device nor on timing.
#include "quarry/local/cuda/scanning.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/codegen/codegen.h"
#include "quarry/local/cuda/embedded.h"
#include "quarry/local/cuda/engine.h"
#include "quarry/local/cuda/kernel/scan_slots.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/plan.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local::cuda {
namespace {

using namespace scan;  // NOLINT(google-build-using-namespace): the names of the slots

constexpr int64_t kFillThreads = 270336;  // as many as the largest GPUs hold; a constant for the same reason
constexpr int64_t kManyWarps = 2048;      // lines that keep the memory busy with a warp each
constexpr int64_t kShort = 64;            // no longer lines take a thread each
constexpr int64_t kWarpsPerBlock = kBlockThreads / 32;

int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }
// What a chain is computed in.
DType wide(Op op, DType dtype) { return is_half(dtype) && info(op).rule != OpRule::storage ? DType::float32 : dtype; }

CUfunction kernel_of(ScanKernel kernel, Op op, DType input, DType dtype, CudaStream& stream) {
  const std::string key =
      fmt::format("scan:{}:{}:{}:{}", static_cast<int>(kernel), info(op).name, name(input), name(dtype));
  return module_cache()
      .get(key, stream.device().index, [&] { return make_scan_source(kernel, op, input, dtype); })
      .kernel(0);
}

// Slots of an operation over the lines along `axis`; the lane axis is the one that the output runs along in memory.
std::vector<int64_t> line_slots(const Dims& shape, int axis, const Operand& in, const Operand& out) {
  std::vector<int64_t> slots(kSlots, 0);
  slots[s_in] = address(in.data);
  slots[s_out] = address(out.data);
  slots[s_length] = shape[axis];
  slots[s_in_step] = in.strides[axis];
  slots[s_out_step] = out.strides[axis];
  slots[s_lanes] = slots[s_lines] = slots[s_segments] = slots[s_ranges] = 1;
  slots[s_per_segment] = shape[axis];
  int lane = -1;
  for (int d = 0; d < shape.size(); ++d)
    if (d != axis && shape[d] > 1 && (lane < 0 || magnitude(out.strides[d]) <= magnitude(out.strides[lane]))) lane = d;
  if (lane >= 0) {
    slots[s_lanes] = shape[lane];
    slots[s_in_lane] = in.strides[lane];
    slots[s_out_lane] = out.strides[lane];
  }
  // The other axes, neighbours joined.
  int64_t axes = 0;
  int64_t* last = nullptr;
  for (int d = 0; d < shape.size(); ++d) {
    if (d == axis) continue;
    slots[s_lines] *= shape[d];
    if (d == lane || shape[d] == 1) continue;
    if (last && last[1] == in.strides[d] * shape[d] && last[2] == out.strides[d] * shape[d]) {
      last[0] *= shape[d];
      last[1] = in.strides[d];
      last[2] = out.strides[d];
      continue;
    }
    last = &slots[s_first_axis + 3 * static_cast<size_t>(axes++)];
    last[0] = shape[d];
    last[1] = in.strides[d];
    last[2] = out.strides[d];
  }
  slots[s_axes] = axes;
  return slots;
}

// What a lane accesses at once, and the elements of a warp's tile.
int64_t neighbours(DType input, DType dtype) {
  return neighbours_of(static_cast<int>(std::max(itemsize(input), itemsize(dtype))));
}
int64_t tile_elements(DType input, DType dtype) {
  const int64_t lane = neighbours(input, dtype);
  return 32 * lane * chunks_of(static_cast<int>(lane));
}

// Whether lines are dense and begin at multiples of what a lane accesses at once.
bool is_dense(const std::vector<int64_t>& slots, DType input, DType dtype) {
  const auto dense = [&](DType type, size_t base, size_t step, size_t lane, size_t axis_step) {
    const int64_t unit = neighbours(input, dtype) * itemsize(type);
    bool aligned = slots[step] == itemsize(type) && slots[base] % unit == 0 && slots[lane] % unit == 0;
    for (int64_t d = 0; d < slots[s_axes]; ++d)
      aligned = aligned && slots[s_first_axis + 3 * static_cast<size_t>(d) + axis_step] % unit == 0;
    return aligned;
  };
  return dense(input, s_in, s_in_step, s_in_lane, 1) && dense(dtype, s_out, s_out_step, s_out_lane, 2);
}

// How the lines of `slots` are scanned.
struct ScanPlan {
  ScanKernel kernel = ScanKernel::lines;
  int64_t segments = 1, per_segment = 1;
  int64_t tiles = 0, entries = 0;  // look: of a line; tiles, groups and sections of all lines

  int64_t partial_bytes(int64_t lines, DType computed) const {
    return segments > 1 ? rounded_allocation(lines * segments * itemsize(computed)) : 0;
  }
  int64_t flag_bytes() const { return (entries + 1) * static_cast<int64_t>(sizeof(uint32_t)); }
  int64_t value_bytes(DType computed) const { return (entries * itemsize(computed) + 255) / 256 * 256; }
  int64_t chain_bytes(DType computed) const {
    return kernel == ScanKernel::look ? rounded_allocation(value_bytes(computed) + flag_bytes()) : 0;
  }
};

ScanPlan plan_scan(Op op, DType input, DType dtype, const std::vector<int64_t>& slots) {
  ScanPlan plan;
  const int64_t length = slots[s_length], lines = slots[s_lines];
  plan.per_segment = length;
  if (!is_associative(op) || length <= kShort) return plan;
  if (lines == 1 || magnitude(slots[s_out_step]) <= magnitude(slots[s_out_lane])) {
    const int64_t tile = tile_elements(input, dtype);
    plan.kernel = lines >= kManyWarps || length <= 4 * tile ? ScanKernel::warps : ScanKernel::look;
    if (plan.kernel == ScanKernel::look) {
      plan.tiles = ceil_divide(length, kWarpsPerBlock * tile);
      const int64_t groups = ceil_divide(plan.tiles, kFan);
      plan.entries = lines * (plan.tiles + groups + ceil_divide(groups, kFan));
    }
    return plan;
  }
  // Enough loads in flight, 8 in each thread, are better than two reads.
  constexpr int64_t kInFlight = 2 << 20;
  if (lines * 8 * itemsize(input) >= kInFlight) return plan;
  plan.per_segment = ceil_divide(length, std::clamp<int64_t>(kFillThreads / lines, 1, length / kShort));
  plan.segments = ceil_divide(length, plan.per_segment);
  return plan;
}

// Of the partial results, [segment][line], scanned in place.
std::vector<int64_t> partial_slots(int64_t partial, int64_t segments, int64_t lines, DType computed) {
  std::vector<int64_t> slots(kSlots, 0);
  slots[s_in] = slots[s_out] = partial;
  slots[s_length] = slots[s_per_segment] = segments;
  slots[s_in_step] = slots[s_out_step] = lines * itemsize(computed);
  slots[s_lanes] = slots[s_lines] = lines;
  slots[s_in_lane] = slots[s_out_lane] = itemsize(computed);
  slots[s_segments] = slots[s_ranges] = 1;
  return slots;
}
// They are few: never segments of their own.
ScanPlan plan_partial(Op op, DType computed, int64_t segments, int64_t lines) {
  ScanPlan plan;
  plan.per_segment = segments;
  if (segments <= kShort || lines >= kManyWarps) return plan;
  std::vector<int64_t> slots = partial_slots(0, segments, lines, computed);
  slots[s_out_lane] = slots[s_out_step];  // planned as if it ran along the lines
  return plan_scan(op, computed, computed, slots);
}

// A copy, converted: first where memory runs another way in the input than in the output.
Program copy_program(const ScanLaunch& launch) {
  Program program;
  program.output(program.cast(program.input(launch.input_dtype), launch.dtype));
  return program;
}

class CudaScanning final : public Scanning {
 public:
  int64_t scan_scratch_bytes(const ScanLaunch& launch) override {
    if (element_count(launch.shape) == 0) return 0;
    const std::vector<int64_t> slots = line_slots(launch.shape, launch.axis, launch.input, launch.output);
    const DType computed = wide(launch.op, launch.dtype);
    // The plan of the copy in the output's dtype, where one is made, needs as much.
    int64_t most = 0;
    for (const DType input : {launch.input_dtype, launch.dtype}) {
      const ScanPlan plan = plan_scan(launch.op, input, launch.dtype, slots);
      int64_t bytes = plan.partial_bytes(slots[s_lines], computed) + plan.chain_bytes(computed);
      if (plan.segments > 1)
        bytes += plan_partial(launch.op, computed, plan.segments, slots[s_lines]).chain_bytes(computed);
      most = std::max(most, bytes);
    }
    return most;
  }

  void scan(const ScanLaunch& given, const ExecContext& context) override {
    if (element_count(given.shape) == 0) return;
    ScanLaunch launch = given;
    if (runs_otherwise(launch)) {
      Launch copy;
      copy.shape = launch.shape;
      copy.inputs.push_back(launch.input);
      copy.outputs.push_back(launch.output);
      cuda_engine().run(copy_program(launch), copy, context);
      launch.input = launch.output;
      launch.input_dtype = launch.dtype;
    }
    std::vector<int64_t> slots = line_slots(launch.shape, launch.axis, launch.input, launch.output);
    const ScanPlan plan = plan_scan(launch.op, launch.input_dtype, launch.dtype, slots);
    const DType computed = wide(launch.op, launch.dtype);
    const int64_t lines = slots[s_lines];
    slots[s_segments] = plan.segments;
    slots[s_per_segment] = plan.per_segment;
    if (plan.segments == 1) {
      run(plan, launch.op, launch.input_dtype, launch.dtype, computed, slots, context);
      return;
    }
    const Scratch partial(plan.partial_bytes(lines, computed), context);
    slots[s_partial] = address(partial.data());
    slots[s_partial_line] = 1;
    slots[s_partial_segment] = lines;
    slots[s_mode] = m_fold;
    run(plan, launch.op, launch.input_dtype, launch.dtype, computed, slots, context);
    std::vector<int64_t> between = partial_slots(slots[s_partial], plan.segments, lines, computed);
    run(plan_partial(launch.op, computed, plan.segments, lines), launch.op, computed, computed, computed, between,
        context);
    slots[s_mode] = m_continue;
    run(plan, launch.op, launch.input_dtype, launch.dtype, computed, slots, context);
  }

  void fold(const FoldLaunch& launch, const ExecContext& context) override {
    if (element_count(launch.shape) == 0 || launch.ranges == 0) return;
    CudaStream& stream = cuda_stream(context.stream);
    // Lines as the input lies: neighbouring threads read neighbours.
    std::vector<int64_t> slots = line_slots(launch.shape, launch.axis, launch.input, launch.output);
    slots[s_ranges] = launch.ranges;
    slots[s_begins] = address(launch.begins);
    slots[s_ends] = address(launch.ends);
    constexpr int64_t kWarp = 32;
    const bool warps = is_associative(launch.op) && launch.input.strides[launch.axis] == itemsize(launch.dtype) &&
                       launch.shape[launch.axis] / launch.ranges >= kWarp;
    const int64_t threads = slots[s_lines] * launch.ranges * (warps ? kWarp : 1);
    const CUfunction kernel =
        kernel_of(warps ? ScanKernel::fold_warp : ScanKernel::fold, launch.op, launch.dtype, launch.dtype, stream);
    launch_kernel(kernel, ceil_divide(threads, kBlockThreads), 1, kBlockThreads, slots, stream);
  }

 private:
  // One pass over the lines.
  static void run(const ScanPlan& plan, Op op, DType input, DType dtype, DType computed, std::vector<int64_t>& slots,
                  const ExecContext& context) {
    CudaStream& stream = cuda_stream(context.stream);
    const CUfunction kernel = kernel_of(plan.kernel, op, input, dtype, stream);
    slots[s_dense] = is_dense(slots, input, dtype) ? 1 : 0;
    int64_t blocks = 0;
    std::optional<Scratch> chain;
    if (plan.kernel == ScanKernel::look) {
      chain.emplace(plan.chain_bytes(computed), context);
      char* const flags = chain->at(plan.value_bytes(computed));
      stream.fill(flags, 0, plan.flag_bytes());
      slots[s_tiles] = plan.tiles;
      slots[s_chain] = address(chain->data());
      slots[s_flags] = address(flags);
      slots[s_ticket] = plan.entries;
      blocks = slots[s_lines] * plan.tiles;
    } else if (plan.kernel == ScanKernel::warps) {
      blocks = ceil_divide(slots[s_lines], kWarpsPerBlock);
    } else {
      blocks = ceil_divide(slots[s_lines] * plan.segments, kBlockThreads);
    }
    launch_kernel(kernel, blocks, 1, kBlockThreads, slots, stream);
  }

  static bool runs_otherwise(const ScanLaunch& launch) {
    // The kernel widens 16-bit floats and would not round a wider input to them.
    if (launch.input_dtype != launch.dtype && is_half(launch.dtype)) return true;
    int inner = -1;
    for (int d = 0; d < launch.shape.size(); ++d)
      if (launch.shape[d] > 1 &&
          (inner < 0 || magnitude(launch.output.strides[d]) <= magnitude(launch.output.strides[inner])))
        inner = d;
    return inner >= 0 && magnitude(launch.input.strides[inner]) > itemsize(launch.input_dtype) &&
           magnitude(launch.output.strides[inner]) == itemsize(launch.dtype);
  }
};

}  // namespace

Scanning& cuda_scanning() {
  static CudaScanning instance;
  return instance;
}

}  // namespace quarry::local::cuda
