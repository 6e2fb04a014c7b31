// Joining, splitting, repeating and rearranging: every part is one copy into a view of the result.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/manipulation/arrange.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"

namespace quarry::local::ops {
namespace {

// The dtype of a join, with what NumPy says about out= and dtype=.
DType joined_dtype(const std::vector<NdArray>& arrays, const std::optional<NdArray>& out, std::optional<DType> dtype,
                   Casting casting, const char* function) {
  if (out && dtype) {
    throw TypeError(fmt::format("{}() only takes `out` or `dtype` as an argument, but both were provided.", function));
  }
  DType result = dtype ? *dtype : out ? out->dtype() : arrays[0].dtype();
  if (!dtype && !out)
    for (const NdArray& a : arrays) result = promote_types(result, a.dtype());
  for (const NdArray& a : arrays) check_cast(a.dtype(), result, casting);
  return result;
}

// Where a join writes: `out`, or something else where an input lies in it.
NdArray join_target(const std::vector<NdArray>& arrays, const std::optional<NdArray>& out, const Dims& shape,
                    DType dtype) {
  const Device device = common_device(arrays);
  if (!out) return NdArray(shape, dtype, context_for(device));
  const NdArray* both[] = {&*out, arrays.data()};
  local::common_device(both);
  check_out(*out, shape, dtype, Casting::unsafe);
  for (const NdArray& a : arrays)
    if (may_overlap(a, *out)) return NdArray(shape, dtype, context_for(device));
  return *out;
}

NdArray join_result(const NdArray& written, const std::optional<NdArray>& out) {
  if (!out) return written;
  if (out->buffer() != written.buffer()) write_into(*out, written);
  return *out;
}

using arrange::BlockDepth;
using arrange::depth_of;

void collect(const Blocks& blocks, std::vector<NdArray>& arrays) {
  if (!blocks.is_list()) return arrays.push_back(blocks.array());
  for (const Blocks& part : blocks.list()) collect(part, arrays);
}

Dims block_shape(const Blocks& blocks, int ndim, int depth) {
  if (!blocks.is_list()) return arrange::with_leading_axes(blocks.array(), ndim).shape();
  const int axis = ndim - depth;
  std::optional<Dims> shape;
  for (const Blocks& part : blocks.list()) {
    const Dims next = block_shape(part, ndim, depth - 1);
    if (!shape) {
      shape = next;
      continue;
    }
    for (int d = 0; d < ndim; ++d) {
      if (d == axis || next[d] == (*shape)[d]) continue;
      throw InvalidArgument(fmt::format("Mismatched array shapes in block along axis {}: {} and {}", axis,
                                        local::to_string(*shape), local::to_string(next)));
    }
    (*shape)[axis] += next[axis];
  }
  return *shape;
}

void write_blocks(const NdArray& target, const Blocks& blocks, int depth) {
  if (!blocks.is_list()) return write_into(target, arrange::with_leading_axes(blocks.array(), target.ndim()));
  const int axis = target.ndim() - depth;
  int64_t at = 0;
  for (const Blocks& part : blocks.list()) {
    const int64_t count = block_shape(part, target.ndim(), depth - 1)[axis];
    write_blocks(sliced(target, axis, at, count), part, depth - 1);
    at += count;
  }
}

// The parts one after the other along an axis.
void write_parts(const NdArray& target, int along, const std::vector<NdArray>& parts) {
  constexpr size_t kTogether = 8;  // operands of one kernel
  const bool thin = std::all_of(parts.begin(), parts.end(), [=](const NdArray& a) { return a.shape()[along] == 1; });
  std::vector<NdArray> views;
  int64_t at = 0;
  for (const NdArray& part : parts) {
    const int64_t count = part.shape()[along];
    views.push_back(sliced(target, along, at, count));
    at += count;
  }
  if (!thin || along != target.ndim() - 1 || parts.size() < 2 || parts.size() > kTogether || target.size() == 0) {
    for (size_t i = 0; i < parts.size(); ++i) write_into(views[i], parts[i]);
    return;
  }
  // Neighbouring elements come from different parts: written together, or memory moves once for each part.
  Program program;
  std::vector<const NdArray*> inputs, outputs;
  for (size_t i = 0; i < parts.size(); ++i) {
    program.output(program.cast(program.input(parts[i].dtype()), target.dtype()));
    inputs.push_back(&parts[i]);
    outputs.push_back(&views[i]);
  }
  run_elementwise(program, inputs, outputs, context_for(target.device()));
}

NdArray joined_flat(const std::vector<NdArray>& arrays, const std::optional<NdArray>& out, DType dtype) {
  int64_t total = 0;
  for (const NdArray& a : arrays) total += a.size();
  const NdArray target = join_target(arrays, out, {total}, dtype);
  int64_t at = 0;
  for (const NdArray& a : arrays) {
    // A part that is no view of one axis is written by its own shape, without a copy in between.
    write_into(sliced(target, 0, at, a.size()).reshape(a.shape()), a);
    at += a.size();
  }
  return join_result(target, out);
}

}  // namespace

NdArray concatenate(const std::vector<NdArray>& arrays, std::optional<int64_t> axis, const std::optional<NdArray>& out,
                    std::optional<DType> dtype, std::string_view casting) {
  const Range named("concatenate");
  const Casting rule = parse_casting(casting);
  if (arrays.empty()) throw InvalidArgument("need at least one array to concatenate");
  if (!axis) return joined_flat(arrays, out, joined_dtype(arrays, out, dtype, rule, "concatenate"));
  const NdArray& first = arrays[0];
  for (const NdArray& a : arrays)
    if (a.ndim() == 0) throw InvalidArgument("zero-dimensional arrays cannot be concatenated");
  const int along = normalize_axis(*axis, first.ndim());
  Dims shape = first.shape();
  for (size_t i = 1; i < arrays.size(); ++i) {
    const Dims& other = arrays[i].shape();
    if (other.size() != shape.size()) {
      throw InvalidArgument(fmt::format(
          "all the input array dimensions must match: all the input arrays must have same number of dimensions, but "
          "the array at index 0 has {} dimension(s) and the array at index {} has {} dimension(s)",
          shape.size(), i, other.size()));
    }
    for (int d = 0; d < shape.size(); ++d) {
      if (d == along || other[d] == shape[d]) continue;
      throw InvalidArgument(fmt::format(
          "all the input array dimensions except for the concatenation axis must match exactly, but along dimension "
          "{}, the array at index 0 has size {} and the array at index {} has size {}",
          d, shape[d], i, other[d]));
    }
    shape[along] += other[along];
  }
  const NdArray target = join_target(arrays, out, shape, joined_dtype(arrays, out, dtype, rule, "concatenate"));
  write_parts(target, along, arrays);
  return join_result(target, out);
}

NdArray stack(const std::vector<NdArray>& arrays, int64_t axis, const std::optional<NdArray>& out,
              std::optional<DType> dtype, std::string_view casting) {
  const Range named("stack");
  const Casting rule = parse_casting(casting);
  if (arrays.empty()) throw InvalidArgument("need at least one array to stack");
  for (const NdArray& a : arrays) {
    if (a.shape() == arrays[0].shape()) continue;
    throw InvalidArgument(fmt::format("all input arrays must have the same shape, not {} and {}",
                                      local::to_string(arrays[0].shape()), local::to_string(a.shape())));
  }
  const int along = normalize_axis(axis, arrays[0].ndim() + 1);
  Dims shape = arrays[0].shape();
  shape.insert(along, static_cast<int64_t>(arrays.size()));
  const NdArray target = join_target(arrays, out, shape, joined_dtype(arrays, out, dtype, rule, "stack"));
  std::vector<NdArray> parts;
  for (const NdArray& a : arrays) parts.push_back(expand_dims(a, along));
  write_parts(target, along, parts);
  return join_result(target, out);
}

NdArray vstack(const std::vector<NdArray>& tup, std::optional<DType> dtype, std::string_view casting) {
  const Range named("vstack");
  return concatenate(arrange::all_at_least(tup, 2), 0, std::nullopt, dtype, casting);
}

NdArray hstack(const std::vector<NdArray>& tup, std::optional<DType> dtype, std::string_view casting) {
  const Range named("hstack");
  const std::vector<NdArray> arrays = arrange::all_at_least(tup, 1);
  return concatenate(arrays, !arrays.empty() && arrays[0].ndim() == 1 ? 0 : 1, std::nullopt, dtype, casting);
}

NdArray dstack(const std::vector<NdArray>& tup) { return concatenate(arrange::all_at_least(tup, 3), 2); }

NdArray column_stack(const std::vector<NdArray>& tup) {
  const Range named("column_stack");
  return concatenate(arrange::as_columns(tup), 1);
}

NdArray block(const Blocks& arrays) {
  const Range named("block");
  const BlockDepth depth = depth_of(arrays);
  const int ndim = std::max(depth.lists, depth.ndim);
  std::vector<NdArray> all;
  collect(arrays, all);
  DType dtype = all[0].dtype();
  for (const NdArray& a : all) dtype = promote_types(dtype, a.dtype());
  NdArray result(block_shape(arrays, ndim, depth.lists), dtype, context_for(common_device(all)));
  write_blocks(result, arrays, depth.lists);
  return result;
}

NdArray append(const NdArray& arr, const NdArray& values, std::optional<int64_t> axis) {
  const Range named("append");
  return concatenate({arr, values}, axis);
}

std::vector<NdArray> array_split(const NdArray& ary, const Ints& indices_or_sections, int64_t axis) {
  const Range named("array_split");
  return arrange::array_split(ary, indices_or_sections, axis);
}

std::vector<NdArray> split(const NdArray& ary, const Ints& indices_or_sections, int64_t axis) {
  const Range named("split");
  return arrange::split(ary, indices_or_sections, axis);
}

std::vector<NdArray> hsplit(const NdArray& ary, const Ints& indices_or_sections) {
  const Range named("hsplit");
  return arrange::hsplit(ary, indices_or_sections);
}

std::vector<NdArray> vsplit(const NdArray& ary, const Ints& indices_or_sections) {
  const Range named("vsplit");
  return arrange::vsplit(ary, indices_or_sections);
}

std::vector<NdArray> dsplit(const NdArray& ary, const Ints& indices_or_sections) {
  const Range named("dsplit");
  return arrange::dsplit(ary, indices_or_sections);
}

std::vector<NdArray> unstack(const NdArray& x, int64_t axis) {
  const Range named("unstack");
  return arrange::unstack(x, axis);
}

NdArray tile(const NdArray& A, const Ints& reps) {
  const Range named("tile");
  auto [counts, shape] = arrange::tiled_by(A.shape(), reps);
  const int ndim = shape.size();
  NdArray whole = arrange::with_leading_axes(A, ndim);
  auto repeated = std::count_if(counts.begin(), counts.end(), [](int64_t count) { return count != 1; });
  // An axis before each one that is repeated, along which the result broadcasts; as many as fit at a time.
  while (repeated > 0) {
    Dims spread, target;
    int added = 0;
    Dims done = whole.shape();
    for (int d = 0; d < ndim; ++d) {
      int64_t& count = counts[static_cast<size_t>(d)];
      if (count != 1 && ndim + added < kMaxDims) {
        ++added;
        spread.push_back(1);
        target.push_back(count);
        done[d] *= count;
        count = 1;
      }
      spread.push_back(whole.shape()[d]);
      target.push_back(whole.shape()[d]);
    }
    if (added == 0) {  // no room for an axis: one axis is repeated by copies one after the other
      const auto place = std::find_if(counts.begin(), counts.end(), [](int64_t c) { return c != 1; });
      const int axis = static_cast<int>(place - counts.begin());
      std::vector<NdArray> parts(static_cast<size_t>(*place), whole);
      whole = *place == 0 ? NdArray(shape, A.dtype(), context_for(A.device())) : concatenate(parts, axis);
      *place = 1;
      --repeated;
      continue;
    }
    const NdArray next(done, A.dtype(), context_for(A.device()));
    write_into(next.reshape(target), whole.reshape(spread).broadcast_to(target));
    whole = next;
    repeated -= added;
  }
  return whole.buffer() == A.buffer() ? whole.copy(context_for(A.device())) : whole;
}

NdArray resize(const NdArray& a, const Ints& new_shape) {
  const Range named("resize");
  const Dims shape = shape_of(new_shape);
  for (int64_t extent : shape)
    if (extent < 0)
      throw InvalidArgument("all elements of `new_shape` must be non-negative: " + local::to_string(shape));
  const ExecContext context = context_for(a.device());
  NdArray result(shape, a.dtype(), context);
  const int64_t total = result.size(), size = a.size();
  if (total == 0) return result;
  if (size == 0) {
    result.fill(Scalar::strong(0, a.dtype()), context);
    return result;
  }
  const NdArray flat = result.reshape({total}), values = a.reshape({size});
  const int64_t whole = total / size;
  if (whole > 0)
    write_into(sliced(flat, 0, 0, whole * size).reshape({whole, size}), values.broadcast_to({whole, size}));
  if (total > whole * size)
    write_into(sliced(flat, 0, whole * size, total - whole * size), sliced(values, 0, 0, total - whole * size));
  return result;
}

namespace {

// Copies `a` rolled along axes first, first + 1 ... of `axes`: per axis the part that stays in order and the part that
// comes round.
void write_rolled(const NdArray& target, const NdArray& a, std::span<const std::pair<int, int64_t>> axes) {
  if (axes.empty()) return write_into(target, a);
  const auto [axis, shift] = axes.front();
  const int64_t size = a.shape()[axis];
  const auto rest = axes.subspan(1);
  write_rolled(sliced(target, axis, shift, size - shift), sliced(a, axis, 0, size - shift), rest);
  write_rolled(sliced(target, axis, 0, shift), sliced(a, axis, size - shift, shift), rest);
}

}  // namespace

NdArray roll(const NdArray& a, const Ints& shift, const Axes& axis) {
  const Range named("roll");
  if (axis.none()) return roll(a.reshape({a.size()}), shift, 0).reshape(a.shape());
  const std::vector<int64_t> amounts = arrange::rolled_by(a.shape(), shift, axis.list());
  std::vector<std::pair<int, int64_t>> moved;
  for (int d = 0; d < a.ndim(); ++d)
    if (amounts[static_cast<size_t>(d)] != 0) moved.emplace_back(d, amounts[static_cast<size_t>(d)]);
  NdArray result(a.shape(), a.dtype(), context_for(a.device()));
  write_rolled(result, a, moved);
  return result;
}

}  // namespace quarry::local::ops
