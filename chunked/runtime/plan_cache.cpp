#include "quarry/chunked/runtime/plan_cache.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "quarry/chunked/expr/form.h"
#include "quarry/chunked/expr/node_table.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/trace.h"

namespace quarry::exec {
namespace {

constexpr size_t kMostPlans = 32, kMostSeen = 128;

uint64_t word_of(const Owners& owners) {
  return static_cast<uint64_t>(owners.kind) << 60 ^ static_cast<uint64_t>(owners.rows) << 30 ^
         static_cast<uint64_t>(owners.columns);
}

void visit_inputs(plan::Fused& work, const std::function<void(plan::Input&)>& visit);
void visit_inputs(plan::Applied& work, const std::function<void(plan::Input&)>& visit) {
  for (plan::Input& input : work.inputs) visit(input);
  for (std::optional<plan::Fused>& prologue : work.prologues)
    if (prologue) visit_inputs(*prologue, visit);
}
void visit_inputs(plan::Fused& work, const std::function<void(plan::Input&)>& visit) {
  for (plan::Input& input : work.inputs) visit(input);
  for (const auto& made : work.made) visit_inputs(*made, visit);
}
void visit_inputs(plan::Assemble& work, const std::function<void(plan::Input&)>& visit) { visit(work.input); }
void visit_inputs(plan::MatMul& work, const std::function<void(plan::Input&)>& visit) {
  visit(work.a);
  visit(work.b);
}

}  // namespace

uint64_t PlanKey::hash() const { return expr::hash_of(words); }

uint64_t PlanKey::plan_hash() const { return expr::hash_of(std::vector<uint64_t>{hash(), expr::hash_of(arrays)}); }

std::optional<PlanKey> plan_key(const std::vector<expr::NodePtr>& nodes) {
  PlanKey key;
  // Chunks of what passes make follow the policy.
  const ChunkPolicy& policy = chunk_policy();
  key.words = {static_cast<uint64_t>(policy.device), static_cast<uint64_t>(policy.target_bytes), nodes.size(),
               policy.chunks ? static_cast<uint64_t>(policy.chunks->size()) + 1 : 0};
  if (policy.chunks)
    for (const int64_t extent : *policy.chunks) key.words.push_back(static_cast<uint64_t>(extent));
  const std::vector<expr::NodePtr> all = expr::topological(nodes);
  expr::NodeTable<uint64_t> numbers(all.size());
  uint64_t number = 0;
  std::unordered_map<uint64_t, uint64_t> places;  // of persisted arrays, by their hash
  for (const expr::NodePtr& node : all) {
    if (node->as<expr::Source>()) return std::nullopt;
    numbers[*node] = number++;
    key.words.push_back(expr::form_of(*node));
    for (const expr::NodePtr& argument : expr::arguments(*node)) key.words.push_back(numbers[*argument]);
    const auto* stored = node->as<expr::Stored>();
    if (stored == nullptr) continue;
    const auto [place, is_new] = places.emplace(node->hash, places.size());
    if (is_new) {
      key.places.emplace_back();
      key.arrays.push_back(node->hash);
    }
    key.places[place->second].push_back(stored->array);
    key.words.push_back(place->second);
    key.words.push_back(word_of(stored->array->owners()));
    key.words.push_back(stored->array->replicated() ? 1 : 0);
  }
  for (const expr::NodePtr& node : nodes) key.words.push_back(numbers[*node]);
  return key;
}

KeptTasks::Basis KeptTasks::basis_of(const LoweringContext& context) {
  return {context.memory_bytes, context.host_bytes, context.thieves, context.rates != nullptr};
}

// Lowering knows arrays by their addresses: one that is in two places is one array.
bool KeptTasks::are_different() const {
  std::vector<const StoredArray*> all;
  all.reserve(arrays_.size());
  for (const std::shared_ptr<StoredArray>& array : arrays_) all.push_back(array.get());
  std::ranges::sort(all);
  return std::ranges::adjacent_find(all) == all.end();
}

std::unique_ptr<Lowered> KeptTasks::take(const LoweringContext& context) {
  if (!lowered_ || !(basis_ == basis_of(context)) || !are_different()) return nullptr;
  const local::TraceScope trace("bind", "plan");
  std::vector<std::shared_ptr<StoredArray>> arrays;
  for (const size_t place : places_) arrays.push_back(arrays_[place]);
  std::unique_ptr<Lowered> lowered = std::move(lowered_);
  bind(*lowered, std::move(arrays), context);
  return lowered;
}

void KeptTasks::keep(std::unique_ptr<Lowered> lowered, const LoweringContext& context) {
  if (!lowered->runs_again || !are_different()) return;
  places_.clear();
  for (const std::shared_ptr<StoredArray>& array : lowered->stored)
    places_.push_back(static_cast<size_t>(std::ranges::find(arrays_, array) - arrays_.begin()));
  basis_ = basis_of(context);
  release(*lowered);
  lowered_ = std::move(lowered);
}

struct PlanCache::Entry {
  std::vector<uint64_t> words;
  plan::Plan plan;
  KeptTasks tasks;
  std::vector<std::pair<std::shared_ptr<StoredArray>*, size_t>> bindings;  // in the plan, and the place

  Entry(std::vector<uint64_t> key_words, plan::Plan made) : words(std::move(key_words)), plan(std::move(made)) {}
};

BoundPlan PlanCache::bound(const std::shared_ptr<Entry>& entry, const PlanKey& key) {
  for (const auto& [array, place] : entry->bindings) *array = key.places[place].front();
  for (const auto& place : key.places) entry->tasks.arrays_.push_back(place.front());
  return {{&entry->plan,
           [entry](plan::Plan*) {
             for (const auto& [array, place] : entry->bindings) array->reset();
             entry->tasks.arrays_.clear();
           }},
          &entry->tasks};
}

BoundPlan PlanCache::find(const PlanKey& key) {
  const auto at = std::ranges::find_if(entries_, [&](const auto& entry) { return entry->words == key.words; });
  if (at == entries_.end()) return {};
  entries_.splice(entries_.begin(), entries_, at);
  ++found_;
  return bound(entries_.front(), key);
}

BoundPlan PlanCache::add(const PlanKey& key, plan::Plan plan) {
  ++made_;
  const uint64_t hash = key.hash();
  const auto before = std::ranges::find(seen_, hash);
  if (before == seen_.end()) {
    // Most expressions do not come again: what their operators hold is not held here.
    seen_.push_back(hash);
    if (seen_.size() > kMostSeen) seen_.pop_front();
    return {std::make_shared<plan::Plan>(std::move(plan))};
  }
  seen_.erase(before);
  auto entry = std::make_shared<Entry>(key.words, std::move(plan));
  for (plan::Stage& stage : entry->plan.stages) {
    const auto bind = [&](plan::Input& input) {
      std::shared_ptr<StoredArray>& array = input.array.stored;
      if (!array) return;
      for (size_t place = 0; place < key.places.size(); ++place) {
        if (std::ranges::find(key.places[place], array) == key.places[place].end()) continue;
        entry->bindings.emplace_back(&array, place);
        return;
      }
      QUARRY_CHECK(false);
    };
    std::visit([&](auto& work) { visit_inputs(work, bind); }, stage.work);
  }
  entries_.push_front(entry);
  if (entries_.size() > kMostPlans) entries_.pop_back();
  return bound(entry, key);
}

}  // namespace quarry::exec
