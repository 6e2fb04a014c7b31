#pragma once

#include <deque>
#include <memory>
#include <memory_resource>
#include <set>
#include <unordered_map>
#include <vector>

#include "local/memory/memory_resource.h"

namespace quarry::local {

// Best fit with coalescing inside slabs taken from a device.
//
// Memory given back on a stream may be reused at once on that stream; on another one after an event recorded at the
// deallocation, which the pool makes the other stream wait for.
//
// A *fixed* pool promises never to hand out more than its bytes. On a device it takes them as one slab at the start. On
// the CPU it reserves several times as much address space, so that a request that is within the limit does not fail for
// fragmentation, and gives pages of free blocks back to the system before new ones would bring used pages above the
// limit.
// A *growing* pool takes slab after slab as needed and keeps them until free_unused(); its limit, if any, holds for the
// slabs.
// A *pinned* pool does the same with host memory that a device kind copies to and from asynchronously.
class SlabPool final : public MemoryResource {
 public:
  static constexpr int64_t kDefaultSlabBytes = int64_t{64} << 20;

  // Throws OutOfMemory if the device does not have the bytes.
  static std::unique_ptr<SlabPool> fixed(Device device, int64_t bytes);
  // Requests above slab_bytes get a slab of their own. `limit_bytes` < 0: none.
  static std::unique_ptr<SlabPool> growing(Device device, int64_t slab_bytes = kDefaultSlabBytes,
                                           int64_t limit_bytes = -1);
  // Host memory, of which at most `bytes` are taken: slab by slab, or all at the start if slab_bytes is 0.
  static std::unique_ptr<SlabPool> pinned(DeviceKind kind, int64_t bytes, int64_t slab_bytes = 0);
  ~SlabPool() override;
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  Device device() const override { return device_; }
  void* allocate(int64_t bytes, Stream* stream) override;
  void deallocate(void* data, int64_t bytes, Stream* stream) noexcept override;
  int64_t used_bytes() const override;
  int64_t acquired_bytes() const override;
  int64_t peak_bytes() const override;
  void free_unused() override;

  // The slabs, for sharing by IPC and for tests.
  std::vector<std::pair<void*, int64_t>> slabs() const;
  // Bytes of the largest request that would succeed without growing.
  int64_t largest_free_bytes() const;

 private:
  struct Slab {
    void* data;
    int64_t bytes;
  };
  struct Use {
    Stream* stream;
    std::shared_ptr<Event> event;
  };
  struct Block {
    char* data = nullptr;
    int64_t bytes = 0;
    Slab* slab = nullptr;
    Block* previous = nullptr;  // neighbours in the slab
    Block* next = nullptr;
    bool free = false;
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

  enum class Pages : uint8_t { device, lazy, pinned };
  SlabPool(Device device, DeviceKind kind, int64_t slab_bytes, int64_t limit_bytes, Pages pages);
  void* take_slab(int64_t bytes);
  void release_slab(const Slab& slab) noexcept;
  void add_slab(int64_t bytes, bool touched);
  Block* find(FreeSet& set, int64_t bytes, Stream* stream);
  Block* find_or_grow(int64_t bytes, Stream* stream, int64_t requested);
  bool grow(int64_t bytes);
  void split(Block* block, int64_t bytes);
  void insert_free(Block* block);  // merges it with its neighbours
  void remove_free(Block* block);
  void absorb_next(Block* block);
  void discard(Block* block);  // gives the pages back; the block may be merged away
  void discard_all();
  bool free_unused_slabs();
  Block* make_block();
  std::shared_ptr<Event> recorded_event(Stream* stream);
  FreeSet& set_of(const Block* block) { return block->touched ? touched_ : untouched_; }

  const Device device_;
  Backend& backend_;
  const int64_t slab_bytes_;
  const int64_t limit_;
  const Pages pages_;
  mutable std::mutex mutex_;
  int64_t used_ = 0, peak_ = 0, acquired_ = 0;
  int64_t touched_free_ = 0;
  std::vector<std::pair<Device, std::unique_ptr<Event>>> idle_events_;
  std::pmr::unsynchronized_pool_resource nodes_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::deque<Block> storage_;
  std::vector<Block*> spare_;
  FreeSet touched_{&nodes_};
  FreeSet untouched_{&nodes_};
  std::pmr::unordered_map<void*, Block*> used_blocks_{&nodes_};
};

}  // namespace quarry::local
