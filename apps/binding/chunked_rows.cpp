#include "quarry/apps/binding/chunked_rows.h"

#include <limits>

#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/products/einsum_plan.h"
#include "quarry/local/program/engine.h"

namespace quarry::apps::expression::chunked_rows {

using local::InvalidArgument;
using local::TypeError;

namespace {

Dims dims_of(const Ints& values) { return Dims(values.values()); }

DType or_float(Maybe<DType> dtype) { return dtype.value_or(DType::float64); }

Array cast_to(const Array& array, Maybe<DType> dtype) { return dtype ? array.astype(*dtype) : array; }

// Whether elements are taken in Fortran's order. In any order and in that of memory means C's: chunked arrays have no
// other.
bool is_fortran(std::string_view order) {
  if (order == "F") return true;
  if (order != "C" && order != "A" && order != "K")
    throw InvalidArgument("order must be one of 'C', 'F', 'A', or 'K' (got '" + std::string(order) + "')");
  return false;
}

// The axes in reverse.
Dims reversed(Dims shape) {
  std::reverse(shape.begin(), shape.end());
  return shape;
}

}  // namespace

Array array(const Array& object, Maybe<DType> dtype, Maybe<bool>, std::string_view order, bool, int64_t ndmin) {
  is_fortran(order);
  if (ndmin > local::kMaxDims) throw InvalidArgument("ndmin bigger than allowable number of dimensions (32)");
  Array result = cast_to(object, dtype);
  if (ndmin <= result.ndim()) return result;
  Dims extents = Dims::filled(static_cast<int>(ndmin) - result.ndim(), 1);
  for (const int64_t extent : result.shape()) extents.push_back(extent);
  return quarry::reshape(result, extents);
}
Array asarray(const Array& a, Maybe<DType> dtype) { return cast_to(a, dtype); }

Array astype_method(const Array& a, DType dtype, std::string_view order, std::string_view casting, bool, bool) {
  is_fortran(order);
  local::check_cast(a.dtype(), dtype, local::parse_casting(casting));
  return quarry::astype(a, dtype);
}

Array zeros(const Ints& shape, Maybe<DType> dtype) { return quarry::zeros(dims_of(shape), or_float(dtype)); }
Array ones(const Ints& shape, Maybe<DType> dtype) { return quarry::ones(dims_of(shape), or_float(dtype)); }
Array empty(const Ints& shape, Maybe<DType> dtype) { return quarry::empty(dims_of(shape), or_float(dtype)); }
Array full(const Ints& shape, const Operand& fill_value, Maybe<DType> dtype) {
  if (!fill_value.is_array()) return quarry::full(dims_of(shape), fill_value.scalar(), dtype);
  return quarry::broadcast_to(cast_to(fill_value.array(), dtype), dims_of(shape));
}

Array arange(const Scalar& start_or_stop, const Maybe<Scalar>& stop, const Scalar& step, Maybe<DType> dtype) {
  return stop ? quarry::arange(start_or_stop, *stop, step, dtype)
              : quarry::arange(Scalar(0), start_or_stop, step, dtype);
}

Array eye(int64_t N, Maybe<int64_t> M, int64_t k, Maybe<DType> dtype) { return quarry::eye(N, M, k, or_float(dtype)); }
Array identity(int64_t n, Maybe<DType> dtype) { return quarry::eye(n, std::nullopt, 0, or_float(dtype)); }

Array transpose(const Array& a, const Axes& axes) {
  return axes.none() ? quarry::transpose(a) : quarry::transpose(a, axes.list());
}
Array transpose_method(const Array& a, const std::vector<Axes>& axes) {
  if (axes.empty()) return quarry::transpose(a);
  if (axes.size() == 1) return transpose(a, axes[0]);
  std::vector<int64_t> order;
  for (const Axes& axis : axes) {
    if (axis.none() || axis.list().size() != 1) throw TypeError("transpose() takes one tuple of axes or several axes");
    order.push_back(axis.list()[0]);
  }
  return quarry::transpose(a, order);
}

Array reshape(const Array& a, const Ints& shape, std::string_view order) {
  const Dims extents = dims_of(shape);
  if (!is_fortran(order)) return quarry::reshape(a, extents);
  return quarry::reshape(a.T(), reversed(extents)).T();
}
Array reshape_method(const Array& a, const std::vector<Ints>& shape, std::string_view order) {
  if (shape.empty()) throw TypeError("reshape() takes exactly 1 argument (0 given)");
  if (shape.size() == 1) return reshape(a, shape[0], order);
  std::vector<int64_t> extents;
  for (const Ints& extent : shape) {
    if (!extent.scalar()) throw TypeError("reshape() takes one shape or several integers");
    extents.push_back(extent.values()[0]);
  }
  return reshape(a, extents, order);
}
Array ravel(const Array& a, std::string_view order) { return quarry::ravel(is_fortran(order) ? a.T() : a); }
Array flatten(const Array& a, std::string_view order) { return ravel(a, order); }
Array expand_dims(const Array& a, const Ints& axis) { return quarry::expand_dims(a, Axes(axis.values())); }

Dims shape(const Array& a) { return a.shape(); }
int64_t size(const Array& a, const Axes& axis) {
  if (axis.none()) return a.size();
  const uint32_t axes = axis.mask(a.ndim());
  int64_t count = 1;
  for (int d = 0; d < a.ndim(); ++d)
    if (axes >> d & 1u) count *= a.shape(d);
  return count;
}
int64_t ndim(const Array& a) { return a.ndim(); }

namespace {

std::vector<Array> cast_all(std::vector<Array> arrays, Maybe<DType> dtype, std::string_view casting) {
  const Casting rule = local::parse_casting(casting);
  for (Array& array : arrays) {
    if (dtype) local::check_cast(array.dtype(), *dtype, rule);
    array = cast_to(array, dtype);
  }
  return arrays;
}

}  // namespace

Array concatenate(const std::vector<Array>& arrays, Maybe<int64_t> axis, Maybe<DType> dtype, std::string_view casting) {
  return quarry::concat(cast_all(arrays, dtype, casting), axis);
}
Array stack(const std::vector<Array>& arrays, int64_t axis, Maybe<DType> dtype, std::string_view casting) {
  return quarry::stack(cast_all(arrays, dtype, casting), axis);
}
Array vstack(const std::vector<Array>& tup, Maybe<DType> dtype, std::string_view casting) {
  return quarry::vstack(cast_all(tup, dtype, casting));
}
Array hstack(const std::vector<Array>& tup, Maybe<DType> dtype, std::string_view casting) {
  return quarry::hstack(cast_all(tup, dtype, casting));
}

namespace {

AxisChunks whole_or_equal(int64_t extent, int64_t chunk) {
  if (chunk == 0 || chunk < -1) throw InvalidArgument("chunks must be positive, or -1 for the whole axis");
  return {extent, chunk == -1 ? std::max<int64_t>(1, extent) : chunk};
}

AxisChunks listed(int axis, int64_t extent, const std::vector<int64_t>& chunks) {
  int64_t total = 0;
  for (const int64_t chunk : chunks) {
    if (chunk < 0) throw InvalidArgument("a chunk cannot have " + std::to_string(chunk) + " elements");
    total += chunk;
  }
  if (total != extent || chunks.empty())
    throw InvalidArgument("the chunks of axis " + std::to_string(axis) + " add up to " + std::to_string(total) +
                          ", not to " + std::to_string(extent));
  return AxisChunks(chunks);
}

}  // namespace

Array rechunk(const Array& x, const std::variant<int64_t, std::vector<AxisExtents>>& chunks) {
  if (const auto* all = std::get_if<int64_t>(&chunks)) return x.rechunk(Dims::filled(x.ndim(), *all));
  const auto& entries = std::get<1>(chunks);
  if (static_cast<int>(entries.size()) != x.ndim())
    throw InvalidArgument("chunks has " + std::to_string(entries.size()) + " entries for an array of " +
                          std::to_string(x.ndim()) + " axes");
  std::vector<AxisChunks> axes;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const AxisExtents& entry = entries[static_cast<size_t>(axis)];
    if (const auto* extents = std::get_if<std::vector<int64_t>>(&entry)) {
      axes.push_back(listed(axis, x.shape(axis), *extents));
    } else {
      const auto* chunk = std::get_if<int64_t>(&entry);
      axes.push_back(whole_or_equal(x.shape(axis), chunk == nullptr ? -1 : *chunk));
    }
  }
  return x.rechunk(Grid(std::move(axes)));
}

