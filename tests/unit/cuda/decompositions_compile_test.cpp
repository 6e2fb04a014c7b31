// The kernel of decompositions compiles, on machines without a GPU too.
#include <gtest/gtest.h>

#include "local/cuda/form_q.h"

namespace quarry::local::cuda {
namespace {

TEST(CudaCompile, FormQ) {
  const ModuleSource source = form_q_source();
  const std::string code = compile(source.text, 90);
  for (const std::string& kernel : source.kernels) EXPECT_NE(code.find(kernel), std::string::npos) << kernel;
}

}  // namespace
}  // namespace quarry::local::cuda
