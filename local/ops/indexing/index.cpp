// The general index: integers, slices, newaxis and ellipsis mixed with integer arrays and masks.
#include <fmt/format.h>

#include "quarry/local/device/range.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::local {
namespace {

// An integer index array, for one axis of the view.
struct ArrayIndex {
  NdArray positions;  // int64
  int axis;           // of the indexed array, for messages
  int64_t extent, stride;
};

// The result's axes are those of `view` less the indexed ones, with the broadcast axes of the index arrays at `place`.
struct Resolved {
  bool basic = false;
  NdArray view;           // basic: the result; else the array's own memory behind the integers and slices
  std::vector<int> kept;  // axes of `view` that the result has
  std::vector<ArrayIndex> arrays;
  Dims broadcast;
  int place = 0;
  bool in_bounds = false;             // every position, because all come from masks
  bool distinct = false;              // no element occurs twice, because there is one mask
  std::optional<NdArray> whole_mask;  // the index is one mask of the array's shape
  bool integers_only = false;         // the result is what NumPy calls a scalar
  Dims shape() const {
    Dims result;
    for (size_t i = 0; i < kept.size(); ++i) result.push_back(view.shape()[kept[i]]);
    for (int d = 0; d < broadcast.size(); ++d) result.insert(place + d, broadcast[d]);
    return result;
  }
};

bool is_mask(const NdArray& array) { return array.dtype() == DType::bool_; }

// Axes of the array that a term uses up.
int consumed_axes(const IndexTerm& term) {
  const IndexTerm::Variant& value = term.value();
  if (const NdArray* array = std::get_if<NdArray>(&value)) return is_mask(*array) ? array->ndim() : 1;
  return std::holds_alternative<NewAxis>(value) || std::holds_alternative<Ellipsis>(value) ||
                 std::holds_alternative<bool>(value)
             ? 0
             : 1;
}

// NumPy lets an empty extent of a mask stand for any.
void check_mask_shape(const NdArray& mask, const NdArray& array, int axis) {
  for (int d = 0; d < mask.ndim(); ++d) {
    if (mask.shape()[d] == 0 || mask.shape()[d] == array.shape()[axis + d]) continue;
    throw IndexError(fmt::format(
        "boolean index did not match indexed array along axis {}; size of axis is {} but size of corresponding boolean "
        "axis is {}",
        axis + d, array.shape()[axis + d], mask.shape()[d]));
  }
}

Dims broadcast_positions(const std::vector<ArrayIndex>& arrays, const std::vector<Dims>& others) {
  std::vector<Dims> shapes;
  for (const ArrayIndex& index : arrays) shapes.push_back(index.positions.shape());
  shapes.insert(shapes.end(), others.begin(), others.end());
  try {
    return broadcast_shapes(shapes);
  } catch (const InvalidArgument&) {
    std::string list;
    for (const Dims& shape : shapes) list += compact_shape(shape) + " ";
    throw IndexError("shape mismatch: indexing arrays could not be broadcast together with shapes " + list);
  }
}

Resolved resolve(const NdArray& array, std::span<const IndexTerm> index) {
  Resolved result;
  int consumed = 0, ellipses = 0;
  bool advanced = false, integers = true;
  for (const IndexTerm& term : index) {
    const IndexTerm::Variant& value = term.value();
    consumed += consumed_axes(term);
    ellipses += std::holds_alternative<Ellipsis>(value) ? 1 : 0;
    integers = integers && std::holds_alternative<int64_t>(value);
    advanced = advanced || std::holds_alternative<NdArray>(value) || std::holds_alternative<bool>(value) ||
               std::holds_alternative<std::vector<int64_t>>(value);
    if (const NdArray* positions = std::get_if<NdArray>(&value)) {
      if (!is_integer(positions->dtype()) && !is_mask(*positions))
        throw IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are "
            "valid indices");
      const NdArray* const both[] = {&array, positions};
      common_device(both);
    }
  }
  if (ellipses > 1) throw IndexError("an index can only have a single ellipsis ('...')");
  if (consumed > array.ndim()) {
    throw IndexError(fmt::format("too many indices for array: array is {}-dimensional, but {} were indexed",
                                 array.ndim(), consumed));
  }
  result.integers_only = integers && consumed == array.ndim();
  const ExecContext context = context_for(array.device());
  if (index.size() == 1 && array.ndim() > 0) {
    if (const NdArray* one = std::get_if<NdArray>(&index[0].value()); one && !is_mask(*one)) {  // quickly: it is usual
      result.view = array;
      result.arrays.push_back({one->dtype() == DType::int64 ? *one : one->astype(DType::int64, context), /*axis=*/0,
                               array.shape()[0], array.strides()[0]});
      result.broadcast = one->shape();
      for (int d = 1; d < array.ndim(); ++d) result.kept.push_back(d);
      return result;
    }
    const NdArray* mask = std::get_if<NdArray>(&index[0].value());
    if (mask && is_mask(*mask) && mask->shape() == array.shape()) {
      result.whole_mask = *mask;
      return result;
    }
  }

