// Printing from the corners alone gives what printing the whole array gives.
#include <gtest/gtest.h>

#include "quarry/local/base/detail.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::apps {
namespace {

using local::Dims;
using local::DType;
using local::IndexItem;
using local::NdArray;
using local::Slice;

NdArray counting(const Dims& shape, DType dtype) {
  std::vector<double> values(static_cast<size_t>(local::element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) * 1.25 - 7;
  return local::from_vector(values, shape).astype(dtype);
}

// The first and last 3 positions of every axis longer than 6.
NdArray corners(const NdArray& array) {
  NdArray part = array;
  for (int axis = 0; axis < array.ndim(); ++axis) {
    if (array.shape(axis) <= 6) continue;
    Dims shape = part.shape();
    shape[axis] = 6;
    NdArray joined(shape, array.dtype());
    std::vector<IndexItem> from(static_cast<size_t>(axis), local::full_slice), into = from;
    from.emplace_back(Slice{{}, 3, {}});
    into.emplace_back(Slice{{}, 3, {}});
    joined[std::span<const IndexItem>(into)].assign(part[std::span<const IndexItem>(from)]);
    from.back() = Slice{-3, {}, {}};
    into.back() = Slice{3, {}, {}};
    joined[std::span<const IndexItem>(into)].assign(part[std::span<const IndexItem>(from)]);
    part = joined;
  }
  return part;
}

TEST(Summary, NeedsTheCornersOnly) {
  for (const Dims& shape :
       {Dims{1001}, Dims{7, 200}, Dims{2000, 3}, Dims{5, 6, 50}, Dims{1, 2000, 1}, Dims{20, 4, 30}}) {
    for (const DType dtype : {DType::float64, DType::int32, DType::float32, DType::bool_, DType::complex128}) {
      const NdArray array = counting(shape, dtype);
      EXPECT_EQ(local::summary_string(corners(array), shape), array.to_string());
      EXPECT_EQ(local::summary_repr(corners(array), shape), array.repr());
    }
  }
}

}  // namespace
}  // namespace quarry::apps
