#include "quarry/local/memory/slab_pool.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/device/device.h"

namespace quarry::local {
namespace {

// Address space of a fixed pool on the CPU, as a multiple of its bytes.
constexpr int64_t kAddressFactor = 4;
constexpr int64_t kSlabGranularity = int64_t{2} << 20;
// How many blocks of a close size are looked at for one that needs no wait.
constexpr int kFitCandidates = 8;
constexpr size_t kHoldersInMessages = 5;
// What is kept in bins: blocks up to a size, up to a total.
constexpr int64_t kLargestBinned = int64_t{64} << 10;
constexpr int64_t kMostBinned = int64_t{2} << 20;
// How many blocks of a bin are looked at for one of the same stream.
constexpr size_t kBinCandidates = 4;

}  // namespace

std::unique_ptr<SlabPool> SlabPool::fixed(Device device, int64_t bytes) {
  QUARRY_CHECK(bytes > 0);
  const bool lazy = device.kind == DeviceKind::cpu;
  const int64_t limit = align_up(bytes, kAllocationAlignment);
  std::unique_ptr<SlabPool> pool(
      new SlabPool(device, device.kind, /*slab_bytes=*/0, limit, lazy ? Pages::lazy : Pages::device));
  pool->add_slab(lazy ? limit * kAddressFactor : limit, /*touched=*/!lazy);
  return pool;
}

std::unique_ptr<SlabPool> SlabPool::growing(Device device, int64_t slab_bytes, int64_t limit_bytes) {
  QUARRY_CHECK(slab_bytes > 0);
  return std::unique_ptr<SlabPool>(new SlabPool(device, device.kind, slab_bytes, limit_bytes, Pages::device));
}

std::unique_ptr<SlabPool> SlabPool::pinned(DeviceKind kind, int64_t bytes, int64_t slab_bytes) {
  QUARRY_CHECK(bytes > 0 || (bytes == kNoLimit && slab_bytes > 0));
  const int64_t limit = bytes == kNoLimit ? kNoLimit : align_up(bytes, kAllocationAlignment);
  std::unique_ptr<SlabPool> pool(new SlabPool(kCpu, kind, slab_bytes, limit, Pages::pinned));
  if (slab_bytes == 0) pool->add_slab(limit, /*touched=*/true);
  return pool;
}

SlabPool::SlabPool(Device device, DeviceKind kind, int64_t slab_bytes, int64_t limit_bytes, Pages pages)
    : device_(device), backend_(backend(kind)), slab_bytes_(slab_bytes), limit_(limit_bytes), pages_(pages) {
  // A lazy pool counts the pages that free blocks may hold.
  if (pages_ != Pages::lazy) bins_.resize(kLargestBinned / kAllocationAlignment + 1);
}

void* SlabPool::take_slab(int64_t bytes) {
  if (pages_ == Pages::pinned) return backend_.allocate_pinned(bytes);
  void* data = backend_.allocate_slab(device_.index, bytes);
  if (device_.kind == DeviceKind::cpu) {
    // Huge pages are faster, but make the pages of a fixed pool uncountable.
    madvise(data, static_cast<size_t>(bytes), pages_ == Pages::lazy ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  }
  return data;
}

// Throws OutOfMemory, or what a hook throws; either leaves the pool as it was.
void* SlabPool::acquire(int64_t bytes) {
  const bool hooked = MemoryHooks::any();
  if (hooked) MemoryHooks::call(&MemoryHook::before_acquire, event_of(bytes, bytes, nullptr));
  void* data = take_slab(bytes);
  ++acquisitions_;
  if (!hooked) return data;
  try {
    MemoryHooks::call(&MemoryHook::after_acquire, event_of(bytes, bytes, data));
  } catch (...) {
    release_slab({data, bytes});
    throw;
  }
  return data;
}

MemoryEvent SlabPool::event_of(int64_t requested, int64_t bytes, void* data) const {
  return {.pool = this, .device = device_, .requested_bytes = requested, .bytes = bytes, .data = data};
}

void SlabPool::release_slab(const Slab& slab) noexcept {
  if (pages_ == Pages::pinned)
    backend_.free_pinned(slab.data, slab.bytes);
  else
    backend_.free_slab(device_.index, slab.data, slab.bytes);
}

SlabPool::~SlabPool() {
  empty_bins();
  for (FreeSet* set : {&touched_, &untouched_}) {
    for (Block* block : *set) {
      for (const Use& use : block->uses) {
        try {
          use.event->synchronize();
        } catch (...) {  // whoever waits for that stream hears of it
        }
      }
    }
  }
  storage_.clear();  // events go back to idle_events_
  for (const auto& slab : slabs_) release_slab(*slab);
}

void SlabPool::add_slab(int64_t bytes, bool touched) {
  slabs_.push_back(std::make_unique<Slab>(Slab{acquire(bytes), bytes}));
  if (pages_ != Pages::lazy) acquired_ += bytes;
  peak_acquired_ = std::max(peak_acquired_, acquired_);
  Block* block = make_block();
  block->data = static_cast<char*>(slabs_.back()->data);
  block->bytes = bytes / kAllocationAlignment * kAllocationAlignment;
  block->slab = slabs_.back().get();
  block->touched = touched;
  insert_free(block);
}

SlabPool::Block* SlabPool::make_block() {
  if (spare_.empty()) return &storage_.emplace_back();
  Block* block = spare_.back();
  spare_.pop_back();
  *block = Block{};
  return block;
}

void SlabPool::remove_free(Block* block) {
  set_of(block).erase(block);
  if (block->touched) touched_free_ -= block->bytes;
  block->free = false;
}

void SlabPool::absorb_next(Block* block) {
  Block* next = block->next;
  block->bytes += next->bytes;
  block->next = next->next;
  if (next->next) next->next->previous = block;
  for (Use& use : next->uses) {
    const auto same =
        std::find_if(block->uses.begin(), block->uses.end(), [&](const Use& u) { return u.event == use.event; });
    if (same == block->uses.end()) block->uses.push_back(std::move(use));
  }
  next->uses.clear();
  spare_.push_back(next);
}

void SlabPool::insert_free(Block* block) {
  if (Block* next = block->next; next && next->free && next->touched == block->touched) {
    remove_free(next);
    absorb_next(block);
  }
  if (Block* previous = block->previous; previous && previous->free && previous->touched == block->touched) {
    remove_free(previous);
    absorb_next(previous);
    block = previous;
  }
  // Work that is done needs no wait; without this, large blocks would gather events without end.
  std::erase_if(block->uses, [](const Use& use) { return use.event->done(); });
  block->free = true;
  set_of(block).insert(block);
  if (block->touched) touched_free_ += block->bytes;
}

void SlabPool::split(Block* block, int64_t bytes) {
  if (block->bytes == bytes) return;
  Block* rest = make_block();
  rest->data = block->data + bytes;
  rest->bytes = block->bytes - bytes;
  rest->slab = block->slab;
  rest->previous = block;
  rest->next = block->next;
  rest->touched = block->touched;
  rest->uses = block->uses;
  if (rest->next) rest->next->previous = rest;
  block->next = rest;
  block->bytes = bytes;
  insert_free(rest);
}

SlabPool::Block* SlabPool::find(FreeSet& set, int64_t bytes, DeviceStream* stream) {
  const auto best = set.lower_bound(bytes);
  if (best == set.end()) return nullptr;
  auto candidate = best;
  for (int i = 0; i < kFitCandidates && candidate != set.end(); ++i, ++candidate) {
    if ((*candidate)->bytes > (*best)->bytes + (*best)->bytes / 8) break;
    const bool ready = std::all_of((*candidate)->uses.begin(), (*candidate)->uses.end(), [&](const Use& use) {
      return (stream && use.stream == stream->id()) || use.event->done();
    });
    if (ready) return *candidate;
  }
  return *best;
}

void SlabPool::discard(Block* block) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(block->data) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(block->data + block->bytes) / page * page;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  remove_free(block);
  block->touched = false;
  insert_free(block);
}

void SlabPool::discard_all() {
  while (!touched_.empty()) discard(*touched_.rbegin());
}

// Takes a slab of the usual size, or, where that is not to be had, of just the bytes needed.
bool SlabPool::grow(int64_t bytes) {
  const int64_t room = limit_ >= 0 ? limit_ - acquired_ : INT64_MAX;
  const int64_t wanted = std::min(bytes > slab_bytes_ ? align_up(bytes, kSlabGranularity) : slab_bytes_, room);
  for (int64_t slab : {wanted, bytes}) {
    if (slab < bytes || slab > room) continue;
    try {
      add_slab(slab, /*touched=*/true);
      return true;
    } catch (const OutOfMemory&) {  // the caller reports it
    }
  }
  return false;
}

SlabPool::Block* SlabPool::find_or_grow(int64_t bytes, DeviceStream* stream, int64_t requested) {
  if (limit_ >= 0 && bytes > limit_ - used_) {
    throw OutOfMemory(fmt::format("{} memory: {} bytes do not fit: {} of {} are in use{}", to_string(device_),
                                  requested, used_, limit_, held()));
  }
  if (Block* block = find(touched_, bytes, stream)) return block;
  if (binned_blocks_ > 0) {
    empty_bins();
    if (Block* block = find(touched_, bytes, stream)) return block;
  }
  if (pages_ == Pages::lazy) {
    while (used_ + touched_free_ + bytes > limit_ && !touched_.empty()) discard(*touched_.rbegin());
    if (Block* block = find(untouched_, bytes, stream)) return block;
    discard_all();
    if (Block* block = find(untouched_, bytes, stream)) return block;
  }
  if (slab_bytes_ > 0 && (grow(bytes) || (free_unused_slabs() && grow(bytes)))) return find(touched_, bytes, stream);
  throw OutOfMemory(fmt::format(
      "{} memory: no free piece of {} bytes: {} of {} are in use, the largest free piece has {}{}", to_string(device_),
      requested, used_, limit_ >= 0 ? limit_ : acquired_, touched_.empty() ? 0 : (*touched_.rbegin())->bytes, held()));
}

void* SlabPool::allocate(int64_t bytes, DeviceStream* stream) {
  QUARRY_CHECK(bytes >= 0);
  if (!MemoryHooks::any()) return take(bytes, stream);
  const int64_t rounded = rounded_allocation(bytes);
  MemoryHooks::call(&MemoryHook::before_allocate, event_of(bytes, rounded, nullptr));
  void* data = take(bytes, stream);
  try {
    MemoryHooks::call(&MemoryHook::after_allocate, event_of(bytes, rounded, data));
  } catch (...) {
    give_back(data, stream);
    throw;
  }
  return data;
}

void SlabPool::deallocate(void* data, int64_t bytes, DeviceStream* stream) noexcept {
  if (!MemoryHooks::any()) return give_back(data, stream);
  const MemoryEvent event = event_of(bytes, rounded_allocation(bytes), data);
  MemoryHooks::call(&MemoryHook::before_free, event);
  give_back(data, stream);
  MemoryHooks::call(&MemoryHook::after_free, event);
}

void* SlabPool::take(int64_t bytes, DeviceStream* stream) {
  const int64_t rounded = rounded_allocation(bytes);
  std::vector<Use> pending;  // to be waited for by the host: only without a stream
  void* result;
  {
    const std::lock_guard lock(mutex_);
    Block* block = take_from_bin(rounded, stream);
    if (block == nullptr) {
      block = find_or_grow(rounded, stream, bytes);
      remove_free(block);
      split(block, rounded);
      given_blocks_.emplace(block->data, block);
    }
    for (Use& use : block->uses) {
      if (stream && use.stream == stream->id()) continue;
      if (stream)
        stream->wait(*use.event);
      else
        pending.push_back(use);
    }
    block->uses.clear();
    block->touched = true;
    block->requested = bytes;
    block->holder = current_ranges();
    used_ += rounded;
    requested_ += bytes;
    ++allocations_;
    peak_ = std::max(peak_, used_);
    if (pages_ == Pages::lazy) peak_acquired_ = std::max(peak_acquired_, used_ + touched_free_);
    result = block->data;
  }
  for (Use& use : pending) {
    try {
      use.event->synchronize();
    } catch (...) {  // the memory is idle all the same; whoever waits for that stream hears of the failure
    }
  }
  if (!pending.empty()) {
    const std::lock_guard lock(mutex_);
    pending.clear();
  }
  return result;
}

std::shared_ptr<DeviceEvent> SlabPool::recorded_event(DeviceStream& stream) noexcept try {
  const Device owner = stream.device();
  std::unique_ptr<DeviceEvent> event;
  const auto idle =
      std::find_if(idle_events_.begin(), idle_events_.end(), [&](const auto& e) { return e.first == owner; });
  if (idle == idle_events_.end()) {
    event = backend(owner.kind).create_event(owner.index);
  } else {
    event = std::move(idle->second);
    std::swap(*idle, idle_events_.back());
    idle_events_.pop_back();
  }
  stream.record(*event);
  return {event.release(), [this, owner](DeviceEvent* e) { idle_events_.emplace_back(owner, e); }};
} catch (...) {
  try {
    stream.synchronize();
  } catch (...) {  // whoever waits for that stream hears of it
  }
  return nullptr;
}

void SlabPool::give_back(void* data, DeviceStream* stream) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = given_blocks_.find(data);
  // Not ours, or given back before: nothing sensible can be done in a noexcept function.
  if (found == given_blocks_.end() || found->second->binned) return;
  Block* block = found->second;
  used_ -= block->bytes;
  requested_ -= block->requested;
  if (stream && stream->device().kind == DeviceKind::cpu) stream = nullptr;  // its work is done
  if (put_into_bin(block, stream)) return;
  given_blocks_.erase(found);
  if (stream) {
    if (std::shared_ptr<DeviceEvent> event = recorded_event(*stream))
      block->uses.push_back({stream->id(), std::move(event)});
  }
  insert_free(block);
}

