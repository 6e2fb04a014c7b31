// What code of a warp needs of CUDA, on the host: a warp of one thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#define __device__

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
inline int __ffs(int value) { return value == 0 ? 0 : std::countr_zero(static_cast<unsigned>(value)) + 1; }
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
inline int __popc(unsigned value) { return std::popcount(value); }
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t count) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (count & 31));
}
inline uint32_t __funnelshift_l(uint32_t low, uint32_t high, uint32_t count) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) << (count & 31) >> 32);
}
template <class T>
T __ldg(const T* from) {
  return *from;
}

}  // namespace quarry::local::cuda
