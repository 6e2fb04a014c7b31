// Scratch memory of one task: best fit inside one piece.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "quarry/local/device/device.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/scheduler/blocks/block_memory.h"

namespace quarry::scheduler {

// On the CPU the piece is taken from `host_memory` at first use. Thread-safe, but for open().
class Scratch final : public local::MemoryResource {
 public:
  Scratch(CachedMemory& host_memory, local::Device device) : host_memory_(host_memory), device_(device) {}
  void open(void* data, int64_t bytes);  // data null: taken at first use
  void close();                          // gives back what was taken at first use

  local::Device device() const override { return device_; }
  void* allocate(int64_t bytes, local::DeviceStream* stream) override;
  void deallocate(void* data, int64_t bytes, local::DeviceStream* stream) noexcept override;
  int64_t used_bytes() const override;
  int64_t acquired_bytes() const override { return bytes_; }
  int64_t peak_bytes() const override;

 private:
  CachedMemory& host_memory_;
  const local::Device device_;
  mutable std::mutex mutex_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  bool owned_ = false;
  alignas(std::max_align_t) char nothing_ = 0;       // its address is that of pieces of no bytes
  std::vector<std::pair<int64_t, int64_t>> pieces_;  // handed out: offset and length, in order of offsets
  int64_t used_ = 0, peak_ = 0;
};

}  // namespace quarry::scheduler
