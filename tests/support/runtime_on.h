// Runtimes of tests.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "quarry/chunked/runtime/runtime.h"
#include "tests/support/on_devices.h"

namespace quarry::testing {

inline RuntimeOptions runtime_on(local::DeviceKind device, const char* memory = "64MiB") {
  RuntimeOptions options;
  options.device = device;
  options.memory = memory;
  options.threads = 2;
  return options;
}

// Of a suite over kinds of devices (QUARRY_ON_EVERY_DEVICE).
class OnEveryRuntime : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no device of kind " << local::name(GetParam());
    runtime_.emplace(runtime_on(GetParam()));
  }

 private:
  std::optional<Runtime> runtime_;
};

// For tests that compare chunked arrays with local ones bit by bit: both on the CPU, also where there is a GPU.
class CpuRuntime {
 private:
  const Runtime runtime_{runtime_on(local::DeviceKind::cpu, "512MiB")};
};

}  // namespace quarry::testing