Array clip_between(const Array& a, const Maybe<Operand>& a_min, const Maybe<Operand>& a_max, const Maybe<Operand>& min,
                   const Maybe<Operand>& max, const Maybe<Array>& where, Casting casting, Maybe<DType> dtype) {
  if ((a_min || a_max) && (min || max))
    throw InvalidArgument(
        "Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.");
  const Array result = quarry::clip(a, min ? min : a_min, max ? max : a_max, dtype, casting);
  return where ? quarry::where(*where, result, false) : result;  // elsewhere a new array has zeros
}
Array clip_method(const Array& a, const Maybe<Operand>& min, const Maybe<Operand>& max, const Maybe<Array>& where,
                  Casting casting, Maybe<DType> dtype) {
  return clip_between(a, min, max, {}, {}, where, casting, dtype);
}

Array round_to(const Array& a, int64_t decimals) { return quarry::round(a, decimals); }

std::variant<Array, ChunkedTuple> where_or_nonzero(const Operand& condition, const Maybe<Operand>& x,
                                                   const Maybe<Operand>& y) {
  if (!x && !y) {
    const std::vector<Array> found =
        quarry::nonzero(condition.is_array() ? condition.array() : quarry::full({}, condition));
    return ChunkedTuple(found.begin(), found.end());
  }
  if (!x || !y) throw InvalidArgument("either both or neither of x and y should be given");
  const Operand args[] = {condition, *x, *y};
  return quarry::apply("where"_op, args);
}

