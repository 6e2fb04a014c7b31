// take, put, choose and their kin: arrays of positions and masks as arguments.
#include "quarry/local/ops/indexing/indexing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quarry/local/device/range.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::local::ops {
namespace {

// The result in `out`, which must have its shape and whose dtype must cast to it and back.
NdArray deliver(const NdArray& result, const std::optional<NdArray>& out, const char* function) {
  if (!out) return result;
  if (out->shape() != result.shape())
    throw InvalidArgument(fmt::format("output array does not match result of ndarray.{}", function));
  if (!can_cast(out->dtype(), result.dtype(), Casting::safe)) {
    throw TypeError(fmt::format("Cannot cast array data from dtype('{}') to dtype('{}') according to the rule 'safe'",
                                name(out->dtype()), name(result.dtype())));
  }
  out->assign(result.astype(out->dtype(), context_for(result.device())), context_for(result.device()));
  return *out;
}

Dims replace_axis(const Dims& shape, int axis, const Dims& by) {
  Dims result(shape.begin(), shape.begin() + axis);
  for (const int64_t extent : by) result.push_back(extent);
  for (int d = axis + 1; d < shape.size(); ++d) result.push_back(shape[d]);
  return result;
}

// Elements along the axis, whose positions' axes replace it.
NdArray take_axis(const NdArray& a, const NdArray& positions, int axis, IndexMode mode) {
  const NdArray* const both[] = {&a, &positions};
  const ExecContext context = context_for(common_device(both));
  const Dims shape = replace_axis(a.shape(), axis, positions.shape());
  NdArray result(shape, a.dtype(), context);
  const int64_t extent = a.shape()[axis];
  if (positions.size() == 0) return result;
  if (extent == 0 && (mode != IndexMode::raise || result.size() > 0))
    throw IndexError("cannot do a non-empty take from an empty axes.");
  IndexedElements from;
  from.shape = shape;
  from.array = {a.raw(), Dims::filled(shape.size(), 0)};
  const int shift = positions.ndim() - 1;
  for (int d = 0; d < a.ndim(); ++d)
    if (d != axis) from.array.strides[d < axis ? d : d + shift] = a.strides()[d];
  AxisIndex index{{positions.raw(), Dims::filled(shape.size(), 0)}, extent, a.strides()[axis], axis};
  for (int d = 0; d < positions.ndim(); ++d)
    if (positions.shape()[d] != 1) index.positions.strides[axis + d] = positions.strides()[d];
  from.indices.push_back(std::move(index));
  from.mode = mode;
  const NdArray* const arrays[] = {&positions};
  run_gather(a, from, arrays, result);
  return result;
}

// `values` flat, repeated to `count` elements (strides of 0 for a single one).
NdArray repeated(const NdArray& values, int64_t count) {
  NdArray flat = flattened(values);
  if (flat.size() == count) return flat;
  if (flat.size() == 1) return flat.broadcast_to({count});
  if (flat.size() > count) return flat[{Slice{0, count, {}}}];
  return take_axis(flat, counting_array(count, flat.device()), 0, IndexMode::wrap);
}

// Applies f to a flat contiguous view of the array's elements, or to a copy that is written back.
template <class F>
void on_flat(const NdArray& a, const F& f) {
  const NdArray flat = flattened(a);
  f(flat);
  if (!same_memory(flat, a)) a.assign(flat.reshape(a.shape()), context_for(a.device()));
}

void check_same_size(const NdArray& array, const NdArray& mask, const char* function) {
  if (array.size() != mask.size())
    throw InvalidArgument(fmt::format("{}: mask and data must be the same size", function));
}

// choices[i] where conditions[i] is the first that is true, else `otherwise`: a few pairs in one pass, from the last.
NdArray first_true(const std::vector<NdArray>& conditions, const std::vector<Arg>& choices, const Arg& otherwise,
                   DType dtype, const Dims& shape, const ExecContext& context) {
  constexpr size_t kPairs = 6;
  NdArray result(shape, dtype, context);
  size_t left = conditions.size();
  bool first = true;
  while (left > 0 || first) {
    const size_t count = std::min(left, kPairs);
    Program program;
    std::vector<const NdArray*> inputs;
    const auto value_of = [&](const Arg& arg) {
      if (const NdArray* array = arg.array()) {
        inputs.push_back(array);
        return program.cast(program.input(array->dtype()), dtype);
      }
      return program.constant(arg.scalar(), dtype);  // wraps where it does not fit
    };
    // Inputs come before everything else in a program's slots; `result` itself continues.
    ValueId value = first ? value_of(otherwise) : value_of(result);
    for (size_t i = left; i-- > left - count;) {
      inputs.push_back(&conditions[i]);
      const ValueId condition = program.input(DType::bool_);
      const std::array<ValueId, 3> args{condition, value_of(choices[i]), value};
      value = program.apply("where"_op, args);
    }
    program.output(value);
    const NdArray* out[] = {&result};
    run_elementwise(program, inputs, out, context);
    left -= count;
    first = false;
  }
  return result;
}

DType common_dtype(const std::vector<Arg>& args) {
  std::vector<PromotionOperand> operands;
  for (const Arg& arg : args) operands.push_back(arg.promotion());
  return result_type(operands);
}

void collect(const Arg& arg, std::vector<const NdArray*>& arrays, std::vector<Dims>& shapes) {
  if (const NdArray* array = arg.array()) {
    arrays.push_back(array);
    shapes.push_back(array->shape());
  } else {
    shapes.emplace_back();
  }
}

}  // namespace

