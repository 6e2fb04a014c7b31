// Functions of host and device: tests run on the CPU what kernels do for one element.
#pragma once

#ifdef __CUDACC__
#define QUARRY_EIGH_FUNCTION __host__ __device__ inline
#else
#define QUARRY_EIGH_FUNCTION inline
#endif
