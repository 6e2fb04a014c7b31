#include "quarry/local/ops/fuse/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <string>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/results.h"
#include "quarry/local/program/program.h"

namespace quarry::local {
namespace {

constexpr int kNone = -1;
// Index values of a trace from this axis on are positions: number k of Trace::positions.
constexpr int kPosition = 1000;

size_t at(int i) { return static_cast<size_t>(i); }

// Dtypes of operations that arguments do not decide.
bool is_dtype_given(OpRule rule) {
  return rule == OpRule::random || rule == OpRule::bounded || rule == OpRule::sampler;
}

// The value as a Python number: weak.
Scalar as_literal(const Scalar& value) {
  if (kind(value.dtype()) == 'b') return {value.as_bool()};
  if (is_complex(value.dtype())) return {value.as_complex()};
  if (is_float(value.dtype())) return {value.as_double()};
  return kind(value.dtype()) == 'u' ? Scalar(value.as_uint64()) : Scalar(value.as_int64());
}

// An operation among literals alone.
Scalar apply_to_literals(Op op, const std::vector<Scalar>& literals, std::optional<DType> dtype) {
  const DeviceScope scope(kCpu);
  const std::vector<Arg> list(literals.begin(), literals.end());
  return apply(op, list, dtype).item();
}

// How values of a program were copied to another one.
struct Copied {
  std::vector<int> slots;                      // per input of the new program: the slot of the old one
  std::vector<std::pair<int, int>> constants;  // (slot in the new program, slot in the old one)
  std::vector<ValueId> ids;                    // of the old values; kNone for those that were not needed
};

// Positions are those in `space`.
void copy_values(const Program& from, std::span<const ValueId> roots, const Dims& space, Program& to, Copied& copied) {
  std::vector<bool> needed(from.values().size(), false);
  for (const ValueId root : roots) needed[at(root)] = true;
  for (size_t i = from.values().size(); i-- > 0;) {
    const Value& value = from.values()[i];
    for (int k = 0; needed[i] && k < value.nargs; ++k) needed[at(value.args[k])] = true;
  }
  copied.ids.assign(from.values().size(), kNone);
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    const Value& value = from.values()[i];
    std::vector<ValueId> args;
    for (int k = 0; k < value.nargs; ++k) args.push_back(copied.ids[at(value.args[k])]);
    switch (value.kind) {
      case Value::Kind::input:
        copied.slots.push_back(value.slot);
        copied.ids[i] = to.input(value.dtype);
        break;
      case Value::Kind::constant:
        copied.constants.emplace_back(static_cast<int>(to.constants().size()), value.slot);
        copied.ids[i] = to.constant(from.constants()[at(value.slot)], value.dtype);
        break;
      case Value::Kind::index:
        copied.ids[i] = reduced_position(to, space, Axes().mask(space.size()));
        break;
      case Value::Kind::op:
        copied.ids[i] = value.op == "cast"_op
                            ? to.cast(args[0], value.dtype)
                            : to.apply(value.op, args,
                                       is_dtype_given(info(value.op).rule) ? std::optional(value.loop) : std::nullopt);
        break;
    }
  }
}

}  // namespace

// What one run of the callable recorded.
class detail::Trace {
 public:
  struct Reduced {
    Reduction reduction{};
    ValueId value = kNone;
    Axes axes;
    bool keepdims = false;
    DType accumulate{};
    double ddof = 0;
  };
  struct Result {
    ValueId value = kNone;     // elementwise
    int reduction = kNone;     // or one of `reductions`
    std::vector<bool> inputs;  // those that it depends on
  };
  // A constant that is an argument of the call.
  struct Parameter {
    int slot, argument;
    bool any_literal;  // it need not fit the constant's dtype
  };

  Program program;
  std::vector<Reduced> reductions;
  std::vector<Result> results;
  std::vector<Parameter> parameters;
  std::vector<ValueId> positions;  // the value whose element each position is one of
  std::vector<int> exponents;      // inputs that integers are raised to
  bool reusable = true;            // another call with the same dtypes needs no trace of its own

