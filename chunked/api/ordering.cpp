#include "quarry/chunked/api/ordering.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "quarry/chunked/algo/sort.h"
#include "quarry/chunked/api/nodes.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/grid/listing.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/ops/manipulation/arrange.h"

namespace quarry::ordering {

namespace {

using algo::SortedColumns;
using algo::SortStep;
using algo::Stretch;
using algo::Stretches;

constexpr int64_t kMostRuns = 512;                  // that meet in a task
constexpr int64_t kMostSamples = int64_t{1} << 21;  // in the memory of every rank
constexpr int64_t kLeastStride = 16;
constexpr int64_t kWindow = 3;  // strides of each run between the brackets of a cut, at most

// Each line in equal chunks of at most `rows` rows.
AxisChunks equal_chunks(int64_t count, int64_t line, int64_t rows) {
  const int64_t each = line / ((line + rows - 1) / rows) + (line % ((line + rows - 1) / rows) != 0 ? 1 : 0);
  check_listable(count / each);
  std::vector<int64_t> extents;
  for (int64_t first = 0; first < count; first += line)
    for (int64_t at = 0; at < line; at += each) extents.push_back(std::min(each, line - at));
  return AxisChunks(extents);
}

bool keeps_lines(const AxisChunks& cuts, int64_t line) {
  check_listable(cuts.count());
  for (int64_t i = 0; i < cuts.count(); ++i)
    if (cuts.size(i) == 0 || cuts.start(i) / line != (cuts.start(i + 1) - 1) / line) return false;
  return true;
}

int64_t line_of(const Request& request) { return request.line > 0 ? request.line : request.keys[0].size(); }

SortStep runs_step(const Request& request, const Layout& layout) {
  SortStep step;
  step.line = line_of(request);
  step.positions = request.positions;
  step.signs = request.signs;
  step.stride = layout.levels > 0 ? layout.stride : 0;
  step.keeps_keys = layout.levels > 0 || request.keeps_keys;
  return step;
}

SortedColumns columns_of(const Request& request) { return {nodes_of(request.keys), nodes_of(request.carried)}; }

// In such chunks of rows, the other axes whole.
Array in_rows(const Array& array, const AxisChunks& rows) {
  std::vector<AxisChunks> axes{rows};
  for (int d = 1; d < array.ndim(); ++d) axes.emplace_back(array.shape()[d], std::max<int64_t>(array.shape()[d], 1));
  const Grid grid(std::move(axes));
  return array.chunks() == grid ? array : array.rechunk(grid);
}

SortedColumns cut_columns(const Request& request, const AxisChunks& runs) {
  SortedColumns columns;
  for (const Array& key : request.keys) columns.keys.push_back(in_rows(key, runs).node());
  for (const Array& array : request.carried) columns.carried.push_back(in_rows(array, runs).node());
  return columns;
}

std::vector<Array> arrays_of(const std::vector<expr::NodePtr>& nodes) {
  return std::vector<Array>(nodes.begin(), nodes.end());
}

// Consecutive rows that are sorted, with the places of their samples.
struct Run {
  int64_t start = 0, count = 0;
  std::vector<int64_t> samples;  // places in the run, ascending; the first is 0

