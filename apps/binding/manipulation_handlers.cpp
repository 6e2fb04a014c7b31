#include <cmath>

#include "quarry/apps/binding/arrays.h"
#include "quarry/apps/binding/handlers.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/ufuncs.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

namespace {

Array transposed(const Array& a, const Value& axes) {
  if (axes.is_none()) return transpose(a);
  const Dims order = to_shape(axes, "axes");
  return transpose(a, order);
}

// x.reshape(2, 3) and x.reshape((2, 3)) alike.
Value unpack(const Value& variadic) {
  const SequenceValue* tuple = variadic.sequence();
  if (tuple->items.size() == 1 && (tuple->items[0].sequence() != nullptr || tuple->items[0].is_none())) {
    return tuple->items[0];
  }
  return variadic;
}

std::vector<Array> array_list(const Value& value, const std::string& what, std::optional<DType> dtype = std::nullopt) {
  std::vector<Array> arrays;
  if (const SequenceValue* sequence = value.sequence()) {
    for (const Value& item : sequence->items) arrays.push_back(to_array(item, dtype));
  } else {
    throw TypeError(what + " must be a tuple or list of arrays, not " + type_name(value));
  }
  if (arrays.empty()) throw InvalidArgument("need at least one array to join");
  return arrays;
}

// Python's and NumPy's round: half to even, at `decimals` digits.
Value rounded(const Value& value, int64_t decimals) {
  const Array a = to_array(value);
  return a.dtype() == DType::bool_ && decimals >= 0 ? a : quarry::round(a, decimals);
}

Value clipped(const Value& a, const Value& low, const Value& high, std::optional<DType> dtype) {
  if (low.is_none() && high.is_none()) return to_array(a);
  if (low.is_none() || high.is_none()) {
    const Value args[] = {a, low.is_none() ? high : low};
    return apply(low.is_none() ? "minimum"_op : "maximum"_op, args, dtype);
  }
  const Value args[] = {a, low, high};
  return apply("clip"_op, args, dtype);
}

// Dask's forms: one int for every axis, one int per axis (-1: the whole axis), or the extents per axis.
Value rechunked(const Array& a, const Value& chunks) {
  const SequenceValue* sequence = chunks.sequence();
  if (sequence == nullptr) return a.rechunk(Dims::filled(a.ndim(), to_int64(chunks, "chunks")));
  if (static_cast<int>(sequence->items.size()) != a.ndim()) {
    throw InvalidArgument("chunks has " + std::to_string(sequence->items.size()) + " entries for an array of " +
                          std::to_string(a.ndim()) + " axes");
  }
  std::vector<AxisChunks> axes;
  for (int axis = 0; axis < a.ndim(); ++axis) {
    const Value& item = sequence->items[static_cast<size_t>(axis)];
    if (item.sequence() == nullptr) {
      const int64_t chunk = item.is_none() ? -1 : to_int64(item, "chunks");
      if (chunk == 0 || chunk < -1) throw InvalidArgument("chunks must be positive, or -1 for the whole axis");
      axes.emplace_back(a.shape(axis), chunk == -1 ? std::max<int64_t>(1, a.shape(axis)) : chunk);
      continue;
    }
    std::vector<int64_t> extents;
    int64_t total = 0;
    for (const Value& extent : item.sequence()->items) {
      extents.push_back(to_int64(extent, "chunks"));
      if (extents.back() < 0)
        throw InvalidArgument("a chunk cannot have " + std::to_string(extents.back()) + " elements");
      total += extents.back();
    }
    if (total != a.shape(axis) || extents.empty()) {
      throw InvalidArgument("the chunks of axis " + std::to_string(axis) + " add up to " + std::to_string(total) +
                            ", not to " + std::to_string(a.shape(axis)));
    }
    axes.emplace_back(extents);
  }
  return a.rechunk(Grid(std::move(axes)));
}

}  // namespace

Value select(const Arguments& args, Session&) {
  if (!args.given("x") && !args.given("y")) {
    throw local::NotSupported("where() with a condition alone is not available yet; give x and y");
  }
  if (!args.given("x") || !args.given("y")) throw InvalidArgument("either both or neither of x and y should be given");
  const Value values[] = {args["condition"], args["x"], args["y"]};
  return apply("where"_op, values);
}

Value clip_function(const Arguments& args, Session&) {
  if ((args.given("a_min") && args.given("min")) || (args.given("a_max") && args.given("max"))) {
    throw InvalidArgument("give either a_min and a_max or min and max");
  }
  if (args.given("a_min") != args.given("a_max")) throw TypeError("clip() takes a_min and a_max together");
  return clipped(args["a"], args.given("min") ? args["min"] : args["a_min"],
                 args.given("max") ? args["max"] : args["a_max"], to_optional_dtype(args["dtype"], "dtype"));
}
Value clip_method(const Arguments& args, Session&) {
  return clipped(args["self"], args["min"], args["max"], std::nullopt);
}

