#include "quarry/local/program/program.h"

#include <fmt/format.h>

#include <array>
#include <complex>
#include <limits>

#include "quarry/local/base/error.h"
#include "quarry/local/program/combining.h"
#include "quarry/local/program/op_enum.h"
#include "quarry/local/program/reduction_enum.h"
#include "quarry/local/program/rows.h"

namespace quarry::local {
namespace {

// ---- Rules of reduction.def ----

enum class AccumulateRule { same, wide, inexact };
enum class ResultRule { same, real, boolean, position };

struct ReductionTypes {
  AccumulateRule accumulate;
  ResultRule result;
};

constexpr ReductionTypes kTypes[] = {
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, ufunc, loop, f0, f1, f2, finalize) \
  {AccumulateRule::accumulate, ResultRule::result},
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
};

DType field_dtype(FieldDType field, DType accumulate) {
  switch (field) {
    case FieldDType::value:
      return widened(accumulate);
    case FieldDType::exact:
      return accumulate;
    case FieldDType::real_value:
      return real_type(widened(accumulate));
    case FieldDType::boolean:
      return DType::bool_;
    case FieldDType::position:
      return DType::int64;
    case FieldDType::none:
      break;
  }
  QUARRY_CHECK(false);
  return accumulate;
}

// ---- The expressions of reduction.def, recorded into a Program ----

struct Recorded {
  Program* program;
  ValueId id;
};

struct Recorder {
  Program& program;
  DType value_dtype, real_dtype;
  StatesKnown known = StatesKnown::nothing;
  Recorded ddof{};
  mutable ValueId zero = -1;

  template <class... Args>
  Recorded record(Op op, Args... args) const {
    const ValueId ids[] = {args.id...};
    return {&program, program.apply(op, ids)};
  }
  Recorded lit(int64_t n) const {
    if (n != 0) return {&program, program.constant(Scalar(n), DType::int64)};
    if (zero < 0) zero = program.constant(Scalar(int64_t{0}), DType::int64);
    return {&program, zero};
  }
  Recorded as(Recorded x, DType dtype) const { return {&program, program.cast(x.id, dtype)}; }
  Recorded truth(Recorded x) const { return as(x, DType::bool_); }
  Recorded to_value(Recorded x) const { return as(x, value_dtype); }
  Recorded to_real(Recorded x) const { return as(x, real_dtype); }

  // add(x, y) ...: the functions of ufunc.def.
#define QUARRY_RECORDED_1(name) \
  Recorded name(Recorded x) const { return record(Op::name, x); }
#define QUARRY_RECORDED_2(name) \
  Recorded name(Recorded x, Recorded y) const { return record(Op::name, x, y); }
#define QUARRY_RECORDED_3(name) \
  Recorded name(Recorded x, Recorded y, Recorded z) const { return record(Op::name, x, y, z); }
#define QUARRY_OP(name, aliases, arity, ...) QUARRY_RECORDED_##arity(name)
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_RECORDED_1
#undef QUARRY_RECORDED_2
#undef QUARRY_RECORDED_3

