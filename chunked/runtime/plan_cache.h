// Plans of expressions that come again with other persisted arrays: the steps of a loop are planned once
// (docs/adr/0036-plans-are-kept.md).
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "quarry/chunked/exec/stored_array.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/plan/stage.h"

namespace quarry::exec {

// What a plan depends on beside the Runtime: the nodes with their arguments, and the places of persisted arrays in
// them. Equal on all ranks.
struct PlanKey {
  std::vector<uint64_t> words;
  // Per place: the persisted arrays of one identity.
  std::vector<std::vector<std::shared_ptr<StoredArray>>> places;
  std::vector<uint64_t> arrays;  // which these are

  uint64_t hash() const;
  // Of the key and its arrays: that of a plan which is bound to them.
  uint64_t plan_hash() const;
};
// None where an expression reads files: those may change, and stay open no longer than arrays are there.
std::optional<PlanKey> plan_key(const std::vector<expr::NodePtr>& nodes);

// Keeps the plans that were asked for again last, without the arrays that they are of. Not for several threads.
class PlanCache {
 public:
  // The plan of that key, for the key's arrays until the pointer is gone: one at a time. Null where it is not kept.
  std::shared_ptr<plan::Plan> find(const PlanKey& key);
  // Hands on the plan; keeps it where its key was here before.
  std::shared_ptr<plan::Plan> add(const PlanKey& key, plan::Plan plan);

  int64_t found() const { return found_; }
  int64_t made() const { return made_; }
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }

 private:
  struct Entry;
  static std::shared_ptr<plan::Plan> bound(const std::shared_ptr<Entry>& entry, const PlanKey& key);

  std::list<std::shared_ptr<Entry>> entries_;  // the last one used first
  std::deque<uint64_t> seen_;                  // hashes of keys whose plans are not kept
  int64_t found_ = 0, made_ = 0;
};

}  // namespace quarry::exec
