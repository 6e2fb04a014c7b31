// CUDA's functions of one thread that decoders of streams call, on the host.
#pragma once

#include <bit>
#include <cstdint>

#define __device__

namespace quarry::local::cuda {

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
