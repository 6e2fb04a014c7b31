// The kernels of decompositions compile, on machines without a GPU too.
#include <gtest/gtest.h>

#include "quarry/local/cuda/small_matrices.h"
#include "tests/unit/local/cuda/launches.h"

namespace quarry::local::cuda {
namespace {

void expect_compiled(std::initializer_list<DType> dtypes) {
  for (int family = 0; family <= static_cast<int>(SmallMatrices::warp_eigh_32); ++family) {
    const auto kernels = static_cast<SmallMatrices>(family);
    const bool not_double_complex = kernels == SmallMatrices::invert_larger ||
                                    kernels == SmallMatrices::factor_larger ||
                                    kernels == SmallMatrices::warp_jacobi_32 || kernels == SmallMatrices::warp_eigh_32;
    for (const DType dtype : dtypes) {
      if (dtype == DType::complex128 && not_double_complex) continue;
      const ModuleSource source = small_matrices_source(kernels, dtype);
      const std::string code = compile_quickly(source.text);
      for (const std::string& kernel : source.kernels) EXPECT_NE(code.find(kernel), std::string::npos) << kernel;
    }
  }
}

TEST(CudaCompile, SmallMatrices) { expect_compiled({DType::float32, DType::float64}); }
TEST(CudaCompile, SmallComplexMatrices) { expect_compiled({DType::complex64, DType::complex128}); }

}  // namespace
}  // namespace quarry::local::cuda
