// Users' kernels on the CPU: C++ around their snippets, compiled by the system's compiler, run in the shared arena.
#pragma once

#include "quarry/local/base/detail.h"
#include "quarry/local/program/kernels.h"

namespace quarry::local {

UserKernels& cpu_kernels();
// Compiles what run() would, and throws what is wrong with it.
void prepare_cpu_kernel(const KernelCode& code, const KernelLaunch& launch);

}  // namespace quarry::local
