#include "quarry/local/cpu/scanning.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/cpu/loops.h"
#include "quarry/local/cpu/recurrences.h"
#include "quarry/local/cpu/strided.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local {
namespace cpu {
namespace {

// Elements of a long line that are scanned on their own; a constant, so that no result depends on the thread count.
constexpr int64_t kSegment = 1 << 14;
constexpr int64_t kWave = 32;  // segments between two carries: they stay in the cache
constexpr int64_t kStripBytes = 4096;
constexpr int64_t kRowBlock = 512;

// A scan or a fold seen as lines along one axis: `lanes` neighbouring lines at a time, where memory runs across them.
struct Lines {
  int64_t length = 1;  // along the axis
  int64_t in_step = 0, out_step = 0;
  int64_t lanes = 1;  // along the axis that memory runs along
  int64_t in_lane = 0, out_lane = 0;
  int64_t step = 0, lane = 0;  // of the layout that decides how lines are scanned
  AxisGroup in, out;           // the other axes
  int64_t others = 1;
};

// As lines of an output of strides `layout`.
Lines make_lines(const Dims& shape, int axis, const Operand& input, const Operand& output, const Dims& layout) {
  Lines lines;
  lines.length = shape[axis];
  lines.in_step = input.strides[axis];
  lines.out_step = output.strides[axis];
  int lane = -1;
  const auto size = [](int64_t stride) { return stride < 0 ? -stride : stride; };
  for (int d = 0; d < shape.size(); ++d) {
    if (d == axis || shape[d] == 1 || size(layout[d]) == 0) continue;
    if (lane < 0 || size(layout[d]) < size(layout[lane])) lane = d;
  }
  if (lane >= 0 && lines.length > 1 && size(layout[lane]) > size(layout[axis]) && layout[axis] != 0) lane = -1;
  lines.step = layout[axis];
  lines.lane = lane >= 0 ? layout[lane] : 0;
  for (int d = 0; d < shape.size(); ++d) {
    if (d == axis) continue;
    if (d == lane) {
      lines.lanes = shape[d];
      lines.in_lane = input.strides[d];
      lines.out_lane = output.strides[d];
      continue;
    }
    lines.in.push_back(shape[d], input.strides[d]);
    lines.out.push_back(shape[d], output.strides[d]);
    lines.others *= shape[d];
  }
  return lines;
}

int slots_for(int64_t units, int threads) {
  const int64_t most = threads > 0 ? std::min(threads, arena_threads()) : arena_threads();
  return static_cast<int>(std::clamp<int64_t>(units, 1, most));
}

struct Carry {
  alignas(16) char bytes[16];
};

class Scan {
 public:
  Scan(Op op, DType dtype, const Lines& lines, const char* in, char* out, int threads)
      : op_(op),
        dtype_(dtype),
        size_(itemsize(dtype)),
        lines_(lines),
        in_(in),
        out_(out),
        threads_(threads),
        recurrence_(recurrence(op, dtype)),
        map_(loops(cpu_level()).op[static_cast<int>(op)][static_cast<int>(dtype)]) {
    QUARRY_CHECK(recurrence_ != nullptr);
  }

  void run() {
    switch (form()) {
      case Form::vectors:
        return run_vectors();
      case Form::segments:
        return run_long();
      case Form::lines:
        return run_lines();
    }
  }
  // The last elements alone.
  void run_last() {
    switch (form()) {
      case Form::vectors:
        return last_vectors();
      case Form::segments:
        return last_long();
      case Form::lines:
        return last_lines();
    }
  }

 private:
  enum class Form : uint8_t { vectors, segments, lines };
  Form form() const {
    // Short steps along memory are not worth a vector loop's call.
    if (map_ && lines_.in_lane == size_ && lines_.lane == size_ && lines_.lanes >= 16) return Form::vectors;
    const bool is_long = lines_.lanes * lines_.others < kWave && lines_.length >= 2 * kSegment;
    return is_long && map_ && is_associative(op_) && lines_.step == size_ ? Form::segments : Form::lines;
  }

