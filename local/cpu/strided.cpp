#include "quarry/local/cpu/strided.h"

#include <cstring>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/words.h"

namespace quarry::local::cpu {
namespace {

// A block of a transposition whose rows and columns are whole cache lines, each read and written once.
template <class T>
void transpose_block(char* to, int64_t to_row, const char* from, int64_t from_column) {
  constexpr int64_t kEdge = 64 / static_cast<int64_t>(sizeof(T));
  T block[kEdge][kEdge];
  for (int64_t c = 0; c < kEdge; ++c) std::memcpy(block[c], from + c * from_column, sizeof block[c]);
  for (int64_t r = 0; r < kEdge; ++r) {
    T line[kEdge];
    for (int64_t c = 0; c < kEdge; ++c) line[c] = block[c][r];
    std::memcpy(to + r * to_row, line, sizeof line);
  }
}

template <class T>
void copy_strided(char* to, int64_t to_row, int64_t to_column, const char* from, int64_t from_row, int64_t from_column,
                  int64_t rows, int64_t columns) {
  constexpr int64_t size = sizeof(T);
  const auto load = [](const char* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  const auto store = [](char* p, T v) { std::memcpy(p, &v, sizeof v); };
  // Rows that follow each other on both sides are one row.
  if (from_row == columns * from_column && to_row == columns * to_column) {
    columns *= rows;
    rows = 1;
  }
  constexpr int64_t kShortRow = 8;  // below, walking along the rows costs more than their elements
  const bool is_short = columns < kShortRow && columns < rows;
  if (from_column == size && to_column == size && !is_short) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(to + r * to_row, from + r * from_row, static_cast<size_t>(columns) * sizeof(T));
    return;
  }
  if (from_column == 0 && to_column == size && !is_short) {
    for (int64_t r = 0; r < rows; ++r) {
      const T v = load(from + r * from_row);
      char* p = to + r * to_row;
      for (int64_t c = 0; c < columns; ++c) store(p + c * size, v);
    }
    return;
  }
  constexpr int64_t kLane = 2 * size;  // every second element: a step that the compiler knows makes vectors
  if (from_column == kLane && to_column == size && !is_short) {
    for (int64_t r = 0; r < rows; ++r) {
      const char* p = from + r * from_row;
      char* q = to + r * to_row;
#pragma GCC ivdep
      for (int64_t c = 0; c < columns; ++c) store(q + c * size, load(p + c * kLane));
    }
    return;
  }
  constexpr int64_t kEdge = 64 / size;
  if (from_row == size && to_column == size && rows >= kEdge && columns >= kEdge) {
    const int64_t whole_rows = rows / kEdge * kEdge, whole_columns = columns / kEdge * kEdge;
    const auto block = [&](int64_t r, int64_t c) {
      transpose_block<T>(to + r * to_row + c * size, to_row, from + r * size + c * from_column, from_column);
    };
    // Along the shorter side first: fewer pages are in use at a time.
    if (whole_rows < whole_columns) {
      for (int64_t c = 0; c < whole_columns; c += kEdge)
        for (int64_t r = 0; r < whole_rows; r += kEdge) block(r, c);
    } else {
      for (int64_t r = 0; r < whole_rows; r += kEdge)
        for (int64_t c = 0; c < whole_columns; c += kEdge) block(r, c);
    }
    // Neither edge has room for a block.
    copy_strided<T>(to + whole_columns * size, to_row, size, from + whole_columns * from_column, size, from_column,
                    rows, columns - whole_columns);
    copy_strided<T>(to + whole_rows * to_row, to_row, size, from + whole_rows * size, size, from_column,
                    rows - whole_rows, whole_columns);
    return;
  }
  const auto magnitude = [](int64_t x) { return x < 0 ? -x : x; };
  // Walk along the side with the smaller steps.
  const bool down = rows > 1 && (is_short || from_row == size || (to_row == size && from_column != size) ||
                                 (magnitude(from_row) < magnitude(from_column) && to_column != size));
  if (!down) {
    for (int64_t r = 0; r < rows; ++r) {
      const char* p = from + r * from_row;
      char* q = to + r * to_row;
      for (int64_t c = 0; c < columns; ++c) store(q + c * to_column, load(p + c * from_column));
    }
  } else {
    for (int64_t c = 0; c < columns; ++c) {
      const char* p = from + c * from_column;
      char* q = to + c * to_column;
      for (int64_t r = 0; r < rows; ++r) store(q + r * to_row, load(p + r * from_row));
    }
  }
}

}  // namespace

void AxisGroup::push_back(int64_t extent, int64_t stride) {
  if (extent == 1) return;
  if (!axes_.empty() && axes_.back().stride == stride * extent) {
    axes_.back().extent *= extent;
    axes_.back().stride = stride;
  } else {
    axes_.push_back({extent, stride});
  }
}

AxisGroup::Run AxisGroup::run(int64_t begin, int64_t count) const {
  if (axes_.empty()) return {0, 0, count};
  if (axes_.size() == 1) return {begin * axes_[0].stride, axes_[0].stride, count};
  int64_t offset = 0, rest = begin, position = 0;
  for (size_t i = axes_.size(); i-- > 0;) {
    const int64_t at = i == 0 ? rest : rest % axes_[i].extent;
    if (i == axes_.size() - 1) position = at;
    rest = i == 0 ? 0 : rest / axes_[i].extent;
    offset += at * axes_[i].stride;
  }
  const int64_t left = axes_.back().extent - position;
  return {offset, axes_.back().stride, left < count ? left : count};
}

void copy_2d(char* to, int64_t to_row, int64_t to_column, const char* from, int64_t from_row, int64_t from_column,
             int64_t rows, int64_t columns, int64_t itemsize) {
  switch (itemsize) {
    case 1:
      return copy_strided<uint8_t>(to, to_row, to_column, from, from_row, from_column, rows, columns);
    case 2:
      return copy_strided<uint16_t>(to, to_row, to_column, from, from_row, from_column, rows, columns);
    case 4:
      return copy_strided<uint32_t>(to, to_row, to_column, from, from_row, from_column, rows, columns);
    case 8:
      return copy_strided<uint64_t>(to, to_row, to_column, from, from_row, from_column, rows, columns);
    case 16:
      return copy_strided<Bytes16>(to, to_row, to_column, from, from_row, from_column, rows, columns);
    default:
      QUARRY_CHECK(false);
  }
}

}  // namespace quarry::local::cpu