  // The basic part, with whole axes for those that arrays index.
  std::vector<IndexItem> items;
  struct Indexed {
    const IndexTerm* term;
    int axis;       // of the array
    int view_axis;  // of the view
  };
  std::vector<Indexed> indexed;
  IndexPlacement placement;
  int axis = 0, view_axis = 0;
  for (const IndexTerm& term : index) {
    const IndexTerm::Variant& value = term.value();
    if (const auto* position = std::get_if<int64_t>(&value)) {
      items.emplace_back(*position);
      ++axis;
      placement.array();
    } else if (const auto* slice = std::get_if<Slice>(&value)) {
      items.emplace_back(*slice);
      ++axis, ++view_axis;
      placement.other(1);
    } else if (std::holds_alternative<NewAxis>(value)) {
      items.emplace_back(newaxis);
      ++view_axis;
      placement.other(1);
    } else if (std::holds_alternative<Ellipsis>(value)) {
      const int whole = array.ndim() - consumed;
      items.emplace_back(ellipsis);
      axis += whole, view_axis += whole;
      placement.other(whole);
    } else {
      const int count = consumed_axes(term);
      indexed.push_back({&term, axis, view_axis});
      for (int d = 0; d < count; ++d) items.emplace_back(full_slice);
      axis += count, view_axis += count;
      placement.array();
    }
  }
  result.view = array[items];
  if (!advanced) {
    result.basic = true;
    return result;
  }
  result.place = placement.place();

  std::vector<bool> removed(static_cast<size_t>(result.view.ndim()), false);
  std::vector<Dims> others;  // shapes of masks without axes
  bool only_masks = true;
  for (const Indexed& one : indexed) {
    const IndexTerm::Variant& value = one.term->value();
    const auto add = [&](NdArray positions, int d) {
      const int at = one.view_axis + d;
      removed[static_cast<size_t>(at)] = true;
      result.arrays.push_back({std::move(positions), one.axis + d, result.view.shape()[at], result.view.strides()[at]});
    };
    if (const auto* truth = std::get_if<bool>(&value)) {
      others.push_back({*truth ? 1 : 0});
      continue;
    }
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      const DeviceScope scope(context);
      add(from_vector(*list), 0);
      only_masks = false;
      continue;
    }
    const NdArray& positions = std::get<NdArray>(value);
    if (!is_mask(positions)) {
      add(positions.dtype() == DType::int64 ? positions : positions.astype(DType::int64, context), 0);
      only_masks = false;
      continue;
    }
    if (positions.ndim() == 0) {
      others.push_back({positions.item().as_bool() ? 1 : 0});
      continue;
    }
    check_mask_shape(positions, array, one.axis);
    CountedMask mask(positions);
    // Axes that lie behind each other in memory count as one.
    bool merged = true;
    for (int d = one.view_axis; d + 1 < one.view_axis + positions.ndim(); ++d)
      merged = merged && result.view.strides()[d] == result.view.strides()[d + 1] * result.view.shape()[d + 1];
    if (merged) {
      const int last = one.view_axis + positions.ndim() - 1;
      for (int d = one.view_axis; d <= last; ++d) removed[static_cast<size_t>(d)] = true;
      result.arrays.push_back({mask.positions(), one.axis, positions.size(), result.view.strides()[last]});
      continue;
    }
    const NdArray rows = mask.coordinates();
    for (int d = 0; d < positions.ndim(); ++d) add(rows[{full_slice, d}], d);
  }
  result.broadcast = broadcast_positions(result.arrays, others);
  result.in_bounds = only_masks;
  result.distinct = only_masks && indexed.size() == 1;
  for (int d = 0; d < result.view.ndim(); ++d)
    if (!removed[static_cast<size_t>(d)]) result.kept.push_back(d);
  return result;
}