SlabPool::Block* SlabPool::take_from_bin(int64_t bytes, DeviceStream* stream) {
  if (binned_blocks_ == 0 || bytes > kLargestBinned || (limit_ >= 0 && bytes > limit_ - used_)) return nullptr;
  std::vector<Binned>& bin = bins_[static_cast<size_t>(bytes / kAllocationAlignment)];
  const uint64_t id = stream ? stream->id() : 0;
  for (size_t i = bin.size(), tries = 0; i-- > 0 && tries < kBinCandidates; ++tries) {
    if (bin[i].stream != 0 && bin[i].stream != id) continue;
    Block* block = bin[i].block;
    bin.erase(bin.begin() + static_cast<std::ptrdiff_t>(i));
    block->binned = false;
    binned_bytes_ -= bytes;
    --binned_blocks_;
    return block;
  }
  return nullptr;
}

bool SlabPool::put_into_bin(Block* block, const DeviceStream* stream) {
  if (bins_.empty() || block->bytes > kLargestBinned || binned_bytes_ + block->bytes > kMostBinned) return false;
  std::vector<Binned>& bin = bins_[static_cast<size_t>(block->bytes / kAllocationAlignment)];
  try {
    bin.push_back({block, stream ? stream->id() : 0});
  } catch (const std::bad_alloc&) {
    return false;
  }
  block->binned = true;
  binned_bytes_ += block->bytes;
  ++binned_blocks_;
  return true;
}

