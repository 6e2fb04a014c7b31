#include "quarry/local/ops/indexing/placement.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "quarry/local/device/device.h"
#include "quarry/local/ndarray/launch.h"

namespace quarry::local {
namespace {

// Conversions between two dtypes are the same program every time.
const Program& cast_program(DType from, DType to) {
  thread_local std::array<std::unique_ptr<Program>, kDTypeCount * kDTypeCount> programs;
  std::unique_ptr<Program>& entry = programs[static_cast<size_t>(from) * kDTypeCount + static_cast<size_t>(to)];
  if (!entry) {
    entry = std::make_unique<Program>();
    entry->output(entry->cast(entry->input(from), to));
  }
  return *entry;
}

}  // namespace

Order parse_order(std::string_view text) {
  if (text.size() == 1) {
    switch (text[0]) {
      case 'C':
      case 'c':
        return Order::C;
      case 'F':
      case 'f':
        return Order::F;
      case 'A':
      case 'a':
        return Order::A;
      case 'K':
      case 'k':
        return Order::K;
      default:
        break;
    }
  }
  throw InvalidArgument(fmt::format("order must be one of 'C', 'F', 'A', or 'K' (got '{}')", text));
}

Casting parse_casting(std::string_view text) {
  if (text == "no") return Casting::no;
  if (text == "equiv") return Casting::equiv;
  if (text == "safe") return Casting::safe;
  if (text == "same_kind") return Casting::same_kind;
  if (text == "unsafe") return Casting::unsafe;
  throw InvalidArgument(
      fmt::format("casting must be one of 'no', 'equiv', 'safe', 'same_kind', or 'unsafe' (got '{}')", text));
}

void check_cast(DType from, DType to, Casting casting) {
  if (can_cast(from, to, casting)) return;
  static constexpr const char* kNames[] = {"no", "equiv", "safe", "same_kind", "unsafe"};
  throw TypeError(fmt::format("Cannot cast array data from dtype('{}') to dtype('{}') according to the rule '{}'",
                              name(from), name(to), kNames[static_cast<size_t>(casting)]));
}

bool is_fortran_contiguous(const NdArray& array) {
  if (array.size() == 0) return true;
  int64_t step = array.itemsize();
  for (int d = 0; d < array.ndim(); ++d) {
    if (array.shape()[d] != 1 && array.strides()[d] != step) return false;
    step *= array.shape()[d];
  }
  return true;
}

std::vector<int64_t> memory_order(const NdArray& array) {
  std::vector<int64_t> axes;
  const Dims& strides = array.strides();
  // An axis moves before those of shorter strides; axes whose order does not matter stay where they are.
  for (int d = 0; d < array.ndim(); ++d) {
    size_t place = axes.size();
    for (size_t i = axes.size(); i-- > 0;) {
      const int other = static_cast<int>(axes[i]);
      if (strides[d] == 0 || strides[other] == 0 || array.shape()[d] == 1 || array.shape()[other] == 1) continue;
      if (std::abs(strides[d]) <= std::abs(strides[other])) break;
      place = i;
    }
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(place), d);
  }
  return axes;
}

Dims shape_of(const Ints& shape) { return Dims(shape.values()); }

std::vector<int> normalize_axes(std::span<const int64_t> axes, int ndim, std::string_view repeated) {
  std::vector<int> result;
  uint32_t seen = 0;
  for (int64_t axis : axes) {
    const int normal = normalize_axis(axis, ndim);
    if (seen & (1u << normal)) throw InvalidArgument(std::string(repeated));
    seen |= 1u << normal;
    result.push_back(normal);
  }
  return result;
}

NdArray with_strides(const NdArray& array, const Dims& shape, const Dims& strides, int64_t offset_bytes) {
  return array.restrided(shape, strides, offset_bytes);
}

NdArray sliced(const NdArray& array, int axis, int64_t start, int64_t count, int64_t step) {
  Dims shape = array.shape(), strides = array.strides();
  const int64_t offset = array.offset() + (count > 0 ? start * strides[axis] : 0);
  shape[axis] = count;
  strides[axis] *= step;
  return with_strides(array, shape, strides, offset);
}

NdArray permuted(const NdArray& array, std::span<const int64_t> axes) {
  return axes.empty() ? array : array.transpose(axes);
}

NdArray new_array(const Dims& shape, DType dtype, Order order, const ExecContext& context, const NdArray* like) {
  if (like && order == Order::A) order = is_fortran_contiguous(*like) && !like->is_contiguous() ? Order::F : Order::C;
  if (like && order == Order::K && like->ndim() == shape.size() && !like->is_contiguous()) {
    const std::vector<int64_t> axes = memory_order(*like);
    Dims packed = Dims::filled(shape.size());
    std::vector<int64_t> back(axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      packed[static_cast<int>(i)] = shape[static_cast<int>(axes[i])];
      back[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
    }
    return permuted(NdArray(packed, dtype, context), back);
  }
  if (order != Order::F) return NdArray(shape, dtype, context);
  Dims reversed = shape;
  std::reverse(reversed.begin(), reversed.end());
  return NdArray(reversed, dtype, context).T();
}

void write_into(const NdArray& target, const NdArray& value) {
  target.check_writable();
  if (target.size() == 0) return;
  const ExecContext context = context_for(target.device());
  // On the CPU a copy by the stream uses one thread.
  constexpr int64_t kThreadedBytes = int64_t{1} << 19;
  if (target.dtype() == value.dtype() && target.shape() == value.shape() && target.is_contiguous() &&
      value.is_contiguous() && (acts_as(context.device) != DeviceKind::cpu || target.nbytes() < kThreadedBytes)) {
    target.begin_write(context.stream);
    value.begin_read(context.stream);
    context.stream->copy(target.raw(), value.raw(), target.nbytes());
    return;
  }
  const NdArray *in[] = {&value}, *out[] = {&target};
  run_elementwise(cast_program(value.dtype(), target.dtype()), in, out, context);
}

void write_safely(const NdArray& target, const NdArray& value) {
  write_into(target, may_overlap(target, value) ? value.copy(context_for(value.device())) : value);
}

void check_out(const NdArray& out, const Dims& shape, DType dtype, Casting casting) {
  if (!(out.shape() == shape)) {
    throw InvalidArgument(fmt::format("Output array is the wrong shape: {} is needed, it has {}", to_string(shape),
                                      to_string(out.shape())));
  }
  check_cast(dtype, out.dtype(), casting);
  out.check_writable();
}

Device common_device(const std::vector<NdArray>& arrays) {
  std::vector<const NdArray*> pointers;
  pointers.reserve(arrays.size());
  for (const NdArray& array : arrays) pointers.push_back(&array);
  return common_device(std::span<const NdArray* const>(pointers));
}

}  // namespace quarry::local
