// Where blocks live: recycled host allocations (CPU, pinned), and pieces of a range; segments.h has device memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace quarry::scheduler {

// Host memory in whole blocks, each an allocation of its own, so that no fragmentation can make a block fail that fits
// by its bytes. Blocks that are given back are kept for requests of the same size (fresh pages cost a fault each); what
// is handed out and kept together stays within the limit, beyond which kept blocks go back to the system, those of the
// size least recently used first. Thread-safe.
class CachedMemory {
 public:
  struct Source {
    std::function<void*(int64_t bytes)> take;  // null or throws where there is none
    std::function<void(void* data, int64_t bytes)> give_back;
    int64_t granule_bytes = 1;  // sizes asked of the source are multiples
    int64_t small_bytes = 0;    // below it, blocks come from the C++ heap
  };
  // Anonymous pages; huge ones where a block is large enough for them.
  static Source pages();

  CachedMemory(Source source, int64_t limit_bytes);
  ~CachedMemory();
  CachedMemory(const CachedMemory&) = delete;
  CachedMemory& operator=(const CachedMemory&) = delete;

  // What a block of `bytes` takes.
  int64_t allocation_bytes(int64_t bytes) const;
  // Never null. Throws OutOfMemory when the system refuses.
  void* allocate(int64_t bytes);
  void deallocate(void* data, int64_t bytes) noexcept;
  void free_unused();
  int64_t acquired_bytes() const;  // handed out and kept

 private:
  struct Bucket {
    std::vector<void*> blocks;
    uint64_t last_use = 0;
  };
  std::pair<void*, int64_t> take_oldest();  // taken out of the cache; null if it is empty

  const Source source_;
  const int64_t limit_;
  mutable std::mutex mutex_;
  std::map<int64_t, Bucket> cache_;
  uint64_t clock_ = 0;
  int64_t acquired_ = 0;
  int64_t small_ = 0;       // handed out by the C++ heap
  int64_t small_peak_ = 0;  // since the heap was last trimmed
};

// Small blocks of a CachedMemory that were given back and are kept for the next request of their size. Not thread-safe:
// the executor's lock guards it.
class SmallBlocks {
 public:
  explicit SmallBlocks(CachedMemory& memory) : memory_(memory) {}
  ~SmallBlocks() { give_back(); }
  SmallBlocks(const SmallBlocks&) = delete;
  SmallBlocks& operator=(const SmallBlocks&) = delete;

  // Null where none is kept; `bytes` is a multiple of the allocation alignment, as below.
  void* take(int64_t bytes);
  // Keeps it, or gives it back to the memory.
  void put(void* data, int64_t bytes) noexcept;
  void give_back() noexcept;  // all that is kept
  int64_t kept_bytes() const { return kept_; }

 private:
  static constexpr int kSizes = 16;         // multiples of the allocation alignment, from one to so many
  static constexpr size_t kMostKept = 256;  // of each size
  CachedMemory& memory_;
  std::array<std::vector<void*>, kSizes> blocks_;
  int64_t kept_ = 0;
};

// Free ranges of positions, best fit with coalescing. Not thread-safe.
class Gaps {
 public:
  // The position of a range of so many bytes, which is free no more; -1 where no gap is long enough. At the top: the
  // end of the highest gap that is long enough.
  int64_t take(int64_t bytes, bool at_top);
  // A range that is not free; it is merged with what it touches.
  void add(int64_t position, int64_t bytes);
  // Whether a range is a gap, no more and no less.
  bool is_gap(int64_t position, int64_t bytes) const;
  // The gap that begins there.
  void remove(int64_t position) { erase(gaps_.find(position)); }
  int64_t free_bytes() const { return free_; }

 private:
  void insert(int64_t position, int64_t bytes);
  void erase(std::map<int64_t, int64_t>::iterator gap);

  int64_t free_ = 0;
  std::map<int64_t, int64_t> gaps_;                // position -> length
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (length, position)
};

// Pieces of one range of memory. Not thread-safe.
class Slab {
 public:
  Slab(void* data, int64_t bytes) : data_(static_cast<char*>(data)) {
    if (bytes > 0) gaps_.add(0, bytes);
  }
  // Null where no gap is long enough. Short-lived pieces (scratch) go to the top, so that they do not split what blocks
  // leave behind.
  void* allocate(int64_t bytes, bool at_top) {
    const int64_t at = gaps_.take(bytes, at_top);
    return at < 0 ? nullptr : data_ + at;
  }
  void deallocate(void* data, int64_t bytes) { gaps_.add(static_cast<char*>(data) - data_, bytes); }
  int64_t free_bytes() const { return gaps_.free_bytes(); }

 private:
  char* const data_;
  Gaps gaps_;
};

}  // namespace quarry::scheduler
