#include "quarry/local/ops/products/einsum.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/numerical/gufunc.h"
#include "quarry/local/ops/products/contract.h"
#include "quarry/local/ops/products/einsum_plan.h"

namespace quarry::local::ops {
namespace {

using linalg::Labels;

struct Term {
  NdArray array;
  std::string labels;  // each once
};

std::vector<std::string> letters_of(const std::vector<Term>& terms) {
  std::vector<std::string> letters;
  for (const Term& term : terms) letters.push_back(term.labels);
  return letters;
}

Labels labels_of(const std::string& letters) { return Labels(letters.begin(), letters.end()); }

// The diagonal view over repeated labels, without the axes of one element that broadcast to other terms' extents.
Term without_repeats(const NdArray& array, const std::string& letters, const EinsumTerms& terms) {
  Term term;
  Dims shape, strides;
  for (int d = 0; d < array.ndim(); ++d) {
    const char letter = letters[static_cast<size_t>(d)];
    if (array.shape()[d] == 1 && terms.extents[static_cast<size_t>(letter)] != 1) continue;
    const size_t known = term.labels.find(letter);
    if (known != std::string::npos) {
      strides[static_cast<int>(known)] += array.strides()[d];
      continue;
    }
    term.labels += letter;
    shape.push_back(array.shape()[d]);
    strides.push_back(array.strides()[d]);
  }
  term.array = array.restrided(shape, strides, array.offset());
  return term;
}

// The product of all terms over all their labels, summed to `output`, in one pass without intermediates.
NdArray contract_at_once(const std::vector<Term>& operands, const std::string& output, const EinsumTerms& terms,
                         const ExecContext& context) {
  const DType dtype = operands[0].array.dtype();
  const bool half = is_half(dtype), boolean = dtype == DType::bool_;
  const DType sum = half ? DType::float32 : dtype;
  std::string order = output;
  for (const Term& operand : operands)
    for (char letter : operand.labels)
      if (order.find(letter) == std::string::npos) order += letter;
  if (order.size() > static_cast<size_t>(kMaxDims))
    throw InvalidArgument(fmt::format("einsum: {} different axes in one step, at most {}", order.size(), kMaxDims));
  Dims space, result_shape;
  for (char letter : order) space.push_back(terms.extents[static_cast<size_t>(letter)]);
  for (char letter : output) result_shape.push_back(terms.extents[static_cast<size_t>(letter)]);

  Program program;
  ValueId product = -1;
  std::vector<Operand> inputs;
  for (const Term& operand : operands) {
    const ValueId value = program.cast(program.input(dtype), sum);
    product =
        product < 0 ? value : program.apply(boolean ? "logical_and"_op : "multiply"_op, std::array{product, value});
    Dims strides = Dims::filled(space.size(), 0);
    for (int d = 0; d < operand.array.ndim(); ++d)
      strides[static_cast<int>(order.find(operand.labels[static_cast<size_t>(d)]))] = operand.array.strides()[d];
    inputs.push_back({operand.array.raw(), strides});
    operand.array.begin_read(context.stream);
  }
  const NdArray result(result_shape, sum, context);
  if (result.size() == 0) return result.astype(dtype, context);
  Dims strides = Dims::filled(space.size(), 0);
  for (int d = 0; d < result.ndim(); ++d) strides[d] = result.strides()[d];
  Launch launch;
  launch.shape = space;
  launch.inputs = std::move(inputs);
  if (order.size() == output.size()) {
    program.output(product);
    launch.outputs.push_back({result.raw(), strides});
  } else if (element_count(space) == 0) {
    result.fill(0, context);
    return result.astype(dtype, context);
  } else {
    program.reduce(boolean ? "any"_reduction : "sum"_reduction, std::array{product}, sum);
    launch.states.push_back({result.raw(), strides});
    launch.reduce_axes = ((uint64_t{1} << order.size()) - 1) & ~((uint64_t{1} << output.size()) - 1);
  }
  engine(context.device).run(program, launch, context);
  return half ? result.astype(dtype, context) : result;
}

Term contract(const std::vector<Term>& taken, const std::string& output, const EinsumTerms& terms,
              const ExecContext& context, Precision precision) {
  if (taken.size() == 1) return {linalg::sum_to(taken[0].array, labels_of(taken[0].labels), labels_of(output)), output};
  if (taken.size() == 2) {
    return {linalg::contract(taken[0].array, labels_of(taken[0].labels), taken[1].array, labels_of(taken[1].labels),
                             labels_of(output), context, precision),
            output};
  }
  return {contract_at_once(taken, output, terms, context), output};
}

DType loop_dtype(const EinsumTerms& terms, std::optional<DType> dtype, Casting casting) {
  std::vector<PromotionOperand> operands;
  for (const NdArray& array : terms.operands) operands.push_back({array.dtype(), false});
  const DType loop = dtype.value_or(result_type(operands));
  for (size_t i = 0; i < terms.operands.size(); ++i) {
    if (!can_cast(terms.operands[i].dtype(), loop, casting)) {
      throw TypeError(
          fmt::format("Iterator operand {} dtype could not be cast from dtype('{}') to dtype('{}') "
                      "according to the rule '{}'",
                      i, name(terms.operands[i].dtype()), name(loop), name(casting)));
    }
  }
  return loop;
}

bool same_letters(std::string a, std::string b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

}  // namespace

NdArray einsum(const EinsumOperands& operands, const std::optional<NdArray>& out, const EinsumOptimize& optimize,
               std::optional<DType> dtype, std::string_view order, Casting casting, Precision precision) {
  const Range named("einsum");
  const Order layout = parse_order(order);
  const EinsumTerms terms = parse_einsum(operands);
  if (terms.operands.size() == 1 && !out) {
    // Without a sum it is a view, whatever dtype and order are asked for, as NumPy's.
    const Term only = without_repeats(terms.operands[0], terms.inputs[0], terms);
    if (same_letters(only.labels, terms.output))
      return linalg::sum_to(only.array, labels_of(only.labels), labels_of(terms.output));
  }
  std::vector<const NdArray*> arrays;
  for (const NdArray& array : terms.operands) arrays.push_back(&array);
  if (out) arrays.push_back(&*out);
  const ExecContext context = context_for(common_device(arrays));
  const DType loop = loop_dtype(terms, dtype, casting);
  if (out && !can_cast(loop, out->dtype(), casting)) {
    throw TypeError(
        fmt::format("Iterator requested dtype could not be cast from dtype('{}') to dtype('{}'), the "
                    "operand {} dtype, according to the rule '{}'",
                    name(loop), name(out->dtype()), terms.operands.size(), name(casting)));
  }
  const bool unspecified = std::holds_alternative<std::monostate>(optimize);
  ContractionPath path = find_path(terms, unspecified ? EinsumOptimize(true) : optimize);
  const bool half = is_half(loop);
  const DType between = half && path.size() > 1 ? DType::float32 : loop;

  std::vector<Term> left;
  for (size_t i = 0; i < terms.operands.size(); ++i) {
    Term term = without_repeats(terms.operands[i], terms.inputs[i], terms);
    if (term.array.dtype() != loop) term.array = term.array.astype(loop, context);
    if (between != loop) term.array = term.array.astype(between, context);
    left.push_back(std::move(term));
  }
  for (size_t step = 0; step < path.size(); ++step) {
    std::vector<int64_t>& positions = path[step];
    std::vector<Term> taken;
    for (int64_t position : positions) taken.push_back(left[static_cast<size_t>(position)]);
    std::sort(positions.rbegin(), positions.rend());
    for (int64_t position : positions) left.erase(left.begin() + position);
    const std::string kept =
        step + 1 == path.size() ? terms.output : kept_letters(letters_of(taken), letters_of(left), terms.output);
    left.push_back(contract(taken, kept, terms, context, precision));
  }
  NdArray result = between == loop ? left[0].array : left[0].array.astype(loop, context);
  if (!out) return laid_out(result, layout, terms.operands);
  if (out->shape() != result.shape()) {
    throw InvalidArgument(
        fmt::format("operands could not be broadcast together with remapped shapes [original->remapped]: the output {} "
                    "has shape {}, not {}",
                    terms.output, compact_shape(out->shape()), compact_shape(result.shape())));
  }
  return store_result("einsum", may_overlap(result, *out) ? result.copy(context) : result, *out, Casting::unsafe);
}

std::pair<EinsumPath, std::string> einsum_path(const EinsumOperands& operands, const EinsumOptimize& optimize,
                                               bool einsum_call) {
  const Range named("einsum_path");
  if (einsum_call)
    throw InvalidArgument("einsum_path: einsum_call=True is NumPy's internal form, which is not provided");
  const EinsumTerms terms = parse_einsum(operands);
  const ContractionPath path = find_path(terms, optimize);
  EinsumPath list{std::string("einsum_path")};
  for (const std::vector<int64_t>& step : path) list.emplace_back(Dims(step));
  return {std::move(list), describe_path(terms, path)};
}

}  // namespace quarry::local::ops
