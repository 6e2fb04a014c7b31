#include "quarry/chunked/api/quantile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/histogram.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/out.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/api/weighted_quantile.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/op/hash.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/statistics/order.h"
#include "quarry/local/ops/statistics/statistics.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/program/sorting_dispatch.h"

namespace quarry {
namespace {

using local::element_count;

// Of one pass and one row. One bracket has at most kMostOfOne thresholds.
constexpr size_t kThresholds = 32, kMostOfOne = 8;
constexpr size_t kBrackets = 16;

// Elements as unsigned integers in their order, and back; of any real dtype but bool.
std::vector<uint64_t> keys_of(const NdArray& values) {
  std::vector<uint64_t> keys(static_cast<size_t>(values.size()));
  local::keys::with_key(values.dtype(), [&]<class Key>() {
    const auto* bits = static_cast<const typename Key::Bits*>(values.raw());
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = Key::rank(bits[i]);
  });
  return keys;
}
NdArray elements_of(const std::vector<uint64_t>& keys, DType dtype, const Dims& shape) {
  NdArray values(shape, dtype, local::default_context(local::kCpu));
  local::keys::with_key(dtype, [&]<class Key>() {
    auto* bits = static_cast<typename Key::Bits*>(values.raw());
    for (size_t i = 0; i < keys.size(); ++i) bits[i] = Key::decode(static_cast<typename Key::Bits>(keys[i]));
  });
  return values;
}

// Where the element of a rank in a sorted row is: its key is in [low, high]; `below` elements are below that, and
// `up_to` not above it.
struct Search {
  int64_t rank = 0;
  uint64_t low = 0, high = 0;
  int64_t below = 0, up_to = 0;
  bool found = false;    // low is its key
  bool stalled = false;  // the last pass left more than half of the elements

  int64_t count() const { return up_to - below; }
  bool at_end() const { return rank == below || rank == up_to - 1; }
};

// The rows along some axes of a chunked array, never put together.
class CountedRows final : public local::RankedRows {
 public:
  CountedRows(const Array& a, uint32_t mask)
      : dtype_(a.dtype()), mask_(mask), kept_(local::reduced_shape(a.shape(), mask, false)) {
    x_ = dtype_ == DType::bool_ ? a.astype(DType::uint8) : a;
    for (int d = 0; d < a.ndim(); ++d)
      if (mask >> d & 1) {
        axes_.push_back(d);
        length_ *= a.shape()[d];
      }
    has_nan_ = local::is_float(dtype_);
    start();
  }

  Dims kept() const override { return kept_; }
  int64_t length() const override { return length_; }
  DType dtype() const override { return dtype_; }
  local::Device device() const override { return local::kCpu; }
  NdArray numbers() const override {
    Dims shape = kept_;
    shape.push_back(1);
    return local::from_vector(numbers_, shape);
  }
  NdArray select(const std::vector<int64_t>& kth) const override {
    const auto rows = static_cast<size_t>(count());
    std::vector<std::vector<int64_t>> ranks(rows, kth);
    Dims shape = kept_;
    shape.push_back(static_cast<int64_t>(kth.size()));
    return elements(ranks, shape, [&](size_t row, size_t j) { return row * kth.size() + j; });
  }
  NdArray at(const NdArray& positions) const override {
    const auto rows = static_cast<size_t>(count());
    const std::vector<int64_t> given = local::to_vector<int64_t>(positions);
    const size_t each = given.size() / rows;
    std::vector<std::vector<int64_t>> ranks(rows);
    for (size_t j = 0; j < each; ++j)
      for (size_t row = 0; row < rows; ++row) ranks[row].push_back(given[j * rows + row]);
    return elements(ranks, positions.shape(), [&](size_t row, size_t j) { return j * rows + row; });
  }

 private:
  Array count_of(const Array& condition) const {
    return count_nonzero(condition, local::Axes(axes_), {.keepdims = true});
  }
  // The smallest, or the largest, element where `condition` holds; something beyond without any.
  Array least(const Array& condition) const {
    return min(where(condition, x_, bound(/*last=*/true)), local::Axes(axes_), {.keepdims = true});
  }
  Array greatest(const Array& condition) const {
    return max(where(condition, x_, bound(/*last=*/false)), local::Axes(axes_), {.keepdims = true});
  }
  Scalar bound(bool last) const {
    if (has_nan_) return Scalar::strong((last ? 1 : -1) * std::numeric_limits<double>::infinity(), x_.dtype());
    return elements_of({last ? ~uint64_t{0} : 0}, x_.dtype(), {}).item();
  }
  // An element per row, beside the array: a number where there is one row.
  Operand beside(const std::vector<uint64_t>& keys) const {
    const NdArray values = elements_of(keys, x_.dtype(), local::reduced_shape(x_.shape(), mask_, true));
    return values.size() == 1 ? Operand(Scalar::strong(values.item(), x_.dtype())) : Operand(Array::from_local(values));
  }

