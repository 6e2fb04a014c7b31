#include "quarry/local/ops/sorting/sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <limits>
#include <string>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/ops/ufunc/ufunc.h"

namespace quarry::local::ops {
namespace {

NdArray part(const NdArray& a, std::optional<int64_t> start, std::optional<int64_t> stop) {
  return a[{Slice{start, stop, std::nullopt}}];
}
NdArray without_first(const NdArray& a) { return part(a, 1, std::nullopt); }
NdArray without_last(const NdArray& a) { return part(a, std::nullopt, a.shape()[0] - 1); }

ExecContext context_of(const NdArray& a, const NdArray& b) {
  const NdArray* both[] = {&a, &b};
  return context_for(common_device(both));
}

// One after the other, flattened, in the dtype that both promote to.
NdArray joined(const NdArray& a, const NdArray& b) {
  const ExecContext context = context_of(a, b);
  NdArray result({a.size() + b.size()}, promote_types(a.dtype(), b.dtype()), context);
  part(result, 0, a.size()).assign(flattened(a), context);
  part(result, a.size(), std::nullopt).assign(flattened(b), context);
  return result;
}

NdArray filled(int64_t count, DType dtype, const Scalar& value, const ExecContext& context) {
  NdArray result({count}, dtype, context);
  result.fill(value, context);
  return result;
}

// Whether a sorted array has both zeros, of which the negative ones stand first. Blocks.
bool has_both_zeros(const NdArray& sorted) {
  if (!is_float(sorted.dtype()) || sorted.size() == 0) return false;
  const Scalar zero = Scalar::strong(0, sorted.dtype());
  const auto element = [&](const NdArray& position) {
    return take(sorted, position, std::nullopt, std::nullopt, "clip");
  };
  const NdArray first = element(searchsorted(sorted, zero)),
                last = element(subtract(searchsorted(sorted, zero, "right"), 1));
  Fused f;
  const auto x = f.input(first), y = f.input(last);
  const auto zeros = f("logical_and"_op, f("equal"_op, x, 0), f("equal"_op, y, 0));
  const auto differ = f("not_equal"_op, f("signbit"_op, x), f("signbit"_op, y));
  return f.run(f("logical_and"_op, zeros, differ)).item().as_bool();
}

// Both zeros are equal, and a sort by value puts the negative one first. Here the zeros among `values`, which were
// taken of `sorted`, become the first one of `flat`, as if equal elements had kept their order.
NdArray with_first_zero(const NdArray& values, const NdArray& sorted, const NdArray& flat) {
  if (!has_both_zeros(sorted)) return values;
  const NdArray zero = take(flat, argmax(equal(flat, 0)), std::nullopt, std::nullopt, "clip");
  return where(equal(values, 0), zero, values);
}

struct Unique {
  NdArray values, indices, inverse, counts;
};

// `flags` mark the first of equal elements in sorted order; `order` are the elements' positions.
void describe(Unique& result, const NdArray& flags, const NdArray& order, bool index, bool inverse, bool counts,
              const ExecContext& context) {
  const int64_t n = flags.size();
  if (index) result.indices = compress(flags, order);
  if (inverse) {
    result.inverse = NdArray({n}, DType::int64, context);
    if (n > 0) {
      const NdArray ranks = subtract(ufunc_accumulate("add"_op, flags, 0, DType::int64), 1);
      put(result.inverse, order, ranks, "clip");
    }
  }
  if (counts) {
    const NdArray starts = flatnonzero(flags);
    result.counts = NdArray(starts.shape(), DType::int64, context);
    if (starts.size() > 0) {
      without_last(result.counts).assign(subtract(without_first(starts), without_last(starts)), context);
      const NdArray last = part(starts, starts.size() - 1, std::nullopt);
      part(result.counts, starts.size() - 1, std::nullopt).assign(subtract(n, last), context);
    }
  }
}

Unique unique_flat(const NdArray& ar, bool index, bool inverse, bool counts, bool equal_nan) {
  const ExecContext context = context_for(ar.device());
  const NdArray flat = flattened(ar);
  NdArray order, sorted;
  if (index || inverse) {
    order = argsorted_rows(flat, context);
    sorted = take(flat, order, 0, std::nullopt, "clip");
  } else {
    sorted = sorted_rows(flat, context);
  }
  const NdArray flags = run_starts(sorted, equal_nan, context);
  Unique result;
  result.values = compress(flags, sorted);
  if (!index && !inverse) result.values = with_first_zero(result.values, sorted, flat);
  describe(result, flags, order, index, inverse, counts, context);
  return result;
}

// Slices along the first axis of an array of rows, in lexicographic order; a NaN equals nothing.
Unique unique_rows(const NdArray& ar, int axis, bool index, bool inverse, bool counts) {
  const ExecContext context = context_for(ar.device());
  // The axis comes first, the others keep their order.
  std::vector<int64_t> moved{axis};
  for (int d = 0; d < ar.ndim(); ++d)
    if (d != axis) moved.push_back(d);
  const NdArray slices = packed(ar.transpose(moved), context);
  const int64_t n = slices.shape()[0], width = n == 0 ? 0 : slices.size() / n;
  const NdArray rows = slices.reshape({n, width});
  NdArray order({n}, DType::int64, context);
  NdArray flags = filled(n, DType::bool_, true, context);
  NdArray values = slices;
  if (n > 0) {
    std::vector<NdArray> columns;
    for (int64_t c = width - 1; c >= 0; --c) columns.push_back(rows[{full_slice, c}]);
    if (columns.empty()) columns.push_back(NdArray({n}, DType::bool_, context)), columns.back().fill(false, context);
    order = lexsort(columns);
    const NdArray sorted = take(rows, order, 0, std::nullopt, "clip");
    if (n > 1) without_first(flags).assign(any(not_equal(without_first(sorted), without_last(sorted)), 1), context);
    values = take(slices, compress(flags, order), 0, std::nullopt, "clip");
  }
  Unique result;
  std::vector<int64_t> back(moved.size());
  for (size_t d = 0; d < moved.size(); ++d) back[static_cast<size_t>(moved[d])] = static_cast<int64_t>(d);
  result.values = values.transpose(back);
  describe(result, flags, order, index, inverse, counts, context);
  return result;
}

void check_kind(std::optional<std::string_view> kind, const NdArray& a, const NdArray& b) {
  if (!kind || *kind == "sort") return;
  if (*kind != "table")
    throw InvalidArgument(fmt::format("Invalid kind: '{}'. Please use None, 'sort' or 'table'.", *kind));
  for (const NdArray* array : {&a, &b}) {
    if (!is_integer(array->dtype()) && array->dtype() != DType::bool_) {
      throw InvalidArgument(
          "The 'table' method is only supported for boolean or integer arrays. Please select 'sort' or None for kind.");
    }
  }
}

// Membership of integers by a table over the range of the set, where that is not much larger than both arrays together.
std::optional<NdArray> look_up(const NdArray& element, const NdArray& set, const ExecContext& context) {
  for (const NdArray* array : {&element, &set}) {
    if (!is_integer(array->dtype()) && array->dtype() != DType::bool_) return std::nullopt;
    if (array->dtype() == DType::uint64) return std::nullopt;  // has values that int64 has not
  }
  constexpr int64_t kSmall = 1000;  // below, two reductions cost more than they save
  if (set.size() < kSmall) return std::nullopt;
  const NdArray least = min(set), greatest = max(set);
  const int64_t low = least.item().as_int64();
  const uint64_t range = static_cast<uint64_t>(greatest.item().as_int64()) - static_cast<uint64_t>(low);
  if (range > 6 * static_cast<uint64_t>(element.size() + set.size()) || low == std::numeric_limits<int64_t>::min())
    return std::nullopt;
  // False before the least and behind the greatest value: there positions outside are clipped to. Differences that wrap
  // are outside too.
  const NdArray table = filled(static_cast<int64_t>(range) + 3, DType::bool_, false, context);
  const Scalar before = Scalar::strong(low - 1, DType::int64);
  put(table, apply("subtract"_op, {flattened(set), before}, DType::int64), true, "clip");
  return take(table, apply("subtract"_op, {element, before}, DType::int64), std::nullopt, std::nullopt, "clip");
}

constexpr int64_t kFewElements = 16;  // up to here each element is compared with all, in one pass without a sort

// Whether every element is one of few: exact for integers of both signs, as comparisons are.
NdArray equal_to_any(const NdArray& element, const NdArray& set, bool invert) {
  Fused fused;
  const auto x = fused.input(element);
  // Programs are made for powers of two: the last element stands for the missing ones.
  const auto count = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(set.size())));
  const NdArray all = flattened(set);
  std::optional<Fused::Value> found;
  for (int64_t k = 0; k < count; ++k) {
    const auto one = fused.input(all[{std::min(k, set.size() - 1)}]);
    const auto same = fused(invert ? "not_equal"_op : "equal"_op, x, one);
    found = !found ? same : fused(invert ? "logical_and"_op : "logical_or"_op, *found, same);
  }
  return fused.run(*found);
}

