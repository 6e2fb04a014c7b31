// What code of a warp needs of CUDA, on the host: a warp of one thread.
#pragma once

#include <cstdint>

#include "tests/support/warp_intrinsics.h"

namespace quarry::local::cuda {

inline constexpr int kWarp = 1;

struct ThreadIndex {
  uint32_t x = 0;
};
inline constexpr ThreadIndex threadIdx;

inline void __syncwarp() {}
inline unsigned __ballot_sync(unsigned /*mask*/, bool value) { return value ? 1 : 0; }
inline unsigned __match_any_sync(unsigned /*mask*/, int /*value*/) { return 1; }
template <class T>
T __shfl_sync(unsigned /*mask*/, T value, int /*lane*/) {
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned /*mask*/, T /*value*/, int /*distance*/) {
  return 0;  // what the other threads have, none of which there are
}

}  // namespace quarry::local::cuda
