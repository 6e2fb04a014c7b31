#include "quarry/scheduler/blocks/block_memory.h"

#include <fmt/format.h>
#include <malloc.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/memory/pages.h"

namespace quarry::scheduler {
namespace {

constexpr int64_t kSmallBytes = 32 << 10;
// The C++ heap is asked to return its free pages when this much has come and gone.
constexpr int64_t kTrimBytes = 32 << 20;

}  // namespace

CachedMemory::Source CachedMemory::pages() {
  Source source;
  source.take = local::map_pages;
  source.give_back = local::unmap_pages;
  source.granule_bytes = local::kPageBytes;
  source.small_bytes = kSmallBytes;
  return source;
}

CachedMemory::CachedMemory(Source source, int64_t limit_bytes) : source_(std::move(source)), limit_(limit_bytes) {}

CachedMemory::~CachedMemory() { free_unused(); }

int64_t CachedMemory::allocation_bytes(int64_t bytes) const {
  bytes = std::max<int64_t>(bytes, 1);
  const int64_t granule = bytes < source_.small_bytes ? local::kAllocationAlignment : source_.granule_bytes;
  return local::align_up(bytes, granule);
}

std::pair<void*, int64_t> CachedMemory::take_oldest() {
  auto victim = cache_.end();
  for (auto bucket = cache_.begin(); bucket != cache_.end(); ++bucket) {
    if (victim == cache_.end() || bucket->second.last_use < victim->second.last_use) victim = bucket;
  }
  if (victim == cache_.end()) return {nullptr, 0};
  const std::pair<void*, int64_t> taken{victim->second.blocks.back(), victim->first};
  victim->second.blocks.pop_back();
  if (victim->second.blocks.empty()) cache_.erase(victim);
  acquired_ -= taken.second;
  return taken;
}

void* CachedMemory::allocate(int64_t bytes) {
  const int64_t size = allocation_bytes(bytes);
  const bool small = bytes < source_.small_bytes;
  std::vector<std::pair<void*, int64_t>> unwanted;
  {
    const std::lock_guard lock(mutex_);
    if (small) {
      small_ += size;
      small_peak_ = std::max(small_peak_, small_);
    } else if (const auto bucket = cache_.find(size); bucket != cache_.end()) {
      void* data = bucket->second.blocks.back();
      bucket->second.blocks.pop_back();
      bucket->second.last_use = ++clock_;
      if (bucket->second.blocks.empty()) cache_.erase(bucket);
      return data;
    }
    while (acquired_ + size > limit_) {
      const auto block = take_oldest();
      if (!block.first) break;
      unwanted.push_back(block);
    }
    acquired_ += size;
  }
  for (const auto& [data, length] : unwanted) source_.give_back(data, length);
  const auto take = [&]() -> void* {
    try {
      return source_.take(size);
    } catch (const local::Error&) {
      return nullptr;
    }
  };
  void* data = small ? std::aligned_alloc(local::kAllocationAlignment, static_cast<size_t>(size)) : take();
  if (!data && !small) {
    free_unused();
    data = take();
  }
  if (!data) {
    const int error = errno;
    const std::lock_guard lock(mutex_);
    acquired_ -= size;
    if (small) small_ -= size;
    throw local::OutOfMemory(
        fmt::format("host memory: the system refused {} bytes ({}); {} of the limit of {} are in use", size,
                    std::strerror(error), acquired_, limit_));
  }
  return data;
}

void CachedMemory::deallocate(void* data, int64_t bytes) noexcept {
  const int64_t size = allocation_bytes(bytes);
  if (bytes < source_.small_bytes) {
    std::free(data);
    const std::lock_guard lock(mutex_);
    acquired_ -= size;
    small_ -= size;
    if (small_ == 0 && small_peak_ > kTrimBytes) {
      small_peak_ = 0;
      malloc_trim(0);
    }
    return;
  }
  const std::lock_guard lock(mutex_);
  Bucket& bucket = cache_[size];
  bucket.blocks.push_back(data);
  bucket.last_use = ++clock_;
}

void CachedMemory::free_unused() {
  for (;;) {
    std::pair<void*, int64_t> block;
    {
      const std::lock_guard lock(mutex_);
      block = take_oldest();
    }
    if (!block.first) return;
    source_.give_back(block.first, block.second);
  }
}

int64_t CachedMemory::acquired_bytes() const {
  const std::lock_guard lock(mutex_);
  return acquired_;
}

namespace {

// The number of a size of SmallBlocks.
size_t small_size(int64_t bytes) { return static_cast<size_t>(bytes / local::kAllocationAlignment - 1); }

}  // namespace

void* SmallBlocks::take(int64_t bytes) {
  if (bytes > kSizes * local::kAllocationAlignment) return nullptr;
  std::vector<void*>& blocks = blocks_[small_size(bytes)];
  if (blocks.empty()) return nullptr;
  void* const data = blocks.back();
  blocks.pop_back();
  kept_ -= bytes;
  return data;
}

void SmallBlocks::put(void* data, int64_t bytes) noexcept {
  if (bytes <= kSizes * local::kAllocationAlignment) {
    std::vector<void*>& blocks = blocks_[small_size(bytes)];
    if (blocks.capacity() == 0) blocks.reserve(kMostKept);
    if (blocks.size() < kMostKept) {
      blocks.push_back(data);
      kept_ += bytes;
      return;
    }
  }
  memory_.deallocate(data, bytes);
}

void SmallBlocks::give_back() noexcept {
  for (int i = 0; i < kSizes; ++i) {
    const int64_t bytes = (i + 1) * local::kAllocationAlignment;
    for (void* const data : blocks_[static_cast<size_t>(i)]) memory_.deallocate(data, bytes);
    blocks_[static_cast<size_t>(i)].clear();
  }
  kept_ = 0;
}

void Gaps::insert(int64_t position, int64_t bytes) {
  gaps_.emplace(position, bytes);
  by_size_.emplace(bytes, position);
  free_ += bytes;
}

void Gaps::erase(std::map<int64_t, int64_t>::iterator gap) {
  QUARRY_CHECK(gap != gaps_.end());
  free_ -= gap->second;
  by_size_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

int64_t Gaps::take(int64_t bytes, bool at_top) {
  QUARRY_CHECK(bytes > 0);
  std::map<int64_t, int64_t>::iterator gap;
  if (at_top) {
    gap = gaps_.end();
    while (gap != gaps_.begin() && std::prev(gap)->second < bytes) --gap;
    if (gap == gaps_.begin()) return -1;
    --gap;
  } else {
    const auto fit = by_size_.lower_bound({bytes, -1});
    if (fit == by_size_.end()) return -1;
    gap = gaps_.find(fit->second);
  }
  const auto [position, length] = *gap;
  erase(gap);
  if (length > bytes) insert(at_top ? position : position + bytes, length - bytes);
  return at_top ? position + length - bytes : position;
}

void Gaps::add(int64_t position, int64_t bytes) {
  const auto next = gaps_.lower_bound(position);
  QUARRY_CHECK(next == gaps_.end() || position + bytes <= next->first);
  if (next != gaps_.end() && next->first == position + bytes) {
    bytes += next->second;
    erase(next);
  }
  auto previous = gaps_.lower_bound(position);
  if (previous != gaps_.begin()) {
    --previous;
    QUARRY_CHECK(previous->first + previous->second <= position);
    if (previous->first + previous->second == position) {
      position = previous->first;
      bytes += previous->second;
      erase(previous);
    }
  }
  insert(position, bytes);
}

bool Gaps::is_gap(int64_t position, int64_t bytes) const {
  const auto gap = gaps_.find(position);
  return gap != gaps_.end() && gap->second == bytes;
}

}  // namespace quarry::scheduler
