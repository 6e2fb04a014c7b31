// NCCL as its manual shows it, for bench_comm to compare with. Blocking communicators, nothing of quarry in between.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace quarry::bench {

class PlainNccl {
 public:
  virtual ~PlainNccl() = default;
  // Bytes from every rank to every other one (not to itself), contiguous pieces; queued on `stream`.
  virtual void all_to_all(const void* send, void* receive, int64_t bytes_each, void* stream) = 0;
  virtual void all_reduce_float32(void* data, int64_t count, void* stream) = 0;
};

// Collective; null where the program was built without NCCL. `broadcast` gives rank 0's bytes to all.
std::unique_ptr<PlainNccl> make_plain_nccl(int rank, int size, int device,
                                           const std::function<void(void* data, int64_t bytes)>& broadcast);

}  // namespace quarry::bench
