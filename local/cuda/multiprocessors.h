// How many multiprocessors kernels are planned for, and how many there are.
#pragma once

#include <cstdint>

namespace quarry::local::cuda {

// What plans count on, whatever the device has: the order in which a reduction combines elements follows from the plan,
// and bits do not depend on the device. An H100 and an H200 have as many.
inline constexpr int64_t kPlannedMultiprocessors = 132;

// Of the calling thread's current device: for kernels whose blocks may be any number. Throws DeviceError.
int64_t multiprocessor_count();

}  // namespace quarry::local::cuda