  void record(std::span<const Arg> args, const FusionCache::Tracer& tracer) {
    std::vector<ops::Traced> traced;
    for (size_t i = 0; i < args.size(); ++i) {
      ops::Traced value(Scalar(0));
      if (args[i].array() != nullptr) {
        value = of(program.input(args[i].array()->dtype()));
      } else {
        value = ops::Traced(args[i].scalar());
        value.trace_ = this;
        value.parameter_ = static_cast<int>(i);
        reusable = reusable && args[i].scalar().weak();
      }
      traced.push_back(value);
    }
    const std::vector<ops::Traced> returned = tracer(traced);
    if (returned.empty()) throw InvalidArgument("a fused function returns nothing");
    for (const ops::Traced& value : returned) results.push_back(result(value));
  }

  static ops::Traced apply(Op op, std::span<const ops::Traced> args, std::optional<DType> dtype, bool is_operator) {
    Trace* trace = nullptr;
    for (const ops::Traced& arg : args) {
      if (arg.reduction_ >= 0)
        throw NotSupported(
            fmt::format("a fused function ends in its reductions: '{}' of a reduced value", local::info(op).name));
      if (arg.trace_ == nullptr) continue;
      if (trace != nullptr && trace != arg.trace_)
        throw InvalidArgument(fmt::format("'{}' of values of two fused functions", local::info(op).name));
      trace = arg.trace_;
    }
    const bool literals = std::all_of(args.begin(), args.end(), [](const ops::Traced& arg) { return arg.id_ < 0; });
    if (!literals) return trace->apply_values(op, args, dtype);
    std::vector<Scalar> scalars;
    for (const ops::Traced& arg : args) scalars.push_back(arg.literal_);
    const Scalar folded = apply_to_literals(op, scalars, dtype);
    ops::Traced value(is_operator ? as_literal(folded) : folded);
    value.trace_ = trace;
    if (trace != nullptr) trace->reusable = trace->reusable && !depends_on_parameter(args);
    return value;
  }

  static ops::Traced reduce(Reduction reduction, const ops::Traced& x, const Axes& axes, const ReduceOptions& options) {
    if (options.out || options.initial || options.where || options.mean)
      throw NotSupported(
          fmt::format("{}() in a fused function takes keepdims, dtype and ddof, no out, initial, where "
                      "or mean",
                      local::info(reduction).name));
    if (x.reduction_ >= 0)
      throw NotSupported(
          fmt::format("a fused function ends in its reductions: '{}' of a reduced value", local::info(reduction).name));
    if (x.id_ < 0)
      throw NotSupported(fmt::format("{}() of a literal in a fused function", local::info(reduction).name));
    return x.trace_->reduce_value(reduction, x, axes, options);
  }

  static ops::Traced position_of(const ops::Traced& x) {
    if (x.reduction_ >= 0 || x.id_ < 0)
      throw NotSupported("a position in a fused function is that in an array, or in what is made of arrays");
    Trace& trace = *x.trace_;
    trace.positions.push_back(x.id_);
    return trace.of(trace.program.index(kPosition + static_cast<int>(trace.positions.size()) - 1));
  }

  static DType dtype_of(const ops::Traced& x) {
    if (x.reduction_ >= 0) {
      const Reduced& reduced = x.trace_->reductions[at(x.reduction_)];
      return result_dtype(reduced.reduction, reduced.accumulate);
    }
    return x.id_ >= 0 ? x.trace_->program.dtype(x.id_) : x.literal_.dtype();
  }

  static ops::Traced cast(const ops::Traced& x, DType dtype) {
    if (x.reduction_ >= 0) throw NotSupported("a fused function ends in its reductions: 'astype' of a reduced value");
    if (x.id_ >= 0) return x.trace_->of(x.trace_->program.cast(x.id_, dtype));
    ops::Traced value(Scalar::strong(x.literal_, dtype));
    value.trace_ = x.trace_;
    if (x.trace_ != nullptr) x.trace_->reusable = x.trace_->reusable && x.parameter_ < 0;
    return value;
  }

 private:
  static bool depends_on_parameter(std::span<const ops::Traced> args) {
    return std::any_of(args.begin(), args.end(), [](const ops::Traced& arg) { return arg.parameter_ >= 0; });
  }

  ops::Traced of(ValueId id) {
    ops::Traced value(Scalar(0));
    value.trace_ = this;
    value.id_ = id;
    return value;
  }