// The elements over the result's shape.
IndexedElements elements_of(const Resolved& index, const Dims& shape) {
  IndexedElements result;
  result.shape = shape;
  result.array = {index.view.raw(), Dims::filled(shape.size(), 0)};
  const int after = index.place + index.broadcast.size();
  for (size_t i = 0; i < index.kept.size(); ++i) {
    const int at = static_cast<int>(i) < index.place ? static_cast<int>(i) : static_cast<int>(i) - index.place + after;
    result.array.strides[at] = index.view.strides()[index.kept[i]];
  }
  for (const ArrayIndex& one : index.arrays) {
    const Operand over = operand(one.positions, index.broadcast);
    AxisIndex entry{{over.data, Dims::filled(shape.size(), 0)}, one.extent, one.stride, one.axis};
    for (int d = 0; d < index.broadcast.size(); ++d) entry.positions.strides[index.place + d] = over.strides[d];
    result.indices.push_back(std::move(entry));
  }
  result.mode = index.in_bounds ? IndexMode::unchecked : IndexMode::raise;
  result.distinct = index.distinct;
  return result;
}

std::vector<const NdArray*> positions_of(const Resolved& index) {
  std::vector<const NdArray*> result;
  for (const ArrayIndex& one : index.arrays) result.push_back(&one.positions);
  return result;
}

// NumPy checks no position where the index arrays broadcast to nothing.
bool nothing(const Resolved& index) { return element_count(index.broadcast) == 0; }

NdArray read(const NdArray& array, const Resolved& index) {
  if (index.basic) return index.view;
  const ExecContext context = context_for(array.device());
  if (index.whole_mask) return CountedMask(*index.whole_mask).select(array);
  const Dims shape = index.shape();
  NdArray result(shape, array.dtype(), context);
  if (!nothing(index)) run_gather(array, elements_of(index, shape), positions_of(index), result);
  return result;
}

// Axes of one element before the others, beyond those of `shape`, are dropped.
NdArray without_leading_ones(const NdArray& value, int ndim) {
  int extra = 0;
  while (value.ndim() - extra > ndim && value.shape()[extra] == 1) ++extra;
  if (extra == 0) return value;
  return value[std::vector<IndexItem>(static_cast<size_t>(extra), IndexItem(int64_t{0}))];
}

bool broadcasts_to(const Dims& from, const Dims& to) {
  const int shift = to.size() - from.size();
  if (shift < 0) return false;
  for (int d = 0; d < from.size(); ++d)
    if (from[d] != 1 && from[d] != to[d + shift]) return false;
  return true;
}

void write_masked(const NdArray& array, const NdArray& mask, const NdArray& value) {
  const NdArray apart = apart_from(mask, array);
  if (value.ndim() > 1) {
    throw TypeError(fmt::format(
        "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, input has {} dimensions",
        value.ndim()));
  }
  if (value.size() == 1) {
    const NdArray one = value.ndim() == 0 ? value : value[{0}];
    return run_copy_where(packed_mask(apart), one.broadcast_to(array.shape()), array);
  }
  CountedMask counted(apart);
  if (counted.count() != value.size()) {
    throw InvalidArgument(
        fmt::format("NumPy boolean array indexing assignment cannot assign {} input values to the {} output values "
                    "where the mask is true",
                    value.size(), counted.count()));
  }
  if (value.size() > 0) counted.expand(value, array);
}

void write(const NdArray& array, const Resolved& index, const Arg& given) {
  array.check_writable();
  NdArray value = value_array(given, array.dtype(), array.device());
  if (index.integers_only && value.ndim() > 0) throw InvalidArgument("setting an array element with a sequence.");
  if (index.basic) return index.view.assign(value, context_for(array.device()));
  value = apart_from(value, array);
  if (index.whole_mask) return write_masked(array, *index.whole_mask, value);
  const Dims shape = index.shape();
  value = without_leading_ones(value, shape.size());
  if (!broadcasts_to(value.shape(), shape)) {
    throw InvalidArgument(
        fmt::format("shape mismatch: value array of shape {} could not be broadcast to indexing result of shape {}",
                    compact_shape(value.shape()), compact_shape(shape)));
  }
  if (nothing(index)) return;
  Resolved apart = index;
  for (ArrayIndex& one : apart.arrays) one.positions = apart_from(one.positions, array);
  run_scatter(array, elements_of(apart, shape), positions_of(apart), value);
}

}  // namespace