  // Whether the first state (extreme a0 at a1) is kept: the other is empty, or this one is no later and no worse.
  Recorded first_wins(Op better, Op no_worse, Recorded a0, Recorded a1, Recorded b0, Recorded b1) const {
    const Recorded zero = lit(0);
    if (known != StatesKnown::nothing) {
      const Recorded kept = logical_or(record(no_worse, a0, b0), record(Op::isnan, a0));
      return known == StatesKnown::in_order_all ? kept : logical_and(record(Op::greater_equal, a1, zero), kept);
    }
    const Recorded a_nan = record(Op::isnan, a0), b_nan = record(Op::isnan, b0);
    const Recorded earlier = record(Op::less, a1, b1);
    const Recorded tie = logical_or(record(Op::equal, a0, b0), logical_and(a_nan, b_nan));
    const Recorded ahead = logical_or(record(better, a0, b0), logical_and(a_nan, record(Op::logical_not, b_nan)));
    const Recorded kept = logical_or(ahead, logical_and(tie, earlier));
    return logical_and(record(Op::greater_equal, a1, zero), logical_or(record(Op::less, b1, zero), kept));
  }
  Recorded first_is_min(Recorded a0, Recorded a1, Recorded b0, Recorded b1) const {
    return first_wins(Op::less, Op::less_equal, a0, a1, b0, b1);
  }
  Recorded first_is_max(Recorded a0, Recorded a1, Recorded b0, Recorded b1) const {
    return first_wins(Op::greater, Op::greater_equal, a0, a1, b0, b1);
  }
  // Mean and squared distances of two parts with counts a0, b0, means a1, b1 and squared distances a2, b2.
  Recorded chan_mean(Recorded a0, Recorded a1, Recorded b0, Recorded b1) const {
    const Recorded share = divide(to_real(b0), to_real(add(a0, b0)));
    const Recorded merged = add(a1, multiply(subtract(b1, a1), to_value(share)));
    return unless_empty(a0, b0, a1, b1, merged);
  }
  Recorded chan_m2(Recorded a0, Recorded a1, Recorded a2, Recorded b0, Recorded b1, Recorded b2) const {
    const Recorded delta = subtract(b1, a1);
    Recorded distance = record(Op::square, record(Op::real, delta));
    if (is_complex(value_dtype)) distance = add(distance, record(Op::square, record(Op::imag, delta)));
    const Recorded share = divide(to_real(b0), to_real(add(a0, b0)));
    const Recorded merged = add(add(a2, b2), multiply(distance, multiply(to_real(a0), share)));
    return unless_empty(a0, b0, a2, b2, merged);
  }
  // The squared distances, but NaN where the mean is not finite: elements that are not finite have no distance from it.
  Recorded distances(Recorded a1, Recorded a2) const {
    const Recorded difference = subtract(a1, a1);
    const Recorded sum = add(a2, record(Op::real, difference));
    return is_complex(value_dtype) ? add(sum, record(Op::imag, difference)) : sum;
  }
  Recorded unless_empty(Recorded a0, Recorded b0, Recorded a, Recorded b, Recorded merged) const {
    const Recorded zero = lit(0);
    return where(record(Op::equal, b0, zero), a, where(record(Op::equal, a0, zero), b, merged));
  }
};

constexpr size_t kUsual = 8;  // values of a program, most of the time

}  // namespace

