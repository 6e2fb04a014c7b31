// Scans by generated kernels (kernel/scan.cuh): a thread per line where memory runs across the lines, a block per line
// where it runs along them. Where lines are too few to fill the device, an operation that may be grouped scans segments
// in three passes (their folds, what precedes each, the scans); the number of segments depends on the shape only, so
// results do not depend on the device or on timing.
#include "local/cuda/scanning.h"

#include <fmt/format.h>

#include <algorithm>

#include "local/base/error.h"
#include "local/cuda/codegen.h"
#include "local/cuda/embedded.h"
#include "local/cuda/engine.h"
#include "local/cuda/launch.h"
#include "local/cuda/plan.h"
#include "local/cuda/scratch.h"

namespace quarry::local::cuda {
namespace {

// The slots of kernel/scan.cuh.
enum Slot : size_t {
  s_in,
  s_out,
  s_length,
  s_in_step,
  s_out_step,
  s_lanes,
  s_in_lane,
  s_out_lane,
  s_lines,
  s_segments,
  s_per_segment,
  s_partial,
  s_partial_line,
  s_partial_segment,
  s_mode,
  s_ranges,
  s_begins,
  s_ends,
  s_axes,
  s_first_axis
};
constexpr size_t kSlots = 112;
enum Mode : int64_t { m_scan, m_fold, m_continue };
enum Kernel : size_t { k_lines, k_rows, k_partial_lines, k_partial_rows, k_fold, k_fold_warp };

constexpr int64_t kFillThreads = 270336;  // as many as the largest GPUs hold; a constant for the same reason
constexpr int64_t kFillBlocks = 1056;

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t address(const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); }
int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }
bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
// What a chain is computed in.
DType wide(Op op, DType dtype) { return is_half(dtype) && info(op).rule != OpRule::storage ? DType::float32 : dtype; }

const Module& module_of(Op op, DType input, DType dtype, int per_thread, CudaStream& stream) {
  const std::string key = fmt::format("scan:{}:{}:{}:{}", info(op).name, name(input), name(dtype), per_thread);
  return module_cache().get(key, stream.device().index, [&] { return make_scan_source(op, input, dtype, per_thread); });
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

struct ScanPlan {
  bool rows = false;   // a block per line
  int per_thread = 1;  // elements of a tile
  int64_t segments = 1, per_segment = 1;
  int64_t scratch = 0;
};

ScanPlan plan_scan(const ScanLaunch& launch, const std::vector<int64_t>& slots) {
  ScanPlan plan;
  const int64_t length = slots[s_length], lines = slots[s_lines];
  const DType computed = wide(launch.op, launch.dtype);
  const bool along = lines == 1 || magnitude(slots[s_out_step]) <= magnitude(slots[s_out_lane]);
  plan.per_segment = length;
  const int64_t most = std::max<int64_t>(1, 64 / itemsize(computed)) / 2 * 2;
  while (plan.per_thread * 2 <= std::min<int64_t>(most, 16) && plan.per_thread * kBlockThreads < length)
    plan.per_thread *= 2;
  constexpr int64_t kShort = 64;
  plan.rows = is_associative(launch.op) && along && length > kShort;
  if (!plan.rows) plan.per_thread = 1;
  if (!is_associative(launch.op)) return plan;
  if (plan.rows) {
    const int64_t tile = kBlockThreads * plan.per_thread, tiles = ceil_divide(length, tile);
    const int64_t segments = std::clamp<int64_t>(ceil_divide(kFillBlocks, lines), 1, std::max<int64_t>(1, tiles / 4));
    plan.per_segment = ceil_divide(tiles, segments) * tile;
  } else {
    const int64_t segments =
        std::clamp<int64_t>(kFillThreads / std::max<int64_t>(lines, 1), 1, std::max<int64_t>(1, length / kShort));
    plan.per_segment = ceil_divide(length, segments);
  }
  plan.segments = ceil_divide(length, plan.per_segment);
  if (plan.segments > 1) plan.scratch = lines * plan.segments * itemsize(computed);
  return plan;
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
    return plan_scan(launch, line_slots(launch.shape, launch.axis, launch.input, launch.output)).scratch;
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
    CudaStream& stream = cuda_stream(context.stream);
    std::vector<int64_t> slots = line_slots(launch.shape, launch.axis, launch.input, launch.output);
    const ScanPlan plan = plan_scan(launch, slots);
    const Module& module = module_of(launch.op, launch.input_dtype, launch.dtype, plan.per_thread, stream);
    const int64_t lines = slots[s_lines], jobs = lines * plan.segments;
    slots[s_segments] = plan.segments;
    slots[s_per_segment] = plan.per_segment;
    const auto run = [&](Mode mode) {
      slots[s_mode] = mode;
      const int64_t blocks = plan.rows ? jobs : ceil_divide(jobs, kBlockThreads);
      launch_kernel(module.kernel(plan.rows ? k_rows : k_lines), blocks, 1, kBlockThreads, slots, stream);
    };
    if (plan.segments == 1) {
      run(m_scan);
      return;
    }
    const Scratch partial(plan.scratch, context);
    slots[s_partial] = address(partial.data());
    slots[s_partial_line] = plan.rows ? plan.segments : 1;
    slots[s_partial_segment] = plan.rows ? 1 : lines;
    run(m_fold);
    // The partial results of each line, scanned in place.
    const int64_t size = itemsize(wide(launch.op, launch.dtype));
    std::vector<int64_t> between(kSlots, 0);
    between[s_in] = between[s_out] = slots[s_partial];
    between[s_length] = between[s_per_segment] = plan.segments;
    between[s_in_step] = between[s_out_step] = slots[s_partial_segment] * size;
    between[s_lanes] = between[s_lines] = lines;
    between[s_in_lane] = between[s_out_lane] = slots[s_partial_line] * size;
    between[s_segments] = 1;
    between[s_mode] = m_scan;
    launch_kernel(module.kernel(plan.rows ? k_partial_rows : k_partial_lines),
                  plan.rows ? lines : ceil_divide(lines, kBlockThreads), 1, kBlockThreads, between, stream);
    run(m_continue);
  }

  void fold(const FoldLaunch& launch, const ExecContext& context) override {
    if (element_count(launch.shape) == 0 || launch.ranges == 0) return;
    CudaStream& stream = cuda_stream(context.stream);
    // Lines as the input lies: neighbouring threads read neighbours.
    std::vector<int64_t> slots = line_slots(launch.shape, launch.axis, launch.input, launch.output);
    slots[s_ranges] = launch.ranges;
    slots[s_begins] = address(launch.begins);
    slots[s_ends] = address(launch.ends);
    const Module& module = module_of(launch.op, launch.dtype, launch.dtype, /*per_thread=*/1, stream);
    constexpr int64_t kWarp = 32;
    const bool warps = is_associative(launch.op) && launch.input.strides[launch.axis] == itemsize(launch.dtype) &&
                       launch.shape[launch.axis] / launch.ranges >= kWarp;
    const int64_t threads = slots[s_lines] * launch.ranges * (warps ? kWarp : 1);
    launch_kernel(module.kernel(warps ? k_fold_warp : k_fold), ceil_divide(threads, kBlockThreads), 1, kBlockThreads,
                  slots, stream);
  }

 private:
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
