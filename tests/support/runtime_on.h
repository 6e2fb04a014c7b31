// For tests that compare chunked arrays with local ones bit by bit: both on the CPU, also where there is a GPU.
#pragma once

#include "quarry/chunked/runtime/runtime.h"

namespace quarry::testing {

class CpuRuntime {
 private:
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.device = local::DeviceKind::cpu;
    options.memory = "512MiB";
    return options;
  }
  const Runtime runtime_{options()};
};

}  // namespace quarry::testing
