// Ordering along one axis: sort, argsort, partition, search, and counting in bins.
// Part of Engine: the same contract (queued on context.stream, scratch from context.memory and at most what the
// *_scratch_bytes() function says, thread-safe for different streams).
//
// Order is NumPy's: false before true, -0 equal to +0, NaN last; complex numbers by real, then imaginary part, and
// behind the numbers those with a NaN: first in the imaginary part alone, then in the real part alone, then in both.
#pragma once

#include <numeric>
#include <optional>
#include <vector>

#include "quarry/local/program/engine.h"
#include "quarry/local/program/interpolation.h"

namespace quarry::local {

// `rows` independent sequences of `length` elements each, one after the other without gaps.
struct Rows {
  int64_t rows = 1;
  int64_t length = 0;
  int64_t elements() const { return rows * length; }
};

class Sorting {
 public:
  virtual ~Sorting() = default;

  // Sorts every row. `out` may be `in`. A NaN may lose its sign and come out with another payload.
  virtual int64_t sort_scratch_bytes(DType dtype, Rows rows) = 0;
  virtual void sort(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) = 0;

  // The same of floats and with `out` apart from `in`: elements that are equal though they differ (both zeros, NaNs)
  // keep their order and their bits.
  virtual int64_t sort_stably_scratch_bytes(DType dtype, Rows rows) = 0;
  virtual void sort_stably(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) = 0;

  // Sorts one row of stretches, one behind the other, of which each was sorted by the same function: sort_stably()
  // where `stably`, else sort(). The result is the one that this function gives for the row. `out` is apart from `in`.
  // An engine that merges is faster than its sort.
  virtual int64_t merge_scratch_bytes(DType dtype, int64_t count, bool stably) {
    return stably ? sort_stably_scratch_bytes(dtype, {1, count}) : sort_scratch_bytes(dtype, {1, count});
  }
  virtual void merge(DType dtype, const void* in, void* out, const std::vector<int64_t>& lengths, bool stably,
                     const ExecContext& context) {
    const Rows row{1, std::accumulate(lengths.begin(), lengths.end(), int64_t{0})};
    stably ? sort_stably(dtype, in, out, row, context) : sort(dtype, in, out, row, context);
  }

  // Positions that sort every row; equal elements keep their order.
  virtual int64_t argsort_scratch_bytes(DType dtype, Rows rows) = 0;
  virtual void argsort(DType dtype, const void* in, int64_t* out, Rows rows, const ExecContext& context) = 0;

  // Every row rearranged so that each position of `kth` (in [0, length), any order) holds what it would hold after a
  // sort, no greater element stands before it and no smaller one behind it. `out` may be `in`.
  virtual int64_t partition_scratch_bytes(DType dtype, Rows rows) = 0;
  virtual void partition(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
                         const ExecContext& context) = 0;
  // The positions in `in` of the elements of such an arrangement.
  virtual int64_t argpartition_scratch_bytes(DType dtype, Rows rows) = 0;
  virtual void argpartition(DType dtype, const void* in, int64_t* out, Rows rows, const std::vector<int64_t>& kth,
                            const ExecContext& context) = 0;

  // The elements of every sorted row at the positions `kth` (ascending, each once), which come out as from sort(): as
  // many per row. `out` is not `in`.
  virtual int64_t select_scratch_bytes(DType dtype, Rows rows, int64_t positions) = 0;
  virtual void select(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
                      const ExecContext& context) = 0;

  // The positions of the k first (`last`: last) elements of every sorted row, 0 < k, ascending; of equal elements the
  // first are the earlier ones. False where argpartition() is the way to find them; nothing is done then, and there are
  // no bytes to be told.
  virtual std::optional<int64_t> ends_scratch_bytes(DType, Rows, int64_t /*k*/) { return std::nullopt; }
  virtual bool ends(DType, const void*, int64_t*, Rows, int64_t /*k*/, bool /*last*/, const ExecContext&) {
    return false;
  }

  // For each of the `values` of a row, the number of elements of the sorted row that come before it (`right`: or are
  // equal). As many rows of values as of sorted elements. No scratch.
  virtual void searchsorted(DType dtype, const void* sorted, Rows rows, const void* values, int64_t values_per_row,
                            bool right, int64_t* out, const ExecContext& context) = 0;

  // For each value whether the sorted row has an equal element (`invert`: has none); a NaN equals nothing. No scratch.
  virtual void contains(DType dtype, const void* sorted, int64_t length, const void* values, int64_t count, bool invert,
                        bool* out, const ExecContext& context) = 0;
  // Between the two points around each place. No scratch.
  virtual void interpolate(const Interpolation& task, const ExecContext& context) = 0;

  // out[b], b in [0, bins): how many of the `count` positions are b (int64), or with `weights` the sum of theirs
  // (float64). Positions outside [0, bins) count nowhere.
  virtual int64_t bincount_scratch_bytes(int64_t count, int64_t bins) = 0;
  virtual void bincount(const int64_t* positions, int64_t count, const double* weights, int64_t bins, void* out,
                        const ExecContext& context) = 0;

  // The same for the bins between bins + 1 ascending edges: bin b holds edges[b] <= x < edges[b + 1], the last one its
  // upper edge too; NaN and what lies outside count nowhere. `values` are of any real dtype and converted to that of
  // the edges: float64, int64 or uint64. `uniform`: the edges are float64 and, up to rounding, equally spaced.
  virtual int64_t histogram_scratch_bytes(int64_t count, int64_t bins) = 0;
  virtual void histogram(DType dtype, const void* values, int64_t count, DType edges_dtype, const void* edges,
                         int64_t bins, bool uniform, const double* weights, void* out, const ExecContext& context) = 0;
};

}  // namespace quarry::local
