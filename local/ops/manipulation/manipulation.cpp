// Shapes, axes, views and copies.
#include "quarry/local/ops/manipulation/manipulation.h"

#include <fmt/format.h>

#include <numeric>

#include "quarry/local/memory/buffer.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/manipulation/arrange.h"

namespace quarry::local::ops {
namespace {

NdArray reversed_reshape(const NdArray& a, const Dims& shape) {
  Dims reversed = shape;
  std::reverse(reversed.begin(), reversed.end());
  return a.T().reshape(reversed).T();
}

// A view where `a` already lies in that order, else a copy.
NdArray in_order(const NdArray& a, Order order) {
  NdArray result = new_array(a.shape(), a.dtype(), order, context_for(a.device()), &a);
  write_into(result, a);
  return result;
}

std::variant<NdArray, std::vector<NdArray>> one_or_all_at_least(const std::vector<NdArray>& arrays, int ndim) {
  if (arrays.size() == 1) return arrange::at_least(arrays[0], ndim);
  return arrange::all_at_least(arrays, ndim);
}

std::vector<Dims> shapes_of(const std::vector<NdArray>& arrays) {
  std::vector<Dims> shapes;
  shapes.reserve(arrays.size());
  for (const NdArray& a : arrays) shapes.push_back(a.shape());
  return shapes;
}

}  // namespace

NdArray reshape(const NdArray& a, const Ints& shape, std::string_view order, std::optional<bool> copy) {
  const Order parsed = parse_order(order);
  if (parsed == Order::K) throw InvalidArgument("order 'K' is not permitted for reshaping");
  const bool fortran = parsed == Order::F || (parsed == Order::A && is_fortran_contiguous(a) && !a.is_contiguous());
  const Dims wanted = shape_of(shape);
  NdArray result = fortran ? reversed_reshape(a, wanted) : a.reshape(wanted);
  const bool copied = result.buffer() != a.buffer();
  if (!copy || copied == *copy) return result;
  if (copied) throw InvalidArgument("Unable to avoid creating a copy while reshaping.");
  return in_order(result, fortran ? Order::F : Order::C);
}

NdArray reshape_method(const NdArray& a, const std::vector<Ints>& shape, std::string_view order,
                       std::optional<bool> copy) {
  if (shape.empty()) throw TypeError("reshape() takes exactly 1 argument (0 given)");
  if (shape.size() == 1) return reshape(a, shape[0], order, copy);
  std::vector<int64_t> extents;
  for (const Ints& extent : shape) {
    if (!extent.scalar()) throw TypeError("reshape() takes one shape or several integers");
    extents.push_back(extent.values()[0]);
  }
  return reshape(a, extents, order, copy);
}

NdArray ravel(const NdArray& a, std::string_view order) {
  const Dims flat{a.size()};
  switch (parse_order(order)) {
    case Order::C:
      return a.reshape(flat);
    case Order::F:
      return a.T().reshape(flat);
    case Order::A:
      return is_fortran_contiguous(a) && !a.is_contiguous() ? a.T().reshape(flat) : a.reshape(flat);
    case Order::K:
      return permuted(a, memory_order(a)).reshape(flat);
  }
  return a;
}

NdArray flatten(const NdArray& a, std::string_view order) {
  const NdArray flat = ravel(a, order);
  return flat.buffer() == a.buffer() ? flat.copy(context_for(a.device())) : flat;
}

Dims shape(const NdArray& a) { return a.shape(); }
int64_t ndim(const NdArray& a) { return a.ndim(); }

int64_t size(const NdArray& a, const Axes& axis) {
  if (axis.none()) return a.size();
  int64_t count = 1;
  for (int d : normalize_axes(axis.list(), a.ndim(), "repeated axis")) count *= a.shape()[d];
  return count;
}

NdArray expand_dims(const NdArray& a, const Ints& axis) {
  const int ndim = a.ndim() + static_cast<int>(axis.values().size());
  uint64_t is_new = 0;
  for (int d : normalize_axes(axis.values(), ndim, "repeated axis")) is_new |= uint64_t{1} << d;
  Dims shape = Dims::filled(ndim, 1), strides = Dims::filled(ndim);
  for (int d = 0, source = 0; d < ndim; ++d) {
    if (is_new >> d & 1) continue;
    shape[d] = a.shape()[source];
    strides[d] = a.strides()[source++];
  }
  return with_strides(a, shape, strides, a.offset());
}

NdArray squeeze(const NdArray& a, const Axes& axis) {
  const uint32_t mask = axis.mask(a.ndim());
  Dims shape, strides;
  for (int d = 0; d < a.ndim(); ++d) {
    if (mask & (1u << d)) {
      if (a.shape()[d] == 1) continue;
      if (!axis.none()) {
        throw InvalidArgument(
            fmt::format("cannot select an axis to squeeze out which has size not equal to one: axis {} has size {}", d,
                        a.shape()[d]));
      }
    }
    shape.push_back(a.shape()[d]);
    strides.push_back(a.strides()[d]);
  }
  return with_strides(a, shape, strides, a.offset());
}

std::variant<NdArray, std::vector<NdArray>> atleast_1d(const std::vector<NdArray>& arys) {
  return one_or_all_at_least(arys, 1);
}
std::variant<NdArray, std::vector<NdArray>> atleast_2d(const std::vector<NdArray>& arys) {
  return one_or_all_at_least(arys, 2);
}
std::variant<NdArray, std::vector<NdArray>> atleast_3d(const std::vector<NdArray>& arys) {
  return one_or_all_at_least(arys, 3);
}

NdArray transpose(const NdArray& a, const Axes& axes) {
  if (axes.none()) return a.T();
  if (static_cast<int>(axes.list().size()) != a.ndim()) throw InvalidArgument("axes don't match array");
  return permuted(a, axes.list());
}

NdArray transpose_method(const NdArray& a, const std::vector<Axes>& axes) {
  if (axes.empty()) return a.T();
  if (axes.size() == 1) return transpose(a, axes[0]);
  std::vector<int64_t> list;
  for (const Axes& axis : axes) {
    if (axis.none() || axis.list().size() != 1) throw TypeError("transpose() takes one tuple or several integers");
    list.push_back(axis.list()[0]);
  }
  return transpose(a, list);
}

NdArray matrix_transpose(const NdArray& x) {
  if (x.ndim() < 2) {
    throw InvalidArgument(fmt::format("Input array must be at least 2-dimensional, but it is {}", x.ndim()));
  }
  return swapaxes(x, -1, -2);
}

NdArray moveaxis(const NdArray& a, const Ints& source, const Ints& destination) {
  return arrange::moveaxis(a, source, destination);
}

NdArray rollaxis(const NdArray& a, int64_t axis, int64_t start) { return arrange::rollaxis(a, axis, start); }

NdArray swapaxes(const NdArray& a, int64_t axis1, int64_t axis2) {
  const int first = normalize_axis(axis1, a.ndim()), second = normalize_axis(axis2, a.ndim());
  Dims shape = a.shape(), strides = a.strides();
  std::swap(shape[first], shape[second]);
  std::swap(strides[first], strides[second]);
  return with_strides(a, shape, strides, a.offset());
}

NdArray flip(const NdArray& m, const Axes& axis) { return arrange::flip(m, axis); }
NdArray fliplr(const NdArray& m) { return arrange::fliplr(m); }
NdArray flipud(const NdArray& m) { return arrange::flipud(m); }
NdArray rot90(const NdArray& m, int64_t k, const Ints& axes) { return arrange::rot90(m, k, axes); }

NdArray broadcast_to(const NdArray& array, const Ints& shape, bool /*subok*/) {
  const Dims wanted = shape_of(shape);
  for (int64_t extent : wanted)
    if (extent < 0) {
      throw InvalidArgument(
          fmt::format("all elements of broadcast shape must be non-negative: {}", local::to_string(wanted)));
    }
  return array.broadcast_to(wanted);
}

std::vector<NdArray> broadcast_arrays(const std::vector<NdArray>& args, bool /*subok*/) {
  const Dims shape = args.empty() ? Dims() : local::broadcast_shapes(shapes_of(args));
  std::vector<NdArray> results;
  results.reserve(args.size());
  for (const NdArray& a : args) results.push_back(a.shape() == shape ? a : a.broadcast_to(shape));
  return results;
}

Dims broadcast_shapes(const std::vector<Ints>& args) {
  std::vector<Dims> shapes;
  shapes.reserve(args.size());
  for (const Ints& shape : args) {
    shapes.push_back(shape_of(shape));
    for (int64_t extent : shapes.back())
      if (extent < 0) throw InvalidArgument("negative dimensions are not allowed: " + local::to_string(shapes.back()));
  }
  return local::broadcast_shapes(shapes);
}

Broadcast broadcast(const std::vector<NdArray>& args) {
  Broadcast result;
  result.shape = local::broadcast_shapes(shapes_of(args));
  result.size = element_count(result.shape);
  result.nd = result.ndim = result.shape.size();
  result.numiter = static_cast<int64_t>(args.size());
  return result;
}

NdArray sliding_window_view(const NdArray& x, const Ints& window_shape, const Axes& axis, bool /*subok*/,
                            bool writeable) {
  const std::vector<int64_t>& window = window_shape.values();
  for (int64_t extent : window)
    if (extent < 0) throw InvalidArgument(fmt::format("`window_shape` cannot contain negative values: {}", extent));
  std::vector<int64_t> axes;
  if (axis.none()) {
    axes.resize(static_cast<size_t>(x.ndim()));
    std::iota(axes.begin(), axes.end(), 0);
    if (window.size() != axes.size()) {
      throw InvalidArgument(
          fmt::format("Since axis is None, must provide window_shape for all dimensions of `x`; got {} window_shape "
                      "elements and `x.ndim` is {}.",
                      window.size(), x.ndim()));
    }
  } else {
    for (int64_t a : axis.list()) axes.push_back(normalize_axis(a, x.ndim()));  // may repeat: windows of windows
    if (window.size() != axes.size()) {
      throw InvalidArgument(fmt::format(
          "Must provide matching length window_shape and axis; got {} window_shape elements and {} axes elements.",
          window.size(), axes.size()));
    }
  }
  Dims shape = x.shape(), strides = x.strides();
  for (size_t i = 0; i < axes.size(); ++i) {
    const int d = static_cast<int>(axes[i]);
    if (shape[d] < window[i]) {
      throw InvalidArgument(fmt::format("window shape cannot be larger than input array shape: {} along axis {} of {}",
                                        window[i], d, local::to_string(x.shape())));
    }
    shape[d] -= window[i] - 1;
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    shape.push_back(window[i]);
    strides.push_back(x.strides()[static_cast<int>(axes[i])]);
  }
  const NdArray view = with_strides(x, shape, strides, x.offset());
  return writeable ? view : view.as_read_only(ReadOnly::window);
}

NdArray as_strided(const NdArray& x, const std::optional<Dims>& given_shape, const std::optional<Dims>& given_strides,
                   bool /*subok*/, bool writeable) {
  const Dims& shape = given_shape ? *given_shape : x.shape();
  const Dims& strides = given_strides ? *given_strides : x.strides();
  if (shape.size() != strides.size()) {
    throw InvalidArgument(
        fmt::format("{} extents and {} strides: there must be as many", shape.size(), strides.size()));
  }
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0) throw InvalidArgument("negative dimensions are not allowed: " + local::to_string(shape));
    empty = empty || extent == 0;
  }
  int64_t low = x.offset(), high = x.offset() + x.itemsize();
  bool overflow = false;
  for (int d = 0; d < shape.size() && !empty; ++d) {
    int64_t reach = 0;
    overflow = overflow || __builtin_mul_overflow(shape[d] - 1, strides[d], &reach);
    int64_t& end = reach < 0 ? low : high;
    overflow = overflow || __builtin_add_overflow(end, reach, &end);
  }
  x.raw();
  if (!empty && (overflow || low < 0 || high > x.buffer()->bytes())) {
    throw InvalidArgument(fmt::format("shape {} with strides {} reaches outside of the array's memory of {} bytes",
                                      local::to_string(shape), local::to_string(strides), x.buffer()->bytes()));
  }
  const NdArray view = with_strides(x, shape, strides, x.offset());
  return writeable ? view : view.as_read_only(ReadOnly::window);
}

