// User kernels and fused functions that bench_local times by name, on arrays.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "quarry/local/ndarray/ndarray.h"

namespace quarry {

using KernelCall = std::function<void(std::span<const local::NdArray>)>;
// Throws InvalidArgument for names that are none.
const KernelCall& kernel_call(const std::string& name);

}  // namespace quarry
