// The scratch of divide and conquer on the GPU, for tridiagonal_scratch_bytes().
#pragma once

#include <cstdint>

namespace quarry::local::cuda::eigh {

int64_t vectors_scratch_bytes(int64_t n);

}  // namespace quarry::local::cuda::eigh
