// Plans of expressions that come again with other persisted arrays: the steps of a loop are planned once
// (docs/adr/0036-plans-are-kept.md).
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "quarry/chunked/exec/lowering/lowering.h"
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

// This rank's tasks of a kept plan, lowered once (docs/adr/0054-tasks-are-kept.md).
class KeptTasks {
 public:
  // Those that were kept, bound to the arrays that the plan is bound to; null where there are none, or not for these.
  // Where the run fails they are gone.
  std::unique_ptr<Lowered> take(const LoweringContext& context);
  // After a run of that plan that went well: keeps its tasks, without the arrays, where they can run again.
  void keep(std::unique_ptr<Lowered> lowered, const LoweringContext& context);
  // Whether no rank's tasks have to do with those of another one, and all ranks keep theirs; the same on every rank.
  // `failed_calls`: of the communicator, before the run and after it. False from when it is asked until it is said
  // again, and where a call has failed since, which may have been a run of this plan for other ranks.
  bool take_apart(int64_t failed_calls) { return std::exchange(apart_since_, -1) == failed_calls; }
  void set_apart(int64_t failed_calls) { apart_since_ = failed_calls; }

 private:
  friend class PlanCache;
  // What lowering depends on beside the plan and what stays as it is as long as the Runtime.
  struct Basis {
    int64_t memory_bytes = 0, host_bytes = 0;
    int thieves = 0;
    bool estimates = false;
    friend bool operator==(const Basis&, const Basis&) = default;
  };
  static Basis basis_of(const LoweringContext& context);
  bool are_different() const;  // the arrays

  std::vector<std::shared_ptr<StoredArray>> arrays_;  // by place, while the plan is bound
  std::unique_ptr<Lowered> lowered_;
  std::vector<size_t> places_;  // of Lowered::stored
  Basis basis_;
  int64_t apart_since_ = -1;
};

// A plan that is bound to arrays as long as it is there.
struct BoundPlan {
  std::shared_ptr<plan::Plan> plan;
  KeptTasks* tasks = nullptr;  // null where the plan is not kept
};

// Keeps the plans that were asked for again last, without the arrays that they are of. Not for several threads.
class PlanCache {
 public:
  // The plan of that key, for the key's arrays: one at a time. Null where it is not kept.
  BoundPlan find(const PlanKey& key);
  // Hands on the plan; keeps it where its key was here before.
  BoundPlan add(const PlanKey& key, plan::Plan plan);

  int64_t found() const { return found_; }
  int64_t made() const { return made_; }
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }

 private:
  struct Entry;
  static BoundPlan bound(const std::shared_ptr<Entry>& entry, const PlanKey& key);

  std::list<std::shared_ptr<Entry>> entries_;  // the last one used first
  std::deque<uint64_t> seen_;                  // hashes of keys whose plans are not kept
  int64_t found_ = 0, made_ = 0;
};

}  // namespace quarry::exec
