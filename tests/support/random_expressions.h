// Random small graphs, seeded: elementwise operations, views, reductions, reshapes, concatenations and products over
// stored, generated and file arrays, with empty and 0-d ones among them.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/random.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "tests/support/memory_dataset.h"

namespace quarry::testing {

using local::Slice;

// Automatic chunks of about this size while it lives.
class SmallChunks {
 public:
  explicit SmallChunks(int64_t bytes) : policy_({local::DeviceKind::cpu, {}, bytes}) {}

 private:
  ChunkPolicyScope policy_;
};

class Expressions {
 public:
  explicit Expressions(uint64_t seed) : random_(seed) {}

  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  Array leaf() {
    const DType dtype = chance(0.5) ? DType::int64 : chance(0.8) ? DType::float64 : DType::float32;
    Dims shape;
    const int64_t ndim = chance(0.05) ? 0 : pick(1, 3);
    for (int64_t d = 0; d < ndim; ++d) shape.push_back(extents_[static_cast<size_t>(pick(0, 4))]);
    if (chance(0.04) && ndim > 0) shape[static_cast<int>(pick(0, ndim - 1))] = 0;
    const int64_t kind = pick(0, 9);
    if (kind == 0) return full(shape, pick(-3, 3), dtype);
    if (kind == 1) return arange(pick(1, 9));
    if (kind == 2) return eye(pick(1, 9), pick(1, 9), pick(-2, 2));
    if (kind == 3) return generator_.integers(-4, 5, local::Ints(shape));
    const int64_t count = local::element_count(shape);
    if (kind == 4) {
      std::vector<int64_t> values(static_cast<size_t>(count));
      for (int64_t& value : values) value = pick(-9, 9);
      return Array::from_local(local::from_bytes(values.data(), DType::int64, shape));
    }
    std::vector<std::byte> bytes(static_cast<size_t>(count * local::itemsize(dtype)));
    for (int64_t i = 0; i < count; ++i)
      Scalar(dtype == DType::int64 ? static_cast<double>(pick(-9, 9)) : static_cast<double>(pick(-16, 16)) / 8)
          .store(dtype, bytes.data() + i * local::itemsize(dtype));
    std::optional<Dims> chunks;
    if (chance(0.6)) {
      chunks.emplace();
      for (int64_t extent : shape) chunks->push_back(pick(1, std::max<int64_t>(extent, 1)));
    }
    const std::string name = "/x" + std::to_string(++leaves_);
    return Array(expr::source(std::make_shared<MemoryDataset>(name, shape, dtype, chunks, std::move(bytes))));
  }

  Array view(const Array& x) {
    std::vector<local::IndexItem> index;
    const bool dots = chance(0.2);
    const int64_t used = dots ? pick(0, x.ndim()) : x.ndim();
    for (int64_t d = 0; d < used; ++d) {
      if (chance(0.1)) index.push_back(local::newaxis);
      const int64_t extent = x.shape()[static_cast<int>(d)];
      if (extent > 0 && chance(0.12)) {
        index.push_back(pick(-extent, extent - 1));
        continue;
      }
      Slice slice;
      if (chance(0.5)) slice.start = pick(-extent - 1, extent + 1);
      if (chance(0.5)) slice.stop = pick(-extent - 1, extent + 1);
      if (chance(0.5)) slice.step = chance(0.5) ? pick(1, 3) : -pick(1, 3);
      index.push_back(slice);
    }
    if (dots) index.push_back(local::ellipsis);
    return x[std::span<const local::IndexItem>(index)];
  }

