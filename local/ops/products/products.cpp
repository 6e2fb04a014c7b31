#include "quarry/local/ops/products/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/numerical/gufunc.h"
#include "quarry/local/ops/products/contract.h"
#include "quarry/local/ops/products/pairs.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local::ops {
namespace {

DType promoted(const NdArray& a, const NdArray& b) {
  const PromotionOperand operands[] = {{a.dtype(), false}, {b.dtype(), false}};
  return result_type(operands);
}
ExecContext common_context(const NdArray& a, const NdArray& b) {
  const NdArray* both[] = {&a, &b};
  return context_for(common_device(both));
}
Dims leading_axes(const NdArray& array, int core) { return Dims(array.shape().begin(), array.shape().end() - core); }
NdArray flat(const NdArray& array) { return array.reshape({array.size()}); }

// ---- Generalised ufuncs ----

// A product as NumPy's signature describes it. Core dimensions are named by letters.
struct Signature {
  const char* name;
  const char* text;
  std::string_view operands[3];  // core dimensions of x1, x2 and the result
  bool conjugate;                // of x1
};
constexpr Signature kMatmul{"matmul", "(n?,k),(k,m?)->(n?,m?)", {"nk", "km", "nm"}, false};
constexpr Signature kVecdot{"vecdot", "(n),(n)->()", {"n", "n", ""}, true};
constexpr Signature kMatvec{"matvec", "(m,n),(n)->(m)", {"mn", "n", "m"}, false};
constexpr Signature kVecmat{"vecmat", "(n),(n,m)->(m)", {"n", "nm", "m"}, true};

struct Options {
  const std::optional<NdArray>& out;
  Casting casting;
  std::optional<DType> dtype;
  const CoreAxes& axes;
  Order order;
  Precision precision = Precision::exact;
};

// The view with the listed axes last.
NdArray core_last(const NdArray& array, const std::vector<int64_t>& axes, size_t entry) {
  std::vector<int64_t> order, core;
  for (int64_t axis : axes) {
    core.push_back(normalize_axis(axis, array.ndim()));
    if (std::count(core.begin(), core.end(), core.back()) > 1)
      throw InvalidArgument(fmt::format("axes item {} has value {} repeated", entry, axis));
  }
  for (int64_t d = 0; d < array.ndim(); ++d)
    if (std::find(core.begin(), core.end(), d) == core.end()) order.push_back(d);
  order.insert(order.end(), core.begin(), core.end());
  return order.empty() ? array : array.transpose(order);
}
// The reverse: the last axes of `array` moved to where the list says.
NdArray core_placed(const NdArray& array, const std::vector<int64_t>& axes) {
  std::vector<int64_t> order(static_cast<size_t>(array.ndim()), -1);
  const int64_t loop = array.ndim() - static_cast<int64_t>(axes.size());
  for (size_t i = 0; i < axes.size(); ++i)
    order[static_cast<size_t>(normalize_axis(axes[i], array.ndim()))] = loop + static_cast<int64_t>(i);
  int64_t next = 0;
  for (int64_t& source : order)
    if (source < 0) source = next++;
  return order.empty() ? array : array.transpose(order);
}

void check_axes(const Signature& signature, const std::vector<Ints>& axes, std::span<const size_t> cores) {
  if (axes.size() != 3 && !(axes.size() == 2 && cores[2] == 0)) {
    throw InvalidArgument(
        "axes should be a list with an entry for all 3 inputs and outputs; entries for outputs can only be omitted if "
        "none of them has core axes.");
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].values().size() != cores[i])
      throw InvalidArgument(
          fmt::format("{}: operand {} has {} core dimensions, but {} dimensions are specified by "
                      "axes tuple.",
                      signature.name, i, cores[i], axes[i].values().size()));
  }
}