  // Whole rows of neighbouring lines at a time.
  void run_vectors() {
    const int64_t width = kStripBytes / size_, strips = (lines_.lanes + width - 1) / width;
    const int64_t units = lines_.others * strips;
    for_each_unit(units, work_slots(units), [&](int64_t unit, int) {
      alignas(64) char row[kStripBytes];
      const int64_t begin = unit % strips * width, count = std::min(width, lines_.lanes - begin);
      const char* x = in_ + lines_.in.run(unit / strips, 1).offset + begin * size_;
      char* y = out_ + lines_.out.run(unit / strips, 1).offset + begin * size_;
      const size_t bytes = static_cast<size_t>(count * size_);
      if (x != y) std::memcpy(y, x, bytes);
      for (int64_t i = 1; i < lines_.length; ++i) {
        x += lines_.in_step;
        const char* previous = y;
        y += lines_.out_step;
        const char* values = x;
        if (x == y) {  // loops may write an element twice
          std::memcpy(row, x, bytes);
          values = row;
        }
        const void* args[] = {previous, values};
        map_(y, args, count);
      }
    });
  }

  void last_vectors() {
    const int64_t width = kStripBytes / size_, strips = (lines_.lanes + width - 1) / width;
    const int64_t units = lines_.others * strips;
    for_each_unit(units, work_slots(units), [&](int64_t unit, int) {
      alignas(64) char rows[2][kStripBytes];  // loops may write an element twice
      const int64_t begin = unit % strips * width, count = std::min(width, lines_.lanes - begin);
      const char* x = in_ + lines_.in.run(unit / strips, 1).offset + begin * size_;
      std::memcpy(rows[0], x, static_cast<size_t>(count * size_));
      int current = 0;
      for (int64_t i = 1; i < lines_.length; ++i) {
        x += lines_.in_step;
        const void* args[] = {rows[current], x};
        map_(rows[1 - current], args, count);
        current = 1 - current;
      }
      char* y = out_ + lines_.out.run(unit / strips, 1).offset + begin * lines_.out_lane;
      for (int64_t k = 0; k < count; ++k)
        std::memcpy(y + k * lines_.out_lane, rows[current] + k * size_, static_cast<size_t>(size_));
    });
  }

  // Few lines of many elements: segments on their own, then what precedes each.
  void run_long() {
    const int64_t segments = (lines_.length + kSegment - 1) / kSegment;
    for (int64_t line = 0; line < lines_.lanes * lines_.others; ++line) {
      const char* x = in_ + lines_.in.run(line / lines_.lanes, 1).offset + line % lines_.lanes * lines_.in_lane;
      char* y = out_ + lines_.out.run(line / lines_.lanes, 1).offset + line % lines_.lanes * lines_.out_lane;
      for (int64_t wave = 0; wave < segments; wave += kWave) {
        const int64_t count = std::min(kWave, segments - wave);
        const auto range = [&](int64_t k) {
          const int64_t begin = (wave + k) * kSegment;
          return std::pair(begin, std::min(kSegment, lines_.length - begin));
        };
        for_each_unit(count, slots_for(count, threads_), [&](int64_t k, int) {
          const auto [begin, n] = range(k);
          Carry carry;
          recurrence_(x + begin * lines_.in_step, lines_.in_step, y + begin * size_, size_, n, carry.bytes, false);
        });
        // carries[k]: the fold of everything before segment k of the wave.
        std::vector<Carry> carries(static_cast<size_t>(count));
        for (int64_t k = wave == 0 ? 1 : 0; k < count; ++k) {
          char* before = carries[static_cast<size_t>(k)].bytes;
          const char* last = y + ((wave + k) * kSegment - 1) * size_;
          if (k == 0 || k + wave == 1) {
            std::memcpy(before, last, static_cast<size_t>(size_));
          } else {
            const void* args[] = {carries[static_cast<size_t>(k - 1)].bytes, last};
            map_(before, args, 1);
          }
        }
        for_each_unit(count, slots_for(count, threads_), [&](int64_t k, int) {
          if (wave + k == 0) return;
          const auto [begin, n] = range(k);
          alignas(64) char before[kStripBytes], part[kStripBytes];
          const int64_t width = kStripBytes / size_;
          copy_2d(before, 0, size_, carries[static_cast<size_t>(k)].bytes, 0, 0, 1, width, size_);
          for (int64_t i = 0; i < n; i += width) {
            const int64_t m = std::min(width, n - i);
            char* to = y + (begin + i) * size_;
            std::memcpy(part, to, static_cast<size_t>(m * size_));
            const void* args[] = {before, part};
            map_(to, args, m);
          }
        });
      }
    }
  }

