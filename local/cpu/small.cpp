#include "quarry/local/cpu/small.h"

#include <array>
#include <cstring>

#include "quarry/local/cpu/strided.h"

namespace quarry::local::cpu {
namespace {

constexpr int64_t kMostElements = 1024;
constexpr size_t kMostValues = 24;
constexpr int64_t kMemory = int64_t{32} << 10;  // on the stack

enum class Spread : uint8_t { dense, single, other };

// How an operand lies over the space: C order without gaps, one element for all, or otherwise.
Spread spread(const Dims& shape, const Dims& strides, int64_t itemsize) {
  bool dense = true, single = true;
  int64_t step = itemsize;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    dense = dense && strides[d] == step;
    single = single && strides[d] == 0;
    step *= shape[d];
  }
  return dense ? Spread::dense : single ? Spread::single : Spread::other;
}

class SmallRun {
 public:
  SmallRun(const Code& code, const Loops& loops, const std::vector<Scalar>& constants, const Launch& launch,
           char* memory)
      : code_(code),
        loops_(loops),
        constants_(constants),
        launch_(launch),
        count_(element_count(launch.shape)),
        memory_(memory) {}

  bool run() {
    if (count_ > kMostElements || code_.values.size() > kMostValues || !reduces_all()) return false;
    if (!place_buffers() || !place_outputs() || !place_inputs()) return false;
    for (int id : code_.constant_values) {
      const CodeValue& value = code_.values[static_cast<size_t>(id)];
      alignas(16) char bytes[16];
      constants_[static_cast<size_t>(value.slot)].store(value.dtype, bytes);
      fill(id, bytes);
    }
    for (const Instruction& in : code_.instructions) {
      if (!in.loop) {  // only now: buffers are used again
        load(in.out);
        continue;
      }
      const void* args[3];
      for (int k = 0; k < in.nargs; ++k) args[k] = data_[static_cast<size_t>(in.args[k])];
      in.loop(data_[static_cast<size_t>(in.out)], args, count_);
    }
    for (size_t o = 0; o < code_.outputs.size(); ++o) {
      const auto id = static_cast<size_t>(code_.outputs[o]);
      if (data_[id] == launch_.outputs[o].data) continue;
      std::memcpy(launch_.outputs[o].data, data_[id], static_cast<size_t>(count_ * itemsize(code_.values[id].dtype)));
    }
    size_t state = 0;
    for (const CodeReduction& r : code_.reductions) reduce(r, &state);
    return true;
  }

 private:
  // Reductions of all elements are one call of their loop each, as the interpreter's of one tile.
  bool reduces_all() const {
    if (code_.reductions.empty()) return true;
    for (int d = 0; d < launch_.shape.size(); ++d)
      if ((launch_.reduce_axes >> d & 1u) == 0) return false;
    for (const CodeReduction& r : code_.reductions)
      if (r.position >= 0) return false;
    return count_ > 0;
  }

  void reduce(const CodeReduction& r, size_t* state) {
    alignas(16) char wide[3][16];
    void* const fields[] = {wide[0], wide[1], wide[2]};
    const auto value = static_cast<size_t>(r.value);
    loops_.reduce_columns[r.loop][static_cast<int>(r.dtype)](data_[value], nullptr, 1, count_, 0, fields);
    if (r.count >= 0) std::memcpy(wide[r.count], &count_, sizeof count_);
    for (int f = 0; f < r.fields; ++f, ++*state) {
      alignas(16) char narrow[16];
      const char* from = wide[f];
      if (r.wide[f] != r.state[f]) {
        const void* args[] = {from};
        loops_.cast[static_cast<int>(r.wide[f])][static_cast<int>(r.state[f])](narrow, args, 1);
        from = narrow;
      }
      std::memcpy(launch_.states[*state].data, from, static_cast<size_t>(itemsize(r.state[f])));
    }
  }

