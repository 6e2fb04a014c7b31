#include "quarry/local/ops/ufunc/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/results.h"

namespace quarry::local {
namespace {

constexpr size_t kMaxArgs = 3;

// Programs depend on op and dtypes; kept per thread, so that a small call costs one lookup. Literals are constants
// whose values change from call to call.
struct CachedProgram {
  Program program;
  bool literals = false;  // every constant is an argument, in order
};

// Nothing for a call whose program is made anew.
std::optional<uint64_t> cache_key(Op op, std::span<const Arg> args, std::optional<DType> dtype) {
  uint64_t key = static_cast<uint64_t>(op) * (kMaxArgs + 1) + args.size();
  key = key * 32 + (dtype ? static_cast<uint64_t>(*dtype) + 1 : 0);
  for (const Arg& arg : args) {
    if (!arg.array() && !arg.scalar().weak()) return std::nullopt;
    key = key * 32 + (arg.array() ? 1 + static_cast<uint64_t>(arg.array()->dtype())
                                  : 17 + static_cast<uint64_t>(arg.scalar().dtype()));
  }
  return key;
}

// Whether a literal integer outside of the loop's range has a meaning: comparisons and truth values are exact, where()
// wraps.
bool takes_any_literal(Op op) {
  const OpRule rule = info(op).rule;
  return rule == OpRule::comparison || rule == OpRule::logical || rule == OpRule::select;
}

// What integer literals must fit that become constants of `wanted`: the exponents of ldexp are C ints.
DType literal_range(Op op, DType wanted) {
  return info(op).rule == OpRule::scale && is_integer(wanted) ? DType::int32 : wanted;
}

bool fits(const Scalar& scalar, DType wanted) {
  try {
    check_weak_fits(scalar, wanted);
  } catch (const InvalidArgument&) {
    return false;
  }
  return true;
}

// Inputs in the order of the array arguments, then the literals.
std::array<ValueId, kMaxArgs> bind_arguments(Program& program, Op op, std::span<const Arg> args, const OpTypes& types) {
  std::array<ValueId, kMaxArgs> ids{};
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].array()) ids[i] = program.input(args[i].array()->dtype());
  for (size_t i = 0; i < args.size(); ++i)
    if (!args[i].array()) ids[i] = bind_literal(program, op, args[i].scalar(), types.args[i]);
  return ids;
}

OpTypes resolve_arguments(Op op, std::span<const Arg> args, std::optional<DType> dtype, Casting casting) {
  std::array<PromotionOperand, kMaxArgs> operands{};
  for (size_t i = 0; i < args.size(); ++i) operands[i] = args[i].promotion();
  const std::span<const PromotionOperand> given(operands.data(), args.size());
  try {
    return resolve(op, given, dtype, casting);
  } catch (const TypeError&) {
    // As in NumPy, a literal out of range is the first mistake where the rule allows literals to adapt.
    if (!dtype || casting == Casting::equiv) throw;
    const OpTypes types = resolve(op, given, dtype, Casting::unsafe);
    for (size_t i = 0; i < args.size(); ++i)
      if (!args[i].array() && !takes_any_literal(op)) check_weak_fits(args[i].scalar(), types.args[i]);
    throw;
  }
}

Program make_program(Op op, std::span<const Arg> args, std::optional<DType> dtype) {
  Program program;
  const OpTypes types = resolve_arguments(op, args, dtype, Casting::same_kind);
  const auto ids = bind_arguments(program, op, args, types);
  program.output(program.apply(op, std::span(ids.data(), args.size()), dtype));
  return program;
}

// Null where the call needs a program of its own.
const Program* cached_program(Op op, std::span<const Arg> args, std::optional<DType> dtype) {
  thread_local std::unordered_map<uint64_t, std::unique_ptr<CachedProgram>> cache;
  const auto key = cache_key(op, args, dtype);
  if (!key) return nullptr;
  std::unique_ptr<CachedProgram>& entry = cache[*key];
  size_t scalars = 0;
  for (const Arg& arg : args) scalars += arg.array() ? 0 : 1;
  if (!entry) {
    auto made = std::make_unique<CachedProgram>(CachedProgram{make_program(op, args, dtype)});
    made->literals = made->program.constants().size() == scalars;
    made->program.keep_key();
    entry = std::move(made);
    return &entry->program;
  }
  if (scalars == 0) return &entry->program;
  if (!entry->literals || op == "power"_op) return nullptr;
  int slot = 0;
  for (const Arg& arg : args) {
    if (arg.array()) continue;
    const DType constant = entry->program.constants()[static_cast<size_t>(slot)].dtype();
    const DType wanted = literal_range(op, constant);
    if (is_integer(wanted) && is_integer(arg.scalar().dtype()) && !fits(arg.scalar(), wanted)) return nullptr;
    entry->program.set_constant(slot++, arg.scalar());
  }
  return &entry->program;
}

