#include "quarry/local/ops/statistics/bins.h"

#include <fmt/format.h>

#include <cmath>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::local {
namespace {

DType promoted(std::initializer_list<PromotionOperand> operands) {
  return result_type(std::span<const PromotionOperand>(operands.begin(), operands.size()));
}
PromotionOperand operand_of(const Scalar& value) { return {value.dtype(), value.weak()}; }

// value + 0.5 as Python computes it.
Scalar moved(const Scalar& value, double by) {
  const double sum = value.as_double() + by;
  if (value.weak()) return sum;
  return Scalar::strong(sum, promoted({operand_of(value), {DType::float64, /*weak=*/true}}));
}

// Distance of the numbers from 1 on.
double spacing_factor(DType dtype) {
  if (dtype == DType::float16) return 0x1p-10;
  if (dtype == DType::bfloat16) return 0x1p-7;
  return dtype == DType::float32 ? 0x1p-23 : 0x1p-52;
}

NdArray all_but_last(const NdArray& a) { return a[{Slice{std::nullopt, -1, std::nullopt}}]; }
NdArray all_but_first(const NdArray& a) { return a[{Slice{1, std::nullopt, std::nullopt}}]; }

BinEdges uniform_edges(const NdArray& a, const std::pair<Scalar, Scalar>& outer, int64_t count) {
  const auto& [first, last] = outer;
  DType dtype = promoted({operand_of(first), operand_of(last), {a.dtype(), false}});
  if (is_integer(dtype)) dtype = promote_types(dtype, DType::float64);
  const NdArray edges = equal_bins(a, first, last, count, dtype);
  // Wide bins are not worth waiting for the device.
  const double low = first.as_double(), high = last.as_double();
  const double width = (high - low) / static_cast<double>(count);
  const double spacing = std::max(std::abs(low), std::abs(high)) * spacing_factor(dtype);
  if (!(width > 8 * spacing && std::isfinite(width)) &&
      holds_any(apply("greater_equal"_op, {all_but_last(edges), all_but_first(edges)}))) {
    throw InvalidArgument(fmt::format("Too many bins for data range. Cannot create {} finite-sized bins.", count));
  }
  // Bins of a subnormal width, or of an infinite one, are found by search.
  const double scale = static_cast<double>(count) / (high - low);
  return {edges, std::isfinite(scale) && scale > 0};
}

class ArrayData final : public BinData {
 public:
  ArrayData(NdArray a, std::pair<Scalar, Scalar> range) : a_(std::move(a)), range_(std::move(range)) {}
  DType dtype() const override { return a_.dtype(); }
  int64_t size() const override { return a_.size(); }
  std::pair<Scalar, Scalar> extremes() const override {
    const auto [least, greatest] = local::extremes(a_);
    return {least.item(), greatest.item()};
  }
  NdArray deviation() const override { return ops::std(a_).to(kCpu); }
  NdArray skewness(const Scalar& deviation) const override {
    Fused fused;
    const Fused::Value distance = fused("subtract"_op, fused.input(a_), ops::mean(a_).item());
    const Fused::Value cubed = fused("power"_op, fused("divide"_op, distance, deviation), 3);
    const DType dtype = fused.dtype(cubed);
    const ValueId summed[] = {fused.id(cubed)};
    fused.program().reduce("sum"_reduction, summed, dtype);
    const uint32_t all = axes_mask(Axes(), a_.ndim());
    const NdArray sum = run_reductions(fused.program(), fused.inputs(), a_.shape(), all, fused.context())[0];
    return apply("divide"_op, {sum, static_cast<double>(size())}).astype(dtype).to(kCpu);
  }
  NdArray quartiles() const override { return ops::percentile(a_, from_vector<double>({75, 25})).to(kCpu); }
  NdArray counts(int64_t bins) const override { return ops::histogram(a_, bins, range_).first; }

 private:
  const NdArray a_;
  const std::pair<Scalar, Scalar> range_;
};

int64_t bins_by_rule(std::string_view rule, NdArray a, const std::pair<Scalar, Scalar>& outer, bool trim) {
  const auto& [first, last] = outer;
  if (trim) {
    const NdArray inside =
        apply("logical_and"_op, {apply("greater_equal"_op, {a, first}), apply("less_equal"_op, {a, last})});
    a = ops::compress(inside, a);
  }
  return a.size() == 0 ? 1 : estimated_count(rule, ArrayData(a, outer), outer);
}

}  // namespace

