// The numbers of kernels (local/cuda/arithmetic.cuh) as those of the host, which can be computed with there.
#pragma once

#include <complex>
#include <random>

#include "quarry/local/cuda/arithmetic.cuh"

namespace quarry::local::cuda {

template <class T>
struct OnHost {
  using type = T;
};
template <class R>
struct OnHost<Complex<R>> {
  using type = std::complex<R>;
};

inline size_t index(int64_t i) { return static_cast<size_t>(i); }

template <class Host>
Host conjugate_if(bool conjugates, Host value) {
  if constexpr (std::is_floating_point_v<Host>)
    return value;
  else
    return conjugates ? std::conj(value) : value;
}

// Both parts between -1 and 1.
template <class Host>
Host random_number(std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  if constexpr (std::is_floating_point_v<Host>) {
    return static_cast<Host>(uniform(random));
  } else {
    using R = typename Host::value_type;
    const auto real = static_cast<R>(uniform(random));
    return {real, static_cast<R>(uniform(random))};
  }
}

}  // namespace quarry::local::cuda
