// Divide and conquer for symmetric tridiagonal matrices (Cuppen 1981; Gu and Eisenstat 1995): what the host decides.
//
// n is halved `levels` times. Every cut takes |e| from both diagonal elements beside it, and leaves two smaller
// matrices and |e| v v^T, v = (0 .. 0, 1, sign(e), 0 .. 0). Merging two neighbours with eigenvectors Q1 and Q2 is the
// problem of local/cuda/eigh/secular.h, D their values and z = (Q1 0; 0 Q2)^T v, times (Q1 0; 0 Q2). Where an element
// of z is negligible, or may be rotated away because two values are nearly equal, value and vector stay as they are
// (deflation). The rest are permuted to columns with elements above the cut alone, in both halves and below alone,
// which saves half of the product. All merges of a level are planned together. Host code, without CUDA.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "quarry/local/cuda/eigh/device_function.h"
#include "quarry/local/cuda/eigh/leaf.h"

namespace quarry::local::cuda::eigh {

// At level l there are 2^l parts: rows and columns [part_begin(l, p), part_begin(l, p + 1)).
QUARRY_EIGH_FUNCTION int32_t part_begin(int64_t n, int level, int64_t part) {
  return static_cast<int32_t>((n * part) >> level);
}
QUARRY_EIGH_FUNCTION int32_t part_of(int64_t n, int level, int64_t column) {
  return static_cast<int32_t>((((column + 1) << level) - 1) / n);
}
// The row of a column's element in z, where parts of `level` are merged of those below: beside the cut.
QUARRY_EIGH_FUNCTION int32_t coupled_row(int64_t n, int level, int64_t column) {
  const int64_t part = part_of(n, level + 1, column);
  return part % 2 == 0 ? part_begin(n, level + 1, part + 1) - 1 : part_begin(n, level + 1, part);
}
// Of the leaves.
inline int level_count(int64_t n) {
  int level = 0;
  while (((n - 1) >> level) + 1 > kMostLeaf) ++level;
  return level;
}

// Multiplies by 2^-exponent, so that the largest element is in [1/2, 1): exact but for what underflows.
struct Scaling {
  bool is_finite;
  int exponent;
};
inline Scaling scale(std::vector<double>& d, std::vector<double>& e) {
  double largest = 0;
  bool is_finite = true;
  for (const auto* elements : {&d, &e}) {
    for (const double x : *elements) {
      is_finite = is_finite && std::isfinite(x);
      largest = std::max(largest, std::fabs(x));
    }
  }
  Scaling scaling{is_finite, 0};
  if (!is_finite) return scaling;
  std::frexp(largest, &scaling.exponent);
  for (auto* elements : {&d, &e})
    for (double& x : *elements) x = std::ldexp(x, -scaling.exponent);
  return scaling;
}

struct Merge {
  int32_t begin, cut, end;     // columns, and rows, of the matrix
  int32_t above, both, below;  // columns that take part, by where they have elements
  double rho;
  QUARRY_EIGH_FUNCTION int32_t kept() const { return above + both + below; }
};
// A product of a merge: the rows of its vectors above or below the cut, of the permuted columns that have elements
// there, times the same rows of the secular equation's vectors.
struct Half {
  int32_t first_row, last_row, first, last;
};
QUARRY_EIGH_FUNCTION Half half_of(const Merge& merge, bool is_lower) {
  if (is_lower) return {merge.cut, merge.end, merge.begin + merge.above, merge.begin + merge.kept()};
  return {merge.begin, merge.cut, merge.begin, merge.begin + merge.above + merge.both};
}
// Columns (x, y) become (c x - s y, s x + c y).
struct Rotation {
  int32_t x, y;
  double cosine, sine;
};

// The merges of a level. Arrays of n have the parts behind one another; rows and sources count from a part's begin.
struct MergePlan {
  std::vector<Merge> merges;
  std::vector<double> poles, weights;  // of a part's first kept() elements, ascending
  std::vector<int32_t> rows;           // of a pole: its place among the columns that take part, by kind
  std::vector<int32_t> sources;        // of a column in that order, and of those that stay, by value, behind them
  std::vector<Rotation> rotations;     // before columns are permuted
  std::vector<int32_t> chains;         // where rotations begin that follow from the one before; their count last
};

class Merges {
 public:
  // Off-diagonal elements of a matrix whose largest element is in [1/2, 1).
  explicit Merges(std::vector<double> e)
      : n_(static_cast<int64_t>(e.size()) + 1),
        e_(std::move(e)),
        values_(e_.size() + 1),
        order_(values_.size()),
        kinds_(values_.size()) {}