NdArray copy(const NdArray& a, std::string_view order, bool /*subok*/) { return in_order(a, parse_order(order)); }
NdArray copy_method(const NdArray& a, std::string_view order) { return in_order(a, parse_order(order)); }

NdArray ascontiguousarray(const NdArray& a, std::optional<DType> dtype) {
  const DType wanted = dtype.value_or(a.dtype());
  const NdArray shaped = a.ndim() == 0 ? a.reshape({1}) : a;
  return wanted == a.dtype() && shaped.is_contiguous() ? shaped : shaped.astype(wanted, context_for(a.device()));
}

NdArray asfortranarray(const NdArray& a, std::optional<DType> dtype) {
  const DType wanted = dtype.value_or(a.dtype());
  NdArray shaped = a.ndim() == 0 ? a.reshape({1}) : a;
  if (wanted == a.dtype() && is_fortran_contiguous(shaped)) return shaped;
  return shaped.T().astype(wanted, context_for(a.device())).T();
}

NdArray astype(const NdArray& x, DType dtype, bool copy, std::optional<Device> device) {
  NdArray here = device ? x.to(*device) : x;
  if (here.buffer() != x.buffer() && here.dtype() == dtype) return here;
  return astype_method(here, dtype, "K", "unsafe", true, copy);
}