namespace {

// Axis by axis, or what broadcasts.
using PadWidths = std::variant<local::ops::AxisWidths, NdArray>;

}  // namespace

Array pad(const Array& array, const local::ops::AxisWidths& pad_width, std::string_view mode,
          const Maybe<NdArray>& stat_length, const Maybe<NdArray>& constant_values, const Maybe<NdArray>& end_values,
          Maybe<std::string_view> reflect_type) {
  return quarry::pad(array, PadWidths(pad_width), mode, {stat_length, constant_values, end_values, reflect_type});
}
Array pad(const Array& array, const NdArray& pad_width, std::string_view mode, const Maybe<NdArray>& stat_length,
          const Maybe<NdArray>& constant_values, const Maybe<NdArray>& end_values,
          Maybe<std::string_view> reflect_type) {
  return quarry::pad(array, PadWidths(pad_width), mode, {stat_length, constant_values, end_values, reflect_type});
}

// ---- Products ----

namespace {

// The operands in the dtype of the loop, where one is asked for.
Array cast_for(const char* function, const Array& x, Maybe<DType> dtype, Casting casting) {
  if (!dtype || x.dtype() == *dtype) return x;
  if (!local::can_cast(x.dtype(), *dtype, casting))
    throw local::TypeError(std::string("Cannot cast ") + function + " input from dtype('" + local::name(x.dtype()) +
                           "') to dtype('" + local::name(*dtype) + "') with casting rule '" + local::name(casting) +
                           "'");
  return x.astype(*dtype);
}

std::string label_text(const local::ops::EinsumLabels& labels) {
  std::string text;
  for (const char letter : local::ops::letters_of(labels)) text += letter == '.' ? "..." : std::string(1, letter);
  return text;
}

}  // namespace

