// How a logical array is cut into chunks: closed form per axis.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quarry/local/base/shape.h"

namespace quarry {

using local::Dims;
using local::Region;

// One axis: equal chunks with a shorter last one, or explicit extents (as Dask's tuples).
class AxisChunks {
 public:
  AxisChunks() { hash_ = cuts_hash(); }
  AxisChunks(int64_t extent, int64_t chunk);                 // chunk >= 1; extent 0 has one empty chunk
  explicit AxisChunks(const std::vector<int64_t>& extents);  // stored regular where they are
  int64_t extent() const { return extent_; }
  int64_t count() const { return count_; }
  int64_t start(int64_t i) const;
  int64_t size(int64_t i) const { return start(i + 1) - start(i); }  // start(count()) == extent()
  int64_t find(int64_t position) const;                              // the chunk that holds it
  int64_t largest() const;
  // Of extent and cuts, all of them; the same on every rank. Computed once, when the axis is made.
  uint64_t hash() const { return hash_; }
  friend bool operator==(const AxisChunks&, const AxisChunks&) = default;

 private:
  uint64_t cuts_hash() const;

  int64_t extent_ = 0, chunk_ = 1, count_ = 1;
  uint64_t hash_ = 0;
  std::vector<int64_t> starts_;  // irregular: count() + 1 values; empty: regular
};

// The axes of a grid are shared by its copies.
class Grid {
 public:
  Grid() = default;  // 0-d: one chunk
  explicit Grid(std::vector<AxisChunks> axes);
  static Grid regular(const Dims& shape, const Dims& chunk);
  static Grid single(const Dims& shape) { return regular(shape, shape); }

  int ndim() const { return cuts_ ? static_cast<int>(cuts_->axes.size()) : 0; }
  const AxisChunks& axis(int d) const { return cuts_->axes[static_cast<size_t>(d)]; }
  const std::vector<AxisChunks>& axes() const { return cuts_ ? cuts_->axes : kNoAxes; }
  Dims shape() const;
  Dims counts() const;                                        // chunks along each axis
  int64_t count() const { return cuts_ ? cuts_->count : 1; }  // of all
  Dims coordinates(int64_t i) const;                          // C order
  int64_t flat(const Dims& coordinates) const;
  Region chunk(int64_t i) const;      // its box in the array
  Dims chunk_shape(int64_t i) const;  // the extents of that
  int64_t chunk_elements(int64_t i) const;
  bool same_shape(int64_t i, int64_t j) const;  // of two chunks
  Dims largest() const;
  uint64_t hash() const { return cuts_ ? cuts_->hash : 0; }  // of the axes' hashes
  std::string to_string() const;                             // "((4096, 4096, 8), (512,))" shortened
  friend bool operator==(const Grid& a, const Grid& b) {
    return a.cuts_ == b.cuts_ || (a.hash() == b.hash() && a.axes() == b.axes());
  }

 private:
  struct Cuts {
    std::vector<AxisChunks> axes;
    int64_t count = 1;
    uint64_t hash = 0;
  };
  static const std::vector<AxisChunks> kNoAxes;
  std::shared_ptr<const Cuts> cuts_;  // null: 0-d
};

}  // namespace quarry