  ops::Traced apply_values(Op op, std::span<const ops::Traced> args, std::optional<DType> dtype) {
    std::vector<PromotionOperand> operands;
    for (const ops::Traced& arg : args)
      operands.push_back(arg.id_ >= 0 ? PromotionOperand{program.dtype(arg.id_), false}
                                      : PromotionOperand{arg.literal_.dtype(), arg.literal_.weak()});
    const OpTypes types = resolve(op, operands, dtype);
    std::vector<ValueId> ids;
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].id_ >= 0) {
        ids.push_back(args[i].id_);
        continue;
      }
      ids.push_back(bind_literal(program, op, args[i].literal_, types.args[i]));
      if (args[i].parameter_ < 0) continue;
      const Value& constant = program.values()[at(ids.back())];
      // A value that another call might not treat alike.
      if (constant.dtype != types.args[i] || op == "power"_op) reusable = false;
      const OpRule rule = info(op).rule;
      parameters.push_back({constant.slot, args[i].parameter_, rule == OpRule::select});
    }
    if (op == "power"_op && is_integer(types.loop)) note_exponent(ids[1]);
    return of(program.apply(op, ids, dtype));
  }

  // An input, cast or not.
  void note_exponent(ValueId id) {
    const Value* value = &program.values()[at(id)];
    if (value->kind == Value::Kind::op && value->op == "cast"_op) value = &program.values()[at(value->args[0])];
    if (value->kind == Value::Kind::input && kind(value->dtype) == 'i') exponents.push_back(value->slot);
  }

  ops::Traced reduce_value(Reduction reduction, const ops::Traced& x, const Axes& axes, const ReduceOptions& options) {
    Reduced reduced{reduction,   x.id_, axes, options.keepdims, accumulate_dtype(reduction, program.dtype(x.id_)),
                    options.ddof};
    const ReductionInfo& row = info(reduction);
    if (options.ddof != 0 && !row.takes_ddof)
      throw TypeError(fmt::format("{}() got an unexpected keyword argument 'ddof'", row.name));
    if (options.dtype) {
      if (!row.takes_dtype) throw TypeError(fmt::format("{}() got an unexpected keyword argument 'dtype'", row.name));
      const bool inexact = is_float(*options.dtype) || is_complex(*options.dtype);
      if (!row.takes_initial && (!inexact || (row.takes_ddof && is_complex(*options.dtype))))
        throw NotSupported(fmt::format("{}() with dtype {} in a fused function", row.name, name(*options.dtype)));
      reduced.accumulate = *options.dtype;
    }
    ops::Traced value(Scalar(0));
    value.trace_ = this;
    value.reduction_ = static_cast<int>(reductions.size());
    reductions.push_back(std::move(reduced));
    return value;
  }

  Result result(const ops::Traced& value) {
    if (value.trace_ != nullptr && value.trace_ != this)
      throw InvalidArgument("a fused function returns a value of another one");
    Result made;
    made.reduction = value.reduction_;
    if (value.reduction_ < 0) {
      made.value = value.id_;
      if (value.id_ < 0) {
        made.value = program.constant(value.literal_, value.literal_.dtype());
        if (value.parameter_ >= 0)
          parameters.push_back({program.values().back().slot, value.parameter_, /*any_literal=*/false});
      }
    }
    made.inputs = inputs_of(value.reduction_ < 0 ? made.value : reductions[at(value.reduction_)].value);
    return made;
  }

  std::vector<bool> inputs_of(ValueId root) const {
    std::vector<bool> needed(program.values().size(), false), inputs(static_cast<size_t>(program.inputs()), false);
    needed[at(root)] = true;
    for (size_t i = at(root) + 1; i-- > 0;) {
      if (!needed[i]) continue;
      const Value& value = program.values()[i];
      if (value.kind == Value::Kind::input) inputs[at(value.slot)] = true;
      if (value.kind == Value::Kind::index) needed[at(positions[at(value.slot - kPosition)])] = true;
      for (int k = 0; k < value.nargs; ++k) needed[at(value.args[k])] = true;
    }
    return inputs;
  }
};

