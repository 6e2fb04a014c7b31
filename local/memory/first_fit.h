// Places for pieces along a line of bytes: the lowest that has room, as scratch of a task is laid out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>

namespace quarry::local {

class FirstFit {
 public:
  explicit FirstFit(int64_t bytes = std::numeric_limits<int64_t>::max()) {
    if (bytes > 0) free_.emplace(0, bytes);
  }
  // Where a piece of more than 0 bytes begins; nothing without room.
  std::optional<int64_t> take(int64_t bytes) {
    const auto found = std::ranges::find_if(free_, [&](const auto& piece) { return piece.second >= bytes; });
    if (found == free_.end()) return std::nullopt;
    const auto [offset, size] = *found;
    free_.erase(found);
    if (size > bytes) free_.emplace(offset + bytes, size - bytes);
    return offset;
  }
  void give_back(int64_t offset, int64_t bytes) {
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    free_.emplace(offset, bytes);
  }

 private:
  std::map<int64_t, int64_t> free_;  // offset -> bytes
};

}  // namespace quarry::local
