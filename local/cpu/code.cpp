#include "quarry/local/cpu/code.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"

namespace quarry::local::cpu {
namespace {

constexpr Accumulator kAccumulators[] = {
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, ufunc, loop, ...) Accumulator::loop,
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
};

class Lowering {
 public:
  Lowering(const Program& program, const Loops& loops)
      : program_(program), loops_(loops), plain_(program.values().size(), -1), wide_(program.values().size(), -1) {}

  Code run() {
    for (ValueId id : program_.outputs()) code_.outputs.push_back(value(id));
    for (const ProgramReduction& reduction : program_.reductions()) add_reduction(reduction);
    assign_buffers();
    for (const int out : code_.outputs) reads_constants_ = reads_constants_ || is_constant(out);
    code_.one_loop = loops_emitted_ == 1 && !reads_constants_ && code_.indexes.empty() && code_.reductions.empty();
    return std::move(code_);
  }

 private:
  int push(CodeValue value) {
    code_.values.push_back(value);
    return static_cast<int>(code_.values.size() - 1);
  }
  int push_index(CodeIndex index) {
    code_.indexes.push_back(std::move(index));
    return push({CodeValue::Kind::index, DType::int64, static_cast<int>(code_.indexes.size() - 1)});
  }
  int emit(MapLoop loop, DType dtype, std::initializer_list<int> args, bool by_constant = false) {
    QUARRY_CHECK(loop != nullptr);
    ++loops_emitted_;
    for (const int arg : args) reads_constants_ = reads_constants_ || (is_constant(arg) && !by_constant);
    const int out = push({CodeValue::Kind::result, dtype});
    Instruction instruction{loop, static_cast<int>(args.size()), {}, out};
    std::copy(args.begin(), args.end(), instruction.args);
    code_.instructions.push_back(instruction);
    return out;
  }
  MapLoop cast_loop(DType from, DType to) const { return loops_.cast[static_cast<int>(from)][static_cast<int>(to)]; }

  // The program's value, in its dtype.
  int value(ValueId id) {
    int& known = plain_[static_cast<size_t>(id)];
    if (known < 0) {
      const int made = make(id);
      plain_[static_cast<size_t>(id)] = made;
      return made;
    }
    return known;
  }
  // The same with the 16-bit floats as float32, which their arithmetic is done in.
  int wide_value(ValueId id) {
    const DType dtype = program_.dtype(id);
    if (!is_half(dtype)) return value(id);
    if (wide_[static_cast<size_t>(id)] < 0) {
      const int narrow = value(id);
      wide_[static_cast<size_t>(id)] = emit(cast_loop(dtype, DType::float32), DType::float32, {narrow});
    }
    return wide_[static_cast<size_t>(id)];
  }
  int convert(int from, DType to) {
    const DType dtype = code_.values[static_cast<size_t>(from)].dtype;
    if (dtype == to) return from;
    if (MapLoop direct = cast_loop(dtype, to)) return emit(direct, to, {from});
    return convert(emit(cast_loop(dtype, DType::float32), DType::float32, {from}), to);
  }

  int make(ValueId id) {
    const Value& v = program_.values()[static_cast<size_t>(id)];
    switch (v.kind) {
      case Value::Kind::input: {
        const int out = push({CodeValue::Kind::input, v.dtype, v.slot, v.swapped});
        code_.instructions.push_back({nullptr, 0, {}, out});
        return out;
      }
      case Value::Kind::index: {
        const int out = push_index({{{v.slot}}});
        code_.instructions.push_back({nullptr, 0, {}, out});
        return out;
      }
      case Value::Kind::constant: {
        const int out = push({CodeValue::Kind::constant, v.dtype, v.slot});
        code_.constant_values.push_back(out);
        return out;
      }
      case Value::Kind::op:
        break;
    }
    if (v.op == "cast"_op) {
      const int from = is_half(v.dtype) && is_half(v.loop) ? wide_value(v.args[0]) : value(v.args[0]);
      return convert(from, v.dtype);
    }
    const OpRule rule = info(v.op).rule;
    const bool half = is_half(v.loop) && rule != OpRule::storage;
    int args[3] = {};
    for (int i = 0; i < v.nargs; ++i) args[i] = half ? wide_value(v.args[i]) : value(v.args[i]);
    const auto row = static_cast<size_t>(v.op), column = static_cast<size_t>(half ? DType::float32 : v.loop);
    MapLoop loop = loops_.op[row][column];
    if (rule == OpRule::comparison && program_.dtype(v.args[0]) != program_.dtype(v.args[1]))
      loop = loops_.mixed[row][program_.dtype(v.args[0]) == DType::uint64 ? 1 : 0];
    const bool by_constant = v.nargs == 2 && is_constant(args[1]) && !is_constant(args[0]) &&
                             loop == loops_.op[row][column] && loops_.by_constant[row][column] != nullptr;
    if (by_constant) loop = loops_.by_constant[row][column];
    if (!loop) throw InternalError(fmt::format("no CPU loop of {} for {}", info(v.op).name, name(v.loop)));
    const DType computed = half ? widened(v.dtype) : v.dtype;
    const int out = v.nargs == 1   ? emit(loop, computed, {args[0]})
                    : v.nargs == 2 ? emit(loop, computed, {args[0], args[1]}, by_constant)
                                   : emit(loop, computed, {args[0], args[1], args[2]});
    return convert(out, v.dtype);
  }

  bool is_constant(int id) const { return code_.values[static_cast<size_t>(id)].kind == CodeValue::Kind::constant; }

