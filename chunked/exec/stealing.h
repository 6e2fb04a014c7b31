// Work stealing within a run: a rank that has done its own chunks of a stage is a thief that computes chunks of another
// rank, the victim. The victim fetches the states of a stolen chunk and merges them where it would have merged its own,
// so bits do not change.
//
// A victim claims a chunk when its own task for it begins; a thief that sends it a steal request gets the last chunk
// that is unclaimed. No rank knows the whole: a thief asks the rank that said last that it has most left, first those
// that have said nothing yet, and asks nobody again who has none left. It knows the ranks that are a power of two away
// only, and in a small job all. So for each stage and thread it asks at most as often as it steals chunks and it knows
// ranks.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "quarry/chunked/exec/service_messages.h"
#include "quarry/local/memory/budget.h"

namespace quarry::exec {

class WorkStealing {
 public:
  // `post` sends a message of kind steal_request or steal_reply to a rank.
  WorkStealing(int rank, int ranks, std::function<void(int, const Message&)> post);

  struct Settings {
    std::function<bool(int)> is_victim;  // whether this rank computes that one's chunks with the same bits
    int64_t limit_bytes = 0;             // of states that their victims have not fetched yet, on this rank
    local::Budget* budget = nullptr;     // that they count in as well
    std::function<void()> on_stolen;     // called for each chunk that this rank has computed for another
  };
  // The ranks from which one steals, ascending: about 2 log2(ranks) of them.
  static std::vector<int> known_ranks(int rank, int ranks);
  // Before the run; without it this rank steals nothing.
  void configure(Settings settings);

  // --- the victim ---

  // Before the run: the blocks of `key` with chunks [first, last) may be stolen.
  void make_stealable(const BlockKey& key, int64_t first, int64_t last);
  // As the task of a chunk begins: the rank that computes its block; if it is this one, nobody steals it from now on.
  int claim(uint32_t stage, int64_t chunk);

  // --- the thief ---

  struct Stolen {
    int victim = 0;
    BlockKey key;
  };
  // Another rank's block, which this rank must now compute and publish (Service::publish_stolen); nothing where there
  // is none to be had, or `cancelled`. Blocks for as long as a request and its reply travel.
  std::optional<Stolen> steal(uint32_t stage, const std::function<bool()>& cancelled);
  // Memory for a block that its victim will fetch, null beyond the limit; in the budgets until it dies.
  std::shared_ptr<std::byte> reserve(int64_t bytes);
  void count_stolen() const;

  // --- messages, from the thread that makes progress ---

  void handle_request(int from, uint32_t stage, uint32_t ticket);
  void handle_reply(int from, const Message& reply);

 private:
  struct Stealable {
    BlockKey key;
    int64_t first = 0, end = 0;        // all chunks from `end` on are claimed
    int64_t left = 0;                  // unclaimed ones
    std::vector<int32_t> computed_by;  // rank, by chunk - first; -1: unclaimed
  };
  struct StealRequest {
    uint32_t stage = 0;
    std::optional<BlockKey> reply;  // chunk -1: none
  };
  // By rank that this one knows: unclaimed chunks.
  using Left = std::map<int, int64_t>;
  std::optional<int> choose_victim(Left& left) const;

  const int rank_, ranks_;
  const std::function<void(int, const Message&)> post_;
  Settings settings_;
  std::shared_ptr<local::Budget> stolen_budget_;  // shared with what is reserved

  std::mutex mutex_;
  std::condition_variable reply_came_;
  std::map<uint32_t, Stealable> stages_;       // by stage
  std::map<uint32_t, Left> left_;              // by stage, as far as is known
  std::map<uint32_t, StealRequest> requests_;  // by ticket
  uint32_t next_ticket_ = 0;
};

}  // namespace quarry::exec