// Signed integers beside uint64, which promote to float64: it does not hold them all.
bool is_mixed(DType a, DType b) {
  return is_integer(a) && is_integer(b) && kind(a) != kind(b) && promote_types(a, b) == DType::float64;
}
// 64-bit integers as int64 of the same bits, others by value.
NdArray words_of(const NdArray& a, const ExecContext& context) {
  if (a.dtype() == DType::uint64) return {a.buffer(), DType::int64, a.shape(), a.strides(), a.offset()};
  return a.dtype() == DType::int64 ? a : a.astype(DType::int64, context);
}

NdArray distinct(const NdArray& a, bool assume_unique) {
  return assume_unique ? flattened(a) : unique_flat(a, false, false, false, true).values;
}

}  // namespace

NdArray run_starts(const NdArray& sorted, bool equal_nan, const ExecContext& context) {
  NdArray flags({sorted.shape()[0]}, DType::bool_, context);
  if (flags.size() == 0) return flags;
  part(flags, 0, 1).fill(true, context);
  if (flags.size() == 1) return flags;
  Fused fused;
  const auto before = fused.input(without_last(sorted)), after = fused.input(without_first(sorted));
  auto differ = fused("not_equal"_op, after, before);
  // Behind a NaN are NaN alone.
  if (equal_nan && (is_float(sorted.dtype()) || is_complex(sorted.dtype())))
    differ = fused("logical_and"_op, differ, fused("equal"_op, before, before));
  fused.run_into(differ, without_first(flags));
  return flags;
}