namespace ops {

NdArray get(const NdArray& array, std::span<const IndexTerm> index) {
  const Range named("getitem");
  return read(array, resolve(array, index));
}

void set(const NdArray& array, std::span<const IndexTerm> index, const Arg& value) {
  const Range named("setitem");
  if (!value.array()) check_literal(value.scalar(), array.dtype());
  write(array, resolve(array, index), value);
}

void update(const NdArray& array, std::span<const IndexTerm> index, Op op, const Arg& value) {
  array.check_writable();
  const Resolved resolved = resolve(array, index);
  const NdArray before = read(array, resolved);
  const NdArray after = apply(op, {before, value});
  if (!resolved.integers_only && !can_cast(after.dtype(), array.dtype(), Casting::same_kind)) {
    throw TypeError(
        fmt::format("Cannot cast ufunc '{}' output from dtype('{}') to dtype('{}') with casting rule "
                    "'same_kind'",
                    info(op).name, name(after.dtype()), name(array.dtype())));
  }
  if (after.shape() != before.shape() && !resolved.integers_only) {
    throw InvalidArgument(
        fmt::format("non-broadcastable output operand with shape {} doesn't match the broadcast "
                    "shape {}",
                    compact_shape(before.shape()), compact_shape(after.shape())));
  }
  write(array, resolved, after);
}

void ufunc_at(Op op, const NdArray& array, std::span<const IndexTerm> index, const std::optional<Arg>& value) {
  const Range named("at");
  const int arity = info(op).arity;
  if (arity > 2) throw InvalidArgument("Only unary and binary ufuncs supported at this time");
  if (arity == 2 && !value) throw InvalidArgument("second operand needed for ufunc");
  if (arity == 1 && value) throw InvalidArgument("second operand provided when ufunc is unary");
  array.check_writable();
  const ExecContext context = context_for(array.device());
  NdArray operand_value;
  Program program;
  std::vector<ValueId> args{program.input(array.dtype())};
  if (value) {
    // As np.asarray: a literal is not weak here.
    operand_value = plain_array(*value, array.device());
    const NdArray* const both[] = {&array, &operand_value};
    common_device(both);
    args.push_back(program.input(operand_value.dtype()));
  }
  const ValueId result = program.apply(op, args);
  program.output(program.cast(result, array.dtype()));

  Resolved resolved = resolve(array, index);
  if (resolved.whole_mask) {  // the general way
    CountedMask mask(*resolved.whole_mask);
    const NdArray rows = mask.coordinates();
    resolved.view = array;
    for (int d = 0; d < array.ndim(); ++d)
      resolved.arrays.push_back({rows[{full_slice, d}], d, array.shape()[d], array.strides()[d]});
    resolved.broadcast = {mask.count()};
    resolved.in_bounds = resolved.distinct = true;
  }
  if (resolved.basic)
    for (int d = 0; d < resolved.view.ndim(); ++d) resolved.kept.push_back(d);
  const Dims shape = resolved.shape();
  if (value) {
    operand_value = apart_from(operand_value, array);
    if (!broadcasts_to(operand_value.shape(), shape))
      throw InvalidArgument(fmt::format("array of shape {} is not broadcastable to correct shape {}",
                                        compact_shape(operand_value.shape()), compact_shape(shape)));
  }
  if (nothing(resolved)) return;
  for (ArrayIndex& one : resolved.arrays) one.positions = apart_from(one.positions, array);
  IndexedElements elements = elements_of(resolved, shape);
  if (resolved.basic) {
    elements.mode = IndexMode::unchecked;
    elements.distinct = true;
  }
  array.begin_write(context.stream);
  for (const ArrayIndex& one : resolved.arrays) one.positions.begin_read(context.stream);
  Operand values;
  if (value) {
    operand_value.begin_read(context.stream);
    values = operand(operand_value, shape);
  }
  engine(context.device).indexing().update(elements, program, values, context);
}

}  // namespace ops
}  // namespace quarry::local
