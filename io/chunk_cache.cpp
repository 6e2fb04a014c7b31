#include "quarry/io/chunk_cache.h"

#include <algorithm>
#include <limits>
#include <new>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::io {
namespace {

// An entry that was not asked for in so many times as many takes as there are entries is not wanted any more.
constexpr uint64_t kLong = 16;
constexpr int64_t kMostBits = int64_t{1} << 26;  // 8 MiB
constexpr int kBits = 64;

int64_t elements_of(const CachedChunks::Box& box) {
  int64_t elements = 1;
  for (int d = 0; d < box.extent.size(); ++d) elements *= box.end[d] - box.begin[d];
  return elements;
}

}  // namespace

ChunkCache::~ChunkCache() {
  QUARRY_CHECK(entries_.empty());
  for (const auto& [bytes, data] : spare_) ::operator delete (data, std::align_val_t{local::kAllocationAlignment});
}

int64_t ChunkCache::rounded_bytes(int64_t chunk_bytes) {
  return local::align_up(chunk_bytes, local::kAllocationAlignment);
}

std::shared_ptr<CachedChunks> ChunkCache::add(int64_t chunk_bytes, int64_t chunks, const PlannedReads& reads) {
  return std::make_shared<CachedChunks>(shared_from_this(), chunk_bytes, chunks, reads);
}

int64_t ChunkCache::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

int64_t ChunkCache::limit_bytes() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

int64_t ChunkCache::reclaim(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  while (limit_ - used_ < bytes) {
    if (free_spare()) continue;
    if (by_nearness_.empty()) break;
    drop_idle(std::get<Key>(*by_nearness_.begin()));
  }
  const int64_t given = std::clamp<int64_t>(limit_ - used_, 0, bytes);
  limit_ -= given;
  return given;
}

void ChunkCache::set_idle(const Key& key, Entry& entry) {
  entry.touched = ++now_;
  by_nearness_.emplace(entry.nearness, std::numeric_limits<uint64_t>::max() - entry.touched, key);
  by_touch_.emplace(entry.touched, key);
}

void ChunkCache::set_busy(const Key& key, const Entry& entry) {
  by_nearness_.erase({entry.nearness, std::numeric_limits<uint64_t>::max() - entry.touched, key});
  by_touch_.erase(entry.touched);
}

void ChunkCache::drop(Entries::iterator entry) {
  spare_.emplace(entry->second.bytes, entry->second.data);
  entries_.erase(entry);
}

// Frees what is needed for a chunk that will be wanted so soon, unless all that there is is wanted sooner.
bool ChunkCache::make_room(int64_t bytes, int nearness) {
  if (bytes > limit_) return false;
  for (;;) {
    if (used_ + bytes <= limit_ || spare_.contains(bytes)) return true;
    if (free_spare()) continue;
    if (by_touch_.empty()) return false;
    Key victim = by_touch_.begin()->second;
    if (now_ - by_touch_.begin()->first <= kLong * entries_.size()) {
      const auto& [least, touched, key] = *by_nearness_.begin();
      if (least >= nearness) return false;
      victim = key;
    }
    drop_idle(victim);
  }
}

// To the system.
bool ChunkCache::free_spare() {
  if (spare_.empty()) return false;
  const auto first = spare_.begin();
  used_ -= first->first;
  ::operator delete (first->second, std::align_val_t{local::kAllocationAlignment});
  spare_.erase(first);
  return true;
}

void ChunkCache::drop_idle(Key key) {
  const auto entry = entries_.find(key);
  set_busy(key, entry->second);
  drop(entry);
}

std::byte* ChunkCache::allocate(int64_t bytes) {
  if (const auto spare = spare_.find(bytes); spare != spare_.end()) {
    std::byte* const data = spare->second;
    spare_.erase(spare);
    return data;
  }
  auto* const data = static_cast<std::byte*>(
      ::operator new (static_cast<size_t>(bytes), std::align_val_t{local::kAllocationAlignment}, std::nothrow));
  if (data) used_ += bytes;
  return data;
}

void ChunkCache::forget(const CachedChunks& chunks) {
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto here = entry++;
    if (here->first.first != &chunks) continue;
    QUARRY_CHECK(here->second.users == 0);
    set_busy(here->first, here->second);
    drop(here);
  }
}

CachedChunks::CachedChunks(std::shared_ptr<ChunkCache> cache, int64_t chunk_bytes, int64_t chunks,
                           const PlannedReads& reads)
    : cache_(std::move(cache)),
      chunk_bytes_(ChunkCache::rounded_bytes(chunk_bytes)),
      reads_(reads),
      seen_(chunks <= kMostBits ? static_cast<size_t>((chunks + kBits - 1) / kBits) : 0) {}
CachedChunks::~CachedChunks() { cache_->forget(*this); }

