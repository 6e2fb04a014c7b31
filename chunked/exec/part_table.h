// Parts of blocks that tasks bring, each once: as few bytes for each as ten million of them allow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/exec/service.h"
#include "quarry/local/base/dtype.h"
#include "quarry/scheduler/graph.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

// Numbers, from 0 on, of things that lie elsewhere and are told apart by what they are: 8 to 16 bytes for each.
class NumberTable {
 public:
  // The number of a thing of that hash for which equals(number) holds. If there is none, the next number is its own;
  // hash_of(number) is asked for those that are there when the table grows.
  std::pair<uint32_t, bool> emplace(uint64_t hash, const auto& equals, const auto& hash_of) {
    if (2 * (uint64_t{count_} + 1) > slots_.size()) grow(hash_of);
    for (uint64_t at = hash;; ++at) {
      uint32_t& slot = slots_[at & (slots_.size() - 1)];
      if (slot == kNone) {
        slot = count_++;
        return {slot, true};
      }
      if (equals(slot)) return {slot, false};
    }
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  void grow(const auto& hash_of) {
    constexpr size_t kLeast = 16;
    slots_ = std::vector<uint32_t>(std::max(2 * slots_.size(), kLeast), kNone);
    for (uint32_t number = 0; number < count_; ++number) {
      uint64_t at = hash_of(number);
      while (slots_[at & (slots_.size() - 1)] != kNone) ++at;
      slots_[at & (slots_.size() - 1)] = number;
    }
  }
  std::vector<uint32_t> slots_;  // a power of two
  uint32_t count_ = 0;
};

// Hyperslabs, equal ones once: most parts of chunks are cut alike.
class HyperslabTable {
 public:
  uint32_t add(const Hyperslab& hyperslab);
  Hyperslab operator[](uint32_t number) const;

 private:
  // As words: itemsize and axes, then shape, start and count.
  static std::vector<int64_t> words_of(const Hyperslab& hyperslab);
  std::vector<int64_t> words_;
  std::vector<int64_t> begins_;
  NumberTable numbers_;
};

// 32 bytes a part, beside the hyperslabs.
class PartTable {
 public:
  struct Part {
    BlockKey key;
    int32_t owner = 0;
    uint32_t hyperslab = 0;
    scheduler::BlockId block = -1;  // where it arrives
  };
  // What the parts of an array, (stage, part) of their keys, have in common.
  struct Source {
    std::string label;
    local::DType dtype = local::DType::uint8;
  };

  int64_t size() const { return static_cast<int64_t>(parts_.size()); }
  // The number of the part; of a new one, its block must then be set.
  std::pair<int64_t, bool> emplace(const BlockKey& key, int owner, const Hyperslab& hyperslab);
  void set_block(int64_t part, scheduler::BlockId block) { parts_[static_cast<size_t>(part)].block = block; }
  void set_owner(int64_t part, int owner) { parts_[static_cast<size_t>(part)].owner = owner; }
  const Part& operator[](int64_t part) const { return parts_[static_cast<size_t>(part)]; }
  Hyperslab hyperslab(int64_t part) const { return hyperslabs_[(*this)[part].hyperslab]; }
  void set_source(const BlockKey& key, const std::string& label, local::DType dtype);
  const Source& source(int64_t part) const;
  // No part is added any more.
  void end_adding() { numbers_ = {}; }

 private:
  scheduler::Parts<Part> parts_;
  HyperslabTable hyperslabs_;
  NumberTable numbers_;
  std::map<std::pair<uint32_t, uint32_t>, Source> sources_;
};

}  // namespace quarry::exec
