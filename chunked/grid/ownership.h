// Which rank owns which chunks of an array. A value: every Runtime has its own.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace quarry {

// Contiguous segments, aligned to the segments of the reduction tree. Owners decide who computes, never what: segments
// stay whole, so results do not depend on ranks or weights.
class Ownership {
 public:
  Ownership() = default;         // one rank
  explicit Ownership(int ranks)  // each as much as the others
      : ranks_(ranks) {}
  // How much of every array each rank owns, in any unit: for ranks of different speed. Throws InvalidArgument for
  // weights that are not positive or add up to more than 2^31.
  explicit Ownership(std::span<const int64_t> weights);

  int ranks() const { return ranks_; }
  // Of chunk `chunk` of `count`.
  int owner(int64_t chunk, int64_t count) const;
  // The chunks [first, last) that a rank owns.
  std::pair<int64_t, int64_t> owned(int rank, int64_t count) const;

 private:
  int64_t first_segment(int rank, int64_t segments) const;

  int ranks_ = 1;
  std::vector<int64_t> weight_sums_;  // of the weights before each rank, and of all; empty: equal weights
};

}  // namespace quarry
