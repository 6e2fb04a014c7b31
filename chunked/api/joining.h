// Joining and splitting. Parts of a split are views; a joined array keeps the chunks of its parts. Lazy.
#pragma once

#include <array>
#include <vector>

#include "quarry/chunked/api/manipulation.h"

namespace quarry {

// The nested lists of block(): an array, or a list of such.
class Blocks {
 public:
  Blocks(const Array& array) : array_(array) {}
  Blocks(std::initializer_list<Blocks> list) : list_(list), is_list_(true) {}
  Blocks(std::vector<Blocks> list) : list_(std::move(list)), is_list_(true) {}
  bool is_list() const { return is_list_; }
  const Array& array() const { return array_; }
  const std::vector<Blocks>& list() const { return list_; }

 private:
  Array array_;
  std::vector<Blocks> list_;
  bool is_list_ = false;
};

// concatenate(); without an axis of the raveled arrays.
Array concat(const std::vector<Array>& arrays, std::optional<int64_t> axis = 0);
Array vstack(const std::vector<Array>& tup);
Array hstack(const std::vector<Array>& tup);
Array dstack(const std::vector<Array>& tup);
Array column_stack(const std::vector<Array>& tup);
// The innermost lists are joined along the last axis, the lists around them along the one before, and so on. Throws
// InvalidArgument for empty lists, lists of different depths and shapes that do not fit.
Array block(const Blocks& arrays);
// The arrays side by side as block() joins them, each as chunks of its own.
Array from_blocks(const Blocks& arrays);
// Without an axis both are raveled.
Array append(const Array& arr, const Array& values, std::optional<int64_t> axis = std::nullopt);

// Into that many parts, or before the positions given. Only array_split() takes parts of different lengths; the others
// throw InvalidArgument.
std::vector<Array> array_split(const Array& ary, const Ints& indices_or_sections, int64_t axis = 0);
std::vector<Array> split(const Array& ary, const Ints& indices_or_sections, int64_t axis = 0);
std::vector<Array> hsplit(const Array& ary, const Ints& indices_or_sections);
std::vector<Array> vsplit(const Array& ary, const Ints& indices_or_sections);
std::vector<Array> dsplit(const Array& ary, const Ints& indices_or_sections);
std::vector<Array> unstack(const Array& x, int64_t axis = 0);

std::vector<Array> broadcast_arrays(const std::vector<Array>& args);
// auto [x, y] = broadcast_arrays(a, b)
template <class... Arrays>
requires(std::is_convertible_v<const Arrays&, Array>&&...) std::array<Array, sizeof...(Arrays)> broadcast_arrays(
    const Arrays&... args) {
  const std::vector<Array> views = broadcast_arrays(std::vector<Array>{Array(args)...});
  std::array<Array, sizeof...(Arrays)> result;
  std::copy(views.begin(), views.end(), result.begin());
  return result;
}

}  // namespace quarry