Dims batch_shape(const NdArray& a, int a_core, const NdArray& b, int b_core, const Dims& result_core) {
  const Dims left = leading_axes(a, a_core), right = leading_axes(b, b_core);
  try {
    return broadcast_shapes(left, right);
  } catch (const InvalidArgument&) {
    const auto remapped = [](const NdArray& x, int core) {
      std::string text = compact_shape(x.shape()) + "->(";
      for (int d = 0; d < x.ndim(); ++d)
        text += (d == 0 ? "" : ",") + (d < x.ndim() - core ? fmt::format("{}", x.shape()[d]) : std::string("newaxis"));
      return text + ")";
    };
    throw InvalidArgument(fmt::format(
        "operands could not be broadcast together with remapped shapes [original->remapped]: {} {}  and requested "
        "shape {}",
        remapped(a, a_core), remapped(b, b_core), compact_shape(result_core)));
  }
}

NdArray gufunc(const Signature& signature, const NdArray& x1, const NdArray& x2, const Options& options) {
  const ExecContext context = common_context(x1, x2);
  const NdArray* inputs[] = {&x1, &x2};
  // matmul's optional dimensions: a vector lacks one.
  std::string cores[3] = {std::string(signature.operands[0]), std::string(signature.operands[1]),
                          std::string(signature.operands[2])};
  const bool optional = &signature == &kMatmul;
  for (size_t i = 0; i < 2; ++i) {
    const int needed = optional ? 1 : static_cast<int>(cores[i].size());
    if (inputs[i]->ndim() < needed) {
      throw InvalidArgument(
          fmt::format("{}: Input operand {} does not have enough dimensions (has {}, gufunc core with signature {} "
                      "requires {})",
                      signature.name, i, inputs[i]->ndim(), signature.text, needed));
    }
    if (optional && inputs[i]->ndim() == 1) {
      const char lacking = i == 0 ? 'n' : 'm';
      std::erase(cores[i], lacking);
      std::erase(cores[2], lacking);
    }
  }
  NdArray a = x1, b = x2;
  if (options.axes) {
    const size_t sizes[] = {cores[0].size(), cores[1].size(), cores[2].size()};
    check_axes(signature, *options.axes, sizes);
    a = core_last(a, (*options.axes)[0].values(), 0);
    b = core_last(b, (*options.axes)[1].values(), 1);
  }
  // Sizes of the core dimensions.
  int64_t extents[128] = {};
  for (char& letter : cores[0]) extents[static_cast<size_t>(letter)] = -1;
  for (char& letter : cores[1]) extents[static_cast<size_t>(letter)] = -1;
  const auto take = [&](const NdArray& array, size_t operand, const char* role, size_t number) {
    const std::string& core = cores[operand];
    for (size_t i = 0; i < core.size(); ++i) {
      const int64_t size = array.shape(static_cast<int64_t>(i) - static_cast<int64_t>(core.size()));
      int64_t& extent = extents[static_cast<size_t>(core[i])];
      if (extent >= 0 && extent != size) {
        throw InvalidArgument(
            fmt::format("{}: {} operand {} has a mismatch in its core dimension {}, with gufunc signature {} (size {} "
                        "is different from {})",
                        signature.name, role, number, i, signature.text, size, extent));
      }
      extent = size;
    }
  };
  take(a, 0, "Input", 0);
  take(b, 1, "Input", 1);
  Dims core_shape;
  for (char letter : cores[2]) core_shape.push_back(extents[static_cast<size_t>(letter)]);
  const int a_core = static_cast<int>(cores[0].size()), b_core = static_cast<int>(cores[1].size());
  const Dims batch = batch_shape(a, a_core, b, b_core, core_shape);
  Dims result_shape = batch;
  for (int64_t extent : core_shape) result_shape.push_back(extent);

  const DType dtype = options.dtype.value_or(promoted(x1, x2));
  for (size_t i = 0; i < 2; ++i) {
    if (!can_cast(inputs[i]->dtype(), dtype, options.casting))
      throw TypeError(
          fmt::format("Cannot cast ufunc '{}' input {} from dtype('{}') to dtype('{}') with casting rule '{}'",
                      signature.name, i, name(inputs[i]->dtype()), name(dtype), name(options.casting)));
  }
  std::optional<NdArray> out;
  if (options.out) {
    const NdArray* devices[] = {&x1, &*options.out};
    common_device(devices);
    const int needed = core_shape.size();
    if (options.out->ndim() < needed) {
      throw InvalidArgument(
          fmt::format("{}: Output operand 0 does not have enough dimensions (has {}, gufunc core with signature {} "
                      "requires {})",
                      signature.name, options.out->ndim(), signature.text, needed));
    }
    out = *options.out;
    if (options.axes && options.axes->size() == 3) out = core_last(*out, (*options.axes)[2].values(), 2);
    take(*out, 2, "Output", 0);
  }

  // Every signature is (rows, k) by (k, columns) with some of rows and columns absent.
  const char inner = cores[1][0];
  const int64_t k = extents[static_cast<size_t>(inner)];
  const int64_t rows = cores[0].size() == 2 ? extents[static_cast<size_t>(cores[0][0])] : 1;
  const int64_t columns = cores[1].size() == 2 ? extents[static_cast<size_t>(cores[1][1])] : 1;
  Dims product_shape = batch;
  product_shape.push_back(rows);
  product_shape.push_back(columns);
  if (out) out->check_writable();
  NdArray left = a, right = b;
  if (cores[0].size() == 1) left = a[{ellipsis, newaxis, full_slice}];
  if (cores[1].size() == 1) right = b[{ellipsis, newaxis}];
  Dims left_shape = batch, right_shape = batch;
  left_shape.push_back(rows), left_shape.push_back(k);
  right_shape.push_back(k), right_shape.push_back(columns);
  const bool in_place = out && out->dtype() == dtype && out->shape() == result_shape && out->is_contiguous() &&
                        !may_overlap(*out, x1) && !may_overlap(*out, x2);
  const NdArray product = in_place ? out->reshape(product_shape) : NdArray(product_shape, dtype, context);
  linalg::multiply(left.broadcast_to(left_shape), right.broadcast_to(right_shape), product, signature.conjugate,
                   context, options.precision);
  if (in_place) return *options.out;
  const NdArray result = product.reshape(result_shape);
  if (out) {
    store_result(signature.name, result, *out, options.casting);
    return *options.out;
  }
  const NdArray operands[] = {x1, x2};
  const bool placed = options.axes && options.axes->size() == 3;
  return laid_out(placed ? core_placed(result, (*options.axes)[2].values()) : result, options.order, operands);
}