  bool place_buffers() {
    std::array<int64_t, kMostValues> offsets{};
    int64_t end = 0;
    for (size_t b = 0; b < code_.buffer_itemsize.size(); ++b) {  // fewer than values
      offsets[b] = end;
      end += (code_.buffer_itemsize[b] * count_ + 63) / 64 * 64;
      if (end > kMemory) return false;
    }
    for (size_t v = 0; v < code_.values.size(); ++v)
      data_[v] = code_.values[v].buffer < 0 ? nullptr : memory_ + offsets[static_cast<size_t>(code_.values[v].buffer)];
    return true;
  }

  // Results go to their memory at once, unless an input lies there, which may be read later.
  bool place_outputs() {
    for (size_t o = 0; o < code_.outputs.size(); ++o) {
      const auto id = static_cast<size_t>(code_.outputs[o]);
      const CodeValue& value = code_.values[id];
      const Operand& to = launch_.outputs[o];
      if (value.kind != CodeValue::Kind::result && value.kind != CodeValue::Kind::index) return false;
      if (spread(launch_.shape, to.strides, itemsize(value.dtype)) != Spread::dense) return false;
      bool direct = true;
      for (const Operand& from : launch_.inputs) direct = direct && from.data != to.data;
      for (size_t p = 0; p < o; ++p) direct = direct && code_.outputs[p] != code_.outputs[o];
      if (direct) data_[id] = static_cast<char*>(to.data);
    }
    return true;
  }

  bool place_inputs() {
    for (size_t v = 0; v < code_.values.size(); ++v) {
      const CodeValue& value = code_.values[v];
      if (value.kind == CodeValue::Kind::index &&
          (launch_.shape.size() != 1 || code_.indexes[static_cast<size_t>(value.slot)].steps.size() != 1))
        return false;
      if (value.kind != CodeValue::Kind::input) continue;
      if (value.swapped) return false;
      const Operand& from = launch_.inputs[static_cast<size_t>(value.slot)];
      switch (spread(launch_.shape, from.strides, itemsize(value.dtype))) {
        case Spread::dense:
          data_[v] = static_cast<char*>(from.data);
          break;
        case Spread::single:
          single_[v] = static_cast<const char*>(from.data);
          break;
        case Spread::other:
          if (launch_.shape.size() != 1) return false;
          apart_[v] = &from;
          break;
      }
    }
    return true;
  }

  void load(int id) {
    const auto v = static_cast<size_t>(id);
    if (single_[v] != nullptr) fill(id, single_[v]);
    if (apart_[v] != nullptr) {
      const int64_t size = itemsize(code_.values[v].dtype);
      copy_2d(data_[v], 0, size, static_cast<const char*>(apart_[v]->data), 0, apart_[v]->strides[0], 1, count_, size);
    }
    if (code_.values[v].kind != CodeValue::Kind::index) return;
    const int64_t origin = launch_.index_offset.empty() ? 0 : launch_.index_offset[0];
    auto* to = reinterpret_cast<int64_t*>(data_[v]);
    for (int64_t i = 0; i < count_; ++i) to[i] = origin + i;
  }

  void fill(int id, const char* element) {
    const int64_t size = itemsize(code_.values[static_cast<size_t>(id)].dtype);
    copy_2d(data_[static_cast<size_t>(id)], 0, size, element, 0, 0, 1, count_, size);
  }

  const Code& code_;
  const Loops& loops_;
  const std::vector<Scalar>& constants_;
  const Launch& launch_;
  const int64_t count_;
  char* const memory_;
  std::array<char*, kMostValues> data_{};            // of each value
  std::array<const char*, kMostValues> single_{};    // the element of inputs that have one for all
  std::array<const Operand*, kMostValues> apart_{};  // inputs whose elements are no neighbours
};

}  // namespace

bool run_small(const Code& code, const Loops& loops, const std::vector<Scalar>& constants, const Launch& launch) {
  alignas(64) char memory[kMemory];
  return SmallRun(code, loops, constants, launch, memory).run();
}

}  // namespace quarry::local::cpu