NdArray take(const NdArray& a, const NdArray& indices, std::optional<int64_t> axis, const std::optional<NdArray>& out,
             std::string_view mode) {
  const Range named("take");
  const IndexMode how = parse_index_mode(mode);
  const NdArray positions = indices.size() == 0 ? indices.astype(DType::int64, context_for(indices.device()))
                                                : as_positions(indices, "same_kind");
  NdArray result;
  if (!axis)
    result = take_axis(flattened(a), positions, 0, how);
  else
    result = take_axis(a.ndim() == 0 ? flattened(a) : a, positions, normalize_axis(*axis, std::max(a.ndim(), 1)), how);
  return deliver(result, out, "take");
}

void put(const NdArray& a, const NdArray& ind, const Arg& v, std::string_view mode) {
  const Range named("put");
  a.check_writable();
  const IndexMode how = parse_index_mode(mode);
  const NdArray* const both[] = {&a, &ind};
  common_device(both);
  NdArray positions =
      flattened(ind.size() == 0 ? ind.astype(DType::int64, context_for(ind.device())) : as_positions(ind, "safe"));
  NdArray values = value_array(v, a.dtype(), a.device());
  if (positions.size() == 0 || values.size() == 0) return;
  if (a.size() == 0) throw IndexError("cannot replace elements of an empty array");
  values = repeated(apart_from(values, a), positions.size());
  positions = apart_from(positions, a);
  on_flat(a, [&](const NdArray& flat) {
    const NdArray* const arrays[] = {&positions};
    run_scatter(flat, elements_along(flat, 0, positions, positions.shape(), how), arrays, values);
  });
}

namespace {

// The elements of `arr` that `positions` names along the axis; the other axes broadcast.
IndexedElements along_axis(const NdArray& arr, const NdArray& positions, int axis, Dims& shape) {
  if (!is_integer(positions.dtype())) throw IndexError("`indices` must be an integer array");
  if (arr.ndim() != positions.ndim())
    throw InvalidArgument("`indices` and `arr` must have the same number of dimensions");
  shape = positions.shape();
  for (int d = 0; d < arr.ndim(); ++d) {
    if (d == axis || shape[d] == arr.shape()[d] || arr.shape()[d] == 1) continue;
    if (shape[d] != 1) {
      throw IndexError(fmt::format("shape mismatch: indexing arrays could not be broadcast together with shapes {} {}",
                                   compact_shape(positions.shape()), compact_shape(arr.shape())));
    }
    shape[d] = arr.shape()[d];
  }
  IndexedElements result;
  result.shape = shape;
  result.array = operand(arr, arr.shape());
  result.array.strides[axis] = 0;
  result.indices = {{operand(positions, shape), arr.shape()[axis], arr.strides()[axis], axis}};
  return result;
}

}  // namespace

