// The tiers that blocks live in: compute (device memory on a GPU, host memory on the CPU), pinned host memory (GPU
// kinds) and disk, with the budget and the allocator of each.
#pragma once

#include <memory>
#include <mutex>

#include "quarry/local/device/device.h"
#include "quarry/local/memory/budget.h"
#include "quarry/scheduler/blocks/block_memory.h"
#include "quarry/scheduler/blocks/segments.h"
#include "quarry/scheduler/blocks/spill_file.h"
#include "quarry/scheduler/executor.h"

namespace quarry::scheduler {

class Tiers {
 public:
  // Takes no memory yet. Throws OutOfMemory where less than the budget is free on the device.
  explicit Tiers(const ExecutorConfig& config);
  ~Tiers();
  Tiers(const Tiers&) = delete;
  Tiers& operator=(const Tiers&) = delete;

  bool on_device() const { return segments_ != nullptr; }
  // Where blocks of no bytes are.
  void* nothing() { return &nothing_; }
  // Of device kinds: where blocks and scratch lie. Needs the executor's lock, as deallocate().
  DeviceSegments& segments() { return *segments_; }
  const DeviceSegments& segments() const { return *segments_; }
  // A block's memory in the compute tier, of its charge.
  void deallocate(void* data, int64_t charge) {
    if (on_device()) {
      segments_->deallocate(data, charge);
    } else {
      small_blocks.put(data, charge);
    }
  }
  // Of each I/O thread's bounce buffer, device kinds.
  int64_t bounce_bytes() const { return bounce_bytes_; }
  // The most that staging memory can have of the pinned tier.
  int64_t staging_limit_bytes() const { return host_budget.limit_bytes() - bounce_reservation_.bytes(); }
  // From device memory to `to` in host memory; blocks. From any thread, without the executor's lock.
  void copy_to_host(void* to, const void* from, int64_t bytes);

 private:
  const local::Device device_;
  local::Backend& backend_;

 public:
  local::Budget memory_budget, host_budget;
  SpillFile spill;
  CachedMemory host_memory;  // CPU: blocks; device kinds: the pinned tier
  SmallBlocks small_blocks;  // CPU; needs the executor's lock

 private:
  alignas(local::kAllocationAlignment) char nothing_ = 0;
  std::unique_ptr<DeviceSegments> segments_;
  int64_t bounce_bytes_ = 0;
  local::Reservation bounce_reservation_;
  std::mutex copy_mutex_;
  std::unique_ptr<local::DeviceStream> copy_stream_;
};

// One I/O thread's way between a device and the disk: two halves of pinned memory in turn, so that one is copied while
// the other is written or read. The memory is taken when it is first used.
class BounceBuffer {
 public:
  BounceBuffer(Tiers& tiers, local::Backend& backend, local::Device device, local::DeviceStream& to_device,
               local::DeviceStream& to_host);
  ~BounceBuffer();
  BounceBuffer(const BounceBuffer&) = delete;
  BounceBuffer& operator=(const BounceBuffer&) = delete;

  local::DeviceStream& to_device() { return to_device_; }
  local::DeviceStream& to_host() { return to_host_; }
  // A block from device memory to its slot, and back. Both block; nothing is under way after an error. Throw IoError;
  // OutOfMemory where no memory is to be had.
  void write(SpillFile::Slot& slot, const void* device, int64_t bytes);
  void read(const SpillFile::Slot& slot, void* device, int64_t bytes);

 private:
  Tiers& tiers_;
  local::DeviceStream& to_device_;
  local::DeviceStream& to_host_;
  char* buffer();

  char* data_ = nullptr;
  const int64_t half_;
  std::unique_ptr<local::DeviceEvent> events_[2];
};

}  // namespace quarry::scheduler
