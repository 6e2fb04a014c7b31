// Tests that run on every kind of device. On a kind that this machine lacks they are skipped by name.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::test {

// The kinds that this machine has.
inline std::vector<local::DeviceKind> device_kinds() {
  std::vector<local::DeviceKind> kinds{local::DeviceKind::cpu, local::DeviceKind::emulated};
  if (local::available(local::DeviceKind::cuda)) kinds.push_back(local::DeviceKind::cuda);
  return kinds;
}

#define QUARRY_SKIP_ON_CUDA(why) \
  if (GetParam() == ::quarry::local::DeviceKind::cuda) GTEST_SKIP() << (why)

// A suite over these kinds, whose fixture may begin with a Runtime of the parameter.
#define QUARRY_ON_DEVICE_KINDS(fixture)                                                       \
  INSTANTIATE_TEST_SUITE_P(All, fixture, ::testing::ValuesIn(::quarry::test::device_kinds()), \
                           [](const auto& info) { return std::string(::quarry::local::name(info.param)); })

// New arrays live on the device of the parameter.
class OnDevice : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no device of kind " << local::name(GetParam());
    scope_.emplace(local::Device{GetParam(), 0});
  }

 private:
  std::optional<local::DeviceScope> scope_;
};

#define QUARRY_ON_EVERY_DEVICE(fixture)                                                                               \
  INSTANTIATE_TEST_SUITE_P(All, fixture,                                                                              \
                           ::testing::Values(::quarry::local::DeviceKind::cpu, ::quarry::local::DeviceKind::emulated, \
                                             ::quarry::local::DeviceKind::cuda),                                      \
                           [](const auto& info) { return std::string(::quarry::local::name(info.param)); })

// 0, 1, 2, ...
inline std::vector<int64_t> counting(int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}
inline local::NdArray arange(const local::Dims& shape) {
  return local::from_vector(counting(local::element_count(shape)), shape);
}
inline std::vector<double> doubles(const local::NdArray& x) {
  return local::to_vector<double>(x.astype(local::DType::float64));
}

}  // namespace quarry::test
