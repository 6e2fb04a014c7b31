#include "quarry/chunked/plan/grouping.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "quarry/local/base/error.h"

namespace quarry::plan {
namespace {

constexpr size_t kMostOutputs = 16;  // of one stage, so that a task's memory stays near its inputs'

// A set of groups.
class GroupSet {
 public:
  bool contains(size_t group) const {
    return group / kBits < words_.size() && (words_[group / kBits] >> group % kBits & 1u) != 0;
  }
  void insert(size_t group) {
    if (group / kBits >= words_.size()) words_.resize(group / kBits + 1);
    words_[group / kBits] |= uint64_t{1} << group % kBits;
  }
  void insert(const GroupSet& groups) {
    if (groups.words_.size() > words_.size()) words_.resize(groups.words_.size());
    for (size_t i = 0; i < groups.words_.size(); ++i) words_[i] |= groups.words_[i];
  }
  bool is_within(const GroupSet& groups) const {
    for (size_t i = 0; i < words_.size(); ++i)
      if ((words_[i] & ~(i < groups.words_.size() ? groups.words_[i] : 0)) != 0) return false;
    return true;
  }

 private:
  static constexpr size_t kBits = 64;
  std::vector<uint64_t> words_;
};

struct Group {
  std::vector<int> members;  // arrays
  GroupSet depends;          // transitively
};

// Arrays by what they are, whatever part of them is read.
struct ArrayOrder {
  bool operator()(const ArrayRef& a, const ArrayRef& b) const {
    const auto key = [](const ArrayRef& array) {
      return std::tuple(array.kind, array.stage, array.output, array.dataset.get(), array.stored.get());
    };
    return key(a) < key(b);
  }
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
  std::vector<size_t> group_of(arrays.size());
  std::map<ArrayRef, std::vector<size_t>, ArrayOrder> readers;  // groups, ascending
  for (size_t p = 0; p < arrays.size(); ++p) {
    const PlannedArray& planned = arrays[p];
    GroupSet depends;
    for (const Input& input : planned.inputs) {
      if (input.array.kind != ArrayRef::Kind::stage) continue;
      const auto producer = static_cast<size_t>(input.array.stage);
      QUARRY_CHECK(producer < p);
      depends.insert(group_of[producer]);
      depends.insert(groups[group_of[producer]].depends);
    }
    const auto takes = [&](size_t g) {
      const Group& group = groups[g];
      return !depends.contains(g) && group.members.size() < kMostOutputs &&
             std::ranges::all_of(group.members,
                                 [&](int member) { return joins(arrays[static_cast<size_t>(member)], planned); });
    };
    size_t chosen = groups.size();  // the first that reads one of its inputs
    for (const Input& input : planned.inputs) {
      const auto known = readers.find(input.array);
      if (known == readers.end()) continue;
      const auto found = std::ranges::find_if(known->second, [&](size_t g) { return g >= chosen || takes(g); });
      if (found != known->second.end()) chosen = std::min(chosen, *found);
    }
    if (chosen == groups.size()) {
      groups.emplace_back();
    } else {
      // Whoever waits for this group now waits for more.
      for (Group& later : groups)
        if (later.depends.contains(chosen)) later.depends.insert(depends);
    }
    group_of[p] = chosen;
    groups[chosen].members.push_back(static_cast<int>(p));
    groups[chosen].depends.insert(depends);
    for (const Input& input : planned.inputs) {
      std::vector<size_t>& all = readers[input.array];
      const auto at = std::ranges::lower_bound(all, chosen);
      if (at == all.end() || *at != chosen) all.insert(at, chosen);
    }
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
  std::vector<bool> is_placed(groups.size(), false);
  GroupSet placed;
  while (order.size() < groups.size()) {
    const size_t before = order.size();
    for (size_t g = 0; g < groups.size(); ++g) {
      if (is_placed[g] || !groups[g].depends.is_within(placed)) continue;
      is_placed[g] = true;
      placed.insert(g);
      order.push_back(groups[g].members);
    }
    QUARRY_CHECK(order.size() > before);
  }
  return order;
}

}  // namespace quarry::plan