namespace {

// One kernel: elementwise results of one shape, and reductions over the same axes of it.
struct Group {
  Dims space;
  uint32_t mask = 0;
  std::vector<size_t> elementwise, reduced;  // numbers of results
};

struct GroupProgram {
  Program program;
  Copied copied;
  std::vector<size_t> pilots;  // the reduced results (by position in Group::reduced) that come with a pilot input
};

// A call: a trace and its arguments.
class Call {
 public:
  Call(const Trace& trace, std::span<const Arg> args) : trace_(trace), args_(args) {
    for (const Arg& arg : args)
      if (arg.array() != nullptr) arrays_.push_back(arg.array());
    context_ = context_for(common_device(arrays_));
  }

  Device device() const { return context_.device; }

  // Groups, and what decides their programs: the same signature, the same programs. Throws for axes and shapes.
  std::vector<Group> groups(std::string& signature) const {
    // All inputs together, even those that no result needs, as the operations one by one would.
    std::vector<Dims> all{Dims{}};
    for (const NdArray* array : arrays_) all.push_back(array->shape());
    broadcast_shapes(all);
    std::vector<Group> found;
    signature = acts_as(context_.device) == DeviceKind::cpu ? "c" : "d";
    for (size_t r = 0; r < trace_.results.size(); ++r) {
      const Trace::Result& result = trace_.results[r];
      std::vector<Dims> shapes{Dims{}};
      for (size_t i = 0; i < result.inputs.size(); ++i)
        if (result.inputs[i]) shapes.push_back(arrays_[i]->shape());
      Dims space = broadcast_shapes(shapes);
      uint32_t mask = 0;
      if (result.reduction >= 0) {
        const Trace::Reduced& reduced = trace_.reductions[at(result.reduction)];
        mask = reduced.axes.mask(space.size());
        check_axes(reduced.reduction, reduced.axes, mask, space.size());
        check_reducible(reduced.reduction, space, mask);
      }
      const size_t group = place(found, std::move(space), mask, result.reduction >= 0);
      (result.reduction >= 0 ? found[group].reduced : found[group].elementwise).push_back(r);
      signature += fmt::format(",{}:{}:{}", group, mask, found[group].space.size());
    }
    for (const Group& group : found) signature += element_count(group.space) == 0 ? "e" : "f";
    return found;
  }

  // Positions are counted with the extents as constants: such programs serve one shape.
  bool has_positions(const Group& group) const {
    return !trace_.positions.empty() || std::any_of(group.reduced.begin(), group.reduced.end(),
                                                    [&](size_t r) { return info(executed(reduced(r))).has_position; });
  }

  GroupProgram make(const Group& group) const {
    GroupProgram made;
    std::vector<ValueId> roots;
    for (const size_t r : group.elementwise) roots.push_back(trace_.results[r].value);
    for (const size_t r : group.reduced) roots.push_back(reduced(r).value);
    copy_values(trace_.program, roots, group.space, made.program, made.copied);
    for (const size_t r : group.elementwise) made.program.output(made.copied.ids[at(trace_.results[r].value)]);
    const bool empty = element_count(group.space) == 0;
    for (size_t k = 0; k < group.reduced.size(); ++k) {
      const Trace::Reduced& wanted = reduced(group.reduced[k]);
      std::vector<ValueId> args{made.copied.ids[at(wanted.value)]};
      DType accumulate = wanted.accumulate;
      if (info(wanted.reduction).takes_ddof && !empty) {
        // Less one element of each result, as reduce() does.
        accumulate = widened(accumulate);
        const ValueId pilot = made.program.input(trace_.program.dtype(wanted.value));
        const ValueId pair[] = {made.program.cast(args[0], accumulate), made.program.cast(pilot, accumulate)};
        args[0] = made.program.apply("subtract"_op, pair);
        made.pilots.push_back(k);
      }
      const Reduction used = executed(wanted);
      if (info(used).has_position) args.push_back(reduced_position(made.program, group.space, group.mask));
      made.program.reduce(used, args, accumulate);
    }
    made.program.keep_key();
    return made;
  }

