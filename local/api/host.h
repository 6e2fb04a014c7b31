// The elements of an array in host memory, with C++ types: ranges and multidimensional access.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::local {

// rank axes of T in host memory, addressed as std::mdspan does: v(i, j), v.extent(0). Keeps the memory alive. A view of
// an array on the CPU reads and writes its memory; of another device's array it is a copy.
template <class T, int rank>
class HostView {
 public:
  explicit HostView(const NdArray& array) : array_(array.to(kCpu)) {
    if (array.ndim() != rank)
      throw InvalidArgument("an array of " + std::to_string(array.ndim()) + " axes is no view of " +
                            std::to_string(rank));
    data_ = array_.template data<T>();
    for (int d = 0; d < rank; ++d) {
      extents_[static_cast<size_t>(d)] = array_.shape()[d];
      strides_[static_cast<size_t>(d)] = array_.strides()[d];
    }
  }
  // Not checked.
  template <std::integral... Positions>
  requires(sizeof...(Positions) == rank) T& operator()(Positions... positions) const {
    size_t d = 0;
    int64_t offset = 0;
    ((offset += static_cast<int64_t>(positions) * strides_[d++]), ...);
    return *reinterpret_cast<T*>(reinterpret_cast<std::byte*>(data_) + offset);
  }
  int64_t extent(int axis) const { return extents_[static_cast<size_t>(axis)]; }
  int64_t stride_bytes(int axis) const { return strides_[static_cast<size_t>(axis)]; }
  int64_t size() const { return array_.size(); }

 private:
  NdArray array_;
  T* data_ = nullptr;
  std::array<int64_t, rank> extents_{}, strides_{};
};

// auto v = host<double, 2>(x); v(i, j). Throws TypeError unless T is the array's dtype, InvalidArgument for another
// number of axes. Waits for the array.
template <class T, int rank>
HostView<T, rank> host(const NdArray& array) {
  return HostView<T, rank>(array);
}

// The elements in C order: for (double value : values<double>(x)). Converts as astype() does. Waits for the array.
template <class T>
std::vector<T> values(const NdArray& array) {
  return to_vector<T>(array.dtype() == dtype_of_v<T> ? array : array.astype(dtype_of_v<T>));
}

}  // namespace quarry::local