NdArray astype_method(const NdArray& a, DType dtype, std::string_view order, std::string_view casting, bool /*subok*/,
                      bool copy) {
  const Order wanted = parse_order(order);
  check_cast(a.dtype(), dtype, parse_casting(casting));
  const bool in_place = wanted == Order::K || wanted == Order::A || (wanted == Order::C && a.is_contiguous()) ||
                        (wanted == Order::F && is_fortran_contiguous(a));
  if (!copy && dtype == a.dtype() && in_place) return a;
  NdArray result = new_array(a.shape(), dtype, wanted, context_for(a.device()), &a);
  write_into(result, a);
  return result;
}

NdArray view(const NdArray& a, std::optional<DType> dtype) {
  const DType wanted = dtype.value_or(a.dtype());
  const int64_t from = a.itemsize(), to = local::itemsize(wanted);
  Dims shape = a.shape(), strides = a.strides();
  if (from != to) {
    if (a.ndim() == 0)
      throw InvalidArgument("Changing the dtype of a 0d array is only supported if the itemsize is unchanged");
    const int last = a.ndim() - 1;
    if (strides[last] != from && shape[last] != 1 && a.size() > 0) {
      throw InvalidArgument(
          "To change to a dtype of a different size, the last axis must be contiguous: its stride is " +
          std::to_string(strides[last]));
    }
    const int64_t bytes = shape[last] * from;
    if (bytes % to != 0) {
      throw InvalidArgument(
          fmt::format("When changing to a larger dtype, its size must be a divisor of the total size in bytes of the "
                      "last axis of the array: {} and {}",
                      to, bytes));
    }
    shape[last] = bytes / to;
    strides[last] = to;
  }
  a.raw();
  return a.restrided(shape, strides, a.offset(), wanted);
}

