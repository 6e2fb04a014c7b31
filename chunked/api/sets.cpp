#include "quarry/chunked/api/sets.h"

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/histogram.h"
#include "quarry/chunked/api/lookups.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/ordering.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/sorting/sets.h"

namespace quarry {

using namespace compose;

namespace {

// As new arrays are cut.
Array cut_as_new(const Array& x) {
  const Grid grid = default_grid(x.shape(), x.dtype());
  return grid.count() > 1 ? x.rechunk(grid) : x;
}

// How many there are, and states in room for as many (algo.h).
struct Kept {
  int64_t count = 0;
  std::vector<Array> states;
};
Kept kept(std::vector<expr::NodePtr> states) {
  const Array number(states.back());
  states.pop_back();
  const Settled settled = settle(std::span(&number, 1), std::vector<Array>(states.begin(), states.end()));
  return {settled.values[0].item<int64_t>(), settled.kept};
}

// What is there, without the room that is left.
std::vector<Array> without_room(const Kept& kept) {
  std::vector<Array> there;
  for (const Array& array : kept.states) there.push_back(arrange::part(array, 0, 0, kept.count));
  if (kept.count < kept.states[0].shape()[0]) there = settle({}, there).kept;
  for (Array& array : there) array = cut_as_new(array);
  return there;
}

// How many distinct elements, or rows of `width`, the smallest rank's budget holds; 0 where that is not even two rows.
int64_t most_distinct(DType dtype, int64_t width, const algo::DistinctWanted& wanted) {
  constexpr int64_t kPart = 2;  // beside which there is room for what else a run keeps
  const int64_t bytes = Runtime::current().plan_bytes() / kPart;
  const int64_t most = bytes / algo::distinct_bytes(dtype, width, wanted);
  return width == 1 || most > 1 ? std::max<int64_t>(most, 1) : 0;
}

// In chunks of at most `most` elements or rows, which a task holds with what it makes of them.
Array in_chunks_of(const Array& x, int64_t most) {
  if (x.chunks().axis(0).largest() <= most) return x;
  std::vector<AxisChunks> axes = x.chunks().axes();
  axes[0] = AxisChunks(x.shape()[0], most);
  return x.rechunk(Grid(std::move(axes)));
}

// The distinct elements of a 1-d array, or rows of a 2-d one, with first positions and counts where they are wanted. Of
// more than a task holds: nothing.
std::vector<Array> distinct_of(const Array& x, const algo::DistinctWanted& wanted, int64_t most) {
  const AxisChunks& cuts = x.chunks().axis(0);
  // States of many chunks are small where the first chunk says that few elements are distinct, which may be wrong.
  constexpr int64_t kMany = 4, kTimes = 16, kLeast = 4096, kTogether = int64_t{1} << 18;
  int64_t room = most;
  if (cuts.count() > kMany && std::min(cuts.extent(), most) > kMany * kLeast) {
    const Array first = arrange::part(x, 0, 0, cuts.size(0));
    const Array number(algo::distinct(first.node(), {false, false, wanted.equal_nan}, cuts.size(0), most).back());
    room = std::min(most, std::max(kTimes * number.item<int64_t>(), kLeast));
  }
  while (true) {
    const int64_t together = std::min(2 * most, std::max(2 * room, kTogether));
    const Kept found = kept(algo::distinct(x.node(), wanted, room, together));
    if (found.count <= room) return without_room(found);
    if (room == most) return {};
    room = most;
  }
}

// Elements in order with what is carried, and which of them are the first of equal ones, computed.
struct InOrder {
  Array values, starts;
  std::vector<Array> carried;
};
InOrder in_order(const ordering::Request& request, bool equal_nan) {
  const ordering::Ordered rows = ordering::ordered(request);
  std::vector<Array> wanted{rows.keys[0], Array(algo::starts_of_equals(rows.keys[0].node(), equal_nan))};
  wanted.insert(wanted.end(), rows.carried.begin(), rows.carried.end());
  const std::vector<Array> kept = persist(wanted);
  return {kept[0], kept[1], {kept.begin() + 2, kept.end()}};
}

// The distinct elements or rows in order; which of all in order are the first of equal ones, and where those were.
struct BySort {
  Array distinct, starts;
  std::optional<Array> positions;
};

BySort elements_by_sort(const Array& flat, bool positions, bool equal_nan) {
  const InOrder all = in_order({.keys = {flat}, .positions = positions}, equal_nan);
  BySort result{boolean_index(all.values, all.starts), all.starts, std::nullopt};
  if (positions) result.positions = all.carried[0];
  return result;
}

// How many columns of some rows are sorted at once: as many as a task can have of the fewest rows that it takes.
int64_t columns_at_once(const Array& rows) {
  constexpr int64_t kMost = 64, kCopies = 16;  // of a row in a task, with what is beside it
  const int64_t bytes = std::min(rows.shape()[0], kLeastElements) * local::itemsize(rows.dtype());
  const int64_t room = Runtime::current().plan_bytes();
  return room == 0 ? kMost : std::clamp<int64_t>(room / (kCopies * bytes), 1, kMost);
}

// The distinct ones of many columns: rows whose positions are at `starts`, brought there some columns at a time.
Array in_order_of(const Array& rows, const Array& positions, const Array& starts, int64_t at_once) {
  const Array first = boolean_index(positions, starts).persist();
  const Array chosen = boolean_index(rows, ordering::in_places(positions, starts)).persist();
  const Array place = ordering::ordered({.keys = {first}, .keeps_keys = false, .positions = true}).carried[0].persist();
  std::vector<Array> columns;
  for (int64_t at = 0; at < rows.shape()[1]; at += at_once) {
    const Array some = arrange::part(chosen, 1, at, std::min(at_once, rows.shape()[1] - at));
    columns.push_back(ordering::in_places(place, some).persist());
  }
  return joined(columns, 1);
}

// In lexicographic order, NaN behind all numbers and equal to no other one. Columns are the keys of a sort. Of more
// columns than are sorted at once, the first ones are replaced by the number of what they are among the distinct ones.
BySort rows_by_sort(const Array& given, bool positions) {
  const int64_t count = given.shape()[0], width = given.shape()[1], at_once = std::min(columns_at_once(given), width);
  // Each column is read by itself.
  const int64_t together =
      std::clamp<int64_t>(most_on_every_rank() / (at_once * local::itemsize(given.dtype())), 1, count);
  const Array rows = given.rechunk(Grid::regular(given.shape(), {together, at_once})).persist();
  const bool is_wide = width > at_once;
  int64_t first = 0;
  std::optional<Array> number;
  const auto keys_up_to = [&](int64_t last) {
    std::vector<Array> keys;
    for (int64_t i = last - 1; i >= first; --i) keys.push_back(reshape(arrange::part(rows, 1, i, 1), {count}));
    if (number) keys.push_back(*number);
    first = last;
    return keys;
  };
  const auto starts_of = [&](const std::vector<Array>& keys, bool equal_nan) {
    std::optional<Array> starts;
    for (const Array& key : keys) {
      const Array of_key(algo::starts_of_equals(key.node(), equal_nan));
      starts = starts ? logical_or(*starts, of_key) : of_key;
    }
    return *starts;
  };
  while (width - first > at_once) {
    const ordering::Ordered some = ordering::ordered({.keys = keys_up_to(first + at_once), .positions = true});
    number = ordering::in_places(some.carried[0], cumsum(starts_of(some.keys, true)) - 1).persist();
  }
  ordering::Request request{.keys = keys_up_to(width), .positions = positions || is_wide};
  const bool has_nan = is_wide && is_inexact(rows.dtype());
  if (has_nan) request.carried = {any(isnan(rows), 1)};
  const ordering::Ordered all = ordering::ordered(request);
  std::vector<Array> wanted{starts_of(all.keys, /*equal_nan=*/is_wide)};
  if (has_nan) wanted[0] = logical_or(wanted[0], all.carried[0]);
  if (request.positions) wanted.push_back(all.carried.back());
  if (!is_wide) wanted.insert(wanted.end(), all.keys.rbegin(), all.keys.rend());
  const std::vector<Array> kept = persist(wanted);
  BySort result{Array(), kept[0], std::nullopt};
  if (request.positions) result.positions = kept[1];
  if (is_wide) {
    result.distinct = in_order_of(rows, *result.positions, result.starts, at_once);
  } else {
    std::vector<Array> columns;
    for (size_t i = request.positions ? 2 : 1; i < kept.size(); ++i)
      columns.push_back(with_axes(boolean_index(kept[i], result.starts), 1));
    result.distinct = joined(columns, 1);
  }
  return result;
}

// The same of any number of elements, or rows of a 2-d array, by a sort. The parts in NumPy's order.
std::vector<Array> unique_by_sort(const Array& x, const detail::UniqueParts& parts, bool equal_nan) {
  const bool positions = parts.index || parts.inverse;
  const BySort rows = x.ndim() > 1 ? rows_by_sort(x, positions) : elements_by_sort(x, positions, equal_nan);
  std::vector<Array> result{rows.distinct};
  if (parts.index) result.push_back(boolean_index(*rows.positions, rows.starts));
  if (parts.inverse) {
    const Array place = cumsum(rows.starts) - 1;
    result.push_back(ordering::in_places(*rows.positions, place));
  }
  if (parts.counts) {
    const Array first = flatnonzero(rows.starts).persist();
    const Array ends[] = {arrange::sliced(first, 0, local::Slice{1, std::nullopt, std::nullopt}),
                          constant({1}, x.shape()[0], DType::int64)};
    result.push_back(concatenate(ends, 0) - first);
  }
  return result;
}

// The local function of arrays without elements gives what there is.
std::vector<Array> unique_of_nothing(const Array& ar, const detail::UniqueParts& parts, std::optional<int64_t> axis,
                                     bool equal_nan) {
  const NdArray nothing(ar.shape(), ar.dtype(), local::default_context(local::kCpu));
  const auto found = local::ops::unique(nothing, parts.index, parts.inverse, parts.counts, axis, equal_nan);
  std::vector<Array> result;
  if (const auto* one = std::get_if<NdArray>(&found)) return {Array::from_local(*one)};
  for (const NdArray& part : std::get<local::ArrayTuple>(found)) result.push_back(Array::from_local(part));
  return result;
}

}  // namespace

std::vector<Array> detail::unique(const Array& ar, const UniqueParts& parts, std::optional<int64_t> axis,
                                  bool equal_nan) {
  const int along = axis ? local::normalize_axis(*axis, ar.ndim()) : 0;
  if (ar.size() == 0) return unique_of_nothing(ar, parts, axis, equal_nan);
  const bool rows = axis && ar.ndim() > 1;
  const Array moved = rows ? moveaxis(ar, along, 0) : ar;
  const Array all = rows ? reshape(moved, {moved.shape()[0], -1}) : ravel(ar);
  algo::DistinctWanted wanted{parts.index, parts.counts, equal_nan && !rows};
  // Their positions tell elements apart that equal nothing.
  const bool by_position = parts.inverse && !wanted.equal_nan && is_inexact(ar.dtype());
  wanted.index = wanted.index || by_position;
  const int64_t most = most_distinct(ar.dtype(), rows ? all.shape()[1] : 1, wanted);
  const Array flat = most == 0 ? all : in_chunks_of(rows ? with_whole_axis(all, 1) : all, most);
  const std::vector<Array> found = most == 0 ? std::vector<Array>{} : distinct_of(flat, wanted, most);
  const auto as_slices = [&](const Array& distinct) {
    Dims shape = moved.shape();
    shape[0] = distinct.shape()[0];
    return moveaxis(reshape(distinct, shape), 0, along);
  };
  std::vector<Array> result;
  if (found.empty()) {
    result = unique_by_sort(rows ? all : flat, parts, wanted.equal_nan);
    if (rows) result[0] = as_slices(result[0]);
    if (parts.inverse && !axis) {
      Array& inverse = result[parts.index ? 2 : 1];
      inverse = reshape(inverse, ar.shape());
    }
    return result;
  }
  result.push_back(rows ? as_slices(found[0]) : found[0]);
  if (parts.index) result.push_back(found[1]);
  if (parts.inverse) {
    const Array places(algo::places_of(flat.node(), found[0].node(), by_position ? found[1].node() : expr::NodePtr()));
    result.push_back(axis ? places : reshape(places, ar.shape()));
  }
  if (parts.counts) result.push_back(found.back());
  return result;
}

Array unique(const Array& ar, std::optional<int64_t> axis, bool equal_nan) {
  return detail::unique(ar, {}, axis, equal_nan)[0];
}
UniqueAllResult unique_all(const Array& x) {
  const std::vector<Array> all = detail::unique(x, {true, true, true}, std::nullopt, /*equal_nan=*/false);
  return {all[0], all[1], all[2], all[3]};
}
UniqueCountsResult unique_counts(const Array& x) {
  const std::vector<Array> all = detail::unique(x, {false, false, true}, std::nullopt, /*equal_nan=*/false);
  return {all[0], all[1]};
}
UniqueInverseResult unique_inverse(const Array& x) {
  const std::vector<Array> all = detail::unique(x, {false, true, false}, std::nullopt, /*equal_nan=*/false);
  return {all[0], all[1]};
}
Array unique_values(const Array& x) { return unique(x, std::nullopt, /*equal_nan=*/false); }

namespace {

// Whether a task holds these sets with what is made of them.
bool fit_a_task(const std::vector<Array>& sets) {
  int64_t bytes = 0;
  for (const Array& set : sets)
    bytes += 2 * set.size() * (local::itemsize(set.dtype()) + local::itemsize(DType::int64));
  return algo::line_task_bytes(bytes) <= Runtime::current().plan_bytes() / 2;
}

// Two sets as one array in order: which elements have an equal one before them, and which behind.
struct Merged {
  Array values, repeats, repeated;
  std::vector<Array> carried;  // what belongs to the elements of the first set and to those of the second
};
Merged merged(const std::vector<Array>& sets, const std::vector<Array>& carried = {}) {
  const DType dtype = promoted(sets);
  ordering::Request request{.keys = {joined({sets[0].astype(dtype), sets[1].astype(dtype)}, 0)}};
  if (!carried.empty()) request.carried = {joined(carried, 0)};
  const InOrder rows = in_order(request, /*equal_nan=*/false);
  const Array repeats = logical_not(rows.starts);
  const Array next[] = {arrange::sliced(repeats, 0, local::Slice{1, std::nullopt, std::nullopt}),
                        constant({1}, false, DType::bool_)};
  return {rows.values, repeats, concatenate(next, 0), rows.carried};
}

// A local set operation of distinct elements, which gives `most` of them at most.
template <class F>
std::vector<Array> of_distinct(const char* name, const std::vector<Array>& sets, const std::vector<DType>& results,
                               int64_t most, F operation) {
  if (most == 0) {
    std::vector<Array> nothing;
    for (const DType dtype : results) nothing.push_back(constant({0}, 0, dtype));
    return nothing;
  }
  std::vector<expr::NodePtr> nodes;
  for (const Array& set : sets) nodes.push_back(set.node());
  return without_room(kept(algo::counted_call(name, nodes, results, most, operation)));
}

using Arrays = std::span<const NdArray>;

}  // namespace

Array union1d(const Array& ar1, const Array& ar2) {
  const Array both[] = {ar1, ar2};
  return unique(concatenate(both, std::nullopt));
}

Array intersect1d(const Array& ar1, const Array& ar2, bool /*assume_unique*/) {
  const std::vector<Array> sets{unique(ar1), unique(ar2)};
  if (!fit_a_task(sets)) {
    const Merged both = merged(sets);
    return boolean_index(both.values, both.repeated);
  }
  const int64_t most = std::min(sets[0].size(), sets[1].size());
  return of_distinct("intersect1d", sets, {promoted(sets)}, most, [](Arrays given) {
    return std::vector<NdArray>{std::get<NdArray>(local::ops::intersect1d(given[0], given[1], true))};
  })[0];
}

std::array<Array, 3> intersect1d(const Array& ar1, const Array& ar2, ReturnIndex, bool /*assume_unique*/) {
  const auto [values1, first1] = unique(ar1, return_index);
  const auto [values2, first2] = unique(ar2, return_index);
  const DType dtype = promoted({values1, values2});
  if (!fit_a_task({values1, values2, first1, first2})) {
    // An element of the first set stands before the equal one of the second.
    const Merged both = merged({values1, values2}, {first1, first2});
    return {boolean_index(both.values, both.repeated), boolean_index(both.carried[0], both.repeated),
            boolean_index(both.carried[0], both.repeats)};
  }
  const int64_t most = std::min(values1.size(), values2.size());
  const std::vector<Array> found = of_distinct(
      "intersect1d", {values1, values2, first1, first2}, {dtype, DType::int64, DType::int64}, most, [](Arrays given) {
        const auto all = std::get<local::ArrayTuple>(local::ops::intersect1d(given[0], given[1], true, true));
        return std::vector<NdArray>{all[0], local::ops::take(given[2], all[1]), local::ops::take(given[3], all[2])};
      });
  return {found[0], found[1], found[2]};
}

Array setdiff1d(const Array& ar1, const Array& ar2, bool assume_unique) {
  const Array first = assume_unique ? ravel(ar1) : unique(ar1);
  return boolean_index(first, isin(first, unique(ar2), false, /*invert=*/true));
}

Array setxor1d(const Array& ar1, const Array& ar2, bool /*assume_unique*/) {
  const std::vector<Array> sets{unique(ar1), unique(ar2)};
  if (!fit_a_task(sets)) {
    const Merged both = merged(sets);
    return boolean_index(both.values, logical_not(logical_or(both.repeats, both.repeated)));
  }
  return of_distinct("setxor1d", sets, {promoted(sets)}, sets[0].size() + sets[1].size(), [](Arrays given) {
    return std::vector<NdArray>{local::ops::setxor1d(given[0], given[1], true)};
  })[0];
}

}  // namespace quarry