// ---- Contractions ----

// The sum over a's and b's listed axes, in pairs; a's other axes come first in the result.
NdArray contract_axes(const NdArray& a, std::span<const int> a_axes, const NdArray& b, std::span<const int> b_axes,
                      Precision precision) {
  const ExecContext context = common_context(a, b);
  const DType dtype = promoted(a, b);
  linalg::Labels a_labels(static_cast<size_t>(a.ndim())), b_labels(static_cast<size_t>(b.ndim())), out;
  std::iota(a_labels.begin(), a_labels.end(), 0);
  std::iota(b_labels.begin(), b_labels.end(), a.ndim());
  for (size_t i = 0; i < a_axes.size(); ++i)
    b_labels[static_cast<size_t>(b_axes[i])] = a_labels[static_cast<size_t>(a_axes[i])];
  for (int d = 0; d < a.ndim(); ++d)
    if (std::find(a_axes.begin(), a_axes.end(), d) == a_axes.end()) out.push_back(d);
  for (int d = 0; d < b.ndim(); ++d)
    if (std::find(b_axes.begin(), b_axes.end(), d) == b_axes.end()) out.push_back(a.ndim() + d);
  const NdArray left = a.dtype() == dtype ? a : a.astype(dtype, context);
  const NdArray right = b.dtype() == dtype ? b : b.astype(dtype, context);
  return linalg::contract(left, a_labels, right, b_labels, out, context, precision);
}

}  // namespace

NdArray matmul(const NdArray& x1, const NdArray& x2, const std::optional<NdArray>& out, Casting casting,
               std::string_view order, std::optional<DType> dtype, bool /*subok*/, const CoreAxes& axes,
               Precision precision) {
  const Range named("matmul");
  return gufunc(kMatmul, x1, x2, {out, casting, dtype, axes, parse_order(order), precision});
}

