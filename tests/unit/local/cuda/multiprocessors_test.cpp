#include "quarry/local/cuda/multiprocessors.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace quarry::local::cuda {
namespace {

TEST(Multiprocessors, AreTheDevicesOrThePlanned) {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    count = kPlannedMultiprocessors;
  EXPECT_EQ(multiprocessor_count(), count);
}

}  // namespace
}  // namespace quarry::local::cuda