Value cast_function(const Arguments& args, Session&) { return to_array(args["x"], to_dtype(args["dtype"], "dtype")); }
Value cast_method(const Arguments& args, Session&) { return to_array(args["self"], to_dtype(args["dtype"], "dtype")); }

Value round_function(const Arguments& args, Session&) {
  return rounded(args["a"], to_int64(args["decimals"], "decimals"));
}
Value round_method(const Arguments& args, Session&) {
  return rounded(args["self"], to_int64(args["decimals"], "decimals"));
}

// Of a Python number the number, as the builtin: it stays weak.
Value abs_function(const Arguments& args, Session&) {
  const Value& x = args["x"];
  const std::optional<Number> number = x.number();
  if (number && args["dtype"].is_none()) {
    if (const auto* c = x.as<std::complex<double>>()) return std::hypot(c->real(), c->imag());
    if (const double* d = x.as<double>()) return std::abs(*d);
    return compare(CompareOp::less, *number, Int{0}) ? unary(UnaryOp::minus, *number) : unary(UnaryOp::plus, *number);
  }
  return apply("absolute"_op, std::span(&x, 1), to_optional_dtype(args["dtype"], "dtype"));
}

Value length(const Arguments& args, Session&) {
  const Value& value = args["obj"];
  if (const SequenceValue* sequence = value.sequence()) return static_cast<int64_t>(sequence->items.size());
  if (const auto* text = value.as<std::string>()) return static_cast<int64_t>(text->size());
  if (const Array* array = value.as<Array>()) {
    if (array->ndim() == 0) throw TypeError("len() of an array without axes");
    return array->shape(0);
  }
  throw TypeError("object of type '" + type_name(value) + "' has no len()");
}

Value conjugate_method(const Arguments& args, Session&) {
  const Array& self = *args["self"].as<Array>();
  return local::is_complex(self.dtype()) ? conjugate(self) : self;
}

Value transpose_function(const Arguments& args, Session&) { return transposed(to_array(args["a"]), args["axes"]); }
Value transpose_method(const Arguments& args, Session&) {
  const Value axes = unpack(args["axes"]);
  const bool none = axes.is_none() || (axes.sequence() != nullptr && axes.sequence()->items.empty());
  return transposed(*args["self"].as<Array>(), none ? Value(None{}) : axes);
}
Value matrix_transpose(const Arguments& args, Session&) { return swapaxes(to_array(args["x"]), -1, -2); }

Value swap_axes(const Arguments& args, Session&) {
  return swapaxes(to_array(args["a"]), to_int64(args["axis1"], "axis1"), to_int64(args["axis2"], "axis2"));
}
Value swap_axes_method(const Arguments& args, Session&) {
  return swapaxes(*args["self"].as<Array>(), to_int64(args["axis1"], "axis1"), to_int64(args["axis2"], "axis2"));
}

Value move_axis(const Arguments& args, Session&) {
  const Array a = to_array(args["a"]);
  const Dims from = to_shape(args["source"], "source"), to = to_shape(args["destination"], "destination");
  if (from.size() != to.size()) throw InvalidArgument("source and destination must have the same number of entries");
  constexpr int64_t kFree = -1;
  Dims order = Dims::filled(a.ndim(), kFree);
  std::vector<bool> used(static_cast<size_t>(a.ndim()), false);
  for (int i = 0; i < from.size(); ++i) {
    const int source = local::normalize_axis(from[i], a.ndim()), place = local::normalize_axis(to[i], a.ndim());
    if (used[static_cast<size_t>(source)] || order[place] != kFree) throw InvalidArgument("an axis is named twice");
    order[place] = source;
    used[static_cast<size_t>(source)] = true;
  }
  int next = 0;
  for (int64_t& axis : order) {
    if (axis != kFree) continue;
    while (used[static_cast<size_t>(next)]) ++next;
    axis = next++;
  }
  return transpose(a, order);
}

Value reshape_function(const Arguments& args, Session&) {
  return reshape(to_array(args["a"]), to_shape(args["shape"], "shape"));
}
Value reshape_method(const Arguments& args, Session&) {
  return reshape(*args["self"].as<Array>(), to_shape(unpack(args["shape"]), "shape"));
}
Value flatten(const Arguments& args, Session&) { return ravel(to_array(args["a"])); }
Value flatten_method(const Arguments& args, Session&) { return ravel(*args["self"].as<Array>()); }