NdArray getfield(const NdArray& a, DType dtype, int64_t offset) {
  const int64_t size = local::itemsize(dtype);
  if (offset < 0 || offset + size > a.itemsize())
    throw InvalidArgument(fmt::format("Need {} <= offset <= {} for requested type but received offset = {}", 0,
                                      a.itemsize() - size, offset));
  if (offset % std::min<int64_t>(size, 8) != 0)
    throw InvalidArgument(fmt::format("a field of {} cannot begin at byte {}", name(dtype), offset));
  a.raw();
  return a.restrided(a.shape(), a.strides(), a.offset() + offset, dtype);
}
void setfield(const NdArray& a, const Arg& val, DType dtype, int64_t offset) {
  set(getfield(a, dtype, offset), {Ellipsis{}}, val);
}

NdArray to_device(const NdArray& a, Device device) { return a.to(device); }

NdArray byteswap(const NdArray& a, bool inplace) {
  const ExecContext context = context_for(a.device());
  NdArray result = inplace ? a : new_array(a.shape(), a.dtype(), Order::C, context);
  Program program;
  program.output(program.input(a.dtype(), /*swapped=*/true));
  const NdArray *in[] = {&a}, *out[] = {&result};
  run_elementwise(program, in, out, context);
  return result;
}

}  // namespace quarry::local::ops
