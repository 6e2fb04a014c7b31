// What SuperLU allocates and how it gives up.
//
// SuperLU ends the process where it cannot go on: out of memory, or where its ordering finds its input wrong. It does
// so by superlu_abort_and_exit(), and it allocates by superlu_malloc() and superlu_free(). This library has functions
// of these names, which the dynamic linker finds before those of libsuperlu: inside a SuperLuScope giving up throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>

namespace quarry::local::cpu {

// Around calls of SuperLU on this thread. One that ends by an exception frees what SuperLU allocated in it and did not
// free, as SuperLU's own frames do not. Outermost: declare it before what SuperLU's results are kept in.
class SuperLuScope {
 public:
  // Allocations that would make the live bytes more than `most_bytes` fail, here and in scopes inside of this one.
  explicit SuperLuScope(int64_t most_bytes = std::numeric_limits<int64_t>::max());
  ~SuperLuScope();
  SuperLuScope(const SuperLuScope&) = delete;
  SuperLuScope& operator=(const SuperLuScope&) = delete;

  void* allocate(size_t bytes);  // null where there is no memory
  void forget(void* memory);
  static SuperLuScope* current();

 private:
  SuperLuScope* outer_;
  int exceptions_;  // in flight when it began
  int64_t left_;    // bytes
  std::unordered_map<void*, int64_t> live_;
};

}  // namespace quarry::local::cpu
