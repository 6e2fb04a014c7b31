// Host memory that copies to and from GPUs run asynchronously with.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace quarry::local::cuda {

// Large pieces are huge pages, touched by the calling thread and then registered: cudaHostAlloc() takes 0.6 to 1 s a
// GiB on the reference machine, one thread at a time, this 0.25 s and nearly all of it in the calling thread. Small
// ones are cudaHostAlloc()'s. Thread-safe; the calling thread's current device is one that has a context.
class PinnedMemory {
 public:
  // Throws OutOfMemory.
  void* allocate(int64_t bytes);
  // `data` is of allocate(), or null.
  void free(void* data) noexcept;

 private:
  void* register_pages(int64_t bytes);

  std::mutex mutex_;
  std::unordered_map<void*, int64_t> registered_;  // bytes of those that are not cudaHostAlloc()'s
};

}  // namespace quarry::local::cuda