std::variant<NdArray, ArrayTuple> unique(const NdArray& ar, bool return_index, bool return_inverse, bool return_counts,
                                         std::optional<int64_t> axis, bool equal_nan, bool) {
  const Range named("unique");
  Unique result;
  if (axis) {
    const int d = normalize_axis(*axis, ar.ndim());
    if (ar.ndim() > 1)
      result = unique_rows(ar, d, return_index, return_inverse, return_counts);
    else
      result = unique_flat(ar, return_index, return_inverse, return_counts, equal_nan);
  } else {
    result = unique_flat(ar, return_index, return_inverse, return_counts, equal_nan);
    if (return_inverse) result.inverse = result.inverse.reshape(ar.shape());
  }
  if (!return_index && !return_inverse && !return_counts) return result.values;
  ArrayTuple tuple;
  tuple.push_back(result.values);
  if (return_index) tuple.push_back(result.indices);
  if (return_inverse) tuple.push_back(result.inverse);
  if (return_counts) tuple.push_back(result.counts);
  return tuple;
}

UniqueAllResult unique_all(const NdArray& x) {
  const Range named("unique_all");
  const Unique result = unique_flat(x, true, true, true, /*equal_nan=*/false);
  return {result.values, result.indices, result.inverse.reshape(x.shape()), result.counts};
}
UniqueCountsResult unique_counts(const NdArray& x) {
  const Range named("unique_counts");
  const Unique result = unique_flat(x, false, false, true, /*equal_nan=*/false);
  return {result.values, result.counts};
}
UniqueInverseResult unique_inverse(const NdArray& x) {
  const Range named("unique_inverse");
  const Unique result = unique_flat(x, false, true, false, /*equal_nan=*/false);
  return {result.values, result.inverse.reshape(x.shape())};
}
NdArray unique_values(const NdArray& x) { return unique_flat(x, false, false, false, /*equal_nan=*/false).values; }

NdArray union1d(const NdArray& ar1, const NdArray& ar2) { return distinct(joined(ar1, ar2), false); }

std::variant<NdArray, ArrayTuple> intersect1d(const NdArray& ar1, const NdArray& ar2, bool assume_unique,
                                              bool return_indices) {
  const Range named("intersect1d");
  const ExecContext context = context_of(ar1, ar2);
  NdArray first, second, first_at, second_at;
  if (return_indices && !assume_unique) {
    const Unique one = unique_flat(ar1, true, false, false, true), two = unique_flat(ar2, true, false, false, true);
    first = one.values, first_at = one.indices, second = two.values, second_at = two.indices;
  } else {
    first = distinct(ar1, assume_unique), second = distinct(ar2, assume_unique);
  }
  const NdArray all = joined(first, second);
  if (!return_indices) {
    const NdArray sorted = sorted_rows(all, context);
    if (sorted.size() < 2) return part(sorted, 0, 0);
    const NdArray both = compress(equal(without_first(sorted), without_last(sorted)), without_last(sorted));
    return with_first_zero(both, sorted, all);
  }
  ArrayTuple result;
  const NdArray order = argsorted_rows(all, context);
  const NdArray sorted = take(all, order, 0, std::nullopt, "clip");
  const NdArray none({0}, DType::int64, context);
  if (sorted.size() < 2) {
    for (const NdArray& empty : {part(sorted, 0, 0), none, none}) result.push_back(empty);
    return result;
  }
  const NdArray mask = equal(without_first(sorted), without_last(sorted));
  NdArray in_first = compress(mask, without_last(order));
  NdArray in_second = subtract(compress(mask, without_first(order)), first.size());
  if (!assume_unique) {
    in_first = take(first_at, in_first, 0);
    in_second = take(second_at, in_second, 0);
  }
  for (const NdArray& one : {compress(mask, without_last(sorted)), in_first, in_second}) result.push_back(one);
  return result;
}

