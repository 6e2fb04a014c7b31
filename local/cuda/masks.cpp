#include <fmt/format.h>

#include <array>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/embedded.h"
#include "quarry/local/cuda/indexing.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/plan.h"

namespace quarry::local::cuda {
namespace {

const char* kind_name(MaskKernel::Kind kind) {
  switch (kind) {
    case MaskKernel::Kind::count:
      return "count_tiles";
    case MaskKernel::Kind::scan:
      return "scan_tiles";
    case MaskKernel::Kind::positions:
      return "positions";
    case MaskKernel::Kind::select:
      return "select";
    case MaskKernel::Kind::expand:
      return "expand";
    case MaskKernel::Kind::copy_where:
      return "copy_where";
  }
  return "";
}

struct MaskLaunch {
  // `shape` and operands are over axes that are merged already.
  MaskLaunch(MaskKernel::Kind kind, const Mask& mask, const Dims& shape, const Operand* first, const Operand* second,
             int64_t itemsize) {
    const int64_t elements = element_count(mask.shape);
    kernel.kind = kind;
    kernel.width = static_cast<int>(itemsize);
    kernel.axes = shape.size();
    kernel.wide = needs_wide(elements);
    slots = {elements, address(mask.data), address(mask.offsets), 0, 0, 0, 0, 0};
    for (int d = 0; d < shape.size(); ++d) {
      slots.push_back(shape[d]);
      slots.push_back(position_divider(shape[d], kernel.wide));
      slots.push_back(first ? first->strides[d] : 0);
      slots.push_back(second ? second->strides[d] : 0);
    }
    tiles = mask_tiles(elements);
  }
  void queue(int64_t blocks, int threads, const ExecContext& context) {
    CudaStream& stream = cuda_stream(context.stream);
    const Module& module =
        module_cache().get("masks|" + kernel.key(), stream.device().index, [&] { return kernel.source(); });
    launch_kernel(module.kernel(0), blocks, 1, threads, slots, stream);
  }

  MaskKernel kernel;
  std::vector<int64_t> slots;
  int64_t tiles = 0;
};

struct Merged {
  Dims shape;
  Operand first, second;
  bool halves = false;
};

Merged merged(const Mask& mask, const Operand& first, const Operand& second, int64_t itemsize) {
  Merged result{mask.shape, first, second};
  Dims* const strides[] = {&result.first.strides, &result.second.strides};
  merge_axes(result.shape, strides);
  uint64_t all = reinterpret_cast<uintptr_t>(first.data) | reinterpret_cast<uintptr_t>(second.data);
  for (int d = 0; d < result.shape.size(); ++d)
    all |= static_cast<uint64_t>(result.first.strides[d]) | static_cast<uint64_t>(result.second.strides[d]);
  result.halves = itemsize == 16 && all % 16 != 0;
  return result;
}

}  // namespace

void count_mask(const Mask& mask, int64_t* offsets, const ExecContext& context) {
  Mask counted = mask;
  counted.offsets = offsets;
  MaskLaunch count(MaskKernel::Kind::count, counted, {}, nullptr, nullptr, 8);
  if (count.tiles > 0) count.queue(count.tiles, kBlockThreads, context);
  MaskLaunch scan(MaskKernel::Kind::scan, counted, {}, nullptr, nullptr, 8);
  scan.kernel.wide = false;
  scan.slots[5] = scan.tiles;
  constexpr int kScanThreads = 1024;
  scan.queue(1, kScanThreads, context);
}

void mask_positions(const Mask& mask, int64_t* to, int64_t step, int64_t axis_step, const ExecContext& context) {
  const bool flat = axis_step == 0;
  MaskLaunch launch(MaskKernel::Kind::positions, mask, flat ? Dims{} : mask.shape, nullptr, nullptr, 8);
  if (launch.tiles == 0) return;
  launch.slots[3] = address(to);
  launch.slots[5] = step;
  launch.slots[6] = axis_step;
  launch.queue(launch.tiles, kBlockThreads, context);
}

void select_masked(const Mask& mask, const Operand& from, void* to, int64_t itemsize, const ExecContext& context) {
  const Merged m = merged(mask, from, {to, Dims::filled(mask.shape.size(), 0)}, itemsize);
  MaskLaunch launch(MaskKernel::Kind::select, mask, m.shape, &m.first, nullptr, itemsize);
  if (launch.tiles == 0) return;
  launch.kernel.halves = m.halves;
  launch.slots[3] = address(from.data);
  launch.slots[4] = address(to);
  launch.queue(launch.tiles, kBlockThreads, context);
}

void expand_masked(const Mask& mask, const void* from, int64_t step, int64_t period, const Operand& to,
                   int64_t itemsize, const ExecContext& context) {
  // The step counts among the strides that decide on alignment.
  Operand values{const_cast<void*>(from), Dims::filled(mask.shape.size(), 0)};
  Merged m = merged(mask, to, values, itemsize);
  m.halves = m.halves || (itemsize == 16 && step % 16 != 0);
  MaskLaunch launch(MaskKernel::Kind::expand, mask, m.shape, &m.first, nullptr, itemsize);
  if (launch.tiles == 0) return;
  launch.kernel.halves = m.halves;
  launch.slots[3] = address(to.data);
  launch.slots[4] = address(from);
  launch.slots[5] = step;
  launch.slots[6] = period;
  launch.queue(launch.tiles, kBlockThreads, context);
}

void copy_where(const Mask& mask, const Operand& from, const Operand& to, int64_t itemsize,
                const ExecContext& context) {
  const Merged m = merged(mask, from, to, itemsize);
  MaskLaunch launch(MaskKernel::Kind::copy_where, mask, m.shape, &m.first, &m.second, itemsize);
  if (launch.tiles == 0) return;
  launch.kernel.halves = m.halves;
  launch.slots[3] = address(from.data);
  launch.slots[4] = address(to.data);
  constexpr int64_t kPerBlock = kBlockThreads * 16;
  launch.queue((element_count(mask.shape) + kPerBlock - 1) / kPerBlock, kBlockThreads, context);
}

std::string MaskKernel::key() const {
  return fmt::format("{} {}{} {} {}", kind_name(kind), width, halves ? "h" : "", axes, wide ? 'w' : 'n');
}

ModuleSource MaskKernel::source() const {
  constexpr std::array words = {"uint8_t", "uint16_t", "uint32_t", "uint2", "uint4"};
  const char* const word = halves       ? "indexing::Pair"
                           : width == 1 ? words[0]
                           : width == 2 ? words[1]
                           : width == 4 ? words[2]
                           : width == 8 ? words[3]
                                        : words[4];
  const char* const index = wide ? "uint64_t" : "uint32_t";
  std::string call = kind_name(kind);
  switch (kind) {
    case Kind::count:
    case Kind::scan:
      break;
    case Kind::positions:
      call += fmt::format("<{}, {}>", index, axes);
      break;
    case Kind::select:
    case Kind::expand:
    case Kind::copy_where:
      call += fmt::format("<{}, {}, {}>", word, index, axes);
      break;
  }
  return {fmt::format("{}namespace quarry::local {{\n"
                      "extern \"C\" __global__ void run(const __grid_constant__ indexing::Slots<{}> p) {{ "
                      "indexing::{}(p.s); }}\n}}\n",
                      embedded_indexing, 8 + 4 * axes, call),
          {"run"}};
}

}  // namespace quarry::local::cuda
