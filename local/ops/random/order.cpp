// Random order and selection: sorts of random keys.
#include <fmt/format.h>

#include <cmath>

#include "quarry/local/device/range.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/random/random.h"
#include "quarry/local/ops/random/recipe.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/ops/ufunc/results.h"

namespace quarry::local {

namespace {

Ints ints(const Dims& shape) { return {std::vector<int64_t>(shape.begin(), shape.end())}; }

// Probabilities of choice(), float64 on `device`.
NdArray checked_probabilities(const NdArray& p, int64_t n, Device device) {
  if (p.ndim() != 1) throw InvalidArgument("p must be 1-dimensional");
  if (p.shape()[0] != n) throw InvalidArgument(fmt::format("a and p must have same size, not {} and {}", n, p.size()));
  if (is_complex(p.dtype())) throw TypeError("p: a complex number is not a real one");
  NdArray chances = p.to(device).astype(DType::float64, context_for(device));
  if (n == 0) return chances;
  const double sum = item_or(reduce("sum"_reduction, chances), 1).as_double();
  if (std::isnan(sum)) throw InvalidArgument("Probabilities contain NaN");
  if (item_or(reduce("min"_reduction, chances), 0).as_double() < 0)
    throw InvalidArgument("Probabilities are not non-negative");
  const double tolerance = p.dtype() == DType::float32 ? 3.5e-4 : 1.5e-8;  // sqrt(epsilon), as NumPy
  if (!(std::abs(sum - 1) <= tolerance))
    throw InvalidArgument(fmt::format("Probabilities do not sum to 1 but to {}", sum));
  return chances;
}

// Where each element's part of [0, 1) ends.
NdArray ends_of(const NdArray& chances) {
  const NdArray sums = ops::cumsum(chances);
  return sums / sums[{int64_t{-1}}];
}

}  // namespace

NdArray choice_ends(const NdArray& p, int64_t n) { return ends_of(checked_probabilities(p, n, p.device())); }

NdArray Generator::permutation_of(int64_t n, Device device) {
  const Range named("random.permutation_of");
  const DeviceScope scope(context_for(device));
  Recipe recipe(*this, DType::float64, {}, Ints(n));
  return ops::argsort(recipe.make(recipe.key(), DType::uint64));
}

NdArray Generator::permutation(const std::variant<int64_t, NdArray>& x, int64_t axis) {
  const Range named("random.permutation");
  if (const int64_t* count = std::get_if<int64_t>(&x)) {
    normalize_axis(axis, 1);
    return permutation_of(std::max<int64_t>(*count, 0), current_device());
  }
  const NdArray& array = std::get<NdArray>(x);
  const int d = normalize_axis(axis, array.ndim());
  return ops::take(array, permutation_of(array.shape()[d], array.device()), d);
}

void Generator::shuffle(const NdArray& x, int64_t axis) {
  const Range named("random.shuffle");
  if (x.ndim() == 0) throw TypeError("len() of unsized object");
  const int d = normalize_axis(axis, x.ndim());
  check_writable(x);
  if (x.shape()[d] < 2 || x.size() == 0) return;
  x.assign(ops::take(x, permutation_of(x.shape()[d], x.device()), d), context_for(x.device()));
}

NdArray Generator::permuted(const NdArray& x, std::optional<int64_t> axis, const Out& out) {
  const Range named("random.permuted");
  if (x.ndim() == 0) throw TypeError("len() of unsized object");
  if (axis) normalize_axis(*axis, x.ndim());
  if (out) {
    if (!(out->shape() == x.shape())) {
      throw InvalidArgument(
          fmt::format("out must have the same shape as x, {}, not {}", to_string(x.shape()), to_string(out->shape())));
    }
    if (!can_cast(x.dtype(), out->dtype(), Casting::same_kind)) {
      throw TypeError(
          fmt::format("Cannot cast array data from dtype('{}') to dtype('{}') according to the rule "
                      "'same_kind'",
                      name(x.dtype()), name(out->dtype())));
    }
    check_writable(*out);
  }
  NdArray result;
  if (!axis) {
    result = ops::take(x.reshape(Dims{x.size()}), permutation_of(x.size(), x.device())).reshape(x.shape());
  } else {
    const DeviceScope scope(context_for(x.device()));
    Recipe recipe(*this, DType::float64, {}, ints(x.shape()));
    const NdArray keys = recipe.make(recipe.key(), DType::uint64);
    result = ops::take_along_axis(x, ops::argsort(keys, *axis), *axis);
  }
  if (!out) return result;
  out->assign(result, context_for(out->device()));
  return *out;
}

// Without replacement and with weights: the elements whose exponentials E / p come first (P. S. Efraimidis,
// P. G. Spirakis, Weighted random sampling with a reservoir, 2006), which are those of successive draws.
NdArray Generator::choice(const std::variant<int64_t, NdArray>& a, const Size& size, bool replace,
                          const std::optional<NdArray>& p, int64_t axis, bool) {
  const Range named("random.choice");
  const NdArray* array = std::get_if<NdArray>(&a);
  const Dims shape = size ? random_shape(*size) : Dims{};
  const int64_t wanted = element_count(shape);
  if (array != nullptr && array->ndim() == 0)
    throw InvalidArgument("a must be a sequence or an integer, not an array without axes");
  const int d = normalize_axis(axis, array != nullptr ? array->ndim() : 1);
  const int64_t n = array != nullptr ? array->shape()[d] : std::get<int64_t>(a);
  if (n <= 0 && wanted > 0) {
    throw InvalidArgument(array != nullptr ? "a cannot be empty unless no samples are taken"
                                           : "a must be a positive integer unless no samples are taken");
  }
  const Device device = array != nullptr ? array->device() : p ? p->device() : current_device();
  const DeviceScope scope(context_for(device));
  std::optional<NdArray> chances;
  if (p) chances = checked_probabilities(*p, n, device);

  NdArray picks;
  if (wanted == 0) {
    picks = ops::zeros(ints(shape), DType::int64);
  } else if (replace && !chances) {
    picks = integers(0, Arg(n), ints(shape));
  } else if (replace) {
    picks = ops::searchsorted(ends_of(*chances), random(ints(shape)), "right");
  } else {
    if (wanted > n) {
      throw InvalidArgument(
          fmt::format("Cannot take a larger sample than population when replace is False: {} of {}", wanted, n));
    }
    NdArray order;
    if (chances) {
      const int64_t possible = item_or(reduce("count_nonzero"_reduction, *chances), n).as_int64();
      if (possible < wanted)
        throw InvalidArgument(fmt::format("Fewer non-zero entries in p than size: {} and {}", possible, wanted));
      const Arg weights = *chances;
      Recipe recipe(*this, DType::float64, {&weights}, std::nullopt);
      order = ops::argsort(recipe.make(-map("log"_op, recipe.open_uniform()) / recipe.parameter(weights)));
    } else {
      order = permutation_of(n, device);
    }
    // A copy, so that the rest of the order is not kept.
    picks = order[{Slice{std::nullopt, wanted, std::nullopt}}].copy().reshape(shape);
  }
  if (array == nullptr) return picks;
  return ops::take(*array, picks, d);
}

}  // namespace quarry::local