NdArray setdiff1d(const NdArray& ar1, const NdArray& ar2, bool assume_unique) {
  const Range named("setdiff1d");
  const NdArray first = distinct(ar1, assume_unique);
  return compress(isin(first, ar2, /*assume_unique=*/false, /*invert=*/true), first);
}

NdArray setxor1d(const NdArray& ar1, const NdArray& ar2, bool assume_unique) {
  const Range named("setxor1d");
  const ExecContext context = context_of(ar1, ar2);
  NdArray sorted = sorted_rows(joined(distinct(ar1, assume_unique), distinct(ar2, assume_unique)), context);
  if (sorted.size() == 0) return sorted;
  // An element of one set alone differs from both neighbours.
  const NdArray from_before = run_starts(sorted, /*equal_nan=*/false, context);
  const NdArray from_after = filled(sorted.size(), DType::bool_, true, context);
  without_last(from_after).assign(without_first(from_before), context);
  return compress(logical_and(from_before, from_after), sorted);
}

NdArray isin(const NdArray& element, const NdArray& test_elements, bool assume_unique, bool invert,
             std::optional<std::string_view> kind) {
  const Range named("isin");
  check_kind(kind, element, test_elements);
  const ExecContext context = context_of(element, test_elements);
  if (test_elements.size() == 0) return filled(element.size(), DType::bool_, invert, context).reshape(element.shape());
  // The CPU's search compares few elements one by one itself.
  if (!kind && test_elements.size() <= kFewElements && acts_as(context.device) != DeviceKind::cpu)
    return equal_to_any(element, test_elements, invert);
  if (is_mixed(element.dtype(), test_elements.dtype())) {
    // The same bits are the same number unless the upper one is set, and then there is no equal one.
    const NdArray wanted = words_of(element, context);
    const NdArray found = isin(wanted, words_of(test_elements, context), assume_unique, /*invert=*/false, kind);
    return invert ? logical_or(logical_not(found), less(wanted, 0)) : logical_and(found, greater_equal(wanted, 0));
  }
  if (!kind || *kind == "table") {
    if (const auto found = look_up(element, test_elements, context)) return invert ? logical_not(*found) : *found;
  }
  const DType common = promote_types(element.dtype(), test_elements.dtype());
  const auto as_common = [&](const NdArray& a) { return a.dtype() == common ? a : a.astype(common, context); };
  const NdArray set = sorted_rows(flattened(as_common(test_elements)), context);
  const NdArray wanted = packed(as_common(element), context);
  NdArray found(element.shape(), DType::bool_, context);
  if (found.size() == 0) return found;
  set.begin_read(context.stream);
  wanted.begin_read(context.stream);
  engine(context.device)
      .sorting()
      .contains(common, set.raw(), set.size(), wanted.raw(), wanted.size(), invert, found.data<bool>(), context);
  return found;
}

NdArray trim_zeros(const NdArray& filt, std::string_view trim, const Axes& axis) {
  const Range named("trim_zeros");
  std::string ends(trim);
  for (char& c : ends) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (ends != "fb" && ends != "bf" && ends != "f" && ends != "b")
    throw InvalidArgument(fmt::format("unexpected character(s) in `trim`: '{}'", ends));
  const uint32_t axes = axis.mask(filt.ndim());
  if (filt.ndim() == 0 || axes == 0) return filt;
  const NdArray positions = argwhere(filt);
  std::vector<int64_t> first(static_cast<size_t>(filt.ndim()), 0), last(static_cast<size_t>(filt.ndim()), -1);
  const bool nothing = positions.shape()[0] == 0;
  if (!nothing) first = to_vector<int64_t>(min(positions, 0)), last = to_vector<int64_t>(max(positions, 0));
  std::vector<IndexItem> index;
  for (int d = 0; d < filt.ndim(); ++d) {
    Slice slice;
    if (axes & (1u << d)) {
      if (nothing || ends.find('f') != std::string::npos) slice.start = first[static_cast<size_t>(d)];
      if (nothing || ends.find('b') != std::string::npos) slice.stop = last[static_cast<size_t>(d)] + 1;
    }
    index.emplace_back(slice);
  }
  return filt[index];
}

}  // namespace quarry::local::ops
