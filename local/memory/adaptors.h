// Memory resources that stand in front of another one. The resource behind must outlive them. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>

#include "quarry/local/device/device.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {

// Passes everything on; the base of the others.
class MemoryAdaptor : public MemoryResource {
 public:
  explicit MemoryAdaptor(MemoryResource& behind) : behind_(behind) {}
  Device device() const override { return behind_.device(); }
  void* allocate(int64_t bytes, DeviceStream* stream) override { return behind_.allocate(bytes, stream); }
  void deallocate(void* data, int64_t bytes, DeviceStream* stream) noexcept override {
    behind_.deallocate(data, bytes, stream);
  }
  int64_t used_bytes() const override { return behind_.used_bytes(); }
  int64_t acquired_bytes() const override { return behind_.acquired_bytes(); }
  int64_t peak_bytes() const override { return behind_.peak_bytes(); }
  void free_unused() override { behind_.free_unused(); }

 protected:
  MemoryResource& behind_;
};

// Counts what passes through this adaptor.
class StatisticsResource : public MemoryAdaptor {
 public:
  using MemoryAdaptor::MemoryAdaptor;
  void* allocate(int64_t bytes, DeviceStream* stream) override;
  void deallocate(void* data, int64_t bytes, DeviceStream* stream) noexcept override;
  int64_t used_bytes() const override { return used_; }
  int64_t peak_bytes() const override { return peak_; }
  int64_t allocations() const { return allocations_; }
  int64_t deallocations() const { return deallocations_; }
  int64_t total_bytes() const { return total_; }  // of all allocations so far
  void reset_peak() { peak_ = used_.load(); }

 private:
  std::atomic<int64_t> used_{0}, peak_{0}, allocations_{0}, deallocations_{0}, total_{0};
};

// A hard limit on what passes through; throws OutOfMemory with request, limit and bytes in use.
class LimitResource final : public MemoryAdaptor {
 public:
  LimitResource(MemoryResource& behind, int64_t limit_bytes) : MemoryAdaptor(behind), limit_(limit_bytes) {}
  void* allocate(int64_t bytes, DeviceStream* stream) override;
  void deallocate(void* data, int64_t bytes, DeviceStream* stream) noexcept override;
  int64_t used_bytes() const override;
  int64_t peak_bytes() const override;
  int64_t limit_bytes() const { return limit_; }

 private:
  const int64_t limit_;
  mutable std::mutex mutex_;
  int64_t used_ = 0, peak_ = 0;
};

// For tests: allocation number `fail_at` (from 1) throws OutOfMemory; the others pass.
class FaultResource final : public MemoryAdaptor {
 public:
  FaultResource(MemoryResource& behind, int64_t fail_at) : MemoryAdaptor(behind), fail_at_(fail_at) {}
  void* allocate(int64_t bytes, DeviceStream* stream) override;
  int64_t allocations() const { return allocations_; }

 private:
  const int64_t fail_at_;
  std::atomic<int64_t> allocations_{0};
};

}  // namespace quarry::local
