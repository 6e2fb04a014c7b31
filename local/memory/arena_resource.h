// A memory resource over a given piece of memory.
#pragma once

#include "quarry/local/device/device.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {

// Hands out a given piece of memory front to back; a deallocation of the newest allocation moves back, others are kept
// until the arena dies. For the scratch of one task: its allocations, each rounded up to kAllocationAlignment, must
// fit. The piece is not owned. Not thread-safe; ignores streams.
class ArenaResource final : public MemoryResource {
 public:
  ArenaResource(void* data, int64_t bytes, Device device);
  Device device() const override { return device_; }
  void* allocate(int64_t bytes, DeviceStream* stream) override;
  void deallocate(void* data, int64_t bytes, DeviceStream* stream) noexcept override;
  int64_t used_bytes() const override { return used_; }
  int64_t acquired_bytes() const override { return bytes_; }
  int64_t peak_bytes() const override { return peak_; }

 private:
  char* const data_;
  const int64_t bytes_;
  const Device device_;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

}  // namespace quarry::local
