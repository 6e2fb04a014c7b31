// A transform is one pass per axis. A pass gathers a block of neighbouring lines into contiguous memory that stays in
// the cache, transforms them there and writes them back, so that strides, missing elements and the scale cost no pass
// of their own; lines without gaps are transformed where they are. Blocks are spread over the threads.
#include "quarry/local/cpu/transforms.h"

#include <algorithm>
#include <cstring>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/line_plan.h"
#include "quarry/local/cpu/strided.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local {
namespace cpu {
namespace {

// One axis of a transform. Strides in bytes.
struct Pass {
  TransformKind kind = TransformKind::complex;
  DType dtype = DType::float64;
  bool inverse = false;
  double scale = 1;
  int64_t length = 1;   // of the transform
  int64_t present = 0;  // input elements of a line; the rest counts as 0
  int64_t in_step = 0, out_step = 0;
  Operand input, output;  // strides over `lines`
  Dims lines;             // the other axes
};

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kLineAlignment == 0; }

// The lines of a pass in blocks of neighbours.
class Blocks {
 public:
  explicit Blocks(const Pass& pass)
      : pass_(pass),
        plan_(line_plan(pass.kind, pass.dtype, pass.inverse, pass.length)),
        in_item_(itemsize(pass.kind == TransformKind::real_to_half ? pass.dtype : complex_type(pass.dtype))),
        out_item_(itemsize(pass.kind == TransformKind::half_to_real ? pass.dtype : complex_type(pass.dtype))),
        in_count_(pass.kind == TransformKind::half_to_real ? pass.length / 2 + 1 : pass.length),
        out_count_(pass.kind == TransformKind::real_to_half ? pass.length / 2 + 1 : pass.length) {
    choose_lane();
    const bool contiguous = pass.in_step == in_item_ && pass.out_step == out_item_;
    const int64_t line_bytes = std::max(plan_->input_distance(), plan_->output_distance());
    // Strided lines are read in runs of several cache lines across them, of one where the lines are very long.
    const auto lanes = [&](int64_t bytes) { return std::max<int64_t>(1, bytes / std::max(in_item_, out_item_)); };
    const int64_t fewest =
        contiguous ? 1 : std::max(lanes(kCacheLine), std::min(lanes(kRunBytes), kMostBytes / line_bytes));
    const int64_t block_bytes = contiguous ? kRowBytes : kBlockBytes;
    width_ = std::min(std::clamp<int64_t>(block_bytes / line_bytes, fewest, kMostLanes), lanes_);
    strips_ = (lanes_ + width_ - 1) / width_;
    const bool in_place = pass.input.data == pass.output.data;
    in_direct_ = pass.in_step == in_item_ && pass.present == in_count_ && plan_->keeps_input() && !negative(in_lane_);
    // Numbers that are scaled are written once, from the cache, unless lines are too long for it.
    const bool scales_apart = pass.scale != 1 && line_bytes <= kBlockBytes;
    out_direct_ = pass.out_step == out_item_ && !in_place && !negative(out_lane_) && !scales_apart;
  }

  int64_t units() const { return others_ * strips_; }
  // How the threads are spread: over blocks, each with memory of its own, or all over the lines of one after the other.
  struct Schedule {
    int slots = 1, threads = 1;  // blocks at a time, threads of each
    int64_t plan_bytes = 0, slot_bytes = 0;
    int64_t bytes() const { return slots * slot_bytes; }
  };
  Schedule schedule(int threads) const {
    const int most = threads > 0 ? std::min(threads, arena_threads()) : arena_threads();
    Schedule result;
    if (units() * width_ * pass_.length >= kParallelPoints) {
      const bool divides = plan_->scratch_bytes(most) > plan_->scratch_bytes(1);
      if (divides && units() < most)
        result.threads = most;
      else
        result.slots = static_cast<int>(std::clamp<int64_t>(units(), 1, most));
    }
    result.plan_bytes = rounded_allocation(plan_->scratch_bytes(result.threads));
    result.slot_bytes =
        rounded_allocation(width_ * (plan_->input_distance() + plan_->output_distance())) + result.plan_bytes;
    return result;
  }