NdArray take_along_axis(const NdArray& arr, const NdArray& indices, std::optional<int64_t> axis) {
  const Range named("take_along_axis");
  if (!axis) {
    if (indices.ndim() != 1) throw InvalidArgument("when axis=None, `indices` must have a single dimension.");
    return take_along_axis(flattened(arr), indices, 0);
  }
  const NdArray* const both[] = {&arr, &indices};
  const ExecContext context = context_for(common_device(both));
  const int along = normalize_axis(*axis, arr.ndim());
  if (!is_integer(indices.dtype())) throw IndexError("`indices` must be an integer array");
  const NdArray positions = as_positions(indices, "safe");
  Dims shape;
  const IndexedElements from = along_axis(arr, positions, along, shape);
  NdArray result(shape, arr.dtype(), context);
  const NdArray* const arrays[] = {&positions};
  if (result.size() > 0) run_gather(arr, from, arrays, result);
  return result;
}

void put_along_axis(const NdArray& arr, const NdArray& indices, const Arg& values, std::optional<int64_t> axis) {
  const Range named("put_along_axis");
  arr.check_writable();
  if (!axis) {
    if (indices.ndim() != 1) throw InvalidArgument("when axis=None, `indices` must have a single dimension.");
    return on_flat(arr, [&](const NdArray& flat) { put_along_axis(flat, indices, values, 0); });
  }
  const NdArray* const both[] = {&arr, &indices};
  common_device(both);
  const int along = normalize_axis(*axis, arr.ndim());
  if (!is_integer(indices.dtype())) throw IndexError("`indices` must be an integer array");
  const NdArray positions = apart_from(as_positions(indices, "safe"), arr);
  Dims shape;
  const IndexedElements to = along_axis(arr, positions, along, shape);
  const NdArray value = apart_from(value_array(values, arr.dtype(), arr.device()), arr);
  bool fits = value.ndim() <= shape.size();
  for (int d = 0; fits && d < value.ndim(); ++d) {
    const int64_t extent = shape[d + shape.size() - value.ndim()];
    fits = value.shape()[d] == 1 || value.shape()[d] == extent;
  }
  if (!fits) {
    throw InvalidArgument(
        fmt::format("shape mismatch: value array of shape {} could not be broadcast to indexing result of shape {}",
                    compact_shape(value.shape()), compact_shape(shape)));
  }
  const NdArray* const arrays[] = {&positions};
  if (element_count(shape) > 0) run_scatter(arr, to, arrays, value);
}

NdArray choose(const NdArray& a, const std::vector<Arg>& choices, const std::optional<NdArray>& out,
               std::string_view mode) {
  const Range named("choose");
  const IndexMode how = parse_index_mode(mode);
  if (choices.empty()) throw InvalidArgument("invalid entry in choice array");
  NdArray positions = as_positions(a, "safe");
  std::vector<const NdArray*> arrays{&positions};
  std::vector<Dims> shapes{positions.shape()};
  for (const Arg& choice : choices) collect(choice, arrays, shapes);
  const ExecContext context = context_for(common_device(arrays));
  const Dims shape = broadcast_shapes(shapes);
  const auto count = static_cast<int64_t>(choices.size());
  switch (how) {
    case IndexMode::raise:
    case IndexMode::unchecked:
      if (element_count(shape) > 0 &&
          (item_or(ops::min(positions), 0).as_int64() < 0 || item_or(ops::max(positions), 0).as_int64() >= count))
        throw InvalidArgument("invalid entry in choice array");
      break;
    case IndexMode::wrap:
      positions = apply("remainder"_op, {positions, count});
      break;
    case IndexMode::clip:
      positions = apply("clip"_op, {positions, 0, count - 1});
      break;
  }
  std::vector<NdArray> conditions;
  for (int64_t i = 0; i + 1 < count; ++i) conditions.push_back(apply("equal"_op, {positions, i}));
  const std::vector<Arg> before(choices.begin(), choices.end() - 1);
  const NdArray result = first_true(conditions, before, choices.back(), common_dtype(choices), shape, context);
  return deliver(result, out, "choose");
}

NdArray compress(const NdArray& condition, const NdArray& a, std::optional<int64_t> axis,
                 const std::optional<NdArray>& out) {
  const Range named("compress");
  if (condition.ndim() != 1) throw InvalidArgument("condition must be a 1-d array");
  const NdArray* const both[] = {&condition, &a};
  common_device(both);
  const NdArray array = axis && a.ndim() > 0 ? a : flattened(a);
  const int along = axis ? normalize_axis(*axis, array.ndim()) : 0;
  CountedMask mask(condition);
  if (array.ndim() == 1 && condition.size() == array.size()) return deliver(mask.select(array), out, "compress");
  const bool within = condition.size() <= array.shape()[along];
  const NdArray positions = mask.positions();
  return deliver(take_axis(array, positions, along, within ? IndexMode::unchecked : IndexMode::raise), out, "compress");
}

