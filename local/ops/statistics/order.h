// Elements of sorted rows: what the median and the quantiles share.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/ops/arguments.h"

namespace quarry::local {

inline bool is_inexact(DType dtype) { return is_float(dtype) || is_complex(dtype); }

// Rows of arrays wherever they are, by the order of their elements: NaN last.
class RankedRows {
 public:
  virtual ~RankedRows() = default;
  virtual Dims kept() const = 0;  // the shape without the axis along the rows
  virtual int64_t length() const = 0;
  virtual DType dtype() const = 0;
  virtual Device device() const = 0;  // of the results
  // How many elements of each row are not NaN: int64, (kept ..., 1).
  virtual NdArray numbers() const = 0;
  // The elements at positions of the sorted rows: `kth`, ascending and once each, of every row, (kept ..., kth.size());
  // or of each row its own, (m, kept ...) like `positions`.
  virtual NdArray select(const std::vector<int64_t>& kth) const = 0;
  virtual NdArray at(const NdArray& positions) const = 0;

  int64_t count() const { return element_count(kept()); }
  // The smallest elements, of the shape kept().
  NdArray first() const;
};

// Of an array (kept ..., n).
class LocalRows final : public RankedRows {
 public:
  explicit LocalRows(NdArray rows) : rows_(std::move(rows)) {}
  const NdArray& array() const { return rows_; }
  Dims kept() const override { return Dims(rows_.shape().begin(), rows_.shape().end() - 1); }
  int64_t length() const override { return rows_.shape().back(); }
  DType dtype() const override { return rows_.dtype(); }
  Device device() const override { return rows_.device(); }
  NdArray numbers() const override;
  NdArray select(const std::vector<int64_t>& kth) const override;
  NdArray at(const NdArray& positions) const override;

 private:
  NdArray rows_;
  mutable std::optional<NdArray> sorted_;
};

// median(), quantile() and their kin over axes of an array of that shape, of which these are the rows; it has elements.
NdArray ranked_median(const RankedRows& rows, const Dims& shape, uint32_t mask, bool ignore_nan, bool keepdims);
NdArray ranked_quantile(const RankedRows& rows, const Dims& shape, const Arg& q, bool percent, bool ignore_nan,
                        const Axes& axis, std::string_view method, bool keepdims);

// How many elements of each row are not NaN: int64, the last axis with one element.
NdArray numbers_per_row(const NdArray& rows);

// The elements of the rows (kept ..., n) at positions that are known to be valid; the kept axes are those of
// `positions` from number `kept` on. New, of the positions' shape.
NdArray gathered(const NdArray& rows, const NdArray& positions, int kept);

// Writes the result to `out`, which must have its shape, and returns it. Throws TypeError where `casting` forbids that.
NdArray store_statistic(const NdArray& result, const NdArray& out, Casting casting);

}  // namespace quarry::local
