#include "quarry/scheduler/blocks/tiers.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/pages.h"
#include "quarry/local/memory/policy.h"

namespace quarry::scheduler {
namespace {

// Halves of bounce buffers are written and read as whole pieces.
static_assert(local::memory_policy::kBounceUnit % SpillFile::kPieceBytes == 0);

CachedMemory::Source host_source(const ExecutorConfig& config, local::Backend& backend) {
  if (config.device.kind == local::DeviceKind::cpu) return CachedMemory::pages();
  CachedMemory::Source pinned;
  pinned.take = [&backend](int64_t bytes) { return backend.allocate_pinned(bytes); };
  pinned.give_back = [&backend](void* data, int64_t bytes) { backend.free_pinned(data, bytes); };
  pinned.granule_bytes = local::kPageBytes;
  return pinned;
}

DeviceSegments::Source device_source(local::Device device, local::Backend& backend) {
  // The driver hands out whole ones; what it cuts out of one would be open to other processes with its neighbours.
  constexpr int64_t kCudaGranule = int64_t{2} << 20;
  DeviceSegments::Source source;
  source.take = [&backend, device](int64_t bytes) { return backend.allocate_slab(device.index, bytes); };
  source.give_back = [&backend, device](void* data, int64_t bytes) { backend.free_slab(device.index, data, bytes); };
  source.name = to_string(device);
  source.granule_bytes = device.kind == local::DeviceKind::cuda ? kCudaGranule : local::kAllocationAlignment;
  return source;
}

}  // namespace

Tiers::Tiers(const ExecutorConfig& config)
    : device_(config.device),
      backend_(local::backend(config.device.kind)),
      memory_budget(local::name(config.device.kind), config.memory_bytes),
      host_budget("pinned host", config.device.kind == local::DeviceKind::cpu ? 0 : config.host_bytes),
      spill(config.spill_dir, config.spill_limit_bytes),
      host_memory(host_source(config, backend_),
                  config.device.kind == local::DeviceKind::cpu ? config.memory_bytes : config.host_bytes),
      small_blocks(host_memory) {
  if (config.device.kind == local::DeviceKind::cpu) return;
  segments_ = std::make_unique<DeviceSegments>(device_source(device_, backend_), config.memory_bytes);
  if (const local::DeviceInfo info = backend_.info(device_.index); config.memory_bytes > info.free_bytes) {
    throw local::OutOfMemory(fmt::format("{}: a budget of {} bytes; {} of {} bytes are free", to_string(device_),
                                         config.memory_bytes, info.free_bytes, info.total_bytes));
  }
  bounce_bytes_ = local::memory_policy::bounce_bytes(config.host_bytes, config.io_threads);
  bounce_reservation_ = host_budget.reserve(bounce_bytes_ * config.io_threads);
  copy_stream_ = backend_.create_stream(device_.index, local::StreamRole::to_host);
}

Tiers::~Tiers() = default;

void Tiers::copy_to_host(void* to, const void* from, int64_t bytes) {
  const std::lock_guard lock(copy_mutex_);
  copy_stream_->copy(to, from, bytes);
  copy_stream_->synchronize();
}

BounceBuffer::BounceBuffer(Tiers& tiers, local::Backend& backend, local::Device device, local::DeviceStream& to_device,
                           local::DeviceStream& to_host)
    : tiers_(tiers), to_device_(to_device), to_host_(to_host), half_(tiers.bounce_bytes() / 2) {
  for (auto& event : events_) event = backend.create_event(device.index);
}

BounceBuffer::~BounceBuffer() {
  if (data_ != nullptr) tiers_.host_memory.deallocate(data_, 2 * half_);
}

// Its bytes are reserved.
char* BounceBuffer::buffer() {
  if (data_ == nullptr) data_ = static_cast<char*>(tiers_.host_memory.allocate(2 * half_));
  return data_;
}

void BounceBuffer::write(SpillFile::Slot& slot, const void* device, int64_t bytes) {
  char* const data = buffer();
  // The copy of the next part runs while one is written.
  const auto fetch = [&](int64_t at) {
    const int64_t side = at / half_ % 2;
    to_host_.copy(data + side * half_, static_cast<const char*>(device) + at, std::min(half_, bytes - at));
    to_host_.record(*events_[side]);
  };
  try {
    if (bytes > 0) fetch(0);
    for (int64_t at = 0; at < bytes; at += half_) {
      const int64_t side = at / half_ % 2;
      if (at + half_ < bytes) fetch(at + half_);
      events_[side]->synchronize();
      tiers_.spill.write(slot, at, data + side * half_, std::min(half_, bytes - at));
    }
  } catch (const local::IoError&) {
    to_host_.synchronize();
    throw;
  }
}

void BounceBuffer::read(const SpillFile::Slot& slot, void* device, int64_t bytes) {
  char* const data = buffer();
  try {
    for (int64_t at = 0; at < bytes; at += half_) {
      const int64_t side = at / half_ % 2;
      if (at >= 2 * half_) events_[side]->synchronize();
      tiers_.spill.read(slot, at, std::min(half_, bytes - at), data + side * half_);
      to_device_.copy(static_cast<char*>(device) + at, data + side * half_, std::min(half_, bytes - at));
      to_device_.record(*events_[side]);
    }
  } catch (...) {
    to_device_.synchronize();
    throw;
  }
  to_device_.synchronize();
}

}  // namespace quarry::scheduler
