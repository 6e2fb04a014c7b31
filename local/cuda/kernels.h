// Users' kernels on a GPU: CUDA C++ around their snippets, and CUDA source of their own.
#pragma once

#include "quarry/local/base/detail.h"
#include "quarry/local/cuda/compiler.h"
#include "quarry/local/program/kernels.h"

namespace quarry::local::cuda {

UserKernels& cuda_kernels();

// The source of a snippet's kernels as a launch needs it (tests compile it without a GPU): kernel 0 runs, kernel 1 of a
// reduction merges what the blocks of one result left.
ModuleSource make_kernel_source(const KernelCode& code, const KernelLaunch& launch);

// Raw sources (raw.cpp): one RawCode per source and device.
const RawCode& load_raw(const RawSource& source, Device device);
ModuleSource make_raw_source(const RawSource& source);

}  // namespace quarry::local::cuda
