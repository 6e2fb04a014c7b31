// The pool behind arrays: slabs of a device, cut into blocks.
#pragma once

#include <deque>
#include <memory>
#include <memory_resource>
#include <set>
#include <unordered_map>
#include <vector>

#include "quarry/local/device/range.h"
#include "quarry/local/memory/hook.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {
namespace detail {
class Backend;      // local/device/device.h
class DeviceEvent;  // local/device/device.h
}  // namespace detail

struct PoolStatistics {
  int64_t requested_bytes = 0;      // what the holders of memory asked for
  int64_t used_bytes = 0;           // what that takes, rounded up to kAllocationAlignment
  int64_t free_bytes = 0;           // kept for later allocations
  int64_t acquired_bytes = 0;       // taken from the device: used and free (CuPy: total_bytes)
  int64_t peak_used_bytes = 0;      // the largest so far, or since reset_peak()
  int64_t peak_acquired_bytes = 0;  // likewise
  int64_t limit_bytes = -1;         // of acquired_bytes; of used_bytes in a fixed pool; < 0: none
  int64_t used_blocks = 0;
  int64_t free_blocks = 0;
  int64_t slabs = 0;
  int64_t allocations = 0;   // calls so far that succeeded
  int64_t acquisitions = 0;  // slabs taken from the device so far
};
std::string to_string(const PoolStatistics& statistics);  // a table

// Who holds memory of a pool: allocations of one size made in the same ranges (local/device/range.h).
struct MemoryHolder {
  std::string name;  // "layer 1 / matmul"; empty outside of any range
  int64_t block_bytes = 0;
  int64_t blocks = 0;
  int64_t bytes() const { return block_bytes * blocks; }
};

// Best fit with coalescing inside slabs taken from a device.
//
// Memory given back on a stream may be reused at once on that stream; on another one after an event recorded at the
// deallocation, which the pool makes the other stream wait for.
//
// Small blocks are first kept as they are, in bins by size, for the next request of that size on the same stream: no
// search, no merging and no event, which is what a short operation on a GPU would otherwise wait for. They go to the
// other free blocks, with an event recorded then, when a request finds no memory or unused slabs are given back.
//
// A *fixed* pool promises never to hand out more than its bytes. On a device it takes them as one slab at the start. On
// the CPU it reserves several times as much address space, so that a request that is within the limit does not fail for
// fragmentation, and gives pages of free blocks back to the system before new ones would bring used pages above the
// limit.
// A *growing* pool takes slab after slab as needed and keeps them until free_unused(); its limit, if any, holds for the
// slabs.
// A *pinned* pool does the same with host memory that a device kind copies to and from asynchronously.
//
// The hooks of the calling thread (local/memory/hook.h) see every call. An OutOfMemory lists the largest holders.
class SlabPool final : public MemoryResource {
 public:
  static constexpr int64_t kDefaultSlabBytes = int64_t{64} << 20;
  static constexpr int64_t kNoLimit = -1;

  // Throws OutOfMemory if the device does not have the bytes.
  static std::unique_ptr<SlabPool> fixed(Device device, int64_t bytes);
  // Requests above slab_bytes get a slab of their own.
  static std::unique_ptr<SlabPool> growing(Device device, int64_t slab_bytes = kDefaultSlabBytes,
                                           int64_t limit_bytes = kNoLimit);
  // Host memory, of which at most `bytes` are taken: slab by slab, or all at the start if slab_bytes is 0.
  static std::unique_ptr<SlabPool> pinned(DeviceKind kind, int64_t bytes, int64_t slab_bytes = 0);
  ~SlabPool() override;
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  Device device() const override { return device_; }
  void* allocate(int64_t bytes, detail::DeviceStream* stream) override;
  void deallocate(void* data, int64_t bytes, detail::DeviceStream* stream) noexcept override;
  int64_t used_bytes() const override;
  int64_t acquired_bytes() const override;
  int64_t peak_bytes() const override;
  void free_unused() override;

  PoolStatistics statistics() const;
  // The peaks of the statistics, and peak_bytes(), begin anew with what is in use now.
  void reset_peak();
  // Largest first, at most `most`.
  std::vector<MemoryHolder> holders(size_t most = 10) const;

