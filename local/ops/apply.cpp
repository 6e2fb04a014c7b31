#include "local/ops/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "local/ops/launch.h"
#include "local/ops/reduce.h"

namespace quarry::local {
namespace {

constexpr size_t kMaxArgs = 3;

// Programs of array arguments only depend on op and dtypes; kept per thread, so that a small call costs one lookup.
const Program& cached_program(Op op, std::span<const Arg> args, std::optional<DType> dtype) {
  thread_local std::unordered_map<uint64_t, std::unique_ptr<Program>> cache;
  uint64_t key = static_cast<uint64_t>(op) * 32 + (dtype ? static_cast<uint64_t>(*dtype) + 1 : 0);
  for (const Arg& arg : args) key = key * 32 + static_cast<uint64_t>(arg.array()->dtype()) + 1;
  std::unique_ptr<Program>& entry = cache[key];
  if (!entry) {
    auto program = std::make_unique<Program>();
    std::array<ValueId, kMaxArgs> ids{};
    for (size_t i = 0; i < args.size(); ++i) ids[i] = program->input(args[i].array()->dtype());
    program->output(program->apply(op, std::span(ids.data(), args.size()), dtype));
    entry = std::move(program);
  }
  return *entry;
}

// The scalar as a constant of the dtype that its loop wants.
ValueId bind(Program& program, Op op, const Scalar& scalar, DType wanted) {
  if (!scalar.weak()) return program.constant(scalar, scalar.dtype());
  const OpRule rule = info(op).rule;
  if ((rule == OpRule::comparison || rule == OpRule::logical) && is_integer(wanted) && is_integer(scalar.dtype())) {
    try {
      check_weak_fits(scalar, wanted);
    } catch (const InvalidArgument&) {  // compares and counts as true all the same, as Python's integers do
      return program.constant(scalar, scalar.dtype());
    }
  }
  check_weak_fits(scalar, wanted);
  return program.constant(scalar, wanted);
}

Program bound_program(Op op, std::span<const Arg> args, std::optional<DType> dtype) {
  Program program;
  std::array<PromotionOperand, kMaxArgs> operands{};
  for (size_t i = 0; i < args.size(); ++i) operands[i] = args[i].promotion();
  const OpTypes types = resolve(op, std::span(operands.data(), args.size()), dtype);
  std::array<ValueId, kMaxArgs> ids{};
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].array()) ids[i] = program.input(args[i].array()->dtype());
  }
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].array()) ids[i] = bind(program, op, args[i].scalar(), types.args[i]);
  }
  program.output(program.apply(op, std::span(ids.data(), args.size()), dtype));
  return program;
}

// NumPy raises where an integer is raised to a negative one; a constant exponent is checked by Program::apply().
void check_power(std::span<const Arg> args) {
  const NdArray* exponent = args[1].array();
  if (!exponent || kind(exponent->dtype()) != 'i' || exponent->size() == 0) return;
  const PromotionOperand both[] = {args[0].promotion(), args[1].promotion()};
  if (!is_integer(result_type(both))) return;
  if (ops::min(*exponent).item().as_int64() < 0)
    throw InvalidArgument("Integers to negative integer powers are not allowed.");
}

struct Inputs {
  std::array<const NdArray*, kMaxArgs> arrays{};
  size_t count = 0;
  Dims shape;
  std::span<const NdArray* const> span() const { return {arrays.data(), count}; }
};

Inputs inputs_of(std::span<const Arg> args) {
  if (args.size() > kMaxArgs)
    throw InvalidArgument(fmt::format("a ufunc takes at most {} operands, got {}", kMaxArgs, args.size()));
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
    inputs.shape = broadcast_shapes(std::span<const Dims>(shapes.data(), inputs.count));
  }
  return inputs;
}

}  // namespace

NdArray apply(Op op, std::span<const Arg> args, std::optional<DType> dtype) {
  const Inputs inputs = inputs_of(args);
  const ExecContext context = context_for(common_device(inputs.span()));
  if (inputs.count == args.size() && inputs.count > 0) {
    const Program& program = cached_program(op, args, dtype);
    if (op == Op::power) check_power(args);
    NdArray result(inputs.shape, program.dtype(program.outputs()[0]), context);
    const NdArray* out[] = {&result};
    run_elementwise(program, inputs.span(), out, context);
    return result;
  }
  const Program program = bound_program(op, args, dtype);
  if (op == Op::power) check_power(args);
  NdArray result(inputs.shape, program.dtype(program.outputs()[0]), context);
  const NdArray* out[] = {&result};
  run_elementwise(program, inputs.span(), out, context);
  return result;
}

std::vector<NdArray> apply(const MultiOutput& function, std::span<const Arg> args, std::optional<DType> dtype) {
  const Inputs inputs = inputs_of(args);
  const ExecContext context = context_for(common_device(inputs.span()));
  std::array<PromotionOperand, kMaxArgs> operands{};
  for (size_t i = 0; i < args.size(); ++i) operands[i] = args[i].promotion();
  Program program;
  std::array<ValueId, kMaxArgs> ids{};
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].array()) ids[i] = program.input(args[i].array()->dtype());
  const OpTypes types = resolve(function.outputs[0], std::span(operands.data(), args.size()), dtype);
  for (size_t i = 0; i < args.size(); ++i)
    if (!args[i].array()) ids[i] = bind(program, function.outputs[0], args[i].scalar(), types.args[i]);
  std::vector<NdArray> results;
  for (Op op : function.outputs) {
    const bool takes_dtype = info(op).result == OpInfo::Result::same;
    const ValueId value = program.apply(op, std::span(ids.data(), args.size()), takes_dtype ? dtype : std::nullopt);
    program.output(value);
    results.emplace_back(inputs.shape, program.dtype(value), context);
  }
  std::vector<const NdArray*> outputs;
  outputs.reserve(results.size());
  for (const NdArray& result : results) outputs.push_back(&result);
  run_elementwise(program, inputs.span(), outputs, context);
  return results;
}

}  // namespace quarry::local