// NumPy raises where an integer is raised to a negative one; a constant exponent is checked by Program::apply().
void check_power(std::span<const Arg> args, DType loop, const NdArray* where) {
  const NdArray* exponent = args[1].array();
  if (!is_integer(loop) || !exponent || kind(exponent->dtype()) != 'i' || exponent->size() == 0) return;
  ReduceOptions options;
  options.initial = Scalar(0);
  const Dims shape = where ? broadcast_shapes(exponent->shape(), where->shape()) : exponent->shape();
  if (where) options.where = *where;
  if (item_or(reduce("min"_reduction, exponent->broadcast_to(shape), {}, options), 0).as_int64() < 0)
    throw InvalidArgument("Integers to negative integer powers are not allowed.");
}

// power() by the literal 2 has the bits of square(), which needs no exponents.
bool is_square(Op op, std::span<const Arg> args, std::optional<DType> dtype) {
  if (op != "power"_op || dtype || args.size() != 2 || !args[0].array() || args[1].array()) return false;
  const Scalar& exponent = args[1].scalar();
  const DType x = args[0].array()->dtype();
  if (is_complex(exponent.dtype()) || exponent.as_double() != 2 || !(is_integer(x) || is_float(x))) return false;
  return resolve_arguments(op, args, dtype, Casting::same_kind).loop == x;
}

struct Inputs {
  std::array<const NdArray*, kMaxArgs> arrays{};
  size_t count = 0;
  Dims shape;
  std::span<const NdArray* const> span() const { return {arrays.data(), count}; }
};

void check_count(std::span<const Arg> args) {
  if (args.size() > kMaxArgs)
    throw InvalidArgument(fmt::format("a ufunc takes at most {} operands, got {}", kMaxArgs, args.size()));
}

Inputs inputs_of(Op op, std::span<const Arg> args, std::optional<DType> dtype, Casting casting = Casting::same_kind) {
  check_count(args);
  Inputs inputs;
  for (const Arg& arg : args)
    if (arg.array()) inputs.arrays[inputs.count++] = arg.array();
  if (inputs.count == 0) return inputs;
  inputs.shape = inputs.arrays[0]->shape();
  bool same = true;
  for (const NdArray* array : inputs.span()) same = same && array->shape() == inputs.shape;
  if (!same) {
    std::array<Dims, kMaxArgs> shapes;
    for (size_t i = 0; i < inputs.count; ++i) shapes[i] = inputs.arrays[i]->shape();
    try {
      inputs.shape = broadcast_shapes(std::span<const Dims>(shapes.data(), inputs.count));
    } catch (const InvalidArgument&) {
      resolve_arguments(op, args, dtype, casting);  // dtypes without a loop are the first mistake
      throw;
    }
  }
  return inputs;
}

// The axes of an array from the largest to the smallest steps in memory; those of one element come first.
std::array<int, kMaxDims> memory_order(const NdArray& array) {
  std::array<int, kMaxDims> order{};
  const auto step = [&](int d) {
    return array.shape()[d] == 1 ? std::numeric_limits<int64_t>::max() : std::abs(array.strides()[d]);
  };
  for (int d = 0; d < array.ndim(); ++d) {
    int place = d;
    for (; place > 0 && step(order[static_cast<size_t>(place - 1)]) < step(d); --place)
      order[static_cast<size_t>(place)] = order[static_cast<size_t>(place - 1)];
    order[static_cast<size_t>(place)] = d;
  }
  return order;
}

// Operand for operand the same elements in the same places.
bool same_elements(const NdArray& in, const NdArray& out, const Dims& shape) {
  return in.raw() == out.raw() && in.itemsize() == out.itemsize() &&
         operand(in, shape).strides == operand(out, shape).strides;
}

[[noreturn]] void bad_output_cast(const char* name, size_t number, size_t outputs, DType from, DType to, Casting rule) {
  throw TypeError(fmt::format("Cannot cast ufunc '{}' output {}from dtype('{}') to dtype('{}') with casting rule '{}'",
                              name, outputs > 1 ? fmt::format("{} ", number) : "", local::name(from), local::name(to),
                              local::name(rule)));
}

