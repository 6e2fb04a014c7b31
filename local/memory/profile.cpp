#include "quarry/local/memory/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "quarry/local/base/callstack.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/sizes.h"

namespace quarry::local {
namespace {

constexpr const char* kUnknown = "(unknown)";

constexpr const char* kColumns = "{:>12} {:>12} {:>12}  {}\n";

std::string columns(int64_t used, int64_t acquired, int64_t allocations, const std::string& name) {
  return fmt::format(kColumns, format_bytes(used), format_bytes(acquired), allocations, name);
}

std::string place(const Frame& frame) {
  if (frame.file.empty()) return frame.function;
  return fmt::format("{}:{} {}", frame.file, frame.line, frame.function);
}

bool before_main(const Frame& frame) {
  return frame.function == "_start" || frame.function.starts_with("__libc_start") || frame.function == "__clone" ||
         frame.function == "start_thread" || frame.function == "clone3";
}

struct Callers {
  std::vector<Frame> frames;  // neither of quarry nor of the C++ library; innermost first
  std::string operation;      // quarry's function that the innermost one called
};

Callers callers_of(const std::vector<uintptr_t>& stack) {
  Callers callers;
  for (uintptr_t address : stack) {
    for (Frame& frame : frames_at(address)) {
      if (before_main(frame)) continue;
      const bool standard = frame.function.starts_with("std::");
      if (!frame.library)
        callers.frames.push_back(std::move(frame));
      else if (callers.frames.empty() && !standard)
        callers.operation = std::move(frame.function);
    }
  }
  return callers;
}

}  // namespace

void MemoryProfile::add(const Bytes& bytes) {
  Key key{call_stack(/*skip=*/1), current_ranges()};
  const std::lock_guard lock(mutex_);
  const auto order = static_cast<int64_t>(bytes_.size());
  Bytes& sum = bytes_.try_emplace(std::move(key), Bytes{.order = order}).first->second;
  sum.used += bytes.used;
  sum.acquired += bytes.acquired;
  sum.allocations += bytes.allocations;
}

void MemoryProfile::after_acquire(const MemoryEvent& event) { add({.acquired = event.bytes}); }

void MemoryProfile::after_allocate(const MemoryEvent& event) { add({.used = event.bytes, .allocations = 1}); }

void MemoryProfile::clear() {
  const std::lock_guard lock(mutex_);
  bytes_.clear();
}

template <class NameOf>
std::vector<MemoryUse> MemoryProfile::grouped(const NameOf& name_of) const {
  std::map<std::string, MemoryUse> uses;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, bytes] : bytes_) {
      std::string name = name_of(key);
      if (name.empty()) name = kUnknown;
      MemoryUse& use = uses[name];
      use.name = std::move(name);
      use.used_bytes += bytes.used;
      use.acquired_bytes += bytes.acquired;
      use.allocations += bytes.allocations;
    }
  }
  std::vector<MemoryUse> sorted;
  sorted.reserve(uses.size());
  for (auto& [name, use] : uses) sorted.push_back(std::move(use));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const MemoryUse& a, const MemoryUse& b) { return a.used_bytes > b.used_bytes; });
  return sorted;
}

std::vector<MemoryUse> MemoryProfile::by_function() const {
  return grouped([](const Key& key) {
    const Callers callers = callers_of(key.stack);
    return callers.frames.empty() ? std::string() : callers.frames.front().function;
  });
}

std::vector<MemoryUse> MemoryProfile::by_line() const {
  return grouped([](const Key& key) {
    const Callers callers = callers_of(key.stack);
    return callers.frames.empty() ? std::string() : place(callers.frames.front());
  });
}

std::vector<MemoryUse> MemoryProfile::by_operation() const {
  return grouped([](const Key& key) { return callers_of(key.stack).operation; });
}

std::vector<MemoryUse> MemoryProfile::by_range() const {
  return grouped([](const Key& key) { return to_string(key.ranges); });
}

std::string MemoryProfile::table(const char* what, const std::vector<MemoryUse>& uses) {
  std::string text = fmt::format(kColumns, "used", "acquired", "allocations", what);
  for (const MemoryUse& use : uses) text += columns(use.used_bytes, use.acquired_bytes, use.allocations, use.name);
  return text;
}

std::string MemoryProfile::tree() const {
  struct Node {
    Bytes bytes;
    std::vector<std::pair<std::string, std::unique_ptr<Node>>> children;  // in the order of their first appearance
    Node& child(const std::string& name) {
      for (auto& [known, node] : children)
        if (known == name) return *node;
      return *children.emplace_back(name, std::make_unique<Node>()).second;
    }
    void add(const Bytes& more) {
      bytes.used += more.used;
      bytes.acquired += more.acquired;
      bytes.allocations += more.allocations;
    }
    void print(const std::string& name, int depth, std::string& text) const {
      text += columns(bytes.used, bytes.acquired, bytes.allocations,
                      std::string(static_cast<size_t>(depth) * 2, ' ') + name);
      for (const auto& [child_name, node] : children) node->print(child_name, depth + 1, text);
    }
  };
  Node root;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<const Key*, const Bytes*>> sorted;
    sorted.reserve(bytes_.size());
    for (const auto& [key, bytes] : bytes_) sorted.emplace_back(&key, &bytes);
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.second->order < b.second->order; });
    for (const auto& [key, bytes] : sorted) {
      Node* node = &root;
      node->add(*bytes);
      const Callers callers = callers_of(key->stack);
      for (size_t i = callers.frames.size(); i-- > 0;) {
        node = &node->child(place(callers.frames[i]));
        node->add(*bytes);
      }
    }
  }
  std::string text = fmt::format(kColumns, "used", "acquired", "allocations", "caller");
  root.print("all", 0, text);
  return text;
}

}  // namespace quarry::local