  void last_long() {
    const int64_t segments = (lines_.length + kSegment - 1) / kSegment;
    std::vector<char> folds(static_cast<size_t>(segments * size_));
    for (int64_t line = 0; line < lines_.lanes * lines_.others; ++line) {
      const char* x = in_ + lines_.in.run(line / lines_.lanes, 1).offset + line % lines_.lanes * lines_.in_lane;
      char* y = out_ + lines_.out.run(line / lines_.lanes, 1).offset + line % lines_.lanes * lines_.out_lane;
      for_each_unit(segments, slots_for(segments, threads_), [&](int64_t k, int) {
        const int64_t begin = k * kSegment, n = std::min(kSegment, lines_.length - begin);
        Carry carry;
        recurrence_(x + begin * lines_.in_step, lines_.in_step, nullptr, 0, n, carry.bytes, false);
        store_carry(op_, dtype_, carry.bytes, folds.data() + k * size_);
      });
      Carry carries[2];
      std::memcpy(carries[0].bytes, folds.data(), static_cast<size_t>(size_));
      for (int64_t k = 1; k < segments; ++k) {
        const void* args[] = {carries[(k - 1) % 2].bytes, folds.data() + k * size_};
        map_(carries[k % 2].bytes, args, 1);
      }
      std::memcpy(y, carries[(segments - 1) % 2].bytes, static_cast<size_t>(size_));
    }
  }

  // Line by line; lines that are neighbours in memory take turns, so that what the cache brings in is used.
  void run_lines() { for_lines(/*whole=*/true); }
  void last_lines() { for_lines(/*whole=*/false); }
  void for_lines(bool whole) {
    constexpr int64_t kLanes = 16;
    const int64_t groups = (lines_.lanes + kLanes - 1) / kLanes, units = lines_.others * groups;
    for_each_unit(units, work_slots(units), [&](int64_t unit, int) {
      const int64_t begin = unit % groups * kLanes, count = std::min(kLanes, lines_.lanes - begin);
      const char* x = in_ + lines_.in.run(unit / groups, 1).offset + begin * lines_.in_lane;
      char* y = out_ + lines_.out.run(unit / groups, 1).offset + begin * lines_.out_lane;
      Carry carries[kLanes];
      const int64_t block = count == 1 ? lines_.length : kRowBlock;
      for (int64_t i = 0; i < lines_.length; i += block)
        for (int64_t k = 0; k < count; ++k)
          recurrence_(x + i * lines_.in_step + k * lines_.in_lane, lines_.in_step,
                      whole ? y + i * lines_.out_step + k * lines_.out_lane : nullptr, lines_.out_step,
                      std::min(block, lines_.length - i), carries[k].bytes, i > 0);
      for (int64_t k = 0; k < count && !whole; ++k) store_carry(op_, dtype_, carries[k].bytes, y + k * lines_.out_lane);
    });
  }

  int work_slots(int64_t units) const {
    constexpr int64_t kWorthThreads = 1 << 15;
    return lines_.length * lines_.lanes * lines_.others < kWorthThreads ? 1 : slots_for(units, threads_);
  }

  const Op op_;
  const DType dtype_;
  const int64_t size_;
  const Lines& lines_;
  const char* const in_;
  char* const out_;
  const int threads_;
  const Recurrence recurrence_;
  const MapLoop map_;
};

// input converted into `to`.
Program cast_program(const ScanLaunch& launch) {
  Program program;
  program.output(program.cast(program.input(launch.input_dtype), launch.dtype));
  return program;
}
Launch cast_launch(const ScanLaunch& launch, const Operand& to) {
  Launch cast;
  cast.shape = launch.shape;
  cast.inputs.push_back(launch.input);
  cast.outputs.push_back(to);
  return cast;
}
// The output after what precedes it, in place.
Program continue_program(const ScanLaunch& launch) {
  Program program;
  const ValueId before = program.input(launch.dtype), own = program.input(launch.dtype);
  program.output(program.apply(launch.op, std::array{before, own}, launch.dtype));
  return program;
}
Launch continue_launch(const ScanLaunch& launch) {
  Launch after;
  after.shape = launch.shape;
  if (launch.only_last) after.shape[launch.axis] = 1;
  after.inputs = {launch.before, launch.output};
  after.inputs[0].strides[launch.axis] = 0;
  after.outputs.push_back(launch.output);
  return after;
}

class CpuScanning final : public Scanning {
 public:
  int64_t scan_scratch_bytes(const ScanLaunch& launch) override {
    int64_t bytes = 0;
    if (launch.input_dtype != launch.dtype)
      bytes = cpu_engine().run_scratch_bytes(cast_program(launch), cast_launch(launch, converted(launch, nullptr))) +
              converted_bytes(launch);
    if (launch.before.data == nullptr) return bytes;
    return std::max(bytes, cpu_engine().run_scratch_bytes(continue_program(launch), continue_launch(launch)));
  }

