// Arrays whose values are their own positions, and grids that cut them at random.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/base/detail.h"

namespace quarry::testing {

// In C order.
inline Array numbers(const Dims& shape) {
  Array sum = quarry::full({}, 0.0);
  const Dims strides = local::contiguous_strides(shape, 1);
  for (int d = 0; d < shape.size(); ++d) {
    Dims along = Dims::filled(shape.size(), 1);
    along[d] = shape[d];
    sum = sum + reshape(quarry::arange(shape[d], DType::float64), along) * static_cast<double>(strides[d]);
  }
  return sum;
}

// Random shapes in up to five axes, cuts and orders of axes.
class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  // About 64 Ki elements, seldom none.
  Dims shape() {
    const auto ndim = static_cast<int>(pick(1, 5));
    const double side = std::pow(65536.0, 1.0 / ndim);
    Dims shape;
    for (int d = 0; d < ndim; ++d) {
      const double factor = std::exp2(static_cast<double>(pick(-10, 10)) / 10);
      shape.push_back(pick(0, 40) == 0 ? pick(0, 1) : static_cast<int64_t>(side * factor));
    }
    return shape;
  }
  // At most about 1000 chunks.
  Grid grid(const Dims& shape) {
    for (;;) {
      std::vector<AxisChunks> axes;
      for (const int64_t extent : shape) {
        std::vector<int64_t> extents;
        for (int64_t left = extent; left > 0; left -= extents.back())
          extents.push_back(pick(0, 3) == 0 ? 1 : std::min(left, pick(1, extent)));
        switch (pick(0, 3)) {
          case 0:
            axes.emplace_back(extent, std::max<int64_t>(extent, 1));
            break;
          case 1:
            axes.emplace_back(extents);
            break;
          default:
            axes.emplace_back(extent, pick(1, std::max<int64_t>(extent / 2, 1)));
        }
      }
      Grid grid(std::move(axes));
      if (grid.count() <= 1000 && (grid.count() > 8 || local::element_count(shape) < 100)) return grid;
    }
  }
  std::vector<int64_t> order(int ndim) {
    std::vector<int64_t> axes(static_cast<size_t>(ndim));
    std::iota(axes.begin(), axes.end(), 0);
    std::ranges::shuffle(axes, random_);
    return axes;
  }

 private:
  std::mt19937 random_;
};

}  // namespace quarry::testing