  int64_t n() const { return n_; }
  // What the cuts leave of the diagonal.
  void cut(std::vector<double>& d) const {
    const int levels = level_count(n_);
    for (int64_t part = 1; part < int64_t{1} << levels; ++part) {
      const auto at = static_cast<size_t>(part_begin(n_, levels, part));
      d[at - 1] -= std::fabs(e_[at - 1]);
      d[at] -= std::fabs(e_[at - 1]);
    }
  }
  // Values of the leaves' columns.
  void take_leaves(const double* values) {
    std::copy_n(values, n_, values_.begin());
    std::iota(order_.begin(), order_.end(), 0);
    const int levels = level_count(n_);
    for (int64_t part = 0; part < int64_t{1} << levels; ++part) {
      std::stable_sort(order_.begin() + part_begin(n_, levels, part), order_.begin() + part_begin(n_, levels, part + 1),
                       [&](int32_t a, int32_t b) { return value(a) < value(b); });
    }
  }
  // The merges that make the parts of `level` of those of the level below, by the elements of z (without the signs of
  // e) of all columns.
  const MergePlan& plan(int level, const double* z) {
    const auto size = static_cast<size_t>(n_);
    plan_.merges.clear();
    plan_.rotations.clear();
    plan_.chains.clear();
    plan_.poles.assign(size, 0);
    plan_.weights.assign(size, 0);
    plan_.rows.assign(size, 0);
    plan_.sources.assign(size, 0);
    for (int64_t part = 0; part < int64_t{1} << level; ++part) {
      plan_merge(part_begin(n_, level, part), part_begin(n_, level + 1, 2 * part + 1), part_begin(n_, level, part + 1),
                 z);
    }
    plan_.chains.push_back(static_cast<int32_t>(plan_.rotations.size()));
    return plan_;
  }
  // The zeros of the last plan's merges: of each part the first kept() elements.
  void take_zeros(const double* zeros) {
    for (const Merge& merge : plan_.merges) {
      const int32_t stay = merge.begin + merge.kept();
      std::copy(zeros + merge.begin, zeros + stay, values_.begin() + merge.begin);
      // Both sequences ascend.
      columns_.resize(static_cast<size_t>(merge.end - merge.begin));
      std::iota(columns_.begin(), columns_.end(), merge.begin);
      const auto middle = columns_.begin() + merge.kept();
      std::merge(columns_.begin(), middle, middle, columns_.end(), order_.begin() + merge.begin,
                 [&](int32_t a, int32_t b) { return value(a) < value(b); });
    }
  }
  // Columns in the order of their values, by parts.
  const std::vector<int32_t>& order() const { return order_; }
  double value(int32_t column) const { return values_[static_cast<size_t>(column)]; }

 private:
  enum Kind : uint8_t { above, both, below };

  void stay(int32_t column) { staying_.emplace_back(value(column), column); }

