#include "quarry/local/memory/shares.h"

#include <fmt/format.h>

#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/policy.h"

namespace quarry::local {
namespace {

namespace policy = memory_policy;

// Where no task needs much.
MemoryShare chunk_cache_share(int64_t budget) {
  return {"decoded chunks of files that are read again, of what no task needs",
          policy::chunk_cache_bytes(budget, budget, budget / 2), /*at_most=*/true};
}

int64_t message_bytes(int64_t budget, const RankMemory& rank) {
  return rank.ranks > 1 ? policy::message_bytes(budget, rank.message_buffers) : 0;
}

MemoryShare message_share(int64_t budget, const RankMemory& rank) {
  return {fmt::format("messages between ranks: {} buffers of {}", rank.message_buffers,
                      format_bytes(policy::message_piece_bytes(budget))),
          message_bytes(budget, rank)};
}

void add_compute_shares(MemoryTier& tier, const RankMemory& rank) {
  const bool on_device = rank.kind != DeviceKind::cpu;
  const int64_t for_tasks = tier.bytes - (on_device ? 0 : message_bytes(tier.bytes, rank));
  const int64_t planned = policy::task_bytes(tier.bytes, on_device, rank.message_buffers);
  tier.shares.push_back({"tasks: blocks of chunks and scratch", for_tasks});
  tier.shares.push_back({fmt::format("one task: the planner makes chunks so small that {} fit", policy::kTasksInBudget),
                         planned / policy::kTasksInBudget, /*at_most=*/true});
  if (on_device) {
    tier.shares.push_back({"small chunks that share a task",
                           std::min(tier.bytes / policy::kSharedTaskPart, policy::kMostSharedTaskBytes),
                           /*at_most=*/true});
    return;
  }
  tier.shares.push_back(chunk_cache_share(tier.bytes));
  if (rank.steals && rank.ranks > 1) {
    tier.shares.push_back({"results of chunks stolen from other ranks, of what no task needs",
                           policy::stolen_bytes(tier.bytes, for_tasks, on_device), /*at_most=*/true});
  }
  if (rank.ranks > 1) tier.shares.push_back(message_share(tier.bytes, rank));
}

void add_pinned_shares(MemoryTier& tier, const RankMemory& rank) {
  const int64_t bounce = policy::bounce_bytes(tier.bytes, rank.io_threads);
  const int64_t messages = message_bytes(tier.bytes, rank);
  tier.shares.push_back(
      {fmt::format("bounce buffers to the spill file: {} of {}", rank.io_threads, format_bytes(bounce)),
       rank.io_threads * bounce});
  if (rank.ranks > 1) tier.shares.push_back(message_share(tier.bytes, rank));
  tier.shares.push_back(
      {"blocks evicted from the device, and what follows", tier.bytes - rank.io_threads * bounce - messages});
  const int64_t piece = policy::staging_piece_bytes(tier.bytes);
  tier.shares.push_back(
      {fmt::format("staging of files: pieces of {}, two for each of {} threads", format_bytes(piece), rank.io_threads),
       2 * rank.io_threads * piece, /*at_most=*/true});
  tier.shares.push_back(chunk_cache_share(tier.bytes));
  if (rank.steals && rank.ranks > 1) {
    tier.shares.push_back({"results of chunks stolen from other ranks",
                           policy::stolen_bytes(tier.bytes, /*free_bytes=*/0, /*on_device=*/true), /*at_most=*/true});
  }
}

}  // namespace

std::vector<MemoryTier> memory_tiers(const RankMemory& rank) {
  std::vector<MemoryTier> tiers;
  const bool on_device = rank.kind != DeviceKind::cpu;
  tiers.push_back({on_device ? "device memory" : "memory", "--memory", rank.memory_bytes, {}});
  add_compute_shares(tiers.back(), rank);
  if (on_device) {
    tiers.push_back({"pinned host memory", "--host-memory", rank.host_bytes, {}});
    add_pinned_shares(tiers.back(), rank);
  }
  return tiers;
}

}  // namespace quarry::local