  // Counts the numbers, and finds the smallest and the largest ones.
  void start() {
    const Array present = has_nan_ ? logical_not(isnan(x_)) : x_ == x_;
    const Array wanted[] = {count_of(present), least(present), greatest(present)};
    const std::vector<NdArray> values = to_host(wanted);
    numbers_ = local::to_vector<int64_t>(values[0]);
    low_ = keys_of(values[1]);
    high_ = keys_of(values[2]);
  }

  // The elements at these ranks of each row, at the places that `place` gives in an array of `shape`.
  NdArray elements(const std::vector<std::vector<int64_t>>& ranks, const Dims& shape,
                   const std::function<size_t(size_t, size_t)>& place) const;
  void narrow(std::vector<std::vector<Search>>& rows) const;
  void narrow_by_bins(std::vector<Search>& searches) const;
  bool find_among_few(std::vector<Search>& searches) const;

  Array x_;
  DType dtype_;
  uint32_t mask_;
  Dims kept_;
  std::vector<int64_t> axes_;
  int64_t length_ = 1;
  bool has_nan_ = false;
  std::vector<int64_t> numbers_;
  std::vector<uint64_t> low_, high_;  // of the numbers
};

NdArray CountedRows::elements(const std::vector<std::vector<int64_t>>& ranks, const Dims& shape,
                              const std::function<size_t(size_t, size_t)>& place) const {
  std::vector<std::vector<Search>> rows(ranks.size());
  for (size_t row = 0; row < rows.size(); ++row)
    for (const int64_t rank : ranks[row]) {
      Search search{rank, low_[row], high_[row], 0, numbers_[row], false};
      if (rank >= numbers_[row]) {
        search.low = ~uint64_t{0};  // a NaN
        search.found = true;
      } else if (rank == 0 || rank == numbers_[row] - 1 || search.low == search.high) {
        if (rank != 0) search.low = search.high;
        search.found = true;
      }
      rows[row].push_back(search);
    }
  narrow(rows);
  std::vector<uint64_t> keys(static_cast<size_t>(element_count(shape)));
  for (size_t row = 0; row < rows.size(); ++row)
    for (size_t j = 0; j < rows[row].size(); ++j) keys[place(row, j)] = rows[row][j].low;
  const NdArray values = elements_of(keys, x_.dtype(), shape);
  return dtype_ == DType::bool_ ? values.astype(DType::bool_) : values;
}

// A bracket of keys in which ranks are searched for.
struct Bracket {
  uint64_t low, high;
  int64_t count;                  // of the elements
  bool ends = false;              // the smallest and the largest element are wanted
  std::vector<double> positions;  // of the ranks that lie inside, in [0, 1], if the keys were evenly spread

