#include <fmt/format.h>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/statistics/statistics.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/program/sorting.h"

namespace quarry::local::ops {
namespace {

void check_one_dimension(const NdArray& a) {
  if (a.ndim() == 0) throw InvalidArgument("object of too small depth for desired array");
  if (a.ndim() > 1) throw InvalidArgument("object too deep for desired array");
}

}  // namespace

NdArray bincount(const NdArray& x, const std::optional<NdArray>& weights, int64_t minlength) {
  const Range named("bincount");
  check_one_dimension(x);
  const auto refuse = [](DType from, DType to) {
    throw TypeError(fmt::format("Cannot cast array data from dtype('{}') to dtype('{}') according to the rule 'safe'",
                                local::name(from), local::name(to)));
  };
  // An empty list is float64, and has no element that is not an integer.
  if (x.dtype() != DType::bool_ && !is_integer(x.dtype()) && !(x.size() == 0 && x.dtype() == DType::float64))
    refuse(x.dtype(), DType::int64);
  if (minlength < 0) throw InvalidArgument(fmt::format("'minlength' must not be negative (got {})", minlength));
  std::vector<const NdArray*> arrays{&x};
  if (weights) arrays.push_back(&*weights);
  const ExecContext context = context_for(common_device(arrays));
  if (x.size() == 0) return filled({minlength}, 0, DType::int64, context);

  // Of a uint64 above the largest int64 nothing but a negative number is left.
  const NdArray positions = packed(cast_to(x, DType::int64), context);
  const auto [least, greatest] = extremes(positions);
  if (least.item<int64_t>() < 0) throw InvalidArgument("'list' argument must have no negative elements");
  const int64_t bins = std::max(greatest.item<int64_t>() + 1, minlength);
  NdArray packed_weights;
  if (weights) {
    check_one_dimension(*weights);
    if (!can_cast(weights->dtype(), DType::float64, Casting::safe)) refuse(weights->dtype(), DType::float64);
    if (weights->size() != x.size()) {
      throw InvalidArgument(
          fmt::format("The weights and list don't have the same length ({} and {}).", weights->size(), x.size()));
    }
    packed_weights = packed(cast_to(*weights, DType::float64), context);
    packed_weights.begin_read(context.stream);
  }
  NdArray out({bins}, weights ? DType::float64 : DType::int64, context);
  positions.begin_read(context.stream);
  engine(context.device)
      .sorting()
      .bincount(positions.data<const int64_t>(), x.size(), weights ? packed_weights.data<const double>() : nullptr,
                bins, out.raw(), context);
  return out;
}

}  // namespace quarry::local::ops
