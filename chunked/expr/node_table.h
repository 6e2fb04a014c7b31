// Values by node, for passes over a graph.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace quarry::expr {

struct Node;

// One piece of memory, so that small graphs cost little; a reference holds until another node gets a value. The nodes
// must live as long as the table.
template <class T>
class NodeTable {
 public:
  // `nodes`: how many there will be, if that is known.
  explicit NodeTable(size_t nodes = 0) : entries_(std::bit_ceil(std::max<size_t>(2 * nodes, kLeast))) {}

  // The value of a node; T() where it had none.
  T& operator[](const Node& node) {
    Entry* entry = &entries_[place(node)];
    if (entry->node == nullptr) {
      if (2 * (used_ + 1) > entries_.size()) {
        grow();
        entry = &entries_[place(node)];
      }
      entry->node = &node;
      ++used_;
    }
    return entry->value;
  }
  // Null where it has none.
  const T* find(const Node& node) const {
    const Entry& entry = entries_[place(node)];
    return entry.node == nullptr ? nullptr : &entry.value;
  }
  bool contains(const Node& node) const { return find(node) != nullptr; }

 private:
  static constexpr size_t kLeast = 32;
  struct Entry {
    const Node* node = nullptr;
    T value{};
  };

  // Where the node is or would be.
  size_t place(const Node& node) const {
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
    constexpr int kHighBits = 32;
    size_t at = (reinterpret_cast<uintptr_t>(&node) * kFactor) >> kHighBits;
    for (;; ++at) {
      const size_t in_table = at & (entries_.size() - 1);
      if (entries_[in_table].node == nullptr || entries_[in_table].node == &node) return in_table;
    }
  }
  void grow() {
    std::vector<Entry> before(2 * entries_.size());
    before.swap(entries_);
    for (Entry& entry : before)
      if (entry.node != nullptr) entries_[place(*entry.node)] = std::move(entry);
  }

  std::vector<Entry> entries_;  // a power of two, at most half of them in use
  size_t used_ = 0;
};

}  // namespace quarry::expr
