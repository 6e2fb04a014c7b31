// The kernels of decompositions compile, on machines without a GPU too.
#include <gtest/gtest.h>

#include "quarry/local/cuda/small_matrices.h"

namespace quarry::local::cuda {
namespace {

TEST(CudaCompile, SmallMatrices) {
  for (const SmallMatrices kernels :
       {SmallMatrices::form_q, SmallMatrices::jacobi, SmallMatrices::lu, SmallMatrices::row_order, SmallMatrices::signs,
        SmallMatrices::invert, SmallMatrices::invert_larger, SmallMatrices::factor, SmallMatrices::factor_larger,
        SmallMatrices::solve}) {
    for (const DType dtype : {DType::float32, DType::float64, DType::complex64, DType::complex128}) {
      if (dtype == DType::complex128 &&
          (kernels == SmallMatrices::invert_larger || kernels == SmallMatrices::factor_larger))
        continue;
      const ModuleSource source = small_matrices_source(kernels, dtype);
      const std::string code = compile(source.text, 90);
      for (const std::string& kernel : source.kernels) EXPECT_NE(code.find(kernel), std::string::npos) << kernel;
    }
  }
}

}  // namespace
}  // namespace quarry::local::cuda