NdArray compress_array(const NdArray& a, const NdArray& condition, std::optional<int64_t> axis,
                       const std::optional<NdArray>& out) {
  const Range named("compress");
  return compress(condition, a, axis, out);
}

NdArray extract(const NdArray& condition, const NdArray& arr) { return compress(flattened(condition), flattened(arr)); }

void place(const NdArray& arr, const NdArray& mask, const NdArray& vals) {
  const Range named("place");
  arr.check_writable();
  check_same_size(arr, mask, "place");
  const NdArray* const all[] = {&arr, &mask, &vals};
  common_device(all);
  const NdArray packed = packed_mask(apart_from(mask, arr)).reshape(arr.shape());
  check_cast(vals.dtype(), arr.dtype(), Casting::safe);
  const NdArray values = flattened(apart_from(value_array(vals, arr.dtype(), arr.device()), arr));
  if (values.size() == 0) {
    if (CountedMask(packed).count() > 0) throw InvalidArgument("Cannot insert from an empty array!");
    return;
  }
  CountedMask(packed).expand(values, arr);
}

void putmask(const NdArray& a, const NdArray& mask, const NdArray& values) {
  const Range named("putmask");
  a.check_writable();
  check_same_size(a, mask, "putmask");
  const NdArray* const all[] = {&a, &mask, &values};
  common_device(all);
  check_cast(values.dtype(), a.dtype(), Casting::safe);
  if (values.size() == 0 || a.size() == 0) return;
  const NdArray packed = packed_mask(apart_from(mask, a)).reshape(a.shape());
  const NdArray flat = flattened(apart_from(value_array(values, a.dtype(), a.device()), a));
  if (flat.size() == 1) return run_copy_where(packed, flat[{0}].broadcast_to(a.shape()), a);
  run_copy_where(packed, repeated(flat, a.size()).reshape(a.shape()), a);
}

void copyto(const NdArray& dst, const Arg& src, Casting casting, const Arg& where) {
  const Range named("copyto");
  dst.check_writable();
  const PromotionOperand from = src.promotion();
  // A literal may become any kind that is not below its own, of its very dtype under the strict rules.
  const bool strict = casting == Casting::equiv || (casting == Casting::no && from.dtype == DType::bool_);
  const auto rank = [](DType dtype) { return std::string_view("bifc").find(kind(dtype) == 'u' ? 'i' : kind(dtype)); };
  const bool adapts = from.weak && casting != Casting::unsafe && !strict;
  const bool allowed = adapts ? rank(from.dtype) <= rank(dst.dtype()) : can_cast(from.dtype, dst.dtype(), casting);
  if (!allowed) {
    constexpr const char* rules[] = {"no", "equiv", "safe", "same_kind", "unsafe"};
    throw TypeError(fmt::format("Cannot cast {} from dtype('{}') to dtype('{}') according to the rule '{}'",
                                src.array() ? "array data" : "scalar", name(from.dtype), name(dst.dtype()),
                                rules[static_cast<size_t>(casting)]));
  }
  // An integer must fit; other numbers that the rule lets through are cast.
  if (from.weak) check_weak_fits(src.scalar(), dst.dtype());
  const NdArray value = src.array() ? value_array(src, dst.dtype(), dst.device())
                                    : value_array(Scalar::strong(src.scalar(), dst.dtype()), dst.dtype(), dst.device());
  const ExecContext context = context_for(dst.device());
  if (!where.array()) {
    if (where.scalar().as_bool()) dst.assign(value, context);
    return;
  }
  const NdArray& mask = *where.array();
  if (mask.dtype() != DType::bool_) {
    throw TypeError(fmt::format("Cannot cast array data from dtype('{}') to dtype('bool') according to the rule 'safe'",
                                name(mask.dtype())));
  }
  const NdArray* const both[] = {&dst, &mask};
  common_device(both);
  const NdArray packed = packed_mask(apart_from(mask, dst).broadcast_to(dst.shape()));
  NdArray source = apart_from(value, dst);
  while (source.ndim() > dst.ndim() && source.shape()[0] == 1) source = source[{0}];
  if (source.ndim() > dst.ndim()) {
    throw InvalidArgument(fmt::format("could not broadcast input array from shape {} into shape {}",
                                      compact_shape(source.shape()), compact_shape(dst.shape())));
  }
  run_copy_where(packed, source.broadcast_to(dst.shape()), dst);
}

