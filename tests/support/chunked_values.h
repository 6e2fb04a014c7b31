// What chunked arrays give beside what local ones give, on the kinds of devices that every machine has.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/evaluate.h"

namespace quarry::testing {

// Equal shapes, dtypes and values; NaN equals NaN, and the two zeros differ.
inline void expect_same(const Array& got, const local::NdArray& expected, const std::string& what) {
  const local::NdArray value = got.to_host();
  EXPECT_EQ(value.dtype(), expected.dtype()) << what;
  ASSERT_EQ(value.shape(), expected.shape()) << what;
  EXPECT_TRUE(close(value, expected, 0, 0)) << what << ":\n"
                                            << value.to_string() << "\nlocally " << expected.to_string();
  if (!local::is_float(expected.dtype())) return;
  EXPECT_TRUE(close(local::signbit(local::nan_to_num(value)), local::signbit(local::nan_to_num(expected))))
      << what << ": signs of zeros";
}

// Tests on the CPU and the emulated device, in a Runtime of their own.
class OnCpuAndEmulated : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  static bool on_cpu() { return GetParam() == local::DeviceKind::cpu; }
  static RuntimeOptions options(const char* memory) {
    RuntimeOptions result;
    result.device = GetParam();
    result.memory = memory;
    if (!on_cpu()) result.host_memory = memory;
    result.threads = 2;
    return result;
  }
};

#define QUARRY_ON_CPU_AND_EMULATED(fixture)                                                                      \
  INSTANTIATE_TEST_SUITE_P(All, fixture, ::testing::Values(local::DeviceKind::cpu, local::DeviceKind::emulated), \
                           [](const auto& info) { return std::string(local::name(info.param)); });

}  // namespace quarry::testing