NdArray vecdot(const NdArray& x1, const NdArray& x2, const std::optional<NdArray>& out, const CoreAxes& axes,
               std::optional<int64_t> axis, bool keepdims, Casting casting, std::string_view order,
               std::optional<DType> dtype, bool /*subok*/) {
  const Range named("vecdot");
  const Order layout = parse_order(order);
  CoreAxes chosen = axes;
  if (axis) {
    if (axes) throw TypeError("cannot specify both 'axis' and 'axes'");
    chosen = std::vector<Ints>{Ints(*axis), Ints(*axis)};
  }
  if (!keepdims) return gufunc(kVecdot, x1, x2, {out, casting, dtype, chosen, layout});
  // The summed axis stays where x1 has it, counted from the end.
  const NdArray& longer = x1.ndim() >= x2.ndim() ? x1 : x2;
  if (longer.ndim() == 0) return gufunc(kVecdot, x1, x2, {out, casting, dtype, chosen, layout});
  const int64_t place = chosen ? (*chosen)[chosen->size() == 3 ? 2 : 0].values().at(0) : -1;
  if (chosen && chosen->size() == 3) chosen->pop_back();
  NdArray result = gufunc(kVecdot, x1, x2, {std::nullopt, casting, dtype, chosen, Order::K});
  const int at = normalize_axis(place, result.ndim() + 1);
  Dims shape = result.shape();
  shape.insert(at, 1);
  result = result.reshape(shape);
  if (out) return store_result(kVecdot.name, result, *out, casting);
  const NdArray operands[] = {x1, x2};
  return laid_out(result, layout, operands);
}

NdArray matvec(const NdArray& x1, const NdArray& x2, const std::optional<NdArray>& out, const CoreAxes& axes,
               Casting casting, std::string_view order, std::optional<DType> dtype, bool /*subok*/) {
  const Range named("matvec");
  return gufunc(kMatvec, x1, x2, {out, casting, dtype, axes, parse_order(order)});
}

NdArray vecmat(const NdArray& x1, const NdArray& x2, const std::optional<NdArray>& out, const CoreAxes& axes,
               Casting casting, std::string_view order, std::optional<DType> dtype, bool /*subok*/) {
  const Range named("vecmat");
  return gufunc(kVecmat, x1, x2, {out, casting, dtype, axes, parse_order(order)});
}

NdArray dot(const NdArray& a, const NdArray& b, const std::optional<NdArray>& out, Precision precision) {
  const Range named("dot");
  NdArray result;
  if (a.ndim() == 0 || b.ndim() == 0) {
    result = apply("multiply"_op, {a, b});
  } else {
    const AxisPairs axes = dot_axes(a.shape(), b.shape());
    result = contract_axes(a, axes.a, b, axes.b, precision);
  }
  return out ? store_exactly(result, *out) : result;
}

NdArray vdot(const NdArray& a, const NdArray& b) {
  const Range named("vdot");
  if (a.size() != b.size())
    throw InvalidArgument(
        fmt::format("cannot reshape array of size {} into shape {}", b.size(), compact_shape({a.size()})));
  return vecdot(flat(a), flat(b));
}

NdArray inner(const NdArray& a, const NdArray& b, Precision precision) {
  const Range named("inner");
  if (a.ndim() == 0 || b.ndim() == 0) return apply("multiply"_op, {a, b});
  const AxisPairs axes = inner_axes(a.shape(), b.shape());
  return contract_axes(a, axes.a, b, axes.b, precision);
}

NdArray outer(const NdArray& a, const NdArray& b, const std::optional<NdArray>& out) {
  const Range named("outer");
  const NdArray result = apply("multiply"_op, {flat(a)[{full_slice, newaxis}], flat(b)[{newaxis, full_slice}]});
  return out ? store_result("multiply", result, *out, Casting::same_kind) : result;
}

NdArray tensordot(const NdArray& a, const NdArray& b, const std::variant<int64_t, std::vector<Ints>>& axes,
                  Precision precision) {
  const Range named("tensordot");
  const AxisPairs pairs = tensordot_axes(a.shape(), b.shape(), axes);
  return contract_axes(a, pairs.a, b, pairs.b, precision);
}