Value broadcast_function(const Arguments& args, Session&) {
  return broadcast_to(to_array(args["array"]), to_shape(args["shape"], "shape"));
}
Value expand_function(const Arguments& args, Session&) {
  return expand_dims(to_array(args["a"]), to_axes(args["axis"]));
}
Value squeeze_function(const Arguments& args, Session&) { return squeeze(to_array(args["a"]), to_axes(args["axis"])); }
Value squeeze_method(const Arguments& args, Session&) {
  return squeeze(*args["self"].as<Array>(), to_axes(args["axis"]));
}

Value flip(const Arguments& args, Session&) {
  const Array m = to_array(args["m"]);
  const uint32_t axes = args["axis"].is_none() ? ~uint32_t{0} : to_axes(args["axis"]).mask(m.ndim());
  std::vector<local::IndexItem> index;
  for (int axis = 0; axis < m.ndim(); ++axis) {
    const bool flipped = (axes >> axis & 1u) != 0;
    index.emplace_back(flipped ? local::Slice{std::nullopt, std::nullopt, -1} : local::full_slice);
  }
  return m[std::span<const local::IndexItem>(index)];
}

Value concatenate_function(const Arguments& args, Session&) {
  std::vector<Array> arrays = array_list(args["arrays"], "arrays", to_optional_dtype(args["dtype"], "dtype"));
  if (!args["axis"].is_none()) return concatenate(arrays, to_int64(args["axis"], "axis"));
  for (Array& array : arrays) array = ravel(array);
  return concatenate(arrays, 0);
}

Value stack_function(const Arguments& args, Session&) {
  return stack(array_list(args["arrays"], "arrays", to_optional_dtype(args["dtype"], "dtype")),
               to_int64(args["axis"], "axis"));
}

Value vertical_stack(const Arguments& args, Session&) {
  std::vector<Array> arrays = array_list(args["tup"], "tup");
  for (Array& array : arrays) {
    if (array.ndim() < 2) array = reshape(array, Dims{1, array.size()});
  }
  return concatenate(arrays, 0);
}

Value horizontal_stack(const Arguments& args, Session&) {
  std::vector<Array> arrays = array_list(args["tup"], "tup");
  for (Array& array : arrays) {
    if (array.ndim() == 0) array = reshape(array, Dims{1});
  }
  return concatenate(arrays, arrays[0].ndim() == 1 ? 0 : 1);
}

Value rechunk_function(const Arguments& args, Session&) { return rechunked(to_array(args["x"]), args["chunks"]); }
Value rechunk_method(const Arguments& args, Session&) { return rechunked(*args["self"].as<Array>(), args["chunks"]); }

Value shape_function(const Arguments& args, Session&) { return Value::tuple(to_array(args["a"]).shape()); }
Value size_function(const Arguments& args, Session&) {
  const Array a = to_array(args["a"]);
  return args["axis"].is_none() ? a.size() : a.shape(to_int64(args["axis"], "axis"));
}
Value ndim_function(const Arguments& args, Session&) { return to_array(args["a"]).ndim(); }

namespace {

Value dot_of(const Value& x, const Value& y) {
  const Array a = to_array(x), b = to_array(y);
  const Value args[] = {x, y};
  if (a.ndim() == 0 || b.ndim() == 0) return apply("multiply"_op, args);
  if (b.ndim() > 2) throw local::NotSupported("dot() with more than two axes on the right is not available yet; use @");
  return matmul(a, b);
}

local::Triangle triangle_argument(const Value& value) {
  const auto* text = value.as<std::string>();
  if (text != nullptr && (*text == "L" || *text == "l")) return local::Triangle::lower;
  if (text != nullptr && (*text == "U" || *text == "u")) return local::Triangle::upper;
  throw InvalidArgument("UPLO must be 'L' or 'U'");
}

}  // namespace

Value matrix_product(const Arguments& args, Session&) { return matmul(to_array(args["x1"]), to_array(args["x2"])); }
Value dot_product(const Arguments& args, Session&) { return dot_of(args["a"], args["b"]); }
Value dot_method(const Arguments& args, Session&) { return dot_of(args["self"], args["b"]); }

Value eigen_hermitian(const Arguments& args, Session&) {
  const auto [values, vectors] = linalg::eigh(to_array(args["a"]), triangle_argument(args["UPLO"]));
  return Value::tuple({Value(values), Value(vectors)});
}

Value eigen_values(const Arguments& args, Session&) {
  return linalg::eigh(to_array(args["a"]), triangle_argument(args["UPLO"])).first;
}

}  // namespace quarry::apps::expression
