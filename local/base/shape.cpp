#include "quarry/local/base/shape.h"

#include <fmt/format.h>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::local {

void Dims::resize_in_heap(int size, int64_t value) {
  if (size > kMaxDims) throw InvalidArgument(fmt::format("an array has at most {} dimensions, not {}", kMaxDims, size));
  QUARRY_CHECK(size >= 0);
  if (size > kInline && !heap_) {
    heap_ = std::make_unique<int64_t[]>(kMaxDims);
    std::ranges::copy(inline_, heap_.get());
  }
  int64_t* values = data();
  for (int i = size_; i < size; ++i) values[i] = value;
  size_ = size;
}

void Dims::insert(int position, int64_t value) {
  QUARRY_CHECK(position >= 0 && position <= size_);
  resize(size_ + 1);
  std::copy_backward(begin() + position, end() - 1, end());
  data()[position] = value;
}

void Dims::erase(int position) {
  QUARRY_CHECK(position >= 0 && position < size_);
  std::copy(begin() + position + 1, end(), begin() + position);
  resize(size_ - 1);
}

int64_t detail::element_count(const Dims& shape) {
  int64_t count = 1;
  bool overflow = false;
  for (int64_t extent : shape) {
    if (extent == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(count, extent, &count);
  }
  if (overflow)
    throw InvalidArgument(fmt::format("the shape {} has more elements than 64 bits can count", to_string(shape)));
  return count;
}

Dims detail::contiguous_strides(const Dims& shape, int64_t itemsize) {
  Dims strides = Dims::filled(shape.size());
  // Unsigned: an array without elements may have extents whose product does not fit; its strides mean nothing.
  uint64_t step = static_cast<uint64_t>(itemsize);
  for (int d = shape.size() - 1; d >= 0; --d) {
    strides[d] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(std::max<int64_t>(shape[d], 1));
  }
  return strides;
}

Dims broadcast_shapes(std::span<const Dims> shapes) {
  int ndim = 0;
  for (const Dims& shape : shapes) ndim = std::max(ndim, shape.size());
  Dims result = Dims::filled(ndim, 1);
  for (const Dims& shape : shapes) {
    const int shift = ndim - shape.size();
    for (int d = 0; d < shape.size(); ++d) {
      int64_t& extent = result[d + shift];
      if (shape[d] == extent || shape[d] == 1) continue;
      if (extent != 1) {
        std::string list;
        for (const Dims& s : shapes) list += (list.empty() ? "" : " ") + to_string(s);
        throw InvalidArgument(fmt::format("operands could not be broadcast together with shapes {}", list));
      }
      extent = shape[d];
    }
  }
  return result;
}

Dims broadcast_shapes(const Dims& a, const Dims& b) {
  const Dims both[] = {a, b};
  return broadcast_shapes(both);
}

int detail::normalize_axis(int64_t axis, int ndim) {
  if (axis < -ndim || axis >= ndim)
    throw IndexError(fmt::format("axis {} is out of bounds for array of dimension {}", axis, ndim));
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

std::string to_string(const Dims& dims) {
  std::string text = "(";
  for (int i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + (dims.size() == 1 ? ",)" : ")");
}

std::string detail::compact_shape(const Dims& shape) {
  std::string text = to_string(shape);
  std::erase(text, ' ');
  return text;
}

Region Region::whole(const Dims& shape) { return box(Dims::filled(shape.size(), 0), shape); }

Region Region::box(const Dims& start, const Dims& count) { return {start, count, Dims::filled(count.size(), 1)}; }

bool Region::contiguous_steps() const {
  return std::all_of(step.begin(), step.end(), [](int64_t s) { return s == 1; });
}

}  // namespace quarry::local