  void plan_merge(int32_t begin, int32_t cut, int32_t end, const double* z) {
    columns_.resize(static_cast<size_t>(end - begin));
    std::merge(order_.begin() + begin, order_.begin() + cut, order_.begin() + cut, order_.begin() + end,
               columns_.begin(), [&](int32_t a, int32_t b) { return value(a) < value(b); });
    const double e = e_[static_cast<size_t>(cut - 1)];
    double squares = 0, largest = 0;
    for (int32_t j = begin; j < end; ++j) {
      squares += z[j] * z[j];
      largest = std::max(largest, std::fabs(value(j)));
      kinds_[static_cast<size_t>(j)] = j < cut ? above : below;
    }
    const double length = std::sqrt(squares), rho = std::fabs(e) * squares;
    const double upper_factor = 1 / length, lower_factor = std::copysign(upper_factor, e);
    // Below kNothing squares of squares would underflow.
    constexpr double kNothing = 0x1p-200, kPlace = std::numeric_limits<double>::epsilon();
    const double tolerance = std::max(4 * kPlace * std::max(largest, rho), kNothing);

    kept_.clear();
    staying_.clear();
    int32_t candidate = -1, turned = -1;
    double candidate_weight = 0;
    for (const int32_t column : columns_) {
      double weight = z[column] * (column < cut ? upper_factor : lower_factor);
      if (!(rho * std::fabs(weight) > tolerance)) {
        stay(column);
        continue;
      }
      if (candidate >= 0) {
        const double both_weights = std::hypot(candidate_weight, weight);
        const double c = weight / both_weights, s = candidate_weight / both_weights;
        double& low = values_[static_cast<size_t>(candidate)];
        double& high = values_[static_cast<size_t>(column)];
        if (std::fabs((high - low) * c * s) <= tolerance) {
          if (turned != candidate) plan_.chains.push_back(static_cast<int32_t>(plan_.rotations.size()));
          plan_.rotations.push_back({candidate, column, c, s});
          turned = column;
          const double first = c * c * low + s * s * high, second = s * s * low + c * c * high;
          low = first;
          high = second;
          weight = both_weights;
          if (kind(candidate) != kind(column)) kinds_[static_cast<size_t>(column)] = both;
          stay(candidate);
        } else {
          kept_.push_back({candidate, candidate_weight});
        }
      }
      candidate = column;
      candidate_weight = weight;
    }
    if (candidate >= 0) kept_.push_back({candidate, candidate_weight});

    Merge merge{begin, cut, end, 0, 0, 0, rho};
    for (const auto& [column, weight] : kept_) {
      (kind(column) == above ? merge.above : kind(column) == both ? merge.both : merge.below) += 1;
    }
    int32_t places[] = {0, merge.above, merge.above + merge.both};
    int32_t at = begin;
    for (const auto& [column, weight] : kept_) {
      const int32_t row = places[kind(column)]++;
      const auto i = static_cast<size_t>(at++);
      plan_.poles[i] = value(column);
      plan_.weights[i] = weight;
      plan_.rows[i] = row;
      plan_.sources[static_cast<size_t>(begin) + static_cast<size_t>(row)] = column - begin;
    }
    std::sort(staying_.begin(), staying_.end());
    for (const auto& [staying_value, column] : staying_) plan_.sources[static_cast<size_t>(at++)] = column - begin;
    at = begin + merge.kept();
    for (const auto& [staying_value, column] : staying_) values_[static_cast<size_t>(at++)] = staying_value;
    plan_.merges.push_back(merge);
  }
  Kind kind(int32_t column) const { return kinds_[static_cast<size_t>(column)]; }

  const int64_t n_;
  const std::vector<double> e_;
  std::vector<double> values_;  // of columns
  std::vector<int32_t> order_;
  std::vector<Kind> kinds_;
  MergePlan plan_;
  // Of one merge.
  std::vector<int32_t> columns_;
  std::vector<std::pair<int32_t, double>> kept_;     // columns and weights
  std::vector<std::pair<double, int32_t>> staying_;  // values and columns
};

// Merges leaves until one part is left. `device` has
//   leaves()            the leaves' values and vectors, in columns of a matrix that is 0 elsewhere;
//   read(level)         what read() gives is on the host: values() of the last leaves or merges, and z() of the merges
//                       that make the parts of `level`, where that is not negative;
//   merge(level, plan)  products and values of the merges.
template <class Device>
void divide_and_conquer(Merges& merges, Device& device) {
  device.leaves();
  const int levels = level_count(merges.n());
  for (int level = levels - 1;; --level) {
    device.read(level);
    if (level == levels - 1)
      merges.take_leaves(device.values());
    else
      merges.take_zeros(device.values());
    if (level < 0) return;
    device.merge(level, merges.plan(level, device.z()));
  }
}

}  // namespace quarry::local::cuda::eigh