Array einsum(const std::vector<std::variant<std::string, Array, local::ops::EinsumLabels>>& operands,
             const local::ops::EinsumOptimize&, Maybe<DType> dtype, std::string_view order, Casting casting,
             Precision precision) {
  is_fortran(order);
  if (operands.empty())
    throw InvalidArgument("must specify the einstein sum subscripts string and at least one operand");
  std::string subscripts;
  std::vector<Array> arrays;
  const auto add_array = [&](size_t i) {
    const Array* array = std::get_if<Array>(&operands[i]);
    if (array == nullptr) throw local::TypeError("einsum: argument " + std::to_string(i) + " must be an array");
    arrays.push_back(*array);
  };
  const auto labels_at = [&](size_t i) {
    if (const auto* labels = std::get_if<local::ops::EinsumLabels>(&operands[i])) return label_text(*labels);
    // A list of integers alone was taken for an array.
    const Array* list = std::get_if<Array>(&operands[i]);
    if (list == nullptr || list->ndim() != 1 || (list->size() > 0 && !local::is_integer(list->dtype())))
      throw local::TypeError("each subscript must be either an integer or an ellipsis");
    local::ops::EinsumLabels numbers;
    for (const int64_t number : local::to_vector<int64_t>(list->astype(DType::int64).to_host()))
      numbers.emplace_back(number);
    return label_text(numbers);
  };
  if (const auto* text = std::get_if<std::string>(&operands[0])) {
    subscripts = *text;
    for (size_t i = 1; i < operands.size(); ++i) add_array(i);
  } else {
    size_t i = 0;
    for (; i + 1 < operands.size(); i += 2) {
      add_array(i);
      subscripts += (i == 0 ? "" : ",") + labels_at(i + 1);
    }
    if (i < operands.size()) subscripts += "->" + labels_at(i);
  }
  return quarry::einsum(subscripts, arrays, dtype, casting, precision);
}

Array matmul(const Array& x1, const Array& x2, Casting casting, Maybe<DType> dtype, const local::ops::CoreAxes& axes,
             Precision precision) {
  if (axes) throw local::NotSupported("matmul() takes no 'axes' here");
  return quarry::matmul(cast_for("matmul", x1, dtype, casting), cast_for("matmul", x2, dtype, casting), precision);
}

Array vecdot(const Array& x1, const Array& x2, const local::ops::CoreAxes& axes, Maybe<int64_t> axis, bool keepdims,
             Casting casting, Maybe<DType> dtype) {
  if (axes && axis) throw local::TypeError("cannot specify both 'axis' and 'axes'");
  if (axes) throw local::NotSupported("vecdot() of chunked arrays takes axis, not axes");
  Array result =
      quarry::vecdot(cast_for("vecdot", x1, dtype, casting), cast_for("vecdot", x2, dtype, casting), axis.value_or(-1));
  if (!keepdims) return result;
  // The summed axis stays where x1 has it, counted from the end.
  const int64_t place = axis ? *axis < 0 ? *axis : *axis - x1.ndim() : -1;
  return quarry::expand_dims(result, place);
}

namespace linalg {

std::variant<EigResult, Array> eigh_of(const Array& a, const std::variant<std::string, Array>& UPLO,
                                       const Maybe<Array>& b, Maybe<bool> lower, bool eigvals_only, int64_t type,
                                       bool /*check_finite*/, const local::ops::IndexRange& subset_by_index,
                                       const local::ops::ValueRange& subset_by_value) {
  const auto* text = std::get_if<std::string>(&UPLO);
  const auto* second = std::get_if<Array>(&UPLO);
  if (second && b) throw local::TypeError("eigh() got multiple values for argument 'b'");
  if (text && *text != "L" && *text != "l" && *text != "U" && *text != "u")
    throw InvalidArgument("UPLO argument must be 'L' or 'U'");
  const bool below = lower.value_or(!text || *text == "L" || *text == "l");
  const local::Triangle triangle = below ? local::Triangle::lower : local::Triangle::upper;
  const std::optional<Subset> subset = local::ops::subset_of(subset_by_index, subset_by_value);
  if (eigvals_only && !b && !second)
    return subset ? quarry::linalg::eigvalsh(a, *subset, triangle) : quarry::linalg::eigvalsh(a, triangle);
  const EigResult result = b || second ? quarry::linalg::eigh(a, b ? *b : *second, below, type, subset)
                           : subset    ? quarry::linalg::eigh(a, *subset, triangle)
                                       : quarry::linalg::eigh(a, triangle);
  if (eigvals_only) return result.eigenvalues;
  return result;
}
Array eigvalsh_of(const Array& a, std::string_view UPLO, const local::ops::IndexRange& subset_by_index,
                  const local::ops::ValueRange& subset_by_value) {
  return std::get<Array>(
      eigh_of(a, std::string(UPLO), {}, {}, /*eigvals_only=*/true, 1, true, subset_by_index, subset_by_value));
}

}  // namespace linalg

}  // namespace quarry::apps::expression::chunked_rows