std::pair<Scalar, Scalar> outer_edges(const NdArray& a, const ops::BinRange& range) {
  Scalar first(0), last(1);
  const auto check_finite = [&](const char* which) {
    if (std::isfinite(first.as_double()) && std::isfinite(last.as_double())) return;
    throw InvalidArgument(
        fmt::format("{} range of [{}, {}] is not finite", which, first.as_double(), last.as_double()));
  };
  if (range) {
    std::tie(first, last) = *range;
    if (is_complex(first.dtype()) || is_complex(last.dtype())) throw TypeError("range must be real numbers");
    if (first.as_double() > last.as_double()) {
      throw InvalidArgument(fmt::format("max must be larger than min in range parameter (got [{}, {}])",
                                        first.as_double(), last.as_double()));
    }
    check_finite("supplied");
  } else if (a.size() > 0) {
    const auto [least, greatest] = extremes(a);
    first = least.item();
    last = greatest.item();
    check_finite("autodetected");
  }
  // 64-bit integers that differ may be one double.
  const bool exact = is_integer(first.dtype()) && first.dtype() == last.dtype();
  if (exact ? first.as_int64() == last.as_int64() : first.as_double() == last.as_double())
    return {moved(first, -0.5), moved(last, 0.5)};
  return {first, last};
}

NdArray equal_bins(const NdArray& a, const Scalar& first, const Scalar& last, int64_t count,
                   std::optional<DType> dtype) {
  return std::get<NdArray>(ops::linspace(first, last, count + 1, true, false, dtype, 0, a.device()));
}

void check_ascending(const NdArray& edges, const std::string& message) {
  if (edges.size() > 1 && holds_any(apply("greater"_op, {all_but_last(edges), all_but_first(edges)})))
    throw InvalidArgument(message);
}

NdArray unsigned_distance(const Scalar& last, const Scalar& first) {
  const DType dtype = promoted({operand_of(last), operand_of(first)});
  const ExecContext host = default_context(kCpu);
  const auto value = [&](const Scalar& scalar) { return filled({}, scalar, dtype, host); };
  NdArray distance = apply("subtract"_op, {value(last), value(first)});
  if (local::kind(dtype) != 'i') return distance;
  const int64_t bytes = local::itemsize(dtype);
  return distance.astype(bytes == 1   ? DType::uint8
                         : bytes == 2 ? DType::uint16
                         : bytes == 4 ? DType::uint32
                                      : DType::uint64,
                         host);
}

BinEdges bin_edges(const NdArray& a, const ops::Bins& bins, const ops::BinRange& range, bool weighted) {
  if (const auto* rule = std::get_if<std::string>(&bins)) {
    if (!is_estimator(*rule)) throw InvalidArgument(fmt::format("'{}' is not a valid estimator for `bins`", *rule));
    if (weighted) throw TypeError("Automated estimation of the number of bins is not supported for weighted data");
    const auto outer = outer_edges(a, range);
    return uniform_edges(a, outer, bins_by_rule(*rule, a, outer, range.has_value()));
  }
  const auto* given = std::get_if<NdArray>(&bins);
  if (given != nullptr && given->ndim() > 0) {
    if (given->ndim() > 1) throw InvalidArgument("`bins` must be 1d, when an array");
    if (is_complex(given->dtype())) throw TypeError("`bins` must be real numbers");
    check_ascending(*given, "`bins` must increase monotonically, when an array");
    return {*given, false};
  }
  if (given != nullptr && !is_integer(given->dtype()))
    throw TypeError("`bins` must be an integer, a string, or an array");
  const int64_t count = given != nullptr ? given->item().as_int64() : std::get<int64_t>(bins);
  if (count < 1) throw InvalidArgument(fmt::format("`bins` must be positive, when an integer (got {})", count));
  return uniform_edges(a, outer_edges(a, range), count);
}

}  // namespace quarry::local