  int64_t at(int64_t n) const { return n < std::ssize(samples) ? samples[static_cast<size_t>(n)] : count; }
  // Where `n` samples precede a row, at least so many elements do.
  int64_t least(int64_t n) const { return n == 0 ? 0 : samples[static_cast<size_t>(n - 1)] + 1; }
};
// Runs that are merged, those of numbers [first, last).
struct Group {
  size_t first = 0, last = 0;
  int64_t start = 0, count = 0;
};

// The first rows of a group, some numbers of them: how many each run gives of those, at least and at most.
struct Brackets {
  std::vector<std::vector<int64_t>> least, most;  // by cut and run
};

// Samples in their order, equal ones in that of runs and places, as the rows have it. Before a sample there are, of
// another run of which n samples precede it, the rows up to the n-th of those, and none behind the next one; of its
// own run those before it. So its rank is bracketed, and every cut lies between two samples.
Brackets brackets_of(std::span<const Run> runs, std::span<const int64_t> order, std::span<const int64_t> cuts) {
  std::vector<size_t> run_of;
  for (size_t r = 0; r < runs.size(); ++r) run_of.insert(run_of.end(), runs[r].samples.size(), r);
  Brackets brackets;
  std::vector<int64_t> before(runs.size(), 0);  // samples of each run
  int64_t most = 0;                             // rows before sample i
  size_t i = 0;
  for (const int64_t cut : cuts) {
    // The last sample that has at most `cut` rows before it.
    while (i + 1 < order.size()) {
      const size_t r = run_of[static_cast<size_t>(order[i])];
      const int64_t step = runs[r].at(before[r] + 1) - runs[r].at(before[r]);
      if (most + step > cut) break;
      most += step;
      ++before[r];
      ++i;
    }
    const size_t own = run_of[static_cast<size_t>(order[i])];
    std::vector<int64_t>& low = brackets.least.emplace_back();
    for (size_t r = 0; r < runs.size(); ++r) low.push_back(r == own ? runs[r].at(before[r]) : runs[r].least(before[r]));
  }
  std::ranges::fill(before, 0);
  int64_t least = 0;
  i = 0;
  for (const int64_t cut : cuts) {
    // The first one that has at least so many.
    for (; i < order.size(); ++i) {
      const size_t r = run_of[static_cast<size_t>(order[i])];
      const int64_t here = runs[r].least(before[r]);
      if (least - here + runs[r].at(before[r]) >= cut) break;
      ++before[r];
      least += runs[r].least(before[r]) - here;
    }
    std::vector<int64_t>& high = brackets.most.emplace_back();
    for (size_t r = 0; r < runs.size(); ++r) high.push_back(runs[r].at(before[r]));
  }
  return brackets;
}

std::vector<Group> groups_of(const std::vector<Run>& runs, int64_t line, int64_t together) {
  std::vector<Group> groups;
  for (size_t r = 0; r < runs.size(); ++r) {
    const bool starts = groups.empty() || runs[r].start % line == 0 ||
                        std::cmp_equal(groups.back().last - groups.back().first, together);
    if (starts) groups.push_back({r, r, runs[r].start, 0});
    groups.back().last = r + 1;
    groups.back().count += runs[r].count;
  }
  return groups;
}

// What is sorted in part: columns of runs, the groups that are merged next, and what orders the samples of each, on
// every rank.
struct State {
  SortedColumns columns;
  std::vector<Run> runs;
  std::vector<Group> groups;
  std::vector<NdArray> samples;  // of each key, run after run; none where their order is known
  std::optional<NdArray> order;  // of the samples of a group, group after group