void SlabPool::empty_bins() {
  if (binned_blocks_ == 0) return;
  std::map<uint64_t, std::shared_ptr<DeviceEvent>> events;  // one for all blocks of a stream; null: its work is done
  for (std::vector<Binned>& bin : bins_) {
    for (const Binned& entry : bin) {
      if (entry.stream != 0) {
        const auto [place, added] = events.try_emplace(entry.stream);
        std::shared_ptr<DeviceEvent>& event = place->second;
        if (added) DeviceStream::with_live(entry.stream, [&](DeviceStream& live) { event = recorded_event(live); });
        if (event) entry.block->uses.push_back({entry.stream, event});
      }
      given_blocks_.erase(entry.block->data);
      entry.block->binned = false;
      insert_free(entry.block);
    }
    bin.clear();
  }
  binned_bytes_ = binned_blocks_ = 0;
}

bool SlabPool::free_unused_slabs() {
  empty_bins();
  bool any = false;
  for (size_t i = 0; i < slabs_.size();) {
    Slab* slab = slabs_[i].get();
    const int64_t whole = slab->bytes / kAllocationAlignment * kAllocationAlignment;
    const auto [first, last] = touched_.equal_range(whole);
    const auto found = std::find_if(first, last, [&](const Block* b) { return b->slab == slab; });
    if (found == last) {
      ++i;
      continue;
    }
    Block* block = *found;
    for (const Use& use : block->uses) {
      try {
        use.event->synchronize();
      } catch (...) {  // as in allocate()
      }
    }
    remove_free(block);
    block->uses.clear();
    spare_.push_back(block);
    release_slab(*slab);
    acquired_ -= slab->bytes;
    slabs_.erase(slabs_.begin() + static_cast<std::ptrdiff_t>(i));
    any = true;
  }
  return any;
}