ValueId Program::input(DType dtype, bool swapped) {
  Value value{Value::Kind::input, dtype};
  value.slot = inputs_++;
  value.swapped = swapped && itemsize(dtype) > 1;
  add(value);
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Program::constant(const Scalar& scalar, DType dtype) {
  Value value{Value::Kind::constant, dtype};
  value.slot = static_cast<int>(constants_.size());
  if (constants_.empty()) constants_.reserve(kUsual);
  constants_.push_back(Scalar::strong(scalar, dtype));
  add(value);
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Program::index(int axis) {
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i].kind == Value::Kind::index && values_[i].slot == axis) return static_cast<ValueId>(i);
  Value value{Value::Kind::index, DType::int64};
  value.slot = axis;
  add(value);
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Program::apply(Op op, std::span<const ValueId> args, std::optional<DType> dtype) {
  QUARRY_CHECK(op != Op::cast);
  std::array<PromotionOperand, 3> operands{};
  QUARRY_CHECK(args.size() <= operands.size());
  for (size_t i = 0; i < args.size(); ++i) operands[i].dtype = this->dtype(args[i]);
  const OpTypes types = resolve(op, std::span(operands.data(), args.size()), dtype);

  Value value{Value::Kind::op, types.result};
  value.op = op;
  value.loop = types.loop;
  value.nargs = static_cast<int>(args.size());
  for (size_t i = 0; i < args.size(); ++i) value.args[i] = cast(args[i], types.args[i]);
  if (op == Op::power && is_integer(types.loop)) {
    const Value& exponent = values_[static_cast<size_t>(value.args[1])];
    if (exponent.kind == Value::Kind::constant && kind(exponent.dtype) == 'i' &&
        constants_[static_cast<size_t>(exponent.slot)].as_int64() < 0)
      throw InvalidArgument("Integers to negative integer powers are not allowed.");
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    const Value& v = values_[i];
    if (v.kind == Value::Kind::op && v.op == op && v.loop == value.loop && v.dtype == value.dtype &&
        std::equal(v.args, v.args + 3, value.args))
      return static_cast<ValueId>(i);
  }
  add(value);
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Program::cast(ValueId source, DType dtype) {
  if (this->dtype(source) == dtype) return source;
  if (values_[static_cast<size_t>(source)].kind == Value::Kind::constant) {
    const Scalar scalar = constants_[static_cast<size_t>(values_[static_cast<size_t>(source)].slot)];
    return constant(scalar, dtype);
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    const Value& v = values_[i];
    if (v.kind == Value::Kind::op && v.op == Op::cast && v.dtype == dtype && v.args[0] == source)
      return static_cast<ValueId>(i);
  }
  Value value{Value::Kind::op, dtype};
  value.op = Op::cast;
  value.loop = this->dtype(source);
  value.nargs = 1;
  value.args[0] = source;
  add(value);
  return static_cast<ValueId>(values_.size() - 1);
}

void Program::output(ValueId value) {
  key_.clear();
  outputs_.push_back(value);
}

void Program::add(const Value& value) {
  key_.clear();
  if (values_.empty()) values_.reserve(kUsual);
  values_.push_back(value);
}

void Program::set_constant(int slot, const Scalar& value) {
  Scalar& constant = constants_[static_cast<size_t>(slot)];
  constant = Scalar::strong(value, constant.dtype());
}

void Program::reduce(Reduction reduction, std::span<const ValueId> args, DType accumulate) {
  const ReductionInfo& row = info(reduction);
  if (args.size() != (row.has_position ? 2u : 1u))
    throw InvalidArgument(fmt::format("reduction '{}' takes {}, got {} arguments", row.name,
                                      row.has_position ? "a value and a position" : "one value", args.size()));
  ProgramReduction entry{reduction, accumulate, {cast(args[0], accumulate)}};
  if (row.has_position) entry.args.push_back(cast(args[1], DType::int64));
  key_.clear();
  reductions_.push_back(std::move(entry));
}

DType Program::input_dtype(int slot) const {
  for (const Value& v : values_)
    if (v.kind == Value::Kind::input && v.slot == slot) return v.dtype;
  throw InvalidArgument(fmt::format("program has {} inputs, no number {}", inputs_, slot));
}

std::string Program::key() const {
  if (!key_.empty()) return key_;
  std::string key;
  const auto add_number = [&key](ValueId number) { key += std::to_string(number); };
  const auto add_arguments = [&](std::span<const ValueId> args) {
    for (const ValueId arg : args) {
      key += ',';
      add_number(arg);
    }
    key += ';';
  };
  for (const Value& v : values_) {
    switch (v.kind) {
      case Value::Kind::input:
        key += 'i';
        add_number(v.slot);
        key.append(":").append(name(v.dtype)).append(v.swapped ? "s;" : ";");
        break;
      case Value::Kind::constant:
        key.append("c").append(name(v.dtype)).append(";");
        break;
      case Value::Kind::index:
        key += 'x';
        add_number(v.slot);
        key += ';';
        break;
      case Value::Kind::op:
        key.append(info(v.op).name).append(":").append(name(v.loop)).append(">").append(name(v.dtype));
        add_arguments({v.args, static_cast<size_t>(v.nargs)});
        break;
    }
  }
  for (const ValueId id : outputs_) {
    key += 'o';
    add_number(id);
    key += ';';
  }
  for (const ProgramReduction& r : reductions_) {
    key.append("r").append(info(r.reduction).name).append(":").append(name(r.accumulate));
    add_arguments(r.args);
  }
  return key;
}

std::vector<DType> state_dtypes(Reduction reduction, DType accumulate) {
  std::vector<DType> dtypes;
  for (FieldDType field : info(reduction).dtype)
    if (field != FieldDType::none) dtypes.push_back(field_dtype(field, accumulate));
  return dtypes;
}

Scalar start_value(Reduction reduction, int field, DType dtype) {
  const FieldStart start = info(reduction).start[field];
  switch (start) {
    case FieldStart::none:
    case FieldStart::zero:
      return Scalar(int64_t{0});
    case FieldStart::one:
      return Scalar(int64_t{1});
    case FieldStart::nowhere:
      return Scalar(int64_t{-1});
    case FieldStart::lowest:
    case FieldStart::highest:
      break;
  }
  const bool low = start == FieldStart::lowest;
  const double infinite = low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  Scalar value;
  dispatch(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      value = Scalar(int64_t{!low});
    } else if constexpr (std::is_integral_v<T>) {
      value = Scalar(low ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
    } else if constexpr (requires(T x) { x.imag(); }) {
      value = Scalar(std::complex<double>(infinite, infinite));
    } else {
      value = Scalar(infinite);
    }
  });
  return value;
}

DType result_dtype(Reduction reduction, DType accumulate) {
  switch (kTypes[static_cast<size_t>(reduction)].result) {
    case ResultRule::same:
      return accumulate;
    case ResultRule::real:
      return real_type(accumulate);
    case ResultRule::boolean:
      return DType::bool_;
    case ResultRule::position:
      return DType::int64;
  }
  return accumulate;
}

DType accumulate_dtype(Reduction reduction, DType input) {
  switch (kTypes[static_cast<size_t>(reduction)].accumulate) {
    case AccumulateRule::same:
      return input;
    case AccumulateRule::wide:
      if (kind(input) == 'b' || kind(input) == 'i') return DType::int64;
      return kind(input) == 'u' ? DType::uint64 : input;
    case AccumulateRule::inexact:
      return is_float(input) || is_complex(input) ? input : DType::float64;
  }
  return input;
}

Program combine_program(Reduction reduction, DType accumulate) {
  return combine_program(reduction, accumulate, StatesKnown::nothing);
}

namespace {

using State = std::array<Recorded, 3>;

State record_state(Program& program, const std::vector<DType>& fields) {
  State state{};
  for (size_t i = 0; i < fields.size(); ++i) state[i] = {&program, program.input(fields[i])};
  return state;
}

// One row becomes a case; its functions are the recorder's.
struct MapRows : Recorder {
  std::vector<Recorded> map(Reduction which, Recorded x, Recorded p) const {
    static_cast<void>(p);
    std::vector<Recorded> out;
    switch (which) {
#define QUARRY_FIELD(...) __VA_OPT__(out.push_back(__VA_ARGS__);)
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, ufunc, loop, f0, f1, f2, finalize) \
  case Reduction::name:                                                                                      \
    QUARRY_FIELD(QUARRY_FIELD_MAP f0) QUARRY_FIELD(QUARRY_FIELD_MAP f1) QUARRY_FIELD(QUARRY_FIELD_MAP f2) break;
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
#undef QUARRY_FIELD
    }
    return out;
  }
};

struct CombineRows : Recorder {
  std::vector<Recorded> combine(Reduction which, const State& a, const State& b) const {
    const auto& [a0, a1, a2] = a;
    const auto& [b0, b1, b2] = b;
    static_cast<void>(a1), static_cast<void>(a2), static_cast<void>(b1), static_cast<void>(b2);
    std::vector<Recorded> out;
    switch (which) {
#define QUARRY_FIELD(...) __VA_OPT__(out.push_back(__VA_ARGS__);)
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, ufunc, loop, f0, f1, f2, finalize) \
  case Reduction::name:                                                                                      \
    QUARRY_FIELD(QUARRY_FIELD_COMBINE f0)                                                                    \
    QUARRY_FIELD(QUARRY_FIELD_COMBINE f1) QUARRY_FIELD(QUARRY_FIELD_COMBINE f2) break;
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
#undef QUARRY_FIELD
    }
    return out;
  }
};