  std::span<const Run> runs_of(const Group& group) const {
    return std::span(runs).subspan(group.first, group.last - group.first);
  }
};

int64_t samples_of(std::span<const Run> runs) {
  int64_t samples = 0;
  for (const Run& run : runs) samples += std::ssize(run.samples);
  return samples;
}

// Whether a task can put so many samples in order; else every rank does so in its host memory.
bool orders_by_tasks(const std::vector<expr::NodePtr>& keys, int64_t samples) {
  constexpr int64_t kTasks = 4;  // that are to fit
  int64_t row_bytes = local::itemsize(DType::int64);
  for (const expr::NodePtr& key : keys) row_bytes += local::itemsize(key->dtype);
  return algo::line_task_bytes(samples * row_bytes) <= Runtime::current().plan_bytes() / kTasks;
}

// Where nothing runs: as if every run had elements like those of the others.
NdArray planned_order(const State& state) {
  std::vector<int64_t> all;
  for (const Group& group : state.groups) {
    std::vector<std::pair<double, int64_t>> places;  // in its run, of each sample
    for (const Run& run : state.runs_of(group))
      for (const int64_t sample : run.samples)
        places.emplace_back(static_cast<double>(sample) / static_cast<double>(run.count), std::ssize(places));
    std::ranges::sort(places);
    for (const auto& [place, number] : places) all.push_back(number);
  }
  return local::from_vector(all);
}
std::vector<int64_t> planned_counts(const Stretches& windows, const std::vector<int64_t>& taken) {
  std::vector<int64_t> counts;
  for (size_t cut = 0; cut < windows.size(); ++cut) {
    int64_t wanted = taken[cut], left = 0;
    for (const Stretch& stretch : windows[cut]) left += stretch.count;
    for (const Stretch& stretch : windows[cut]) {
      counts.push_back(std::min(stretch.count, (wanted * stretch.count + left - 1) / left));
      wanted -= counts.back();
      left -= stretch.count;
    }
  }
  return counts;
}

// Computes sorted chunks; `runs` of consecutive chunks. `together` of a line are merged next.
State settled(const algo::SortedChunks& chunks, const std::vector<std::pair<int64_t, int64_t>>& runs,
              const SortStep& step, int64_t together) {
  const AxisChunks& cuts = chunks.columns.keys[0]->grid.axis(0);
  State state;
  for (const auto& [first, last] : runs) {
    Run run{cuts.start(first), cuts.start(last) - cuts.start(first), {}};
    for (int64_t i = first; i < last; ++i)
      for (int64_t at = cuts.start(i); at < cuts.start(i + 1); at += step.stride) run.samples.push_back(at - run.start);
    state.runs.push_back(std::move(run));
  }
  state.groups = groups_of(state.runs, step.line, together);
  std::vector<int64_t> counts;  // of the samples of each group
  for (const Group& group : state.groups) counts.push_back(samples_of(state.runs_of(group)));
  std::vector<Array> keep = arrays_of(chunks.columns.keys), values = arrays_of(chunks.samples);
  for (const expr::NodePtr& node : chunks.columns.carried) keep.emplace_back(node);
  const bool by_tasks = orders_by_tasks(chunks.samples, std::ranges::max(counts));
  if (by_tasks) {
    const AxisChunks of_groups(counts);
    std::vector<expr::NodePtr> joined;
    for (const Array& samples : values) joined.push_back(samples.rechunk(Grid({of_groups})).node());
    values = {Array(algo::orders_in_chunks("sort samples", joined, of_groups, step.signs))};
  }
  const Settled known = settle(values, keep, InPlans::zeros);
  if (known.is_planned)
    state.order = planned_order(state);
  else if (by_tasks)
    state.order = known.values[0];
  else
    state.samples = known.values;
  for (const Array& array : known.kept) {
    const bool is_key = state.columns.keys.size() < chunks.columns.keys.size();
    (is_key ? state.columns.keys : state.columns.carried).push_back(array.node());
  }
  return state;
}

// For every group and cut, how many rows of each of its runs stand before the cut; the ends of the runs behind them.
using Splits = std::vector<std::vector<std::vector<int64_t>>>;

Splits splits_of(const State& state, const std::vector<std::vector<int64_t>>& cuts, bool signs) {
  const std::vector<Group>& groups = state.groups;
  Splits splits;
  // Brackets that are not empty are brought together, a chunk for each cut.
  struct Open {
    size_t group, cut;
    std::vector<size_t> runs;
  };
  std::vector<Open> open;
  const auto windows = std::make_shared<Stretches>();
  std::vector<int64_t> taken;
  int64_t sample = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    const std::span<const Run> runs = state.runs_of(group);
    const int64_t samples = samples_of(runs);
    std::vector<NdArray> keys;
    const int64_t first_sample = sample;
    for (const NdArray& all : state.samples) keys.push_back(local::arrange::part(all, 0, first_sample, samples));
    sample += samples;
    std::vector<std::vector<int64_t>>& of_group = splits.emplace_back();
    if (cuts[g].empty()) continue;
    const NdArray found =
        state.order ? local::arrange::part(*state.order, 0, first_sample, samples) : algo::order_of(keys, signs);
    const std::vector<int64_t> order = local::to_vector<int64_t>(found);
    const Brackets brackets = brackets_of(runs, order, cuts[g]);
    for (size_t c = 0; c < cuts[g].size(); ++c) {
      const std::vector<int64_t>&low = brackets.least[c], &high = brackets.most[c];
      int64_t below = 0, between = 0;
      for (size_t r = 0; r < runs.size(); ++r) {
        below += low[r];
        between += high[r] - low[r];
      }
      const int64_t wanted = cuts[g][c] - below;
      QUARRY_CHECK(wanted >= 0 && wanted <= between);
      of_group.push_back(wanted == between ? high : low);
      if (wanted == 0 || wanted == between) continue;
      Open& one = open.emplace_back(Open{g, c, {}});
      std::vector<Stretch>& stretches = windows->emplace_back();
      for (size_t r = 0; r < runs.size(); ++r) {
        if (low[r] == high[r]) continue;
        one.runs.push_back(r);
        stretches.push_back({runs[r].start + low[r], high[r] - low[r]});
      }
      taken.push_back(wanted);
    }
  }
  if (open.empty()) return splits;
  std::vector<expr::NodePtr> keys;
  for (const expr::NodePtr& key : state.columns.keys)
    keys.push_back(algo::joined_stretches("sort brackets", key, windows));
  const Array counts(algo::counts_in_stretches(keys, windows, taken, signs));
  const Settled known = settle(std::span(&counts, 1), {}, InPlans::zeros);
  const std::vector<int64_t> found =
      known.is_planned ? planned_counts(*windows, taken) : local::to_vector<int64_t>(known.values[0]);
  auto next = found.begin();
  for (const Open& one : open)
    for (const size_t r : one.runs) splits[one.group][one.cut][r] += *next++;
  return splits;
}

// Chunk after chunk of the result the stretches of runs that it is made of.
std::shared_ptr<const Stretches> exchange_of(const State& state, const Splits& splits) {
  const std::vector<Group>& groups = state.groups;
  auto exchange = std::make_shared<Stretches>();
  for (size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    std::vector<int64_t> from(group.last - group.first, 0);
    for (size_t c = 0; c <= splits[g].size(); ++c) {
      std::vector<Stretch>& stretches = exchange->emplace_back();
      for (size_t r = 0; r < from.size(); ++r) {
        const Run& run = state.runs[group.first + r];
        const int64_t to = c < splits[g].size() ? splits[g][c][r] : run.count;
        if (to > from[r]) stretches.push_back({run.start + from[r], to - from[r]});
        from[r] = to;
      }
    }
  }
  return exchange;
}

// Every rank sorts the samples, `count` / stride of them; tasks sort what lies between brackets, kWindow * stride of
// each run at each cut. The sum of both is least where they take as long.
int64_t stride_of(int64_t count, const Layout& layout, bool on_cpu) {
  const double ratio = on_cpu ? 3 : 150;  // of a sample's time and a row's
  const auto runs = static_cast<double>(layout.runs.count()), cuts = static_cast<double>(layout.chunks.count());
  const auto best = static_cast<int64_t>(std::sqrt(static_cast<double>(count) * ratio / (kWindow * runs * cuts)));
  const int64_t by_samples = std::max({best, kLeastStride, count / kMostSamples});
  const int64_t by_window = layout.chunks.largest() / (kWindow * std::max<int64_t>(layout.together, 1));
  return std::max(kLeastStride, std::min(by_samples, by_window));
}

// One GPU, which a task keeps busy, sorts once what it holds.
bool is_alone() { return Runtime::current().size() == 1 && chunk_policy().device == local::DeviceKind::cuda; }

}  // namespace

