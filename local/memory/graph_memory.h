// The memory of captured work.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {

// Takes memory from a pool and keeps it as long as the graph lives: what captured work gave back is used again by later
// work of the capture, never by others. Lives as long as the graph and all buffers in it. Notes the buffers that the
// work uses.
class GraphMemory final : public MemoryResource, public CaptureLog, public std::enable_shared_from_this<GraphMemory> {
 public:
  struct Use {
    std::shared_ptr<Buffer> buffer;
    Access access;
  };

  // `stream` is ordered after earlier uses of the memory, and launches have to be after it.
  GraphMemory(MemoryResource& pool, DeviceStream& stream) : pool_(pool), stream_(stream) {}
  ~GraphMemory() override;

  Device device() const override { return pool_.device(); }
  // The capture is one stream's, whose order the memory is used again in.
  void* allocate(int64_t bytes, DeviceStream* stream) override;
  void deallocate(void* data, int64_t bytes, DeviceStream* stream) noexcept override;
  int64_t used_bytes() const override;
  int64_t acquired_bytes() const override;
  int64_t peak_bytes() const override { return acquired_bytes(); }

  void used(Buffer& buffer, Access access) override;
  void made(Buffer& buffer) override;

  // The capture is over: the buffers that it used, among them those that it made and that someone holds.
  std::vector<Use> finish();
  // The graph is gone, and its work done.
  void close();

 private:
  struct Block {
    int64_t bytes;
    Buffer* buffer;  // of the capture's own; null: scratch
  };
  MemoryResource& pool_;
  DeviceStream& stream_;  // while the capture lasts
  mutable std::mutex mutex_;
  std::unordered_map<void*, Block> taken_;
  std::multimap<int64_t, void*> free_;
  std::unordered_map<Buffer*, Use> uses_;
  std::shared_ptr<GraphMemory> self_;  // while there are buffers but no graph
  bool closed_ = false;
};

}  // namespace quarry::local
