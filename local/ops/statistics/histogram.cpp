#include <fmt/format.h>

#include <cmath>

#include "quarry/local/device/range.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/statistics/bins.h"
#include "quarry/local/ops/statistics/support.h"

namespace quarry::local {

DType edges_dtype(DType values, DType edges, bool uniform) {
  if (uniform) return DType::float64;
  const DType common = promote_types(values, edges);
  if (!is_integer(common) && common != DType::bool_) return DType::float64;
  return common == DType::uint64 ? DType::uint64 : DType::int64;
}

namespace {

// The array as histograms take it: flat, of numbers that can be subtracted.
NdArray subtractable(const NdArray& a) {
  if (is_complex(a.dtype())) throw TypeError("a must be an array of real numbers");
  return cast_to(a, a.dtype() == DType::bool_ ? DType::uint8 : a.dtype()).reshape({-1});
}

void check_weights(const NdArray& a, const std::optional<NdArray>& weights) {
  if (weights && !(weights->shape() == a.shape())) {
    throw InvalidArgument(fmt::format("weights should have the same shape as a (got {} and {})",
                                      to_string(weights->shape()), to_string(a.shape())));
  }
}

// int64, or the sums of float64 weights. One pass over the values.
NdArray count_in_bins(const NdArray& a, const BinEdges& bins, const std::optional<NdArray>& weights) {
  std::vector<const NdArray*> arrays{&a, &bins.edges};
  if (weights) arrays.push_back(&*weights);
  const ExecContext context = context_for(common_device(arrays));
  const int64_t count = std::max<int64_t>(bins.edges.size() - 1, 0);
  const DType result = weights ? DType::float64 : DType::int64;
  if (count == 0 || a.size() == 0) return filled({count}, 0, result, context);
  const NdArray values = packed(a, context);
  const DType compared = edges_dtype(a.dtype(), bins.edges.dtype(), bins.uniform);
  const NdArray edges = packed(cast_to(bins.edges, compared), context);
  NdArray w;
  if (weights) w = packed(cast_to(*weights, DType::float64), context);
  NdArray out({count}, result, context);
  for (const NdArray* array : {&values, &edges}) array->begin_read(context.stream);
  if (weights) w.begin_read(context.stream);
  engine(context.device)
      .sorting()
      .histogram(values.dtype(), values.raw(), values.size(), compared, edges.raw(), count, bins.uniform,
                 weights ? w.data<const double>() : nullptr, out.raw(), context);
  return out;
}

NdArray weighted_counts(const NdArray& a, const BinEdges& bins, const NdArray& weights) {
  const NdArray flat = weights.reshape({-1});
  if (!is_complex(weights.dtype())) return cast_to(count_in_bins(a, bins, flat), weights.dtype());
  const NdArray real = count_in_bins(a, bins, flat.real()), imag = count_in_bins(a, bins, flat.imag());
  NdArray result(real.shape(), weights.dtype(), context_for(a.device()));
  result.real().assign(cast_to(real, real_type(weights.dtype())));
  result.imag().assign(cast_to(imag, real_type(weights.dtype())));
  return result;
}

}  // namespace

NdArray counts_in_bins(const NdArray& a, const BinEdges& bins, const std::optional<NdArray>& weights) {
  return weights ? weighted_counts(a, bins, *weights) : count_in_bins(a, bins, std::nullopt);
}

namespace ops {

ArrayPair histogram(const NdArray& a, const Bins& bins, const BinRange& range, std::optional<bool> density,
                    const std::optional<NdArray>& weights) {
  const Range named("histogram");
  check_weights(a, weights);
  const NdArray values = subtractable(a);
  const BinEdges edges = bin_edges(values, bins, range, weights.has_value());
  NdArray counts = counts_in_bins(values, edges, weights);
  if (density.value_or(false)) {
    const NdArray widths = cast_to(diff(edges.edges), DType::float64);
    Fused fused;
    counts = fused.run(
        fused("divide"_op, fused("divide"_op, fused.input(counts), fused.input(widths)), fused.input(sum(counts))));
  }
  return {counts, edges.edges};
}

NdArray histogram_bin_edges(const NdArray& a, const Bins& bins, const BinRange& range,
                            const std::optional<NdArray>& weights) {
  const Range named("histogram_bin_edges");
  check_weights(a, weights);
  return bin_edges(subtractable(a), bins, range, weights.has_value()).edges;
}

}  // namespace ops
}  // namespace quarry::local
