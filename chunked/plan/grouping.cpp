#include "quarry/chunked/plan/grouping.h"

#include "quarry/local/base/error.h"

namespace quarry::plan {
namespace {

constexpr size_t kMostOutputs = 16;  // of one stage, so that a task's memory stays near its inputs'

struct Group {
  std::vector<int> members;      // arrays
  std::set<int> depends;         // groups, transitively
  std::vector<ArrayRef> shared;  // arrays read
};

bool joins(const PlannedArray& a, const PlannedArray& b) {
  if (a.kind == PlannedArray::Kind::other || b.kind == PlannedArray::Kind::other || a.operand || b.operand ||
      !(a.grid == b.grid))
    return false;
  return a.kind != PlannedArray::Kind::reduction || b.kind != PlannedArray::Kind::reduction ||
         (a.reduce_axes == b.reduce_axes && a.per_chunk == b.per_chunk);
}

std::vector<Group> make_groups(const std::vector<PlannedArray>& arrays) {
  std::vector<Group> groups;
  std::vector<int> group_of(arrays.size(), -1);
  for (size_t p = 0; p < arrays.size(); ++p) {
    const PlannedArray& planned = arrays[p];
    std::set<int> depends;
    for (const Input& input : planned.inputs) {
      if (input.array.kind != ArrayRef::Kind::stage) continue;
      const int group = group_of[static_cast<size_t>(input.array.stage)];
      QUARRY_CHECK(group >= 0);
      depends.insert(group);
      depends.insert(groups[static_cast<size_t>(group)].depends.begin(),
                     groups[static_cast<size_t>(group)].depends.end());
    }
    int chosen = -1;
    for (size_t g = 0; g < groups.size() && chosen < 0; ++g) {
      const Group& group = groups[g];
      if (depends.contains(static_cast<int>(g)) || group.members.size() >= kMostOutputs) continue;
      bool fits = true;
      for (int member : group.members) fits = fits && joins(arrays[static_cast<size_t>(member)], planned);
      bool shares = false;
      for (const ArrayRef& array : group.shared)
        for (const Input& input : planned.inputs) shares = shares || same_array(array, input.array);
      if (fits && shares) chosen = static_cast<int>(g);
    }
    if (chosen < 0) {
      chosen = static_cast<int>(groups.size());
      groups.emplace_back();
    }
    group_of[p] = chosen;
    Group& group = groups[static_cast<size_t>(chosen)];
    group.members.push_back(static_cast<int>(p));
    group.depends.insert(depends.begin(), depends.end());
    for (const Input& input : planned.inputs) group.shared.push_back(input.array);
    // Whoever waits for this group now waits for more.
    for (Group& later : groups)
      if (later.depends.contains(chosen)) later.depends.insert(group.depends.begin(), group.depends.end());
  }
  return groups;
}

}  // namespace

bool same_array(const ArrayRef& a, const ArrayRef& b) {
  return a.kind == b.kind && a.stage == b.stage && a.output == b.output && a.dataset == b.dataset &&
         a.stored == b.stored;
}

bool same_map(const AccessMap& a, const AccessMap& b) {
  return a.axes == b.axes && a.fixed == b.fixed && a.beside == b.beside;
}

std::vector<std::vector<int>> group_arrays(const std::vector<PlannedArray>& arrays) {
  const std::vector<Group> groups = make_groups(arrays);
  std::vector<std::vector<int>> order;
  std::vector<bool> placed(groups.size(), false);
  while (order.size() < groups.size()) {
    const size_t before = order.size();
    for (size_t g = 0; g < groups.size(); ++g) {
      if (placed[g]) continue;
      bool ready = true;
      for (int d : groups[g].depends) ready = ready && placed[static_cast<size_t>(d)];
      if (!ready) continue;
      placed[g] = true;
      order.push_back(groups[g].members);
    }
    QUARRY_CHECK(order.size() > before);
  }
  return order;
}

}  // namespace quarry::plan
