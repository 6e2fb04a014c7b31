// The scratch of one task as a memory resource for functions of local arrays.
#pragma once

#include <mutex>

#include "quarry/local/device/device.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/first_fit.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::exec {

// First fit with merging over a piece that is taken from the context's memory; unlike a task's arena it reuses pieces
// that are given back in any order. All work is of the task's stream, so reuse needs no events.
class ScratchPool final : public local::MemoryResource {
 public:
  // `bytes`: all that the task declared.
  ScratchPool(const local::ExecContext& context, int64_t bytes);
  ~ScratchPool() override;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // The task's context with this memory.
  local::ExecContext context() { return {context_.device, context_.stream, this, context_.threads}; }

  local::Device device() const override { return context_.device; }
  // Throws OutOfMemory that says what was asked for and what is in use of the declared bytes.
  void* allocate(int64_t bytes, local::DeviceStream* stream) override;
  void deallocate(void* data, int64_t bytes, local::DeviceStream* stream) noexcept override;
  int64_t used_bytes() const override { return used_; }
  int64_t acquired_bytes() const override { return bytes_; }
  int64_t peak_bytes() const override { return peak_; }

 private:
  const local::ExecContext context_;
  const int64_t bytes_;
  char* data_ = nullptr;
  std::mutex mutex_;
  local::FirstFit places_;
  int64_t used_ = 0, peak_ = 0;
};

}  // namespace quarry::exec