bool is_whole(int64_t line, int64_t arrays, int64_t item_bytes) {
  constexpr int64_t kChunks = 4;
  const int64_t bytes = line * item_bytes;
  return algo::line_task_bytes(bytes, arrays * line) <= Runtime::current().plan_bytes() &&
         (is_alone() || bytes <= 2 * kChunks * target_chunk_bytes(chunk_policy().device));
}

Layout layout_of(const Request& request) {
  constexpr int64_t kTasks = 4;  // that are to fit: what comes next holds more than a sort
  const SortedColumns columns = columns_of(request);
  const int64_t count = request.keys[0].size(), line = line_of(request);
  Layout layout;
  const SortStep step{line, true, request.positions, request.signs, kLeastStride};
  int64_t row_bytes = request.positions ? local::itemsize(DType::int64) : 0;
  for (const auto* arrays : {&request.keys, &request.carried})
    for (const Array& array : *arrays) row_bytes = std::max(row_bytes, array.nbytes() / std::max<int64_t>(count, 1));
  const int64_t room = Runtime::current().plan_bytes() / kTasks;
  // A device that is fast beside what a copy costs takes larger runs, of which there are fewer: each gives a stretch to
  // each chunk of the result.
  constexpr int64_t kFewRuns = 16;
  const bool on_cpu = chunk_policy().device == local::DeviceKind::cpu;
  const int64_t wanted = std::max(target_chunk_bytes(chunk_policy().device) / std::max<int64_t>(row_bytes, 1),
                                  on_cpu ? 0 : (line + kFewRuns - 1) / kFewRuns);
  const int64_t usual = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(line, 1));
  int64_t rows = usual;
  while (rows > kLeastElements && algo::sort_task_bytes(columns, step, rows) > room) rows = (rows + 1) / 2;
  if (count == 0) {
    layout.runs = layout.chunks = AxisChunks(0, 1);
    return layout;
  }
  layout.chunks = layout.runs = equal_chunks(count, line, rows);
  // What comes next takes chunks of the usual size, and so a copy that costs less than merges do.
  if (count == line && is_alone() && algo::sort_task_bytes(columns, step, line) <= Runtime::current().plan_bytes()) {
    layout.runs = AxisChunks(count, count);
    return layout;
  }
  if (!on_cpu) {
    // As long as memory allows, up to one for each rank: merges then read the rows less often.
    constexpr int64_t kLeastRuns = 4;
    const int64_t runs = std::max<int64_t>(Runtime::current().size(), kLeastRuns);
    int64_t longer = (line + runs - 1) / runs;
    while (longer > rows && algo::sort_task_bytes(columns, step, longer) > room) longer = (longer + 1) / 2;
    if (longer > rows) layout.runs = equal_chunks(count, line, longer);
  }
  const AxisChunks& given = request.keys[0].chunks().axis(0);
  const bool fits = given.largest() <= rows || (given.largest() <= 2 * rows && rows == usual);
  const int64_t most_given = (on_cpu ? 4 : 1) * layout.runs.count();  // that are not joined
  if (fits && given.count() <= most_given && keeps_lines(given, line)) layout.runs = given;
  // Of a line; as many are merged at every level.
  const int64_t most = std::clamp<int64_t>(rows / (kWindow * kLeastStride), 2, kMostRuns);
  int64_t runs = 1, of_line = 0;
  for (int64_t i = 0; i < layout.runs.count(); ++i) {
    of_line = layout.runs.start(i) % line == 0 ? 1 : of_line + 1;
    runs = std::max(runs, of_line);
  }
  layout.together = runs;
  for (int64_t left = runs; left > 1; left = (left + most - 1) / most) ++layout.levels;
  if (layout.levels > 1)
    layout.together =
        std::min(most, static_cast<int64_t>(std::ceil(std::pow(static_cast<double>(runs), 1.0 / layout.levels))) + 1);
  layout.stride = stride_of(count, layout, on_cpu);
  return layout;
}

