// Results of which only computing says how many they are: in room for as many as there may be.
#pragma once

#include <algorithm>
#include <vector>

#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/ops/manipulation/arrange.h"

namespace quarry::algo {

// The first rows, and zeros behind them.
inline local::NdArray with_room(const local::NdArray& rows, int64_t room) {
  local::Dims shape = rows.shape();
  const int64_t count = std::min(shape[0], room);
  if (shape[0] == room) return rows;
  shape[0] = room;
  local::NdArray result(shape, rows.dtype());
  local::arrange::part(result, 0, 0, count).assign(local::arrange::part(rows, 0, 0, count));
  local::arrange::part(result, 0, count, room - count).fill(0);
  return result;
}

// Results in room for so many, and how many they are.
inline std::vector<local::NdArray> as_states(std::vector<local::NdArray> results, int64_t room, int64_t count) {
  for (local::NdArray& result : results) result = with_room(result, room);
  const local::NdArray number({1}, local::DType::int64);
  number.fill(local::Scalar(count));
  results.push_back(number);
  return results;
}

}  // namespace quarry::algo