  // Whether the value is linear in the position, as positions of argmin and argmax are.
  bool is_index(ValueId id, CodeIndex* index) const {
    const auto value_of = [&](ValueId v) -> const Value& { return program_.values()[static_cast<size_t>(v)]; };
    const Value& v = value_of(id);
    if (v.kind == Value::Kind::index) {
      index->steps.push_back({v.slot});
      return true;
    }
    if (v.kind != Value::Kind::op || v.op != "add"_op || v.loop != DType::int64) return false;
    const Value& scaled = value_of(v.args[0]);
    const Value& last = value_of(v.args[1]);
    if (scaled.kind != Value::Kind::op || scaled.op != "multiply"_op || last.kind != Value::Kind::index) return false;
    const Value& scale = value_of(scaled.args[1]);
    if (scale.kind != Value::Kind::constant || !is_index(scaled.args[0], index)) return false;
    index->steps.push_back({last.slot, scale.slot});
    return true;
  }
  int position(ValueId id) {
    CodeIndex index;
    const int made = is_index(id, &index) ? push_index(std::move(index)) : value(id);
    code_.values[static_cast<size_t>(made)].contiguous = true;
    return made;
  }

  void add_reduction(const ProgramReduction& source) {
    CodeReduction r{};
    r.reduction = source.reduction;
    const ReductionInfo& row = info(source.reduction);
    const Accumulator accumulator = kAccumulators[static_cast<size_t>(source.reduction)];
    const bool own_loop = accumulator != Accumulator::row;
    r.loop = own_loop ? static_cast<int>(accumulator) : row_loop(source.reduction);
    // Its own loops leave counting to the interpreter and take truth values where they can.
    r.count = own_loop ? row.count_field : -1;
    const bool truth = own_loop && row.of_truth;
    const DType own = program_.dtype(source.args[0]);
    if (truth && loops_.reduce_columns[r.loop][static_cast<int>(own)])
      r.value = value(source.args[0]);
    else
      r.value = truth ? convert(wide_value(source.args[0]), DType::bool_) : wide_value(source.args[0]);
    r.dtype = code_.values[static_cast<size_t>(r.value)].dtype;
    if (source.args.size() == 2) r.position = position(source.args[1]);
    const std::vector<DType> fields = state_dtypes(source.reduction, source.accumulate);
    r.fields = static_cast<int>(fields.size());
    for (int i = 0; i < r.fields; ++i) {
      r.state[i] = fields[static_cast<size_t>(i)];
      r.wide[i] = widened(r.state[i]);
    }
    if (!loops_.reduce_columns[r.loop][static_cast<int>(r.dtype)])
      throw TypeError(fmt::format("reduction '{}' not supported for dtype {}", row.name, name(source.accumulate)));
    code_.reductions.push_back(r);
  }

  // Gives every value that may need one a scratch tile; a tile is reused after the last use of its value.
  void assign_buffers() {
    const int n = static_cast<int>(code_.instructions.size());
    std::vector<int> last(code_.values.size(), -1);
    for (int i = 0; i < n; ++i) {
      const Instruction& in = code_.instructions[static_cast<size_t>(i)];
      for (int k = 0; k < in.nargs; ++k) last[static_cast<size_t>(in.args[k])] = i;
    }
    for (int out : code_.outputs) last[static_cast<size_t>(out)] = n;
    for (const CodeReduction& r : code_.reductions) {
      last[static_cast<size_t>(r.value)] = n;
      if (r.position >= 0) last[static_cast<size_t>(r.position)] = n;
    }
    std::vector<int> free;
    const auto take = [&](CodeValue& value) {
      const int64_t bytes = itemsize(value.dtype);
      const auto fits = std::find_if(free.begin(), free.end(),
                                     [&](int b) { return code_.buffer_itemsize[static_cast<size_t>(b)] >= bytes; });
      if (fits != free.end()) {
        value.buffer = *fits;
        free.erase(fits);
      } else {
        value.buffer = static_cast<int>(code_.buffer_itemsize.size());
        code_.buffer_itemsize.push_back(bytes);
      }
    };
    for (int id : code_.constant_values) take(code_.values[static_cast<size_t>(id)]);
    for (int i = 0; i < n; ++i) {
      const Instruction& in = code_.instructions[static_cast<size_t>(i)];
      // Before the arguments' tiles are given back: no result overwrites what it is made of.
      take(code_.values[static_cast<size_t>(in.out)]);
      for (int k = 0; k < in.nargs; ++k) {
        CodeValue& arg = code_.values[static_cast<size_t>(in.args[k])];
        if (last[static_cast<size_t>(in.args[k])] == i && arg.kind != CodeValue::Kind::constant && arg.buffer >= 0 &&
            std::find(free.begin(), free.end(), arg.buffer) == free.end())
          free.push_back(arg.buffer);
      }
      if (last[static_cast<size_t>(in.out)] < 0) free.push_back(code_.values[static_cast<size_t>(in.out)].buffer);
    }
    for (const CodeReduction& r : code_.reductions)  // positions that no instruction makes
      if (r.position >= 0 && code_.values[static_cast<size_t>(r.position)].buffer < 0)
        take(code_.values[static_cast<size_t>(r.position)]);
  }

  const Program& program_;
  const Loops& loops_;
  std::vector<int> plain_, wide_;
  int loops_emitted_ = 0;
  bool reads_constants_ = false;  // more of one than its first element
  Code code_;
};

}  // namespace

Code lower(const Program& program, const Loops& loops) { return Lowering(program, loops).run(); }

}  // namespace quarry::local::cpu