// What every call with keyword arguments comes to: the outputs of `ops` over the same arguments.
std::vector<NdArray> run_general(const char* name, std::span<const Op> ops, std::span<const Arg> args,
                                 const UfuncOptions& options, std::span<const std::optional<NdArray>> out) {
  const Range named(name);
  check_count(args);
  // Dtypes first: they are checked before shapes, as in NumPy.
  const OpTypes types = resolve_arguments(ops[0], args, options.dtype, options.casting);
  if (options.dtype && ops.size() > 1)
    for (Op op : ops)
      if (info(op).result != OpInfo::Result::same)
        throw TypeError(
            fmt::format("No loop matching the specified signature and casting was found for ufunc {}", name));
  const auto forced = [&](size_t k) {
    return info(ops[k]).result == OpInfo::Result::same || ops.size() == 1 ? options.dtype : std::nullopt;
  };
  for (size_t k = 0; k < std::min(ops.size(), out.size()); ++k) {
    if (!out[k]) continue;
    const DType result = k == 0 ? types.result : resolve_arguments(ops[k], args, forced(k), options.casting).result;
    if (!can_cast(result, out[k]->dtype(), options.casting))
      bad_output_cast(name, args.size() + k, ops.size(), result, out[k]->dtype(), options.casting);
  }
  const Inputs inputs = inputs_of(ops[0], args, options.dtype, options.casting);

  // Devices and shapes.
  std::vector<const NdArray*> all(inputs.arrays.begin(), inputs.arrays.begin() + static_cast<int64_t>(inputs.count));
  std::vector<Dims> shapes{inputs.shape};
  if (options.where) {
    check_where(options.where->dtype());
    all.push_back(&*options.where);
    shapes.push_back(options.where->shape());
  }
  const Dims read = broadcast_shapes(shapes);
  for (const auto& array : out)
    if (array) {
      check_writable(*array);
      all.push_back(&*array);
      shapes.push_back(array->shape());
    }
  const ExecContext context = context_for(common_device(all));
  Dims shape = read;
  for (const auto& array : out) {
    if (!array) continue;
    bool fits_out = array->ndim() >= shape.size();
    const int shift = array->ndim() - shape.size();
    for (int d = 0; fits_out && d < shape.size(); ++d)
      fits_out = shape[d] == array->shape()[d + shift] || shape[d] == 1;
    if (!fits_out)
      throw InvalidArgument(
          fmt::format("non-broadcastable output operand with shape {} doesn't match the broadcast shape {}",
                      compact_shape(array->shape()), compact_shape(broadcast_shapes(shapes))));
    shape = array->shape();
  }

  Program program;
  auto ids = bind_arguments(program, ops[0], args, types);
  if (options.dtype || options.casting != Casting::same_kind)
    for (size_t i = 0; i < args.size(); ++i)
      if (args[i].array() || !args[i].scalar().weak()) ids[i] = program.cast(ids[i], types.args[i]);
  if (ops[0] == "power"_op) check_power(args, types.loop, options.where ? &*options.where : nullptr);
  const ValueId mask = options.where ? program.input(DType::bool_) : -1;

  std::vector<NdArray> results, written;  // what is returned, and what the program writes
  std::vector<ValueId> values;
  for (size_t k = 0; k < ops.size(); ++k) {
    values.push_back(program.apply(ops[k], std::span(ids.data(), args.size()), forced(k)));
    const NdArray* given = k < out.size() && out[k] ? &*out[k] : nullptr;
    results.push_back(given ? *given : NdArray(shape, program.dtype(values[k]), context));
    bool apart = true;
    for (size_t j = 0; j < k; ++j) apart = apart && !may_overlap(results[j], results[k]);
    written.push_back(apart ? results[k] : NdArray(shape, results[k].dtype(), context));
    values[k] = program.cast(values[k], results[k].dtype());
  }

  // Inputs that an output runs over before they are read are copied.
  std::vector<NdArray> sources;
  sources.reserve(inputs.count + 1 + ops.size());
  const auto add_source = [&](const NdArray& array) {
    bool clear = true;
    for (const NdArray& target : written)
      clear = clear && (!may_overlap(array, target) || same_elements(array, target, shape));
    sources.push_back(clear ? array : array.copy(context));
  };
  for (const NdArray* array : inputs.span()) add_source(*array);
  if (options.where) add_source(*options.where);
  for (size_t k = 0; k < ops.size(); ++k) {
    ValueId value = values[k];
    if (mask >= 0) {
      const bool keeps = k < out.size() && out[k];
      const ValueId old = keeps ? program.input(results[k].dtype()) : program.constant(Scalar(0), results[k].dtype());
      if (keeps) sources.push_back(results[k]);
      const ValueId selected[] = {mask, value, old};
      value = program.apply("where"_op, selected);
    }
    program.output(value);
  }

  std::vector<const NdArray*> reads, writes;
  for (const NdArray& source : sources) reads.push_back(&source);
  for (const NdArray& target : written) writes.push_back(&target);
  run_elementwise(program, reads, writes, context);
  for (size_t k = 0; k < ops.size(); ++k)
    if (written[k].raw() != results[k].raw()) results[k].assign(written[k], context);
  return results;
}

