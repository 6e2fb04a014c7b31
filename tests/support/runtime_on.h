// Runtimes of tests.
#pragma once

#include "quarry/chunked/runtime/runtime.h"

namespace quarry::testing {

inline RuntimeOptions runtime_on(local::DeviceKind device, const char* memory = "64MiB") {
  RuntimeOptions options;
  options.device = device;
  options.memory = memory;
  options.threads = 2;
  return options;
}

// For tests that compare chunked arrays with local ones bit by bit: both on the CPU, also where there is a GPU.
class CpuRuntime {
 private:
  const Runtime runtime_{runtime_on(local::DeviceKind::cpu, "512MiB")};
};

}  // namespace quarry::testing
