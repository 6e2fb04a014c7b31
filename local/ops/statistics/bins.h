// The edges of histograms' bins.
#pragma once

#include <string_view>

#include "quarry/local/ops/statistics/statistics.h"

namespace quarry::local {

// uniform: equal bins, up to rounding, whose numbers can be computed.
struct BinEdges {
  NdArray edges;
  bool uniform = false;
};

// The range's bounds, or the smallest and largest element; 0 and 1 of an empty array; half a unit more on both sides
// where they are equal. Blocks without a range. Throws InvalidArgument for bounds that are not finite.
std::pair<Scalar, Scalar> outer_edges(const NdArray& a, const ops::BinRange& range);

// As histogram() takes `bins` and `range`; a is real, one-dimensional and not bool.
BinEdges bin_edges(const NdArray& a, const ops::Bins& bins, const ops::BinRange& range, bool weighted);

// How many elements are in each bin, int64, or the sums of their weights, in the weights' dtype. `a` is as bin_edges()
// takes it, on the device of the edges.
NdArray counts_in_bins(const NdArray& a, const BinEdges& bins, const std::optional<NdArray>& weights);

// The dtype that values and edges are compared in.
DType edges_dtype(DType values, DType edges, bool uniform);

// `count` equal bins; `a` gives the device.
NdArray equal_bins(const NdArray& a, const Scalar& first, const Scalar& last, int64_t count,
                   std::optional<DType> dtype = std::nullopt);
// Throws InvalidArgument with `message` where an edge is above the next one.
void check_ascending(const NdArray& edges, const std::string& message);

// What the rules for bins ask of the data, which have elements, all inside the bins' range. Arrays are 0-d and in host
// memory unless a comment says otherwise.
class BinData {
 public:
  virtual ~BinData() = default;
  virtual DType dtype() const = 0;
  virtual int64_t size() const = 0;
  virtual std::pair<Scalar, Scalar> extremes() const = 0;  // the smallest and the largest element
  virtual NdArray deviation() const = 0;
  virtual NdArray skewness(const Scalar& deviation) const = 0;  // the mean of ((a - mean) / deviation)^3
  virtual NdArray quartiles() const = 0;                        // the third and the first, of shape (2)
  virtual NdArray counts(int64_t bins) const = 0;               // of equal bins of the range
};
// The number of bins by the rule of that name.
int64_t estimated_count(std::string_view rule, const BinData& data, const std::pair<Scalar, Scalar>& range);
bool is_estimator(std::string_view rule);
// last - first, 0-d in host memory; of signed integers as the unsigned ones of their size.
NdArray unsigned_distance(const Scalar& last, const Scalar& first);

}  // namespace quarry::local