NdArray kron(const NdArray& a, const NdArray& b) {
  const Range named("kron");
  const KroneckerShapes shapes = kron_shapes(a.shape(), b.shape());
  return apply("multiply"_op, {a.reshape(shapes.a), b.reshape(shapes.b)}).reshape(shapes.result);
}

NdArray cross(const NdArray& a, const NdArray& b, int64_t axisa, int64_t axisb, int64_t axisc,
              std::optional<int64_t> axis) {
  const Range named("cross");
  if (axis) axisa = axisb = axisc = *axis;
  if (a.ndim() == 0 || b.ndim() == 0) throw InvalidArgument("At least one array has zero dimension");
  const auto last = [](const NdArray& x, int64_t which, const char* prefix) {
    if (which < -x.ndim() || which >= x.ndim())
      throw IndexError(fmt::format("{}: axis {} is out of bounds for array of dimension {}", prefix, which, x.ndim()));
    return core_last(x, {which}, 0);
  };
  const NdArray left = last(a, axisa, "axisa"), right = last(b, axisb, "axisb");
  const int64_t na = left.shape(-1), nb = right.shape(-1);
  if ((na != 2 && na != 3) || (nb != 2 && nb != 3))
    throw InvalidArgument("incompatible dimensions for cross product\n(dimension must be 2 or 3)");
  const ExecContext context = common_context(a, b);
  Dims shape;
  try {
    shape = broadcast_shapes(leading_axes(left, 1), leading_axes(right, 1));
  } catch (const InvalidArgument&) {
    throw InvalidArgument(
        fmt::format("shape mismatch: objects cannot be broadcast to a single shape.  Mismatch is between arg 0 with "
                    "shape {} and arg 1 with shape {}.",
                    compact_shape(leading_axes(left, 1)), compact_shape(leading_axes(right, 1))));
  }
  const bool planar = na == 2 && nb == 2;
  const DType dtype = promoted(a, b);
  Dims result_shape = shape;
  if (!planar) {
    if (axisc < -(shape.size() + 1) || axisc > shape.size())
      throw IndexError(
          fmt::format("axisc: axis {} is out of bounds for array of dimension {}", axisc, shape.size() + 1));
    result_shape.push_back(3);
  }

  // All components in one pass: component i is a[i+1] b[i+2] - a[i+2] b[i+1]; a vector of 2 has a zero third element.
  Program program;
  std::vector<NdArray> inputs, outputs;
  std::array<ValueId, 3> x{-1, -1, -1}, y{-1, -1, -1};
  for (auto [source, count, ids] : {std::tuple(&left, na, &x), std::tuple(&right, nb, &y)}) {
    for (int64_t i = 0; i < count; ++i) {
      (*ids)[static_cast<size_t>(i)] = program.cast(program.input(source->dtype()), dtype);
      inputs.push_back((*source)[{ellipsis, i}]);
    }
  }
  const NdArray result(result_shape, dtype, context);
  const auto product = [&](size_t i, size_t j) {
    return x[i] < 0 || y[j] < 0 ? ValueId{-1} : program.apply("multiply"_op, std::array{x[i], y[j]});
  };
  for (size_t i = planar ? 2 : 0; i < 3; ++i) {
    const ValueId plus = product((i + 1) % 3, (i + 2) % 3), minus = product((i + 2) % 3, (i + 1) % 3);
    if (dtype == DType::bool_)
      program.apply("subtract"_op, std::array{plus < 0 ? minus : plus, plus < 0 ? minus : plus});
    program.output(minus < 0  ? plus
                   : plus < 0 ? program.apply("negative"_op, std::array{minus})
                              : program.apply("subtract"_op, std::array{plus, minus}));
    outputs.push_back(planar ? result : result[{ellipsis, static_cast<int64_t>(i)}]);
  }
  std::vector<const NdArray*> in, out;
  for (const NdArray& array : inputs) in.push_back(&array);
  for (const NdArray& array : outputs) out.push_back(&array);
  run_elementwise(program, in, out, context);
  return planar ? result : core_placed(result, {axisc});
}

}  // namespace quarry::local::ops
