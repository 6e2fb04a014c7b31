// Staging memory: pinned, from the host budget, on device kinds; plain memory from the compute budget on the CPU.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "quarry/local/device/device.h"
#include "quarry/local/memory/budget.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::scheduler {

class Core;

// Requests that wait. The executor's lock guards it.
struct StagingRequests {
  int64_t bytes = 0;               // CPU; they come before admission
  int pinned = 0;                  // device kinds: how many
  std::exception_ptr spill_error;  // of a block that was evicted for them between runs
  std::condition_variable wake;
};

class Staging final : public local::MemoryResource {
 public:
  // Whether this thread is a worker of an executor; one that waits is not at work.
  static thread_local bool is_of_worker;

  explicit Staging(Core& core) : core_(core) {}
  ~Staging() override;
  local::Device device() const override { return local::kCpu; }
  void* allocate(int64_t bytes, local::DeviceStream* stream) override;
  void deallocate(void* data, int64_t bytes, local::DeviceStream* stream) noexcept override;
  int64_t used_bytes() const override;
  int64_t acquired_bytes() const override;
  int64_t peak_bytes() const override;
  // CPU: without memory.
  local::Reservation reserve(int64_t bytes);

 private:
  struct Pending {
    void* data;
    int64_t bytes;
    std::shared_ptr<local::DeviceEvent> event;
  };
  local::Reservation reserve_pinned(int64_t bytes);
  local::Reservation wait_for_pinned(int64_t bytes);
  void give_back(void* data, int64_t bytes);
  // Reuses what was given back behind an event that has come; waits for the oldest where asked to. False if there was
  // nothing.
  bool reap(bool wait);

  Core& core_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, local::Reservation> out_;
  std::deque<Pending> pending_;
  int64_t used_ = 0, peak_ = 0;
};

}  // namespace quarry::scheduler