std::string to_string(const Layout& layout) {
  if (layout.levels == 0)
    return fmt::format("sorted runs: {}, cut to {} chunks", local::format_count(layout.runs.count()),
                       local::format_count(layout.chunks.count()));
  return fmt::format("{} sorted runs, {} at a time merged to {} chunks, in {} level{}",
                     local::format_count(layout.runs.count()), local::format_count(layout.together),
                     local::format_count(layout.chunks.count()), layout.levels, layout.levels == 1 ? "" : "s");
}

Ordered ordered(const Request& request) {
  const Layout layout = layout_of(request);
  const int64_t line = line_of(request);
  const SortStep first = runs_step(request, layout);
  algo::SortedChunks chunks = algo::sorted_chunks("sort runs", cut_columns(request, layout.runs), first);
  if (layout.levels > 0) {
    std::vector<std::pair<int64_t, int64_t>> each;
    for (int64_t i = 0; i < layout.runs.count(); ++i) each.emplace_back(i, i + 1);
    State state = settled(chunks, each, first, layout.together);
    while (true) {
      const std::vector<Group>& groups = state.groups;
      const bool is_last = std::ranges::all_of(
          groups, [&](const Group& group) { return group.count == std::min(line, request.keys[0].size()); });
      // Equal chunks of the last result; before that about as large ones.
      std::vector<std::vector<int64_t>> cuts;
      std::vector<std::pair<int64_t, int64_t>> merged;
      int64_t chunk = 0;
      for (const Group& group : groups) {
        std::vector<int64_t>& of_group = cuts.emplace_back();
        const int64_t rows = layout.chunks.largest();
        const AxisChunks equal = equal_chunks(group.count, group.count, rows);
        for (int64_t i = 1; i < equal.count(); ++i) of_group.push_back(equal.start(i));
        merged.emplace_back(chunk, chunk + equal.count());
        chunk += equal.count();
      }
      const std::shared_ptr<const Stretches> exchange = exchange_of(state, splits_of(state, cuts, request.signs));
      SortedColumns gathered;
      for (const expr::NodePtr& key : state.columns.keys)
        gathered.keys.push_back(algo::joined_stretches("sort exchange", key, exchange));
      for (const expr::NodePtr& array : state.columns.carried)
        gathered.carried.push_back(algo::joined_stretches("sort exchange", array, exchange));
      const SortStep step{line,          !is_last || request.keeps_keys, false,
                          request.signs, is_last ? 0 : layout.stride,    exchange};
      chunks = algo::sorted_chunks("sort merge", gathered, step);
      if (is_last) break;
      state = settled(chunks, merged, step, layout.together);
      chunks = {};  // and with it what the level was made of
    }
  }
  Ordered result{arrays_of(chunks.columns.keys), arrays_of(chunks.columns.carried)};
  for (std::vector<Array>* arrays : {&result.keys, &result.carried})
    for (Array& array : *arrays) array = in_rows(array, layout.chunks);
  return result;
}

}  // namespace quarry::ordering
