// Device memory that other processes of the host copy from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "quarry/local/device/device.h"

namespace quarry::local {

// A box of memory, to be packed: a run of contiguous bytes for every combination of positions along the outer axes,
// slowest first. Every count is at least 1.
struct BoxCopy {
  static constexpr int kMostAxes = 6;
  struct Axis {
    int64_t count, stride;  // in bytes
  };
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t run_bytes = 0;
  int axes = 0;
  std::array<Axis, kMostAxes> outer{};

  int64_t runs() const {
    int64_t count = 1;
    for (int a = 0; a < axes; ++a) count *= outer[static_cast<size_t>(a)].count;
    return count;
  }
};

// The copy engines leave the multiprocessors to others and want long runs; a kernel takes a few of the multiprocessors.
enum class CopyBy : uint8_t { engines, kernel };

// A slab is exported once as a handle, which travels as a message; who opens the handle gets an address that work on a
// device of its own may read. The mapping must be closed before the exporter frees the slab, and no work may use it
// then. Thread-safe.
class MemorySharing {
 public:
  virtual ~MemorySharing() = default;
  // `slab` and `bytes` as of Backend::allocate_slab() on device `index`. Throws DeviceError where it cannot be shared.
  virtual std::string export_slab(int index, void* slab, int64_t bytes) = 0;
  // Maps it for work on device `index` of this process. Throws DeviceError where that device cannot reach it.
  virtual void* open(int index, const std::string& handle) = 0;
  virtual void close(int index, void* mapped) noexcept = 0;
  // Queues copies of boxes, each of memory that the stream's device reaches, to its own memory. Of several boxes a
  // kernel copies parts in turn, so that what lies on different devices comes from all of them at once.
  virtual void copy_boxes(std::span<const BoxCopy> boxes, DeviceStream& stream, CopyBy by) = 0;
  // What connects device `index` with the one of that uuid (DeviceInfo::uuid): "NVLink", "PCIe", …
  virtual std::string link(int index, const std::string& uuid) = 0;
};

// Null for a kind whose memory is not shared. Throws DeviceError where the kind cannot be used.
MemorySharing* memory_sharing(DeviceKind kind);

}  // namespace quarry::local
