// Scans by generated kernels (kernel/scan.cuh). Where lines are many or short, a thread takes a line if memory runs
// across them, or a warp if it runs along them. Else a block takes a tile of one line or of some neighbours and waits
// for what precedes it: one read and one write, and one read for the last elements alone. All of it is a function of
// shape and strides alone, and so is the grouping: bits depend neither on the device nor on timing.
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

constexpr int64_t kManyWarps = 2048;  // lines that keep the memory busy with a warp each
constexpr int64_t kShort = 64;        // no longer lines take a thread each
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

// Slots of an operation over the lines along `axis`; the lane axis is the one that an output of strides `layout` runs
// along in memory.
std::vector<int64_t> line_slots(const Dims& shape, int axis, const Operand& in, const Operand& out,
                                const Operand& before, const Dims& layout) {
  std::vector<int64_t> slots(kSlots, 0);
  const auto before_stride = [&before](int d) { return before.data == nullptr ? 0 : before.strides[d]; };
  slots[s_in] = address(in.data);
  slots[s_out] = address(out.data);
  slots[s_before] = address(before.data);
  slots[s_length] = shape[axis];
  slots[s_in_step] = in.strides[axis];
  slots[s_out_step] = out.strides[axis];
  slots[s_lanes] = slots[s_lines] = slots[s_ranges] = 1;
  int lane = -1;
  for (int d = 0; d < shape.size(); ++d)
    if (d != axis && shape[d] > 1 && (lane < 0 || magnitude(layout[d]) <= magnitude(layout[lane]))) lane = d;
  if (lane >= 0) {
    slots[s_lanes] = shape[lane];
    slots[s_in_lane] = in.strides[lane];
    slots[s_out_lane] = out.strides[lane];
    slots[s_before_lane] = before_stride(lane);
  }
  // The other axes, neighbours joined.
  int64_t axes = 0;
  int64_t* last = nullptr;
  for (int d = 0; d < shape.size(); ++d) {
    if (d == axis) continue;
    slots[s_lines] *= shape[d];
    if (d == lane || shape[d] == 1) continue;
    if (last && last[1] == in.strides[d] * shape[d] && last[2] == out.strides[d] * shape[d] &&
        last[3] == before_stride(d) * shape[d]) {
      last[0] *= shape[d];
    } else {
      last = &slots[s_first_axis + kAxisSlots * static_cast<size_t>(axes++)];
      last[0] = shape[d];
    }
    last[1] = in.strides[d];
    last[2] = out.strides[d];
    last[3] = before_stride(d);
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

// Whether lines are dense and begin at multiples of what a lane accesses at once; the output's too, where it is whole.
bool is_dense(const std::vector<int64_t>& slots, DType input, DType dtype, bool only_last) {
  const auto dense = [&](DType type, size_t base, size_t step, size_t lane, size_t axis_step) {
    const int64_t unit = neighbours(input, dtype) * itemsize(type);
    bool aligned = slots[step] == itemsize(type) && slots[base] % unit == 0 && slots[lane] % unit == 0;
    for (int64_t d = 0; d < slots[s_axes]; ++d)
      aligned = aligned && slots[s_first_axis + kAxisSlots * static_cast<size_t>(d) + axis_step] % unit == 0;
    return aligned;
  };
  return dense(input, s_in, s_in_step, s_in_lane, 1) && (only_last || dense(dtype, s_out, s_out_step, s_out_lane, 2));
}

// How lines are scanned.
struct ScanPlan {
  ScanKernel kernel = ScanKernel::lines;
  int64_t tiles = 0, entries = 0;  // where blocks wait: of a line; tiles, groups and sections of all lines
  int64_t width = 1;               // across: lines of a block

  // Of what blocks publish, and of the ticket behind it.
  int64_t chain_bytes(DType computed) const {
    constexpr int64_t kWord = sizeof(uint64_t);
    return entries > 0 ? (entries * words_of(static_cast<int>(itemsize(computed))) + 1) * kWord : 0;
  }
};

ScanPlan plan_scan(const ScanLaunch& launch, DType input) {
  ScanPlan plan;
  const Dims layout = output_strides(launch);
  const int64_t length = launch.shape[launch.axis], lines = element_count(launch.shape) / length;
  if (!is_associative(launch.op) || length <= kShort) return plan;
  const auto cut = [&](ScanKernel kernel, int64_t tile) {
    plan.kernel = kernel;
    plan.tiles = ceil_divide(length, tile);
    const int64_t groups = ceil_divide(plan.tiles, kFan);
    plan.entries = lines * (plan.tiles + groups + ceil_divide(groups, kFan));
  };
  bool along = true;
  for (int d = 0; d < layout.size(); ++d)
    if (d != launch.axis && launch.shape[d] > 1 && magnitude(layout[d]) < magnitude(layout[launch.axis])) along = false;
  if (along) {
    const int64_t tile = tile_elements(input, launch.dtype);
    plan.kernel = ScanKernel::warps;
    if (lines < kManyWarps && length > 4 * tile) cut(ScanKernel::look, kWarpsPerBlock * tile);
    return plan;
  }
  // Enough loads in flight, 8 in each thread, need no more threads.
  constexpr int64_t kInFlight = 2 << 20;
  if (lines * 8 * itemsize(input) >= kInFlight) return plan;
  while (plan.width < std::min<int64_t>(lines, kWidth)) plan.width *= 2;
  const int64_t widest = std::max(itemsize(input), itemsize(wide(launch.op, launch.dtype)));
  cut(ScanKernel::across, kBlockThreads / plan.width * rows_of(static_cast<int>(widest)));
  return plan;
}

ScanKernel last_of(ScanKernel kernel) {
  switch (kernel) {
    case ScanKernel::lines:
      return ScanKernel::last_lines;
    case ScanKernel::warps:
      return ScanKernel::last_warps;
    case ScanKernel::look:
      return ScanKernel::last_look;
    case ScanKernel::across:
      return ScanKernel::last_across;
    case ScanKernel::last_lines:
    case ScanKernel::last_warps:
    case ScanKernel::last_look:
    case ScanKernel::last_across:
    case ScanKernel::fold:
    case ScanKernel::fold_warp:
      break;
  }
  return kernel;
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
    const DType computed = wide(launch.op, launch.dtype);
    // The plan of the copy in the output's dtype, where one is made, needs as much.
    const int64_t chain = std::max(plan_scan(launch, launch.input_dtype).chain_bytes(computed),
                                   plan_scan(launch, launch.dtype).chain_bytes(computed));
    return (chain > 0 ? rounded_allocation(chain) : 0) +
           (launch.only_last && runs_otherwise(launch) ? copy_bytes(launch) : 0);
  }

  void scan(const ScanLaunch& given, const ExecContext& context) override {
    if (element_count(given.shape) == 0) return;
    ScanLaunch launch = given;
    std::optional<Scratch> copied;
    if (runs_otherwise(launch)) {
      Operand to = launch.output;
      if (launch.only_last) to = {copied.emplace(copy_bytes(launch), context).data(), output_strides(launch)};
      Launch copy;
      copy.shape = launch.shape;
      copy.inputs.push_back(launch.input);
      copy.outputs.push_back(to);
      cuda_engine().run(copy_program(launch), copy, context);
      launch.input = to;
      launch.input_dtype = launch.dtype;
    }
    ScanCall call = make_scan_call(launch);
    CudaStream& stream = cuda_stream(context.stream);
    const Scratch chain(call.chain_bytes > 0 ? rounded_allocation(call.chain_bytes) : 0, context);
    if (call.chain_bytes > 0) {
      stream.fill(chain.data(), 0, call.chain_bytes);
      call.set_chain(chain.data());
    }
    const CUfunction kernel = kernel_of(call.kernel, launch.op, launch.input_dtype, launch.dtype, stream);
    launch_kernel(kernel, call.blocks, 1, kBlockThreads, call.slots, stream);
  }

  void fold(const FoldLaunch& launch, const ExecContext& context) override {
    if (element_count(launch.shape) == 0 || launch.ranges == 0) return;
    CudaStream& stream = cuda_stream(context.stream);
    // Lines as the input lies: neighbouring threads read neighbours.
    std::vector<int64_t> slots =
        line_slots(launch.shape, launch.axis, launch.input, launch.output, {}, launch.output.strides);
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
  static int64_t copy_bytes(const ScanLaunch& launch) {
    return rounded_allocation(element_count(launch.shape) * itemsize(launch.dtype));
  }
  static bool runs_otherwise(const ScanLaunch& launch) {
    // The kernel widens 16-bit floats and would not round a wider input to them.
    if (launch.input_dtype != launch.dtype && is_half(launch.dtype)) return true;
    const Dims layout = output_strides(launch);
    int inner = -1;
    for (int d = 0; d < launch.shape.size(); ++d)
      if (launch.shape[d] > 1 && (inner < 0 || magnitude(layout[d]) <= magnitude(layout[inner]))) inner = d;
    return inner >= 0 && magnitude(launch.input.strides[inner]) > itemsize(launch.input_dtype) &&
           magnitude(layout[inner]) == itemsize(launch.dtype);
  }
};

}  // namespace

void ScanCall::set_chain(const void* data) {
  slots[s_chain] = address(data);
  slots[s_ticket] = slots[s_chain] + chain_bytes - static_cast<int64_t>(sizeof(uint64_t));
}

ScanCall make_scan_call(const ScanLaunch& launch) {
  const ScanPlan plan = plan_scan(launch, launch.input_dtype);
  ScanCall call;
  call.kernel = launch.only_last ? last_of(plan.kernel) : plan.kernel;
  call.slots =
      line_slots(launch.shape, launch.axis, launch.input, launch.output, launch.before, output_strides(launch));
  call.slots[s_dense] = is_dense(call.slots, launch.input_dtype, launch.dtype, launch.only_last) ? 1 : 0;
  call.slots[s_tiles] = plan.tiles;
  call.slots[s_width] = plan.width;
  call.chain_bytes = plan.chain_bytes(wide(launch.op, launch.dtype));
  if (plan.entries > 0)
    call.blocks = ceil_divide(call.slots[s_lines], plan.width) * plan.tiles;
  else
    call.blocks = ceil_divide(call.slots[s_lines], plan.kernel == ScanKernel::warps ? kWarpsPerBlock : kBlockThreads);
  return call;
}

Scanning& cuda_scanning() {
  static CudaScanning instance;
  return instance;
}

}  // namespace quarry::local::cuda