  // Of a pool that takes slabs as needed: how many bytes it may take from the device; kNoLimit: as many as there are.
  // Unused slabs above a lower limit are given back at once; memory in use stays, and no more is taken until less is in
  // use than the limit. Throws NotSupported for a fixed pool, InvalidArgument for another negative number.
  void set_limit(int64_t bytes);
  // The same as a share, from 0 to 1, of the device's memory; of the host's for the CPU and for pinned memory. Throws
  // InvalidArgument outside.
  void set_limit_fraction(double fraction);
  int64_t limit_bytes() const;
  // Gives all unused slabs back to the device, as free_unused(), and returns their bytes. Blocks until work on them is
  // done.
  int64_t free_all_blocks();

  // The slabs, for sharing by IPC and for tests.
  std::vector<std::pair<void*, int64_t>> slabs() const;
  // Bytes of the largest request that would succeed without growing.
  int64_t largest_free_bytes();

 private:
  struct Slab {
    void* data;
    int64_t bytes;
  };
  struct Use {
    uint64_t stream;  // its id
    std::shared_ptr<detail::DeviceEvent> event;
  };
  struct Block {
    char* data = nullptr;
    int64_t bytes = 0;
    int64_t requested = 0;
    Slab* slab = nullptr;
    detail::RangeNames holder{};  // used: the ranges that it was allocated in
    Block* previous = nullptr;    // neighbours in the slab
    Block* next = nullptr;
    bool free = false;      // in a set of free blocks
    bool binned = false;    // free, in a bin
    bool touched = true;    // may hold pages; false only in a fixed pool on the CPU
    std::vector<Use> uses;  // free: what may still be running on the memory
  };
  struct BySize {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
    }
    bool operator()(const Block* a, int64_t bytes) const { return a->bytes < bytes; }
    bool operator()(int64_t bytes, const Block* b) const { return bytes < b->bytes; }
  };
  using FreeSet = std::pmr::set<Block*, BySize>;
  struct Binned {
    Block* block;
    uint64_t stream;  // its last use's; 0: it is idle
  };

  enum class Pages : uint8_t { device, lazy, pinned };
  SlabPool(Device device, DeviceKind kind, int64_t slab_bytes, int64_t limit_bytes, Pages pages);
  void* take(int64_t bytes, detail::DeviceStream* stream);
  void give_back(void* data, detail::DeviceStream* stream) noexcept;
  Block* take_from_bin(int64_t bytes, detail::DeviceStream* stream);
  bool put_into_bin(Block* block, const detail::DeviceStream* stream);
  void empty_bins();
  MemoryEvent event_of(int64_t requested, int64_t bytes, void* data) const;
  void check_limit_settable() const;
  std::vector<MemoryHolder> locked_holders(size_t most) const;
  std::string held() const;  // for messages: the largest holders
  void* take_slab(int64_t bytes);
  void* acquire(int64_t bytes);
  void release_slab(const Slab& slab) noexcept;
  void add_slab(int64_t bytes, bool touched);
  Block* find(FreeSet& set, int64_t bytes, detail::DeviceStream* stream);
  Block* find_or_grow(int64_t bytes, detail::DeviceStream* stream, int64_t requested);
  bool grow(int64_t bytes);
  void split(Block* block, int64_t bytes);
  void insert_free(Block* block);  // merges it with its neighbours
  void remove_free(Block* block);
  void absorb_next(Block* block);
  void discard(Block* block);  // gives the pages back; the block may be merged away
  void discard_all();
  bool free_unused_slabs();
  Block* make_block();
  // Null where there is no event to be had: then the stream's work is done.
  std::shared_ptr<detail::DeviceEvent> recorded_event(detail::DeviceStream& stream) noexcept;
  FreeSet& set_of(const Block* block) { return block->touched ? touched_ : untouched_; }

  const Device device_;
  detail::Backend& backend_;
  const int64_t slab_bytes_;
  int64_t limit_;
  const Pages pages_;
  mutable std::mutex mutex_;
  int64_t used_ = 0, peak_ = 0, acquired_ = 0, peak_acquired_ = 0, requested_ = 0;
  int64_t allocations_ = 0, acquisitions_ = 0;
  int64_t touched_free_ = 0;
  int64_t binned_bytes_ = 0, binned_blocks_ = 0;
  std::vector<std::pair<Device, std::unique_ptr<detail::DeviceEvent>>> idle_events_;
  std::pmr::unsynchronized_pool_resource nodes_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::deque<Block> storage_;
  std::vector<Block*> spare_;
  FreeSet touched_{&nodes_};
  FreeSet untouched_{&nodes_};
  std::pmr::unordered_map<void*, Block*> given_blocks_{&nodes_};  // used or binned
  std::vector<std::vector<Binned>> bins_;                         // by size in units of kAllocationAlignment
};

}  // namespace quarry::local