  // Fills in the group's results.
  void run(const Group& group, const GroupProgram& made, std::vector<NdArray>& results) const {
    const Program* program = &made.program;
    Program changed;
    if (!trace_.parameters.empty()) {
      changed = made.program;
      set_parameters(changed, made.copied);
      program = &changed;
    }
    std::vector<NdArray> pilots;
    for (const size_t k : made.pilots) pilots.push_back(pilot(group, reduced(group.reduced[k]).value));
    std::vector<const NdArray*> inputs, outputs;
    for (const int slot : made.copied.slots) inputs.push_back(arrays_[at(slot)]);
    for (const NdArray& array : pilots) inputs.push_back(&array);
    for (const size_t r : group.elementwise) {
      results[r] = NdArray(group.space, trace_.program.dtype(trace_.results[r].value), context_);
      outputs.push_back(&results[r]);
    }
    if (group.reduced.empty()) {
      run_elementwise(*program, inputs, outputs, context_);
      return;
    }
    std::vector<NdArray> states = run_reductions(*program, inputs, group.space, group.mask, context_, outputs);
    auto state = states.begin();
    for (size_t k = 0; k < group.reduced.size(); ++k) {
      const Trace::Reduced& wanted = reduced(group.reduced[k]);
      const ProgramReduction& used = program->reductions()[k];
      const auto fields = static_cast<int64_t>(state_dtypes(used.reduction, used.accumulate).size());
      const std::span<const NdArray> own(&*state, static_cast<size_t>(fields));
      results[group.reduced[k]] = finish_states(wanted.reduction, wanted.accumulate, wanted.ddof, own, context_)
                                      .reshape(reduced_shape(group.space, group.mask, wanted.keepdims));
      state += fields;
    }
  }

  // NumPy raises where an integer is raised to a negative one.
  void check_exponents() const {
    for (const int slot : trace_.exponents) {
      const NdArray& exponent = *arrays_[at(slot)];
      if (exponent.size() > 0 && item_or(reduce("min"_reduction, exponent), 0).as_int64() < 0)
        throw InvalidArgument("Integers to negative integer powers are not allowed.");
    }
  }

 private:
  const Trace::Reduced& reduced(size_t result) const { return trace_.reductions[at(trace_.results[result].reduction)]; }
  Reduction executed(const Trace::Reduced& wanted) const {
    return executed_reduction(wanted.reduction, wanted.accumulate, context_.device);
  }

  // Elementwise results join the first group of their shape, reductions one over their axes.
  static size_t place(std::vector<Group>& groups, Dims space, uint32_t mask, bool reduces) {
    for (size_t g = 0; g < groups.size(); ++g) {
      Group& group = groups[g];
      if (!(group.space == space)) continue;
      if (!reduces) return g;
      if (group.reduced.empty()) group.mask = mask;
      if (group.mask == mask) return g;
    }
    groups.push_back({std::move(space), mask, {}, {}});
    return groups.size() - 1;
  }

  void set_parameters(Program& program, const Copied& copied) const {
    for (const Trace::Parameter& parameter : trace_.parameters)
      for (const auto& [now, before] : copied.constants)
        if (before == parameter.slot) program.set_constant(now, args_[at(parameter.argument)].scalar());
  }

  // The first element of what each result is reduced from, with the kept axes.
  NdArray pilot(const Group& group, ValueId value) const {
    Program program;
    Copied copied;
    const ValueId roots[] = {value};
    copy_values(trace_.program, roots, reduced_shape(group.space, group.mask, /*keepdims=*/true), program, copied);
    program.output(copied.ids[at(value)]);
    if (!trace_.parameters.empty()) set_parameters(program, copied);
    const Dims kept = reduced_shape(group.space, group.mask, /*keepdims=*/true);
    std::vector<NdArray> firsts;
    for (const int slot : copied.slots) {
      const NdArray whole = arrays_[at(slot)]->broadcast_to(group.space);
      firsts.push_back(whole.restrided(kept, whole.strides(), whole.offset()));
    }
    std::vector<const NdArray*> inputs;
    for (const NdArray& first : firsts) inputs.push_back(&first);
    NdArray result(kept, trace_.program.dtype(value), context_);
    const NdArray* outputs[] = {&result};
    run_elementwise(program, inputs, outputs, context_);
    return result;
  }

