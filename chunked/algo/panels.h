// The order in which a factorisation by columns runs: of tiles, or of panels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quarry/chunked/tiles/program.h"

namespace quarry::algo {

// `factored` of `count` columns are factored in turn, factor(k), and applied to each later one, apply(k, j). `at_once`
// columns are a group: all columns before it are applied to it, then its own in turn, right-looking, where column k + 1
// is factored before column k is applied to the others (look-ahead). With one group that is the right-looking form;
// with several each group is brought into memory once, and what is before it is read once for the group (left-looking,
// for matrices beyond memory). Column j meets the same tasks in the same order either way, so bits are equal. Each
// column that has been applied is a step of the program.
template <class Factor, class Apply>
void factor_columns(tiles::Program& program, int64_t count, int64_t factored, int64_t at_once, const Factor& factor,
                    const Apply& apply) {
  for (int64_t first = 0; first < count; first += at_once) {
    const int64_t last = std::min(first + at_once, count);
    for (int64_t k = 0; k < std::min(first, factored); ++k)
      for (int64_t j = first; j < last; ++j) apply(k, j);
    if (first < factored) factor(first);
    for (int64_t k = first; k < std::min(last, factored); ++k) {
      if (k + 1 < last) apply(k, k + 1);
      if (k + 1 < std::min(last, factored)) factor(k + 1);
      for (int64_t j = k + 2; j < last; ++j) apply(k, j);
      program.step();
    }
  }
}

}  // namespace quarry::algo