State merged(Program& program, Reduction reduction, DType accumulate, StatesKnown known, const State& a,
             const State& b) {
  const std::vector<DType> fields = state_dtypes(reduction, accumulate);
  const CombineRows rows{{program, widened(accumulate), real_type(widened(accumulate)), known}};
  const std::vector<Recorded> out = rows.combine(reduction, a, b);
  State state{};
  for (size_t i = 0; i < fields.size(); ++i) state[i] = {&program, program.cast(out[i].id, fields[i])};
  return state;
}

}  // namespace

Program map_program(Reduction reduction, DType accumulate) {
  Program program;
  const std::vector<DType> fields = state_dtypes(reduction, accumulate);
  const Recorded x{&program, program.input(accumulate)};
  const Recorded p{&program, info(reduction).has_position ? program.input(DType::int64) : -1};
  const MapRows rows{{program, widened(accumulate), real_type(widened(accumulate))}};
  const std::vector<Recorded> out = rows.map(reduction, x, p);
  for (size_t i = 0; i < fields.size(); ++i) program.output(program.cast(out[i].id, fields[i]));
  return program;
}

Program combine_program(Reduction reduction, DType accumulate, StatesKnown known) {
  Program program;
  const std::vector<DType> fields = state_dtypes(reduction, accumulate);
  const State a = record_state(program, fields);
  const State b = record_state(program, fields);
  const State state = merged(program, reduction, accumulate, known, a, b);
  for (size_t i = 0; i < fields.size(); ++i) program.output(state[i].id);
  return program;
}