  const Trace& trace_;
  std::span<const Arg> args_;
  std::vector<const NdArray*> arrays_;
  ExecContext context_;
};

// A trace and the programs made of it.
struct Entry {
  Trace trace;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const std::vector<GroupProgram>>> programs;  // by Call::groups()' signature
};

std::vector<NdArray> run_entry(Entry& entry, std::span<const Arg> args) {
  const Call call(entry.trace, args);
  std::string signature;
  const std::vector<Group> groups = call.groups(signature);
  call.check_exponents();
  const bool keep = std::none_of(groups.begin(), groups.end(), [&](const Group& g) { return call.has_positions(g); });
  std::shared_ptr<const std::vector<GroupProgram>> programs;
  if (keep) {
    const std::lock_guard lock(entry.mutex);
    if (const auto found = entry.programs.find(signature); found != entry.programs.end()) programs = found->second;
  }
  if (!programs) {
    auto made = std::make_shared<std::vector<GroupProgram>>();
    for (const Group& group : groups) made->push_back(call.make(group));
    programs = made;
    const std::lock_guard lock(entry.mutex);
    if (keep) entry.programs.emplace(signature, made);
  }
  std::vector<NdArray> results(entry.trace.results.size());
  for (size_t g = 0; g < groups.size(); ++g) call.run(groups[g], (*programs)[g], results);
  return results;
}

// Whether a trace of other literals of the same dtypes serves these: they fit where they are used.
bool serves(const Trace& trace, std::span<const Arg> args) {
  return std::all_of(trace.parameters.begin(), trace.parameters.end(), [&](const Trace::Parameter& parameter) {
    const DType wanted = trace.program.constants()[at(parameter.slot)].dtype();
    const Scalar& scalar = args[at(parameter.argument)].scalar();
    if (parameter.any_literal || !is_integer(wanted) || !is_integer(scalar.dtype())) return true;
    return Scalar::strong(scalar, wanted).as_int64() == scalar.as_int64() &&
           (kind(scalar.dtype()) == kind(wanted) || scalar.as_int64() >= 0);
  });
}

// Per argument its dtype, and whether it is an array or a literal.
std::string dtypes_of(std::span<const Arg> args) {
  std::string key;
  for (const Arg& arg : args) {
    const PromotionOperand operand = arg.promotion();
    key += static_cast<char>('a' + static_cast<int>(operand.dtype));
    key += arg.array() != nullptr ? 'x' : operand.weak ? 'w' : 's';
  }
  return key;
}

}  // namespace

struct FusionCache::State {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Entry>> entries;
  int64_t traces = 0;
};

FusionCache::FusionCache() : state_(std::make_shared<State>()) {}
FusionCache::~FusionCache() = default;

int64_t FusionCache::traces() const {
  const std::lock_guard lock(state_->mutex);
  return state_->traces;
}

std::vector<NdArray> FusionCache::run(std::span<const Arg> args, const Tracer& tracer) const {
  const std::string key = dtypes_of(args);
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(state_->mutex);
    if (const auto found = state_->entries.find(key); found != state_->entries.end()) entry = found->second;
  }
  if (entry && serves(entry->trace, args)) return run_entry(*entry, args);
  auto made = std::make_shared<Entry>();
  made->trace.record(args, tracer);
  {
    const std::lock_guard lock(state_->mutex);
    ++state_->traces;
    if (made->trace.reusable && !entry) state_->entries.emplace(key, made);
  }
  return run_entry(*made, args);
}

namespace ops {

DType Traced::dtype() const { return Trace::dtype_of(*this); }
Traced Traced::astype(DType dtype) const { return Trace::cast(*this, dtype); }

Traced record(Op op, std::initializer_list<Traced> args, std::optional<DType> dtype) {
  return Trace::apply(op, std::span(args.begin(), args.size()), dtype, /*is_operator=*/false);
}
Traced position_of(const Traced& x) { return Trace::position_of(x); }
Traced record_operator(Op op, std::initializer_list<Traced> args) {
  return Trace::apply(op, std::span(args.begin(), args.size()), std::nullopt, /*is_operator=*/true);
}
Traced record_reduction(Reduction reduction, const Traced& x, const Axes& axes, const ReduceOptions& options) {
  return Trace::reduce(reduction, x, axes, options);
}

}  // namespace ops
}  // namespace quarry::local
