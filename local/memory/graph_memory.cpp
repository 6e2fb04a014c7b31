#include "quarry/local/memory/graph_memory.h"

namespace quarry::local {

GraphMemory::~GraphMemory() {
  for (const auto& [bytes, data] : free_) pool_.deallocate(data, bytes, /*stream=*/nullptr);
}

void* GraphMemory::allocate(int64_t bytes, DeviceStream*) {
  const int64_t rounded = rounded_allocation(bytes);
  const std::lock_guard lock(mutex_);
  const auto fitting = free_.lower_bound(rounded);
  if (fitting != free_.end() && fitting->first <= 2 * rounded) {
    void* const data = fitting->second;
    taken_.emplace(data, Block{fitting->first, nullptr});
    free_.erase(fitting);
    return data;
  }
  void* const data = pool_.allocate(rounded, &stream_);
  taken_.emplace(data, Block{rounded, nullptr});
  return data;
}

void GraphMemory::deallocate(void* data, int64_t, DeviceStream* stream) noexcept {
  std::shared_ptr<GraphMemory> last;  // goes after the lock
  const std::lock_guard lock(mutex_);
  const auto found = taken_.find(data);
  if (found == taken_.end()) return;
  if (closed_)
    pool_.deallocate(data, found->second.bytes, stream);
  else
    free_.emplace(found->second.bytes, data);
  taken_.erase(found);
  if (taken_.empty()) last = std::move(self_);
}

int64_t GraphMemory::used_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [data, block] : taken_) bytes += block.bytes;
  return bytes;
}

int64_t GraphMemory::acquired_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [data, block] : taken_) bytes += block.bytes;
  for (const auto& [size, data] : free_) bytes += size;
  return bytes;
}

void GraphMemory::used(Buffer& buffer, Access access) {
  if (buffer.memory() == this) return;  // made() noted it
  const std::shared_ptr<Buffer> shared = buffer.weak_from_this().lock();
  if (!shared) return;
  const std::lock_guard lock(mutex_);
  Use& use = uses_.try_emplace(&buffer, Use{shared, access}).first->second;
  if (access == Access::write) use.access = access;
}

void GraphMemory::made(Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  const auto found = taken_.find(buffer.data());
  if (found != taken_.end()) found->second.buffer = &buffer;
}

std::vector<GraphMemory::Use> GraphMemory::finish() {
  const std::lock_guard lock(mutex_);
  std::vector<Use> uses;
  for (auto& [buffer, use] : uses_) uses.push_back(std::move(use));
  uses_.clear();
  // A buffer that another thread destroys now waits for the lock in deallocate().
  for (const auto& [data, block] : taken_) {
    if (block.buffer == nullptr) continue;
    if (std::shared_ptr<Buffer> shared = block.buffer->weak_from_this().lock())
      uses.push_back({std::move(shared), Access::write});
  }
  return uses;
}

void GraphMemory::close() {
  std::multimap<int64_t, void*> idle;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    idle.swap(free_);
    if (!taken_.empty()) self_ = shared_from_this();
  }
  for (const auto& [bytes, data] : idle) pool_.deallocate(data, bytes, /*stream=*/nullptr);
}

}  // namespace quarry::local