  // `memory`: of the running slot.
  void run(int64_t unit, char* memory, const Schedule& schedule) const {
    const int64_t first = unit % strips_ * width_, count = std::min(width_, lanes_ - first);
    char* const from = static_cast<char*>(pass_.input.data) + in_.run(unit / strips_, 1).offset + first * in_lane_;
    char* const to = static_cast<char*>(pass_.output.data) + out_.run(unit / strips_, 1).offset + first * out_lane_;
    char* const scratch = memory;
    Lines in{memory + schedule.plan_bytes, plan_->input_distance()};
    Lines out{in.data + width_ * in.distance, plan_->output_distance()};
    if (in_direct_ && fits(from, in_lane_, count)) {
      in = {from, in_lane_};
    } else {
      copy_2d(in.data, in.distance, in_item_, from, in_lane_, pass_.in_step, count, pass_.present, in_item_);
      if (const int64_t missing = (in_count_ - pass_.present) * in_item_; missing > 0) {
        for (int64_t line = 0; line < count; ++line)
          std::memset(in.data + line * in.distance + pass_.present * in_item_, 0, static_cast<size_t>(missing));
      }
    }
    const bool direct = out_direct_ && fits(to, out_lane_, count);
    if (direct) out = {to, out_lane_};
    plan_->execute(in, out, count, scratch, schedule.threads);
    if (pass_.scale != 1) {
      const bool in_place = direct || pass_.out_step != out_item_;
      scale(out, in_place ? out : Lines{to, out_lane_}, count);
      if (!in_place) return;
    }
    if (direct) return;
    // copy_2d() transposes by blocks where it writes along the columns.
    if (out_lane_ == out_item_)
      copy_2d(to, pass_.out_step, out_lane_, out.data, out_item_, out.distance, out_count_, count, out_item_);
    else
      copy_2d(to, out_lane_, pass_.out_step, out.data, out.distance, out_item_, count, out_count_, out_item_);
  }

 private:
  static constexpr int64_t kCacheLine = 64, kRunBytes = 512, kBlockBytes = int64_t{1} << 16,
                           kRowBytes = int64_t{1} << 14, kMostBytes = int64_t{1} << 22, kMostLanes = 64;
  static constexpr int64_t kParallelPoints = int64_t{1} << 15;

  static bool negative(int64_t stride) { return stride < 0; }
  static bool fits(const char* data, int64_t lane, int64_t count) {
    return is_aligned(data) && (count == 1 || lane % kLineAlignment == 0);
  }

  // The axis along which neighbouring lines are closest in memory.
  void choose_lane() {
    const auto distance = [&](int d) { return std::abs(pass_.input.strides[d]) + std::abs(pass_.output.strides[d]); };
    int lane = -1;
    for (int d = 0; d < pass_.lines.size(); ++d) {
      if (pass_.lines[d] > 1 && (lane < 0 || distance(d) < distance(lane))) lane = d;
    }
    for (int d = 0; d < pass_.lines.size(); ++d) {
      if (d == lane) {
        lanes_ = pass_.lines[d];
        in_lane_ = pass_.input.strides[d];
        out_lane_ = pass_.output.strides[d];
        continue;
      }
      in_.push_back(pass_.lines[d], pass_.input.strides[d]);
      out_.push_back(pass_.lines[d], pass_.output.strides[d]);
      others_ *= pass_.lines[d];
    }
  }

  void scale(const Lines& from, const Lines& to, int64_t count) const {
    const int64_t numbers = out_count_ * (pass_.kind == TransformKind::half_to_real ? 1 : 2);
    const auto multiply = [&](auto factor) {
      using T = decltype(factor);
      for (int64_t line = 0; line < count; ++line) {
        const T* const x = reinterpret_cast<const T*>(from.data + line * from.distance);
        T* const y = reinterpret_cast<T*>(to.data + line * to.distance);
#pragma GCC ivdep
        for (int64_t k = 0; k < numbers; ++k) y[k] = x[k] * factor;
      }
    };
    if (pass_.dtype == DType::float32)
      multiply(static_cast<float>(pass_.scale));
    else
      multiply(pass_.scale);
  }

