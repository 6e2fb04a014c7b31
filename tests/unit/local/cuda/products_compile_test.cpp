// The kernels of integer products compile, on machines without a GPU too.
#include <gtest/gtest.h>

#include "quarry/local/cuda/compiler.h"
#include "quarry/local/cuda/products.h"

namespace quarry::local::cuda {
namespace {

TEST(CudaCompile, IntegerProducts) {
  const ModuleSource source = integer_product_source();
  const std::string code = compile(source.text, 90);
  for (const std::string& kernel : source.kernels) EXPECT_NE(code.find(kernel), std::string::npos) << kernel;
}

}  // namespace
}  // namespace quarry::local::cuda
