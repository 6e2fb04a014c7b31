// Chunks that change hands within a run: a rank that has done its own chunks of a stage computes some of another rank's
// and gives it their states, which the owner merges where it would have merged its own. So bits do not change.
//
// An owner claims a chunk when its task for it begins; others ask it for one and get the last that nobody has claimed.
// No rank knows the whole: who looks for work asks the rank that said last that it has most left, first those that have
// said nothing yet, and asks nobody again who has none left. So a rank asks at most as often as it takes chunks and
// there are other ranks, for each stage and thread.
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

class Balance {
 public:
  // `post` sends a message of kind ask or handed to a rank.
  Balance(int rank, int ranks, std::function<void(int, const Message&)> post);

  struct Settings {
    std::vector<bool> mates;          // by rank: whose chunks this one computes with the same bits
    int64_t room_bytes = 0;           // for states that their owners have not fetched yet, on this rank
    local::Budget* budget = nullptr;  // that they count in as well
    std::function<void()> taken;      // called for each chunk that this rank has computed for another
  };
  // Before the run; without it this rank takes nothing.
  void configure(Settings settings);

  // --- the owner ---

  // Before the run: the blocks of `key` with chunks [first, last) may be made by others.
  void share(const BlockKey& key, int64_t first, int64_t last);
  // As the task of a chunk begins: the rank that makes its block; from now on nobody else gets it if it is this one.
  int claim(uint32_t stage, int64_t chunk);

  // --- who takes ---

  struct Taken {
    int owner = 0;
    BlockKey key;
  };
  // Another rank's block, which this rank must now compute and give to the service; nothing where there is none to be
  // had, or `cancelled`. Blocks for as long as a question and its answer travel.
  std::optional<Taken> take(uint32_t stage, const std::function<bool()>& cancelled);
  // Memory for a block that its owner will fetch, null where there is no room; in the budgets until it dies.
  std::shared_ptr<std::byte> reserve(int64_t bytes);
  void count_taken() const;

  // --- messages, from who drives the service ---

  void asked(int from, uint32_t stage, uint32_t ticket);
  void answered(int from, const Message& answer);

 private:
  struct Share {
    BlockKey key;
    int64_t first = 0, end = 0;   // all chunks from `end` on are claimed
    int64_t left = 0;             // unclaimed ones
    std::vector<int32_t> makers;  // by chunk - first; -1: unclaimed
  };
  struct Question {
    uint32_t stage = 0;
    std::optional<BlockKey> answer;  // chunk -1: none
  };
  std::optional<int> whom_to_ask(std::vector<int64_t>& left) const;

  const int rank_, ranks_;
  const std::function<void(int, const Message&)> post_;
  Settings settings_;
  std::shared_ptr<local::Budget> room_;  // shared with what is reserved

  std::mutex mutex_;
  std::condition_variable answer_came_;
  std::map<uint32_t, Share> shares_;               // by stage
  std::map<uint32_t, std::vector<int64_t>> left_;  // by stage and rank: unclaimed chunks, as far as is known
  std::map<uint32_t, Question> questions_;         // by ticket
  uint32_t next_ticket_ = 0;
};

}  // namespace quarry::exec
