// The scratch of divide and conquer on the GPU, for tridiagonal_scratch_bytes().
#pragma once

#include <cstdint>

#include "quarry/local/base/dtype.h"

namespace quarry::local::cuda::eigh {

int64_t vectors_scratch_bytes(DType dtype, int64_t n);

}  // namespace quarry::local::cuda::eigh