Program combine_states_program(std::span<const ProgramReduction> reductions, int states, MergeOrder order) {
  Program program;
  // What is merged so far, each of so many states: of fewer and fewer for pairs, at most one for a chain.
  std::vector<std::vector<State>> merged_states;
  std::vector<int> counts;
  const auto merge_last_two = [&] {
    const std::vector<State> last = std::move(merged_states.back());
    merged_states.pop_back();
    for (size_t r = 0; r < reductions.size(); ++r) {
      State& first = merged_states.back()[r];
      first = merged(program, reductions[r].reduction, reductions[r].accumulate, StatesKnown::nothing, first, last[r]);
    }
    counts[counts.size() - 2] += counts.back();
    counts.pop_back();
  };
  for (int s = 0; s < states; ++s) {
    std::vector<State>& next = merged_states.emplace_back();
    for (const auto& [reduction, accumulate, args] : reductions) {
      next.push_back(record_state(program, state_dtypes(reduction, accumulate)));
    }
    counts.push_back(1);
    while (counts.size() > 1 && (order == MergeOrder::chain || counts.back() == counts[counts.size() - 2])) {
      merge_last_two();
    }
  }
  while (counts.size() > 1) merge_last_two();
  for (size_t r = 0; r < reductions.size(); ++r) {
    const size_t fields = state_dtypes(reductions[r].reduction, reductions[r].accumulate).size();
    for (size_t i = 0; i < fields; ++i) program.output(merged_states.front()[r][i].id);
  }
  return program;
}

Program finalize_program(Reduction reduction, DType accumulate, double ddof, std::optional<DType> out) {
  Program program;
  const std::vector<DType> fields = state_dtypes(reduction, accumulate);
  Recorded a[3]{};
  for (size_t i = 0; i < fields.size(); ++i) a[i] = {&program, program.input(fields[i])};
  Recorder r{program, widened(accumulate), real_type(widened(accumulate))};
  if (info(reduction).takes_ddof) r.ddof = {&program, program.constant(Scalar(ddof), r.real_dtype)};
  struct Rows : Recorder {
    Recorded finalized(Reduction which, Recorded a0, Recorded a1, Recorded a2) const {
      static_cast<void>(a1), static_cast<void>(a2);
      switch (which) {
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, ufunc, loop, f0, f1, f2, finalize) \
  case Reduction::name:                                                                                      \
    return finalize;
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
      }
      return a0;
    }
  };
  const Recorded result = Rows{r}.finalized(reduction, a[0], a[1], a[2]);
  program.output(program.cast(result.id, out.value_or(result_dtype(reduction, accumulate))));
  return program;
}

}  // namespace quarry::local