  Array step() {
    const Array x = any();
    switch (pick(0, 21)) {
      case 0:
      case 1:
        return x + any();
      case 2:
        return x * any();
      case 3:
        return maximum(x, any()) - 1;
      case 4:
        return local::is_integer(x.dtype()) ? x - 2 : sin(x) * 2;
      case 5:
      case 6:
        return view(x);
      case 7: {
        std::vector<int64_t> axes;
        for (int d = 0; d < x.ndim(); ++d) axes.push_back(d);
        std::shuffle(axes.begin(), axes.end(), random_);
        return axes.empty() ? x : x.transpose(axes);
      }
      case 8:
      case 9: {
        std::vector<int64_t> axes;
        for (int d = 0; d < x.ndim(); ++d)
          if (chance(0.5)) axes.push_back(d);
        const ReduceOptions options{.keepdims = chance(0.3)};
        const Axes over = chance(0.2) ? Axes() : Axes(axes);
        switch (pick(0, 5)) {
          case 0:
            return sum(x, over, options);
          case 1:
            return max(x, over, options);
          case 2:
            return mean(x, over, options);
          case 3:
            return std(x, over, options);
          case 4:
            return count_nonzero(x, over, options);
          default:
            return x.ndim() > 0 && local::is_integer(x.dtype())
                       ? argmax(x, chance(0.3) ? Axes() : Axes(pick(-x.ndim(), x.ndim() - 1)), options)
                       : sum(x * x, over, options);
        }
      }
      case 10:
        return reshape(x, chance(0.5) ? Dims{-1} : x.size() % 2 == 0 && x.size() > 0 ? Dims{-1, 2} : Dims{1, -1, 1});
      case 11:
        return x.ndim() > 0 ? concatenate({x, view_same(x), x}, pick(0, x.ndim() - 1)) : stack({x, x + 1});
      case 12:
        return stack({x, x * 3}, pick(0, x.ndim()));
      case 13: {
        Dims chunk;
        for (int64_t extent : x.shape()) chunk.push_back(chance(0.2) ? -1 : pick(1, std::max<int64_t>(extent, 1)));
        return x.rechunk(chunk);
      }
      case 14:
        return fold(x);
      case 15:
        return x.ndim() > 1 ? diagonal(x, pick(-3, 3), 0, pick(1, x.ndim() - 1)) : x;
      case 16:
        return x.ndim() > 0 ? map_blocks(
                                  [](const local::NdArray& chunk) {
                                    return local::apply("add"_op, {chunk, chunk});
                                  },
                                  x, {}, {.dtypes = {x.dtype()}, .identity = 8})
                            : x;
      case 17:
        return x.ndim() > 0 ? cumsum(x, pick(0, x.ndim() - 1)) : x;
      case 18:
        return x.ndim() > 0 && x.size() > 0 ? boolean_index(x, x > pick(-3, 3)) : x;
      case 19:
        return x.ndim() > 0 ? taken(x, static_cast<int>(pick(0, x.ndim() - 1))) : x;
      case 20:
        return x.ndim() > 0 ? matmul(x, chance(0.4) && x.ndim() == 2 ? x.T() : any()) : x;
      default:
        return where(x > 0, x, any());
    }
  }

  // Elements of an axis at random positions.
  Array taken(const Array& x, int axis) {
    const int64_t extent = x.shape()[axis];
    if (extent == 0) return x;
    std::vector<int64_t> positions;
    for (int64_t i = pick(1, 6); i > 0; --i) positions.push_back(pick(-extent, extent - 1));
    return take(x, local::from_vector(positions), axis);
  }

  // A fold of every chunk of random cuts.
  Array fold(const Array& x) {
    if (x.ndim() == 0) return x;
    std::vector<AxisChunks> cuts;
    for (const int64_t extent : x.shape()) cuts.emplace_back(extent, pick(1, std::max<int64_t>(extent, 1)));
    const auto axes = static_cast<uint32_t>(pick(1, (int64_t{1} << x.ndim()) - 1));
    const Grid grid(std::move(cuts));
    switch (pick(0, 2)) {
      case 0:
        return Array(expr::fold_chunks("sum"_reduction, x.node(), axes, grid));
      case 1:
        return Array(expr::fold_chunks("max"_reduction, x.node(), axes, grid));
      default:
        return Array(expr::fold_chunks("count_nonzero"_reduction, x.node(), axes, grid));
    }
  }

  // An array of the same shape.
  Array view_same(const Array& x) {
    std::vector<local::IndexItem> index(static_cast<size_t>(x.ndim()), Slice{std::nullopt, std::nullopt, -1});
    return x[std::span<const local::IndexItem>(index)];
  }

  Array any() {
    if (made_.empty() || chance(0.25)) return leaf();
    return made_[static_cast<size_t>(pick(0, static_cast<int64_t>(made_.size()) - 1))];
  }

  std::vector<Array> grow(int steps) {
    for (int i = 0; i < steps; ++i) {
      try {
        Array next = step();
        if (next.ndim() <= 5 && next.size() <= 4000) made_.push_back(next);
      } catch (const local::InvalidArgument&) {
        // Shapes that do not fit, empty extremes: as in NumPy.
      }
    }
    std::vector<Array> results;
    const int64_t count = pick(1, 4);
    for (int64_t i = 0; i < count && !made_.empty(); ++i)
      results.push_back(made_[made_.size() - 1 - static_cast<size_t>(pick(0, static_cast<int64_t>(made_.size()) / 2))]);
    return results;
  }

 private:
  std::mt19937_64 random_;
  random::Generator generator_{17};
  std::vector<Array> made_;
  int64_t extents_[5] = {1, 2, 3, 7, 12};
  int leaves_ = 0;
};

}  // namespace quarry::testing