NdArray select(const std::vector<NdArray>& condlist, const std::vector<Arg>& choicelist, const Arg& default_) {
  const Range named("select");
  if (condlist.size() != choicelist.size())
    throw InvalidArgument("list of cases must be same length as list of conditions");
  if (condlist.empty()) throw InvalidArgument("select with an empty condition list is not possible");
  for (size_t i = 0; i < condlist.size(); ++i)
    if (condlist[i].dtype() != DType::bool_)
      throw TypeError(fmt::format("invalid entry {} in condlist: should be boolean ndarray", i));
  std::vector<const NdArray*> arrays;
  std::vector<Dims> shapes;
  for (const NdArray& condition : condlist) collect(condition, arrays, shapes);
  std::vector<Arg> values = choicelist;
  values.push_back(default_);
  for (const Arg& value : values) collect(value, arrays, shapes);
  const ExecContext context = context_for(common_device(arrays));
  return first_true(condlist, choicelist, default_, common_dtype(values), broadcast_shapes(shapes), context);
}

void fill_diagonal(const NdArray& a, const Arg& val, bool wrap) {
  const Range named("fill_diagonal");
  if (a.ndim() < 2) throw InvalidArgument("array must be at least 2-d");
  a.check_writable();
  const NdArray values = apart_from(value_array(val, a.dtype(), a.device()), a);
  const ExecContext context = context_for(a.device());
  int64_t step = 0;
  for (const int64_t stride : a.strides()) step += stride;
  if (a.ndim() > 2) {
    for (const int64_t extent : a.shape())
      if (extent != a.shape()[0]) throw InvalidArgument("All dimensions of input must be of equal length");
  }
  if (a.size() == 0 || values.size() == 0) return;
  const int64_t rows = a.shape()[0], columns = a.shape()[1];
  // Each diagonal begins one row below the end of the last one.
  std::vector<std::pair<int64_t, int64_t>> pieces;  // first row, elements
  if (a.ndim() > 2) {
    pieces.emplace_back(0, rows);
  } else {
    for (int64_t row = 0; row < rows; row += columns + 1) {
      pieces.emplace_back(row, std::min(columns, rows - row));
      if (!wrap) break;
    }
  }
  int64_t total = 0;
  for (const auto& [row, count] : pieces) total += count;
  const NdArray each = repeated(values, total);
  int64_t done = 0;
  for (const auto& [row, count] : pieces) {
    const NdArray diagonal = a.restrided({count}, {step}, a.offset() + row * a.strides()[0]);
    diagonal.assign(each[{Slice{done, done + count, {}}}], context);
    done += count;
  }
}

Scalar item(const NdArray& a, const std::vector<Ints>& args) {
  std::vector<int64_t> at;
  for (const Ints& each : args) at.insert(at.end(), each.values().begin(), each.values().end());
  if (at.empty()) {
    if (a.size() != 1) throw InvalidArgument("can only convert an array of size 1 to a Python scalar");
    return a.reshape({1})[{0}].item();
  }
  if (at.size() == 1 && a.ndim() != 1) {
    const int64_t size = a.size();
    if (at[0] < -size || at[0] >= size)
      throw IndexError(fmt::format("index {} is out of bounds for size {}", at[0], size));
    int64_t rest = at[0] < 0 ? at[0] + size : at[0];
    at.assign(static_cast<size_t>(a.ndim()), 0);
    for (int d = a.ndim() - 1; d >= 0; --d) {
      at[static_cast<size_t>(d)] = rest % a.shape()[d];
      rest /= a.shape()[d];
    }
  }
  if (static_cast<int>(at.size()) != a.ndim()) throw InvalidArgument("incorrect number of indices for array");
  return a[std::vector<IndexItem>(at.begin(), at.end())].item();
}

void fill(const NdArray& a, const Scalar& value) {
  const Range named("fill");
  a.assign(value_array(value, a.dtype(), a.device()), context_for(a.device()));
}

}  // namespace quarry::local::ops
