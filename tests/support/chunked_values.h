// What chunked arrays give beside what local ones give, on every kind of device.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/local.h"
#include "tests/support/evaluate.h"
#include "tests/support/on_devices.h"

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

// Tests in a Runtime of their own.
class OnDeviceKinds : public ::testing::TestWithParam<local::DeviceKind> {
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

// Chunks that aim at so many bytes, on the Runtime's kind of device.
inline ChunkPolicyScope small_chunks(int64_t bytes) { return ChunkPolicyScope({chunk_policy().device, {}, bytes}); }

}  // namespace quarry::testing
