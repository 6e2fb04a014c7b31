// The kinds of devices on which a program of several ranks runs.
#pragma once

#include <algorithm>
#include <vector>

#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/device/device.h"
#include "tests/support/mpi_job.h"
#include "tests/support/on_devices.h"

namespace quarry::test {

// Whether every rank of a node has a device of the kind: a GPU serves one rank.
inline bool has_job_devices(local::DeviceKind kind) {
  if (!local::available(kind)) return false;
  return kind != local::DeviceKind::cuda || job().node_size() <= local::backend(kind).device_count();
}

inline std::vector<local::DeviceKind> job_device_kinds() {
  std::vector<local::DeviceKind> kinds = device_kinds();
  std::erase_if(kinds, [](local::DeviceKind kind) { return !has_job_devices(kind); });
  return kinds;
}
// The CPU and GPUs, without the pretended device.
inline std::vector<local::DeviceKind> real_job_device_kinds() {
  std::vector<local::DeviceKind> kinds = job_device_kinds();
  std::erase(kinds, local::DeviceKind::emulated);
  return kinds;
}

// Of a rank with one thread; "self": of every rank alone.
inline RuntimeOptions options_on(local::DeviceKind device, const char* transport = "auto") {
  RuntimeOptions options;
  options.device = device;
  options.memory = device == local::DeviceKind::cuda ? "1GiB" : "64MiB";
  options.transport = transport;
  options.threads = 1;
  return options;
}

}  // namespace quarry::test
