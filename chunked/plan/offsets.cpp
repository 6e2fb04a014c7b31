// Views of one array that differ only in where they begin, as in x[:-2] - 2 * x[1:-1] + x[2:], are read as one window:
// a box with a halo, in which every view has its place. Arrays in memory are put together once for each chunk of the
// stage; the copies of single views that were planned (Assemble) go where nobody else reads them.
//
// Views become one window as long as it holds no more elements than they do one by one, over all chunks of the stage.
// So views that are further apart than a chunk is long stay apart. Windows are read as blocks: what a stage reads
// while it computes (bodies/fused.h) has no halo.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/chunked/plan/grouping.h"
#include "quarry/chunked/plan/passes.h"

namespace quarry::plan {

namespace {

using expr::View;

// An input of a stage as a view of what it is copied from.
struct Viewed {
  Input input;
  int number = 0;          // of the stage's inputs
  bool is_copied = false;  // it is the output of an Assemble
};

// The view of a view. False where the outer one sees an axis that the inner one broadcasts.
bool compose(const AccessMap& inner, const AccessMap& outer, AccessMap& made) {
  if (!inner.beside.empty() || !outer.beside.empty()) return false;
  made = {{}, inner.fixed};
  for (const View::Axis& axis : outer.axes) {
    if (axis.source < 0) {
      made.axes.push_back({});
      continue;
    }
    const View::Axis& below = inner.axes[static_cast<size_t>(axis.source)];
    if (below.source < 0) return false;
    made.axes.push_back({below.source, below.start + below.step * axis.start, below.step * axis.step});
  }
  for (const auto& [axis, position] : outer.fixed) {
    const View::Axis& below = inner.axes[static_cast<size_t>(axis)];
    if (below.source >= 0) made.fixed.emplace_back(below.source, below.start + below.step * position);
  }
  std::ranges::sort(made.fixed);
  return true;
}

Viewed under_copy(const Plan& plan, const Input& input, int number) {
  Viewed viewed{input, number};
  if (input.array.kind != ArrayRef::Kind::stage) return viewed;
  const auto* copy = std::get_if<Assemble>(&plan.stages[static_cast<size_t>(input.array.stage)].work);
  AccessMap map;
  if (copy == nullptr || !compose(copy->input.map, input.map, map)) return viewed;
  viewed.input = copy->input;
  viewed.input.map = std::move(map);
  viewed.is_copied = true;
  return viewed;
}

// Whether the maps differ in positions only.
bool are_shifted(const Input& a, const Input& b) {
  if (!same_array(a.array, b.array) || a.dtype != b.dtype || a.map.fixed.size() != b.map.fixed.size()) return false;
  if (!a.map.beside.empty() || !b.map.beside.empty()) return false;
  for (size_t d = 0; d < a.map.axes.size(); ++d)
    if (a.map.axes[d].source != b.map.axes[d].source || a.map.axes[d].step != b.map.axes[d].step) return false;
  return std::ranges::equal(a.map.fixed, b.map.fixed, {}, &std::pair<int, int64_t>::first,
                            &std::pair<int, int64_t>::first);
}

// Where a view begins, and its steps, per axis of the array.
struct Begin {
  Dims at, step;
};
Begin begin_of(const Input& input) {
  const int ndim = input.shape.size();
  Begin begin{Dims::filled(ndim, 0), Dims::filled(ndim, 0)};
  for (const View::Axis& axis : input.map.axes) {
    if (axis.source < 0) continue;
    begin.at[axis.source] = axis.start;
    begin.step[axis.source] = axis.step < 0 ? -axis.step : axis.step;
  }
  for (const auto& [axis, position] : input.map.fixed) begin.at[axis] = position;
  return begin;
}

// The window of some views.
Input window_of(const std::vector<Viewed>& views, const std::vector<size_t>& members) {
  Input window = views[members[0]].input;
  const Begin first = begin_of(window);
  Dims low = first.at, high = first.at;
  window.pitch = first.step;
  for (const size_t member : members) {
    const Dims at = begin_of(views[member].input).at;
    for (int d = 0; d < at.size(); ++d) {
      low[d] = std::min(low[d], at[d]);
      high[d] = std::max(high[d], at[d]);
      window.pitch[d] = std::gcd(window.pitch[d], at[d] - first.at[d]);
    }
  }
  window.reach = Dims::filled(low.size());
  for (int d = 0; d < low.size(); ++d) {
    window.reach[d] = high[d] - low[d];
    window.pitch[d] = std::max<int64_t>(window.pitch[d], 1);
  }
  for (View::Axis& axis : window.map.axes)
    if (axis.source >= 0) axis.start = low[axis.source];
  for (auto& [axis, position] : window.map.fixed) position = low[axis];
  return window;
}

// The sum of f(elements) over the chunks of an axis, which may be 10^12 equal ones.
double sum_over_chunks(const AxisChunks& chunks, const auto& f) {
  const int64_t last = chunks.count() - 1;
  const bool is_regular = chunks == AxisChunks(chunks.extent(), std::max<int64_t>(chunks.size(0), 1));
  if (is_regular) return static_cast<double>(last) * f(chunks.size(0)) + f(chunks.size(last));
  double sum = 0;
  for (int64_t i = 0; i <= last; ++i) sum += f(chunks.size(i));
  return sum;
}

// The elements that the chunks of a stage read of a window, or of a view, together.
double elements_read(const Input& window, const Grid& grid) {
  double elements = 1;
  for (int d = 0; d < grid.ndim(); ++d) {
    const View::Axis& axis = window.map.axes[static_cast<size_t>(d)];
    const AxisChunks& chunks = grid.axis(d);
    if (axis.source < 0) {
      elements *= static_cast<double>(chunks.count());
      continue;
    }
    const int64_t step = axis.step < 0 ? -axis.step : axis.step, reach = window.reach[axis.source];
    const auto read_of = [&](int64_t n) {  // by a chunk of so many elements
      if (n == 0) return 0.0;
      return static_cast<double>(reach == 0 ? n : (step * (n - 1) + reach) / window.pitch[axis.source] + 1);
    };
    elements *= sum_over_chunks(chunks, read_of);
  }
  for (const auto& [axis, position] : window.map.fixed) {
    const int64_t along = window.reach[axis] / window.pitch[axis] + 1;
    elements *= static_cast<double>(along);
  }
  return elements;
}

struct Windows {
  std::vector<Viewed> views;
  std::vector<std::vector<size_t>> groups;  // of views, each read together
};

// Joins groups as long as a window holds no more than its parts.
void join(Windows& windows, const Grid& grid) {
  std::vector<std::vector<size_t>>& groups = windows.groups;
  const auto elements = [&](const std::vector<size_t>& members) {
    return elements_read(window_of(windows.views, members), grid);
  };
  const auto shifted = [&](size_t a, size_t b) {
    return are_shifted(windows.views[groups[a][0]].input, windows.views[groups[b][0]].input);
  };
  for (size_t a = 0; a < groups.size(); ++a) {
    // What joins may make room for what did not fit before.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = a + 1; b < groups.size(); ++b) {
        if (!shifted(a, b)) continue;
        std::vector<size_t> both = groups[a];
        both.insert(both.end(), groups[b].begin(), groups[b].end());
        if (elements(both) > elements(groups[a]) + elements(groups[b])) continue;
        groups[a] = std::move(both);
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(b--));
        changed = true;
      }
    }
  }
}