  void scan(const ScanLaunch& launch, const ExecContext& context) override {
    if (element_count(launch.shape) == 0) return;
    {
      std::optional<Scratch> scratch;
      Operand from = launch.input;
      if (launch.input_dtype != launch.dtype) {
        from = converted(launch, scratch.emplace(converted_bytes(launch), context).data());
        cpu_engine().run(cast_program(launch), cast_launch(launch, from), context);
      }
      const Lines lines = make_lines(launch.shape, launch.axis, from, launch.output, output_strides(launch));
      Scan scan(launch.op, launch.dtype, lines, static_cast<const char*>(from.data),
                static_cast<char*>(launch.output.data), context.threads);
      if (launch.only_last)
        scan.run_last();
      else
        scan.run();
    }
    if (launch.before.data != nullptr) cpu_engine().run(continue_program(launch), continue_launch(launch), context);
  }

  void fold(const FoldLaunch& launch, const ExecContext& context) override {
    if (element_count(launch.shape) == 0 || launch.ranges == 0) return;
    const Recurrence chain = recurrence(launch.op, launch.dtype);
    QUARRY_CHECK(chain != nullptr);
    const int64_t size = itemsize(launch.dtype), length = launch.shape[launch.axis];
    AxisGroup in, out;
    int64_t others = 1;
    for (int d = 0; d < launch.shape.size(); ++d) {
      if (d == launch.axis) continue;
      in.push_back(launch.shape[d], launch.input.strides[d]);
      out.push_back(launch.shape[d], launch.output.strides[d]);
      others *= launch.shape[d];
    }
    const int64_t in_step = launch.input.strides[launch.axis], out_step = launch.output.strides[launch.axis];
    const MapLoop map = loops(cpu_level()).op[static_cast<int>(launch.op)][static_cast<int>(launch.dtype)];
    const auto bounds = [&](int64_t range) {
      return launch.begins ? std::pair(launch.begins[range], launch.ends[range]) : std::pair(int64_t{0}, length);
    };
    const char* data = static_cast<const char*>(launch.input.data);
    char* result = static_cast<char*>(launch.output.data);

    // Strips of neighbouring lines where memory runs across them; single lines elsewhere.
    const bool vectors = map && in.inner_stride() == size && (in_step < 0 ? -in_step : in_step) > size;
    const int64_t width = vectors ? kStripBytes / size : 1;
    const int64_t strips = (others + width - 1) / width, units = strips * launch.ranges;
    constexpr int64_t kWorthThreads = 1 << 15;
    const int slots = element_count(launch.shape) < kWorthThreads ? 1 : slots_for(units, context.threads);
    for_each_unit(units, slots, [&](int64_t unit, int) {
      const int64_t range = unit / strips, first = unit % strips * width, last = std::min(first + width, others);
      const auto [begin, end] = bounds(range);
      for (int64_t line = first; line < last;) {
        const AxisGroup::Run run = in.run(line, last - line);
        const char* x = data + run.offset + begin * in_step;
        if (run.count < 16 || !vectors) {
          Carry carry;
          chain(x, in_step, nullptr, 0, end - begin, carry.bytes, false);
          store_carry(launch.op, launch.dtype, carry.bytes, result + out.run(line, 1).offset + range * out_step);
          ++line;
          continue;
        }
        alignas(64) char rows[2][kStripBytes];
        std::memcpy(rows[0], x, static_cast<size_t>(run.count * size));
        int current = 0;
        for (int64_t i = begin + 1; i < end; ++i) {
          x += in_step;
          const void* args[] = {rows[current], x};
          map(rows[1 - current], args, run.count);
          current = 1 - current;
        }
        for (int64_t k = 0; k < run.count; ++k)
          std::memcpy(result + out.run(line + k, 1).offset + range * out_step, rows[current] + k * size,
                      static_cast<size_t>(size));
        line += run.count;
      }
    });
  }

 private:
  // Where the input goes if it has another dtype: the output, if that is whole, else scratch.
  static int64_t converted_bytes(const ScanLaunch& launch) {
    return launch.only_last ? rounded_allocation(element_count(launch.shape) * itemsize(launch.dtype)) : 0;
  }
  static Operand converted(const ScanLaunch& launch, void* scratch) {
    return launch.only_last ? Operand{scratch, output_strides(launch)} : launch.output;
  }
};

}  // namespace
}  // namespace cpu

Scanning& cpu_scanning() {
  static cpu::CpuScanning instance;
  return instance;
}

}  // namespace quarry::local
