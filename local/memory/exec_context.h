// Where work runs: device, stream and memory, and the calling thread's current device.
#pragma once

#include "quarry/local/device/kind.h"

namespace quarry::local {

class MemoryResource;  // local/memory/memory_resource.h
namespace detail {
class DeviceStream;  // local/device/device.h
}

// Where an operation below the public API runs: passed to every one of them.
struct ExecContext {
  Device device;
  detail::DeviceStream* stream = nullptr;  // work is queued here; on the CPU it is done when the call returns
  MemoryResource* memory = nullptr;        // results and scratch come from here
  int threads = 0;                         // CPU: 1 runs in the calling thread; 0 uses the whole shared arena
};

// This thread's context for eager calls: the CPU with the default host pool unless a DeviceScope changed it.
const ExecContext& current_context();
// This thread's default stream of a device and the device's default pool. Throws DeviceError where the device cannot be
// used.
ExecContext default_context(Device device);

// The device of current_context().
Device current_device();
// Makes it the calling thread's current device, with the device's default stream and pool, until another call or the
// end of an enclosing DeviceScope. Throws DeviceError where the device cannot be used.
void set_device(Device device);

// Switches the calling thread's current device for its lifetime; uses the device's default stream and pool.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);
  // Throws InvalidArgument where the context's stream is of another device.
  explicit DeviceScope(const ExecContext& context);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  ExecContext previous_;
};

}  // namespace quarry::local