// Views of an array in memory that each lie inside a chunk need no copy.
bool is_worth_it(const Windows& windows, const std::vector<size_t>& members) {
  if (members.size() < 2) return false;
  const auto copies = [&](size_t member) {
    const Viewed& view = windows.views[member];
    return view.is_copied || view.input.array.kind == ArrayRef::Kind::dataset;
  };
  return std::ranges::any_of(members, copies);
}

// The number of views that are now read in windows.
int share(const Plan& plan, const Stage& stage, Fused& fused) {
  Windows windows;
  for (size_t i = 0; i < fused.inputs.size(); ++i) {
    windows.views.push_back(under_copy(plan, fused.inputs[i], static_cast<int>(i)));
    windows.groups.push_back({i});
  }
  join(windows, stage.grid);
  if (std::ranges::none_of(windows.groups, [&](const auto& members) { return is_worth_it(windows, members); })) {
    return 0;
  }
  int shared = 0;
  std::vector<Input> inputs;
  std::vector<Fused::Slot> slots(fused.inputs.size());
  for (const std::vector<size_t>& members : windows.groups) {
    if (!is_worth_it(windows, members)) {
      for (const size_t member : members) {
        slots[member] = {static_cast<int>(inputs.size())};
        inputs.push_back(std::move(fused.inputs[member]));
      }
      continue;
    }
    shared += static_cast<int>(members.size());
    Input window = window_of(windows.views, members);
    const Dims low = begin_of(window).at;
    for (const size_t member : members) {
      Dims offset = begin_of(windows.views[member].input).at;
      for (int d = 0; d < offset.size(); ++d) offset[d] -= low[d];
      slots[member] = {static_cast<int>(inputs.size()), std::move(offset)};
    }
    inputs.push_back(std::move(window));
  }
  fused.inputs = std::move(inputs);
  fused.slots = std::move(slots);
  return shared;
}

}  // namespace

void share_offsets(Draft& draft) {
  Plan& plan = draft.plan;
  int views = 0;
  for (Stage& stage : plan.stages)
    if (auto* fused = std::get_if<Fused>(&stage.work); fused != nullptr && fused->inputs.size() > 1)
      views += share(plan, stage, *fused);
  if (views == 0) return;
  const size_t before = plan.stages.size();
  drop_unread(plan);
  draft.did = fmt::format("{} views that begin elsewhere are read in windows", views);
  if (const size_t fewer = before - plan.stages.size(); fewer > 0)
    draft.did += fmt::format(", {} cop{} less", fewer, fewer == 1 ? "y" : "ies");
}

}  // namespace quarry::plan
