// How many multiprocessors kernels are planned for, and how many there are.
#pragma once

#include <cstdint>

namespace quarry::local::cuda {

// What the order of a reduction counts on, whatever the device has: bits do not depend on the device. An H100 and an
// H200 have as many. Also the answer of multiprocessor_count() where there is no device: kernels are planned and
// compiled there too.
inline constexpr int64_t kPlannedMultiprocessors = 132;

// Of the calling thread's current device: for kernels whose blocks may be any number. Throws DeviceError.
int64_t multiprocessor_count();

}  // namespace quarry::local::cuda
