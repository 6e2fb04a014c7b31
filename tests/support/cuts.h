// Local arrays as chunked ones with chunks of every kind.
#pragma once

#include <random>
#include <vector>

#include "quarry/chunked/api/array.h"

namespace quarry::testing {

// With random uneven chunks.
inline Array cut(const local::NdArray& array, std::mt19937& random) {
  std::vector<AxisChunks> axes;
  for (const int64_t extent : array.shape()) {
    std::vector<int64_t> extents;
    for (int64_t left = extent; left > 0; left -= extents.back())
      extents.push_back(1 + static_cast<int64_t>(random() % static_cast<size_t>(left)));
    axes.push_back(extent == 0 ? AxisChunks(0, 1) : AxisChunks(extents));
  }
  return Array::from_local(array).rechunk(Grid(std::move(axes)));
}

// One chunk, chunks of one element, and two random cuts.
inline std::vector<Array> cuts(const local::NdArray& array, std::mt19937& random) {
  const Array whole = Array::from_local(array);
  return {whole, whole.rechunk(Dims::filled(array.ndim(), 1)), cut(array, random), cut(array, random)};
}

}  // namespace quarry::testing
