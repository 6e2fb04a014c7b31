// Names of compiled kernels on disk; needs no GPU.
#include <gtest/gtest.h>

#include "quarry/local/cuda/compiler.h"

namespace quarry::local::cuda {
namespace {

TEST(KernelCacheName, ChangesWithSourceAndArchitecture) {
  const std::string name = cache_name("source", 90);
  EXPECT_EQ(name, cache_name("source", 90));
  EXPECT_NE(name, cache_name("source ", 90));
  EXPECT_NE(name, cache_name("source", 80));
}

}  // namespace
}  // namespace quarry::local::cuda