  const Pass& pass_;
  const std::shared_ptr<const LinePlan> plan_;
  const int64_t in_item_, out_item_, in_count_, out_count_;
  int64_t lanes_ = 1, in_lane_ = 0, out_lane_ = 0;
  AxisGroup in_, out_;  // the axes but the lane
  int64_t others_ = 1;
  int64_t width_ = 1, strips_ = 1;
  bool in_direct_ = false, out_direct_ = false;
};

// The part of `data` that lies along the other axes, and the axis itself.
Operand without(const Operand& operand, int axis) {
  Operand rest = operand;
  rest.strides.erase(axis);
  return rest;
}

// The passes of a transform. The complex part of half_to_real goes through `middle`, C order over its input_shape with
// whole lengths along the axes but the last.
std::vector<Pass> passes_of(const Transform& t, char* middle) {
  std::vector<Pass> passes;
  const auto add = [&](TransformKind kind, int axis, const Operand& input, const Operand& output, const Dims& extents) {
    Pass pass;
    pass.kind = kind;
    pass.dtype = t.dtype;
    pass.inverse = t.inverse || t.kind == TransformKind::half_to_real;
    pass.length = t.shape[axis];
    pass.present = extents[axis];
    pass.in_step = input.strides[axis];
    pass.out_step = output.strides[axis];
    pass.input = without(input, axis);
    pass.output = without(output, axis);
    pass.lines = extents;
    pass.lines.erase(axis);
    passes.push_back(std::move(pass));
  };
  const int last = t.axes.back();
  Dims extents = t.input_shape;
  if (t.kind != TransformKind::half_to_real) {
    // The last axis first, then the others in place. What is missing along an axis stays away until its pass.
    add(t.kind, last, t.input, t.output, extents);
    extents[last] = output_extents(t)[last];
    for (size_t i = t.axes.size() - 1; i-- > 0;) {
      add(TransformKind::complex, t.axes[i], t.output, t.output, extents);
      extents[t.axes[i]] = t.shape[t.axes[i]];
    }
  } else {
    Dims whole = extents;
    for (size_t i = 0; i + 1 < t.axes.size(); ++i) whole[t.axes[i]] = t.shape[t.axes[i]];
    const Operand between{middle, contiguous_strides(whole, itemsize(complex_type(t.dtype)))};
    Operand source = t.input;
    for (size_t i = 0; i + 1 < t.axes.size(); ++i) {
      add(TransformKind::complex, t.axes[i], source, between, extents);
      extents[t.axes[i]] = t.shape[t.axes[i]];
      source = between;
    }
    add(t.kind, last, source, t.output, extents);
  }
  passes.back().scale = t.scale;
  return passes;
}

int64_t middle_bytes(const Transform& t) {
  if (t.kind != TransformKind::half_to_real || t.axes.size() == 1) return 0;
  Dims whole = t.input_shape;
  for (size_t i = 0; i + 1 < t.axes.size(); ++i) whole[t.axes[i]] = t.shape[t.axes[i]];
  return rounded_allocation(element_count(whole) * itemsize(complex_type(t.dtype)));
}

// Nothing to read: every sum is empty.
void clear(const Transform& t) {
  const Dims extents = output_extents(t);
  const int64_t item = itemsize(output_type(t));
  AxisGroup axes;
  for (int d = 0; d < extents.size(); ++d) axes.push_back(extents[d], t.output.strides[d]);
  const int64_t count = element_count(extents);
  for (int64_t i = 0; i < count;) {
    const AxisGroup::Run run = axes.run(i, count - i);
    char* to = static_cast<char*>(t.output.data) + run.offset;
    for (int64_t k = 0; k < run.count; ++k) std::memset(to + k * run.stride, 0, static_cast<size_t>(item));
    i += run.count;
  }
}

class CpuTransforms final : public Transforms {
 public:
  int64_t transform_scratch_bytes(const Transform& t) override {
    if (element_count(t.shape) == 0 || element_count(t.input_shape) == 0) return 0;
    int64_t most = 0;
    for (const Pass& pass : passes_of(t, nullptr)) {
      most = std::max(most, Blocks(pass).schedule(0).bytes());
    }
    return most + middle_bytes(t);
  }

  void transform(const Transform& t, const ExecContext& context) override {
    if (element_count(t.shape) == 0) return;
    if (element_count(t.input_shape) == 0) return clear(t);
    const Scratch middle(middle_bytes(t), context);
    for (const Pass& pass : passes_of(t, middle.data())) {
      const Blocks blocks(pass);
      const Blocks::Schedule schedule = blocks.schedule(context.threads);
      const Scratch memory(schedule.bytes(), context);
      for_each_unit(blocks.units(), schedule.slots,
                    [&](int64_t unit, int slot) { blocks.run(unit, memory.at(slot * schedule.slot_bytes), schedule); });
    }
  }
};

}  // namespace
}  // namespace cpu

Transforms& cpu_transforms() {
  static cpu::CpuTransforms instance;
  return instance;
}

}  // namespace quarry::local