  bool holds(const Search& search) const { return low == search.low && high == search.high; }
};

std::vector<Bracket> brackets_of(const std::vector<Search>& searches) {
  std::vector<Bracket> brackets;
  for (const Search& search : searches) {
    if (search.found) continue;
    auto bracket = std::find_if(brackets.begin(), brackets.end(), [&](const Bracket& b) { return b.holds(search); });
    if (bracket == brackets.end()) {
      if (brackets.size() == kBrackets) continue;
      brackets.push_back({search.low, search.high, search.count(), false, {}});
      bracket = brackets.end() - 1;
    }
    bracket->ends = bracket->ends || search.at_end() || search.stalled;
    if (!search.at_end())
      bracket->positions.push_back((static_cast<double>(search.rank - search.below) + 0.5) /
                                   static_cast<double>(search.count()));
  }
  return brackets;
}

// Keys in [low, high) of each bracket with ranks inside, ascending: some evenly spaced, for any data; the others where
// the ranks should be, as far off as the counts of evenly spread random keys deviate.
std::vector<uint64_t> thresholds_of(const std::vector<Bracket>& brackets) {
  std::vector<uint64_t> thresholds;
  const size_t most = std::clamp<size_t>(kThresholds / std::max<size_t>(brackets.size(), 1), 2, kMostOfOne);
  for (const Bracket& bracket : brackets) {
    if (bracket.positions.empty()) continue;
    const uint64_t span = bracket.high - bracket.low;
    const auto add = [&](double position) {
      const double offset = std::clamp(position, 0.0, 1.0) * static_cast<double>(span);
      const uint64_t step = offset < static_cast<double>(span) ? static_cast<uint64_t>(offset) : span;
      thresholds.push_back(bracket.low + std::min(step, span - 1));
    };
    const size_t even = most / 2;
    for (size_t i = 1; i <= even; ++i) add(static_cast<double>(i) / static_cast<double>(even + 1));
    const double deviation = 0.5 / std::sqrt(static_cast<double>(bracket.count));
    size_t left = most - even;
    for (const double distance : {1., 4.})
      for (const double position : bracket.positions)
        for (const double side : {-1., 1.}) {
          if (left == 0) break;
          add(position + side * distance * deviation);
          --left;
        }
  }
  std::sort(thresholds.begin(), thresholds.end());
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  return thresholds;
}

// One pass that counts the elements of a single row in equal bins: most data are left with few elements around each
// rank. Bins that say nothing (equal edges, one bin with nearly everything) leave the search as it is.
void CountedRows::narrow_by_bins(std::vector<Search>& searches) const {
  constexpr int64_t kMostBins = 1 << 14, kLeastBins = 64;
  // Tasks have edges and counts beside their chunk.
  const int64_t bins = std::min(kMostBins, compose::most_on_every_rank() / static_cast<int64_t>(4 * sizeof(double)));
  if (bins < kLeastBins) return;
  const NdArray ends = elements_of({low_[0], high_[0]}, x_.dtype(), {2});
  const Scalar first = ends[{0}].item(), last = ends[{1}].item();
  if (!std::isfinite(last.as_double() - first.as_double())) return;
  const auto [counted, edges] = histogram(x_, bins, {.range = {{first, last}}});
  const Array wanted[] = {counted, edges};
  const std::vector<NdArray> values = to_host(wanted);
  if (values[1].dtype() != x_.dtype()) return;
  const std::vector<int64_t> counts = local::to_vector<int64_t>(values[0]);
  const std::vector<uint64_t> keys = keys_of(values[1]);
  for (Search& search : searches) {
    if (search.found) continue;
    int64_t below = 0;
    size_t bin = 0;
    while (bin + 1 < counts.size() && below + counts[bin] <= search.rank) below += counts[bin++];
    const uint64_t low = std::max(keys[bin], search.low);
    const uint64_t high = bin + 1 < counts.size() ? std::min(keys[bin + 1] - 1, search.high) : search.high;
    if (low > high || below + counts[bin] <= search.rank) continue;
    search = {search.rank, low, high, below, below + counts[bin], low == high};
  }
}

// Brings the elements of a single row that are left to every rank and sorts them, if they are few.
bool CountedRows::find_among_few(std::vector<Search>& searches) const {
  const std::vector<Bracket> brackets = brackets_of(searches);  // disjoint
  const bool are_all = std::ranges::all_of(searches, [&](const Search& search) {
    return search.found || std::ranges::any_of(brackets, [&](const Bracket& b) { return b.holds(search); });
  });
  int64_t count = 0;
  for (const Bracket& bracket : brackets) count += bracket.count;
  const int64_t most = compose::most_on_every_rank() / (4 * local::itemsize(x_.dtype()));
  if (!are_all || count > most) return false;
  if (brackets.empty()) return true;
  std::optional<Array> inside;
  for (const Bracket& bracket : brackets) {
    const Array here = logical_and(greater_equal(x_, beside({bracket.low})), less_equal(x_, beside({bracket.high})));
    inside = inside ? logical_or(*inside, here) : here;
  }
  std::vector<uint64_t> keys = keys_of(x_[*inside].to_host());
  std::sort(keys.begin(), keys.end());
  for (Search& search : searches) {
    if (search.found) continue;
    const auto begin = std::lower_bound(keys.begin(), keys.end(), search.low);
    search.low = search.high = *(begin + (search.rank - search.below));
    search.found = true;
  }
  return true;
}

void CountedRows::narrow(std::vector<std::vector<Search>>& rows) const {
  const bool single = rows.size() == 1;
  if (single && has_nan_ && local::itemsize(x_.dtype()) >= 4) narrow_by_bins(rows[0]);
  while (true) {
    if (single && find_among_few(rows[0])) return;
    std::vector<std::vector<Bracket>> brackets;  // whose ends are wanted
    std::vector<std::vector<uint64_t>> thresholds;
    size_t most_brackets = 0, most_thresholds = 0;
    for (const std::vector<Search>& row : rows) {
      std::vector<Bracket> all = brackets_of(row);
      thresholds.push_back(thresholds_of(all));
      std::erase_if(all, [](const Bracket& bracket) { return !bracket.ends; });
      brackets.push_back(std::move(all));
      most_brackets = std::max(most_brackets, brackets.back().size());
      most_thresholds = std::max(most_thresholds, thresholds.back().size());
    }
    if (most_brackets == 0 && most_thresholds == 0) return;

    // Rows with fewer repeat their last one; those without any take part with some.
    const auto keys_at = [&](size_t i, auto&& key) {
      std::vector<uint64_t> keys;
      for (size_t row = 0; row < rows.size(); ++row) keys.push_back(key(row, i));
      return keys;
    };
    std::vector<Array> wanted;
    for (size_t i = 0; i < most_thresholds; ++i) {
      wanted.push_back(count_of(less_equal(x_, beside(keys_at(i, [&](size_t row, size_t j) {
                                             const auto& own = thresholds[row];
                                             return own.empty() ? low_[row] : own[std::min(j, own.size() - 1)];
                                           })))));
    }
    const auto bracket_at = [&](size_t row, size_t j) {
      const auto& own = brackets[row];
      return own.empty() ? Bracket{low_[row], high_[row], 0, false, {}} : own[std::min(j, own.size() - 1)];
    };
    for (size_t i = 0; i < most_brackets; ++i) {
      wanted.push_back(
          least(greater_equal(x_, beside(keys_at(i, [&](size_t row, size_t j) { return bracket_at(row, j).low; })))));
      wanted.push_back(
          greatest(less_equal(x_, beside(keys_at(i, [&](size_t row, size_t j) { return bracket_at(row, j).high; })))));
    }
    const std::vector<NdArray> values = to_host(wanted);
    std::vector<std::vector<int64_t>> counts;
    for (size_t i = 0; i < most_thresholds; ++i) counts.push_back(local::to_vector<int64_t>(values[i]));
    std::vector<std::vector<uint64_t>> ends;
    for (size_t i = most_thresholds; i < values.size(); ++i) ends.push_back(keys_of(values[i]));

    for (size_t row = 0; row < rows.size(); ++row) {
      for (Search& search : rows[row]) {
        if (search.found) continue;
        const int64_t before = search.count();
        const auto known = std::find_if(brackets[row].begin(), brackets[row].end(),
                                        [&](const Bracket& bracket) { return bracket.holds(search); });
        if (known != brackets[row].end()) {
          const auto i = static_cast<size_t>(known - brackets[row].begin());
          const bool last = search.rank == search.up_to - 1;
          const uint64_t low = ends[2 * i][row], high = ends[2 * i + 1][row];
          if (search.rank == search.below || last || low == high) {
            search.low = search.rank == search.below ? low : high;
            search.found = true;
            continue;
          }
          search.low = low;
          search.high = high;
        }
        for (size_t i = 0; i < thresholds[row].size(); ++i) {
          const uint64_t threshold = thresholds[row][i];
          const int64_t up_to = counts[i][row];
          if (up_to <= search.rank) {
            if (threshold >= search.low) {
              search.low = threshold + 1;
              search.below = up_to;
            }
          } else {
            if (threshold < search.high) {
              search.high = threshold;
              search.up_to = up_to;
            }
            break;
          }
        }
        search.found = search.low == search.high;
        search.stalled = search.count() > before / 2;
      }
    }
  }
}

local::Slice rows_between(int64_t begin, int64_t end) { return {begin, end, std::nullopt}; }

// The statistic over the axes of `mask`, which stay with one element, behind `leading` axes: by `small` of arrays of at
// most a chunk, by `large` of rows that are few enough, else in halves.
template <class Small, class Large>
NdArray in_parts(const Array& a, uint32_t mask, int leading, const Small& small, const Large& large) {
  const int64_t most = compose::most_on_every_rank();
  if (a.nbytes() <= most) return small(a.to_host());
  if (local::is_complex(a.dtype())) throw local::NotSupported("medians of complex numbers of more than a chunk");
  const int64_t rows = element_count(local::reduced_shape(a.shape(), mask, false));
  constexpr int64_t kBytes = static_cast<int64_t>(sizeof(uint64_t) * (kThresholds + 2 * kBrackets));
  if (rows == 1 || rows <= most / kBytes) return large(CountedRows(a, mask), a.shape());
  int axis = -1;
  for (int d = 0; d < a.ndim(); ++d)
    if (!(mask >> d & 1) && (axis < 0 || a.shape()[d] > a.shape()[axis])) axis = d;
  const int64_t extent = a.shape()[axis];
  const auto part = [&](int64_t begin, int64_t end) {
    std::vector<local::IndexItem> items(static_cast<size_t>(a.ndim()), local::full_slice);
    items[static_cast<size_t>(axis)] = rows_between(begin, end);
    return in_parts(a[std::span<const local::IndexItem>(items)], mask, leading, small, large);
  };
  const NdArray first = part(0, extent / 2), second = part(extent / 2, extent);
  return local::ops::concatenate({first, second}, axis + leading);
}

Array without_axes(const NdArray& result, const Array& a, uint32_t mask, int leading, bool keepdims) {
  Dims shape(result.shape().begin(), result.shape().begin() + leading);
  for (const int64_t extent : local::reduced_shape(a.shape(), mask, keepdims)) shape.push_back(extent);
  return Array::from_local(result.reshape(shape));
}

// Along one axis whose lines are short beside a chunk: of whole lines, lazily. Nothing for other arrays. `statistic`
// gives of an array one whose last axes are gone and whose first ones, of shape `leading`, are new.
std::optional<Array> of_whole_lines(const char* function, const Array& a, uint32_t mask, const Dims& leading,
                                    uint64_t identity, bool keepdims,
                                    const std::function<NdArray(const NdArray&)>& statistic) {
  constexpr int64_t kLeastLines = 8;  // of a chunk
  constexpr int64_t kCopies = 6;      // of a chunk that a quantile of it takes at most
  constexpr int64_t kResultBytes = int64_t{1} << 20;
  const int64_t most = compose::most_on_every_rank();
  if (std::popcount(mask) != 1 || a.nbytes() <= most) return std::nullopt;
  const int axis = std::countr_zero(mask);
  const int64_t line_bytes = a.shape()[axis] * local::itemsize(a.dtype());
  if (line_bytes > most / kLeastLines) return std::nullopt;
  const int64_t bytes = (kCopies + 2) * local::itemsize(a.dtype());  // for each element, with a chunk and its result
  // Chunks are cut last: views of generated arrays have chunks of their own.
  const Array lines =
      compose::in_fitting_chunks(compose::with_whole_axis(moveaxis(a, axis, -1), a.ndim() - 1), bytes, a.ndim() - 1);
  // What the call refuses, and the result's dtype.
  const NdArray tried = statistic(local::ops::zeros({1, std::min<int64_t>(a.shape()[axis], 2)}, a.dtype()));
  const int64_t count = local::element_count(leading);
  BlockOptions options;
  options.name = function;
  options.identity = op::Hash().add(identity).add(std::string_view(function)).value;
  options.dtypes = {tried.dtype()};
  options.scratch_bytes =
      kCopies * std::max(largest_chunk_bytes(lines.chunks(), local::itemsize(a.dtype())), line_bytes) +
      (count + 1) * kResultBytes;
  GufuncOptions how;
  how.output_sizes["q"] = count;
  const auto of_chunk = [statistic, count](const NdArray& chunk) {
    const NdArray result = statistic(chunk);
    Dims shape(chunk.shape().begin(), chunk.shape().end() - 1);
    shape.insert(0, count);
    return local::ops::moveaxis(result.reshape(shape), 0, -1);
  };
  Array result = moveaxis(apply_gufunc(of_chunk, "(i)->(q)", {lines}, how, options)[0], -1, 0);
  Dims shape = leading;
  for (const int64_t extent : local::reduced_shape(a.shape(), mask, keepdims)) shape.push_back(extent);
  return reshape(result, shape);
}

Array median_of(const char* function, const Array& a, const Axes& axis, const std::optional<Array>& out, bool keepdims,
                bool ignore_nan) {
  refuse_out(function, out);
  const uint32_t mask = local::axes_mask(axis, a.ndim());
  const auto of_last_axis = [ignore_nan](const NdArray& part) {
    return (ignore_nan ? local::ops::nanmedian : local::ops::median)(part, -1, std::nullopt, false, false);
  };
  if (const auto lines = of_whole_lines(function, a, mask, {}, 0, keepdims, of_last_axis)) return *lines;
  const NdArray result = in_parts(
      a, mask, 0,
      [&](const NdArray& part) {
        return (ignore_nan ? local::ops::nanmedian : local::ops::median)(part, axis, std::nullopt, false, true);
      },
      [&](const CountedRows& rows, const Dims& shape) {
        return local::ranked_median(rows, shape, mask, ignore_nan, true);
      });
  return without_axes(result, a, mask, 0, keepdims);
}

Array quantile_of(const char* function, weighted::LocalQuantile small, const Array& a, const Operand& q, bool percent,
                  bool ignore_nan, const Axes& axis, const QuantileOptions& options) {
  refuse_out(function, options.out);
  const uint32_t mask = local::axes_mask(axis, a.ndim());
  const std::optional<NdArray> host = q.is_array() ? std::optional(q.array().to_host()) : std::nullopt;
  const local::Arg wanted = host ? local::Arg(*host) : local::Arg(q.scalar());
  // NumPy forgets the quantiles of nothing.
  const int leading = host && !(ignore_nan && a.size() == 0) ? host->ndim() : 0;
  if (!options.weights) {
    const std::optional<Scalar> number = host ? std::nullopt : std::optional(q.scalar());
    const auto of_last_axis = [small, host, number, method = std::string(options.method)](const NdArray& part) {
      const std::optional<NdArray> here = host ? std::optional(host->to(part.device())) : std::nullopt;
      return small(part, here ? local::Arg(*here) : local::Arg(*number), -1, std::nullopt, false, method, false,
                   std::nullopt);
    };
    op::Hash identity;
    identity.add(std::string_view(options.method)).add(host.has_value());
    if (host) {
      identity.add(host->shape()).add(static_cast<int>(host->dtype()));
      for (const double value : local::to_vector<double>(host->astype(DType::float64))) identity.add(value);
    } else {
      identity.add(number->as_double()).add(number->weak());
    }
    if (const auto lines = of_whole_lines(function, a, mask, leading > 0 ? host->shape() : Dims(), identity.value,
                                          options.keepdims, of_last_axis))
      return *lines;
  }
  if (options.weights) {
    const int64_t item = std::max<int64_t>(local::itemsize(a.dtype()), sizeof(double));
    if (a.size() * item > compose::most_on_every_rank()) {
      const NdArray values = host ? *host : local::ops::full({}, q.scalar());
      return weighted::quantile({function, small, values, percent, ignore_nan}, a, *options.weights, axis,
                                options.method, options.keepdims);
    }
    const NdArray result =
        small(a.to_host(), wanted, axis, std::nullopt, false, options.method, true, options.weights->to_host());
    return without_axes(result, a, mask, leading, options.keepdims);
  }
  const NdArray result = in_parts(
      a, mask, leading,
      [&](const NdArray& part) {
        return small(part, wanted, axis, std::nullopt, false, options.method, true, std::nullopt);
      },
      [&](const CountedRows& rows, const Dims& shape) {
        return local::ranked_quantile(rows, shape, wanted, percent, ignore_nan, axis, options.method, true);
      });
  return without_axes(result, a, mask, leading, options.keepdims);
}

}  // namespace

Array median(const Array& a, const Axes& axis, const std::optional<Array>& out, bool /*overwrite_input*/,
             bool keepdims) {
  return median_of("median", a, axis, out, keepdims, /*ignore_nan=*/false);
}
Array nanmedian(const Array& a, const Axes& axis, const std::optional<Array>& out, bool /*overwrite_input*/,
                bool keepdims) {
  return median_of("nanmedian", a, axis, out, keepdims, /*ignore_nan=*/true);
}

#define QUARRY_QUANTILE(name, percent, ignore_nan)                                                 \
  Array name(const Array& a, const Operand& q, const Axes& axis, const QuantileOptions& options) { \
    return quantile_of(#name, &local::ops::name, a, q, percent, ignore_nan, axis, options);        \
  }
QUARRY_QUANTILE(percentile, true, false)
QUARRY_QUANTILE(quantile, false, false)
QUARRY_QUANTILE(nanpercentile, true, true)
QUARRY_QUANTILE(nanquantile, false, true)
#undef QUARRY_QUANTILE

}  // namespace quarry