void SlabPool::free_unused() { free_all_blocks(); }

int64_t SlabPool::free_all_blocks() {
  const std::lock_guard lock(mutex_);
  const int64_t before = pages_ == Pages::lazy ? touched_free_ : acquired_;
  if (pages_ == Pages::lazy)
    discard_all();
  else if (slab_bytes_ > 0)
    free_unused_slabs();
  return before - (pages_ == Pages::lazy ? touched_free_ : acquired_);
}

void SlabPool::check_limit_settable() const {
  if (slab_bytes_ == 0) throw NotSupported("the limit of a fixed pool is what it was made with");
}

void SlabPool::set_limit(int64_t bytes) {
  check_limit_settable();
  if (bytes < 0 && bytes != kNoLimit)
    throw InvalidArgument(fmt::format("a memory limit must not be negative, as {} is", bytes));
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
  if (limit_ >= 0 && acquired_ > limit_) free_unused_slabs();
}

void SlabPool::set_limit_fraction(double fraction) {
  check_limit_settable();
  if (!(fraction >= 0 && fraction <= 1))
    throw InvalidArgument(fmt::format("a memory limit is a share of the memory from 0 to 1, not {}", fraction));
  const int64_t total = backend(device_.kind).info(device_.index).total_bytes;
  set_limit(static_cast<int64_t>(fraction * static_cast<double>(total)));
}