bool CachedChunks::wants(int64_t number, const Box& box) const {
  if (reads_.in_all > 1) return true;
  for (int d = 0; d < box.extent.size(); ++d)
    if (box.begin[d] > 0 || box.end[d] < box.extent[d]) return true;
  // One that ended inside the chunk may have left all of it to this read.
  const std::lock_guard lock(cache_->mutex_);
  return cache_->entries_.contains({this, number});
}

// Of a chunk of which so many elements will have been read, the last of them as this box. 0: after all that reads take
// of it now; its number of axes and more: at once.
int CachedChunks::nearness_after(const Box& box, int64_t consumed) const {
  const int ndim = box.extent.size();
  int64_t elements = 1;
  for (const int64_t extent : box.extent) elements *= extent;
  const int64_t pass = elements * reads_.together;
  if (consumed > 0 && consumed % pass == 0) return 0;
  if (consumed > 0 && consumed % elements == 0) return ndim + 1;  // the next one that reads the same
  for (int d = ndim - 1; d >= 0; --d)
    if (box.end[d] < box.extent[d]) return d + 1;
  return ndim + 1;
}

CachedChunks::Hold CachedChunks::take(int64_t number, const Box& box, bool wait) {
  using State = Hold::State;
  ChunkCache& cache = *cache_;
  const ChunkCache::Key key{this, number};
  Hold hold;
  hold.chunks_ = this;
  hold.number_ = number;
  hold.box_ = box;
  std::unique_lock lock(cache.mutex_);
  for (;;) {
    const auto found = cache.entries_.find(key);
    if (found == cache.entries_.end()) break;
    ChunkCache::Entry& entry = found->second;
    if (entry.is_made) {
      if (entry.users++ == 0) cache.set_busy(key, entry);
      hold.state_ = State::ready;
      hold.data_ = entry.data;
      return hold;
    }
    if (!wait) {
      hold.state_ = State::busy;
      return hold;
    }
    cache.made_.wait(lock);
  }
  ++cache.now_;
  const int nearness = nearness_after(box, elements_of(box));
  if (!cache.make_room(chunk_bytes_, nearness)) return hold;
  std::byte* const data = cache.allocate(chunk_bytes_);
  if (!data) return hold;
  ChunkCache::Entry& entry = cache.entries_[key];
  entry.data = data;
  entry.bytes = chunk_bytes_;
  entry.users = 1;
  hold.state_ = State::open;
  hold.data_ = data;
  return hold;
}

void CachedChunks::note_read(int64_t number, int64_t stored_bytes) {
  const std::lock_guard lock(cache_->mutex_);
  decoded_bytes_ += chunk_bytes_;
  if (seen_.empty()) return;
  uint64_t& word = seen_[static_cast<size_t>(number / kBits)];
  const uint64_t bit = uint64_t{1} << (number % kBits);
  if (word & bit) reread_bytes_ += stored_bytes;
  word |= bit;
}

int64_t CachedChunks::reread_bytes() const {
  const std::lock_guard lock(cache_->mutex_);
  return reread_bytes_;
}

int64_t CachedChunks::decoded_bytes() const {
  const std::lock_guard lock(cache_->mutex_);
  return decoded_bytes_;
}

CachedChunks::Hold& CachedChunks::Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  end();
  chunks_ = other.chunks_;
  number_ = other.number_;
  box_ = std::move(other.box_);
  state_ = std::exchange(other.state_, State::none);
  data_ = std::exchange(other.data_, nullptr);
  return *this;
}

void CachedChunks::Hold::publish() {
  QUARRY_CHECK(state_ == State::open);
  {
    const std::lock_guard lock(chunks_->cache_->mutex_);
    chunks_->cache_->entries_.find({chunks_, number_})->second.is_made = true;
  }
  chunks_->cache_->made_.notify_all();
  state_ = State::ready;
}

void CachedChunks::Hold::end() noexcept {
  if (state_ == State::none || state_ == State::busy) return;
  ChunkCache& cache = *chunks_->cache_;
  bool was_open = false;
  {
    const std::lock_guard lock(cache.mutex_);
    const auto found = cache.entries_.find({chunks_, number_});
    ChunkCache::Entry& entry = found->second;
    was_open = state_ == State::open;
    if (!was_open) {
      entry.consumed += elements_of(box_);
      entry.nearness = chunks_->nearness_after(box_, entry.consumed);
    }
    if (--entry.users == 0) {
      int64_t elements = chunks_->reads_.in_all;
      for (const int64_t extent : box_.extent) elements *= extent;
      if (was_open || entry.consumed >= elements)
        cache.drop(found);
      else
        cache.set_idle(found->first, entry);
    }
  }
  if (was_open) cache.made_.notify_all();
  state_ = State::none;
}

}  // namespace quarry::io
