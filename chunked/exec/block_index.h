// The blocks of a rank by key.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quarry/chunked/exec/service.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

struct BlockKeyHash {
  size_t operator()(const BlockKey& k) const {
    return std::hash<int64_t>()((static_cast<int64_t>(k.stage) << 40) ^ (static_cast<int64_t>(k.part) << 20) ^
                                (k.chunk * 0x9e3779b97f4a7c15));
  }
};

// Most keys come in rows: the chunks that a rank owns of one part, one after the other. A row is a vector, so that ten
// million blocks take eight bytes each; other keys are hashed.
class BlockIndex {
 public:
  // The first block of a key stays.
  void emplace(const BlockKey& key, scheduler::BlockId block) {
    auto [found, added] = rows_.try_emplace({key.stage, key.part});
    Row& row = found->second;
    if (added) row.first = key.chunk;
    const int64_t place = key.chunk - row.first;
    if (place == static_cast<int64_t>(row.blocks.size()) && (others_.empty() || !others_.contains(key))) {
      row.blocks.push_back(block);
    } else if (place < 0 || place >= static_cast<int64_t>(row.blocks.size())) {
      others_.emplace(key, block);
    }
  }
  std::optional<scheduler::BlockId> find(const BlockKey& key) const {
    if (const auto row = rows_.find({key.stage, key.part}); row != rows_.end()) {
      const int64_t place = key.chunk - row->second.first;
      if (place >= 0 && place < static_cast<int64_t>(row->second.blocks.size())) {
        return row->second.blocks[static_cast<size_t>(place)];
      }
    }
    const auto other = others_.find(key);
    if (other == others_.end()) return std::nullopt;
    return other->second;
  }

 private:
  struct Row {
    int64_t first = 0;
    std::vector<scheduler::BlockId> blocks;
  };
  std::map<std::pair<uint32_t, uint32_t>, Row> rows_;  // by stage and part
  std::unordered_map<BlockKey, scheduler::BlockId, BlockKeyHash> others_;
};

}  // namespace quarry::exec