int64_t SlabPool::limit_bytes() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

void SlabPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = used_;
  peak_acquired_ = acquired_;
}

int64_t SlabPool::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}
int64_t SlabPool::acquired_bytes() const {
  const std::lock_guard lock(mutex_);
  return pages_ == Pages::lazy ? used_ + touched_free_ : acquired_;
}
int64_t SlabPool::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

PoolStatistics SlabPool::statistics() const {
  const std::lock_guard lock(mutex_);
  const int64_t acquired = pages_ == Pages::lazy ? used_ + touched_free_ : acquired_;
  return {.requested_bytes = requested_,
          .used_bytes = used_,
          .free_bytes = acquired - used_,
          .acquired_bytes = acquired,
          .peak_used_bytes = peak_,
          .peak_acquired_bytes = std::max(peak_acquired_, acquired),
          .limit_bytes = limit_,
          .used_blocks = static_cast<int64_t>(given_blocks_.size()) - binned_blocks_,
          .free_blocks = static_cast<int64_t>(touched_.size()) + binned_blocks_,
          .slabs = static_cast<int64_t>(slabs_.size()),
          .allocations = allocations_,
          .acquisitions = acquisitions_};
}

std::vector<MemoryHolder> SlabPool::holders(size_t most) const {
  const std::lock_guard lock(mutex_);
  return locked_holders(most);
}

std::vector<MemoryHolder> SlabPool::locked_holders(size_t most) const {
  std::map<std::pair<RangeNames, int64_t>, int64_t> blocks;  // of a size in the same ranges
  for (const auto& [data, block] : given_blocks_)
    if (!block->binned) ++blocks[{block->holder, block->bytes}];
  std::vector<MemoryHolder> holders;
  holders.reserve(blocks.size());
  for (const auto& [key, count] : blocks) holders.push_back({to_string(key.first), key.second, count});
  const size_t kept = std::min(most, holders.size());
  std::partial_sort(holders.begin(), holders.begin() + static_cast<std::ptrdiff_t>(kept), holders.end(),
                    [](const MemoryHolder& a, const MemoryHolder& b) {
                      return a.bytes() != b.bytes() ? a.bytes() > b.bytes() : a.name < b.name;
                    });
  holders.resize(kept);
  return holders;
}

std::string SlabPool::held() const {
  std::string text;
  for (const MemoryHolder& holder : locked_holders(kHoldersInMessages)) {
    text +=
        fmt::format("{} {} x {} bytes", text.empty() ? "; largest holders:" : ",", holder.blocks, holder.block_bytes);
    if (!holder.name.empty()) text += fmt::format(" ({})", holder.name);
  }
  return text;
}

std::string to_string(const PoolStatistics& statistics) {
  std::string text;
  const auto row = [&](const char* name, int64_t value) { text += fmt::format("{:<22}{:>20}\n", name, value); };
  row("requested bytes", statistics.requested_bytes);
  row("used bytes", statistics.used_bytes);
  row("free bytes", statistics.free_bytes);
  row("acquired bytes", statistics.acquired_bytes);
  row("peak used bytes", statistics.peak_used_bytes);
  row("peak acquired bytes", statistics.peak_acquired_bytes);
  if (statistics.limit_bytes >= 0) row("limit bytes", statistics.limit_bytes);
  row("used blocks", statistics.used_blocks);
  row("free blocks", statistics.free_blocks);
  row("slabs", statistics.slabs);
  row("allocations", statistics.allocations);
  row("acquisitions", statistics.acquisitions);
  return text;
}

std::vector<std::pair<void*, int64_t>> SlabPool::slabs() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<void*, int64_t>> list;
  for (const auto& slab : slabs_) list.emplace_back(slab->data, slab->bytes);
  return list;
}

int64_t SlabPool::largest_free_bytes() {
  const std::lock_guard lock(mutex_);
  empty_bins();
  int64_t largest = touched_.empty() ? 0 : (*touched_.rbegin())->bytes;
  if (!untouched_.empty()) largest = std::max(largest, (*untouched_.rbegin())->bytes);
  return limit_ >= 0 ? std::min(largest, limit_ - used_) : largest;
}

}  // namespace quarry::local
