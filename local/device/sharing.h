// Device memory that other processes of the host copy from.
#pragma once

#include <cstdint>
#include <string>

#include "local/device/device.h"

namespace quarry::local {

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
  // What connects device `index` with the one of that uuid (DeviceInfo::uuid): "NVLink", "PCIe", …
  virtual std::string link(int index, const std::string& uuid) = 0;
};

// Null for a kind whose memory is not shared. Throws DeviceError where the kind cannot be used.
MemorySharing* memory_sharing(DeviceKind kind);

}  // namespace quarry::local
