// From dtypes to the classes of sorting_keys.h, and launches of one thread per element.
#pragma once

#include <cstdint>

#include "local/base/error.h"
#include "local/cuda/check.h"
#include "local/cuda/sorting_device.h"
#include "local/program/sorting_keys.h"

namespace quarry::local::cuda {

inline constexpr int kSortThreads = 256;

// Calls f(i) for i in [0, count), each in a thread of its own.
template <class F>
__global__ void for_each_kernel(int64_t count, F f) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (i < count) f(i);
}
template <class F>
void for_each_element(int64_t count, cudaStream_t stream, F f) {
  if (count == 0) return;
  const int64_t blocks = (count + kSortThreads - 1) / kSortThreads;
  for_each_kernel<<<static_cast<unsigned>(blocks), kSortThreads, 0, stream>>>(count, f);
  QUARRY_CUDA_CALL(cudaGetLastError());
}

// f.operator()<Key>() with the key class of a dtype that is not complex.
template <class F>
void with_key(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bool_:
    case DType::uint8:
      return f.template operator()<keys::UnsignedKey<uint8_t>>();
    case DType::uint16:
      return f.template operator()<keys::UnsignedKey<uint16_t>>();
    case DType::uint32:
      return f.template operator()<keys::UnsignedKey<uint32_t>>();
    case DType::uint64:
      return f.template operator()<keys::UnsignedKey<uint64_t>>();
    case DType::int8:
      return f.template operator()<keys::SignedKey<uint8_t>>();
    case DType::int16:
      return f.template operator()<keys::SignedKey<uint16_t>>();
    case DType::int32:
      return f.template operator()<keys::SignedKey<uint32_t>>();
    case DType::int64:
      return f.template operator()<keys::SignedKey<uint64_t>>();
    case DType::float16:
      return f.template operator()<keys::Float16Key>();
    case DType::bfloat16:
      return f.template operator()<keys::BFloat16Key>();
    case DType::float32:
      return f.template operator()<keys::Float32Key>();
    case DType::float64:
      return f.template operator()<keys::Float64Key>();
    case DType::complex64:
    case DType::complex128:
      break;
  }
  throw InternalError("complex keys have two words");
}

}  // namespace quarry::local::cuda