// Runs a known program straight into an array of the result's dtype and shape, which is what `out` mostly is. False
// where the call is of another kind.
bool run_into(Op op, std::span<const Arg> args, const NdArray& out) {
  if (op == "power"_op)  // may have exponents to check
    return is_square(op, args, std::nullopt) && run_into("square"_op, args.first(1), out);
  const Program* program = cached_program(op, args, std::nullopt);
  if (program == nullptr || program->dtype(program->outputs()[0]) != out.dtype()) return false;
  const Inputs inputs = inputs_of(op, args, std::nullopt);
  if (inputs.count == 0 || inputs.shape != out.shape()) return false;
  for (const NdArray* array : inputs.span())
    if (array->device() != out.device() || (may_overlap(*array, out) && !same_elements(*array, out, out.shape())))
      return false;
  check_writable(out);
  const Range named(info(op).name);
  const NdArray* outputs[] = {&out};
  run_elementwise(*program, inputs.span(), outputs, context_for(out.device()));
  return true;
}

}  // namespace

NdArray new_result(std::span<const NdArray* const> inputs, const Dims& space, DType dtype, const ExecContext& context) {
  std::optional<std::array<int, kMaxDims>> order;
  for (const NdArray* array : inputs) {
    if (array->shape() != space) continue;  // broadcast
    if (array->is_contiguous()) return {space, dtype, context};
    const auto own = memory_order(*array);
    if (order && *order != own) return {space, dtype, context};
    order = own;
  }
  const int ndim = space.size();
  if (!order || std::is_sorted(order->begin(), order->begin() + ndim)) return {space, dtype, context};
  Dims shape = space;
  std::array<int64_t, kMaxDims> back{};
  for (int d = 0; d < ndim; ++d) {
    const int axis = (*order)[static_cast<size_t>(d)];
    shape[d] = space[axis];
    back[static_cast<size_t>(axis)] = d;
  }
  return NdArray(shape, dtype, context).transpose(std::span(back.data(), static_cast<size_t>(ndim)));
}

DType literal_dtype(Op op, const Scalar& scalar, DType wanted) {
  if (!scalar.weak()) return scalar.dtype();
  if (!takes_any_literal(op))
    check_weak_fits(scalar, literal_range(op, wanted));
  else if (info(op).rule != OpRule::select && is_integer(wanted) && is_integer(scalar.dtype()) && !fits(scalar, wanted))
    return scalar.dtype();
  return wanted;
}

ValueId bind_literal(Program& program, Op op, const Scalar& scalar, DType wanted) {
  return program.constant(scalar, literal_dtype(op, scalar, wanted));
}

void check_where(DType where) {
  if (where != DType::bool_)
    throw TypeError(fmt::format("Cannot cast array data from dtype('{}') to dtype('bool') according to the rule 'safe'",
                                name(where)));
}

void check_writable(const NdArray& out) {
  out.check_writable();
  for (int d = 0; d < out.ndim(); ++d)
    if (out.strides()[d] == 0 && out.shape()[d] > 1)
      throw InvalidArgument(
          fmt::format("the output of shape {} is read-only: its elements share memory", to_string(out.shape())));
}

NdArray detail::apply(Op op, std::span<const Arg> args, std::optional<DType> dtype) {
  const Range named(info(op).name);
  if (is_square(op, args, dtype)) return apply("square"_op, args.first(1), dtype);
  const Inputs inputs = inputs_of(op, args, dtype);
  const ExecContext context = context_for(common_device(inputs.span()));
  const auto run = [&](const Program& program) {
    const ValueId value = program.outputs()[0];
    // Only a loop of integers checks its exponents.
    if (op == "power"_op) check_power(args, program.dtype(value), nullptr);
    NdArray result = new_result(inputs.span(), inputs.shape, program.dtype(value), context);
    const NdArray* out[] = {&result};
    run_elementwise(program, inputs.span(), out, context);
    return result;
  };
  if (const Program* cached = cached_program(op, args, dtype)) return run(*cached);
  return run(make_program(op, args, dtype));
}

NdArray detail::apply(Op op, std::span<const Arg> args, const UfuncOptions& options) {
  if (!options.where && options.casting == Casting::same_kind) {
    if (!options.out) return apply(op, args, options.dtype);
    if (!options.dtype && run_into(op, args, *options.out)) return *options.out;
  }
  const Op ops[] = {op};
  return run_general(info(op).name, ops, args, options, std::span(&options.out, 1))[0];
}

std::vector<NdArray> detail::apply(const MultiOutput& function, std::span<const Arg> args, const UfuncOptions& options,
                                   std::span<const std::optional<NdArray>> out) {
  if (!out.empty() && out.size() != function.outputs.size())
    throw InvalidArgument("The 'out' tuple must have exactly one entry per ufunc output");
  return run_general(function.name, function.outputs, args, options, out);
}

NdArray detail::conjugated(const NdArray& a) { return is_complex(a.dtype()) ? apply("conjugate"_op, {a}) : a; }

}  // namespace quarry::local
