// Who takes memory: bytes taken from pools and acquired from devices, per function and per source line.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "quarry/local/device/range.h"
#include "quarry/local/memory/hook.h"

namespace quarry::local {

struct MemoryUse {
  std::string name;            // of the function, the line or the range
  int64_t used_bytes = 0;      // taken from pools, all allocations together
  int64_t acquired_bytes = 0;  // taken from devices meanwhile
  int64_t allocations = 0;
};

// A hook that notes the call stack of every allocation, as CuPy's LineProfileHook:
//
//   MemoryProfile profile;
//   { const MemoryHookScope scope(profile);  step(x); }
//   std::cout << profile.function_table() << profile.tree();
//
// An allocation counts for its caller: the function and line nearest to it that belong neither to quarry nor to the C++
// library. Functions that the compiler inlined, and all lines, need debug information of the program (-g1 is enough);
// without it a place is "module+0x1f". An allocation then costs some microseconds; reports cost more.
//
// Several threads may register the same profile. Reports may be made at any time.
class MemoryProfile final : public MemoryHook {
 public:
  void after_acquire(const MemoryEvent& event) override;
  void after_allocate(const MemoryEvent& event) override;

  // Most used bytes first.
  std::vector<MemoryUse> by_function() const;   // of the caller
  std::vector<MemoryUse> by_line() const;       // "file.cpp:12 function"
  std::vector<MemoryUse> by_operation() const;  // what the caller called: "quarry::local::ops::sum"
  std::vector<MemoryUse> by_range() const;      // "layer 1 / matmul" (local/device/range.h); needs no symbols

  // The same as text: a line for each with its bytes.
  std::string function_table() const { return table("function", by_function()); }
  std::string line_table() const { return table("line", by_line()); }
  std::string operation_table() const { return table("operation", by_operation()); }
  std::string range_table() const { return table("range", by_range()); }
  // The callers from main() inwards, each with the bytes of all that it called.
  std::string tree() const;

  void clear();

 private:
  struct Key {
    std::vector<uintptr_t> stack;
    detail::RangeNames ranges;
    bool operator<(const Key& other) const { return std::tie(stack, ranges) < std::tie(other.stack, other.ranges); }
  };
  struct Bytes {
    int64_t used = 0, acquired = 0, allocations = 0;
    int64_t order = 0;  // of its first appearance
  };
  template <class NameOf>
  std::vector<MemoryUse> grouped(const NameOf& name_of) const;
  void add(const Bytes& bytes);
  static std::string table(const char* what, const std::vector<MemoryUse>& uses);

  mutable std::mutex mutex_;
  std::map<Key, Bytes> bytes_;
};

}  // namespace quarry::local
