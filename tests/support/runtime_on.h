// Runtimes of tests.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "quarry/chunked/runtime/runtime.h"

namespace quarry::testing {

inline RuntimeOptions runtime_on(local::DeviceKind device, const char* memory = "64MiB") {
  RuntimeOptions options;
  options.device = device;
  options.memory = memory;
  options.threads = 2;
  return options;
}

// Tests on every kind of device; they are skipped by name on one that this machine lacks.
class OnEveryRuntime : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no device of kind " << local::name(GetParam());
    runtime_.emplace(runtime_on(GetParam()));
  }

 private:
  std::optional<Runtime> runtime_;
};
#define QUARRY_ON_EVERY_RUNTIME(fixture)                                                                             \
  INSTANTIATE_TEST_SUITE_P(                                                                                          \
      All, fixture, ::testing::Values(local::DeviceKind::cpu, local::DeviceKind::emulated, local::DeviceKind::cuda), \
      [](const auto& info) { return std::string(local::name(info.param)); })

// For tests that compare chunked arrays with local ones bit by bit: both on the CPU, also where there is a GPU.
class CpuRuntime {
 private:
  const Runtime runtime_{runtime_on(local::DeviceKind::cpu, "512MiB")};
};

}  // namespace quarry::testing
