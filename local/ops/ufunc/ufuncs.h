// Functions made of ufuncs, and reductions that leave NaN out, as NumPy's of the same names. Errors: those of the
// ufuncs behind them. None waits for its result but those that return a bool.
#pragma once

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops {

// |a - b| <= atol + rtol |b|, or equal; with equal_nan two NaNs too.
NdArray isclose(const Arg& a, const Arg& b, const Arg& rtol = 1e-05, const Arg& atol = 1e-08, bool equal_nan = false);
bool allclose(const Arg& a, const Arg& b, const Arg& rtol = 1e-05, const Arg& atol = 1e-08, bool equal_nan = false);
bool array_equal(const NdArray& a1, const NdArray& a2, bool equal_nan = false);  // of one shape and all elements
bool array_equiv(const NdArray& a1, const NdArray& a2);                          // after broadcasting

// NaN, inf and -inf replaced; by the largest finite numbers where nothing is given. In place without `copy`.
NdArray nan_to_num(const NdArray& x, bool copy = true, const Arg& nan = 0.0, const std::optional<Arg>& posinf = {},
                   const std::optional<Arg>& neginf = {});
NdArray fix(const NdArray& x, const std::optional<NdArray>& out = {});
// The modified Bessel function of the first kind, order 0. Throws TypeError for complex numbers.
NdArray i0(const NdArray& x);
NdArray sinc(const NdArray& x);  // sin(pi x) / (pi x)
NdArray angle(const NdArray& z, bool deg = false);
// A view of the real parts where no imaginary part exceeds tol (in machine epsilons if above 1). Waits.
NdArray real_if_close(const NdArray& a, double tol = 100);
NdArray iscomplex(const NdArray& x);
NdArray isreal(const NdArray& x);
bool iscomplexobj(const NdArray& x);
bool isrealobj(const NdArray& x);
NdArray isneginf(const NdArray& x, const std::optional<NdArray>& out = {});  // TypeError for complex numbers
NdArray isposinf(const NdArray& x, const std::optional<NdArray>& out = {});
// To `decimals` places, halves to even.
NdArray round_to(const NdArray& a, int64_t decimals = 0, const std::optional<NdArray>& out = {});
// NumPy's clip() with either bound absent; integer literals beyond the range of the dtype bound nothing.
NdArray clip_between(const NdArray& a, const std::optional<Arg>& a_min = {}, const std::optional<Arg>& a_max = {},
                     const std::optional<NdArray>& out = {}, const std::optional<Arg>& min = {},
                     const std::optional<Arg>& max = {}, const std::optional<NdArray>& where = {},
                     Casting casting = Casting::same_kind, std::optional<DType> dtype = {});
NdArray clip_method(const NdArray& a, const std::optional<Arg>& min = {}, const std::optional<Arg>& max = {},
                    const std::optional<NdArray>& out = {}, const std::optional<NdArray>& where = {},
                    Casting casting = Casting::same_kind, std::optional<DType> dtype = {});

// max - min.
NdArray ptp(const NdArray& a, const Axes& axis = {}, const std::optional<NdArray>& out = {}, bool keepdims = false);
NdArray nansum(const NdArray& a, const Axes& axis = {}, std::optional<DType> dtype = {},
               const std::optional<NdArray>& out = {}, bool keepdims = false, const std::optional<Scalar>& initial = {},
               const std::optional<NdArray>& where = {});
NdArray nanprod(const NdArray& a, const Axes& axis = {}, std::optional<DType> dtype = {},
                const std::optional<NdArray>& out = {}, bool keepdims = false,
                const std::optional<Scalar>& initial = {}, const std::optional<NdArray>& where = {});
// NaN where nothing else is.
NdArray nanmin(const NdArray& a, const Axes& axis = {}, const std::optional<NdArray>& out = {}, bool keepdims = false,
               const std::optional<Scalar>& initial = {}, const std::optional<NdArray>& where = {});
NdArray nanmax(const NdArray& a, const Axes& axis = {}, const std::optional<NdArray>& out = {}, bool keepdims = false,
               const std::optional<Scalar>& initial = {}, const std::optional<NdArray>& where = {});
// Throw InvalidArgument where a slice is all NaN, and wait for that.
NdArray nanargmin(const NdArray& a, std::optional<int64_t> axis = {}, const std::optional<NdArray>& out = {},
                  bool keepdims = false);
NdArray nanargmax(const NdArray& a, std::optional<int64_t> axis = {}, const std::optional<NdArray>& out = {},
                  bool keepdims = false);
NdArray nanmean(const NdArray& a, const Axes& axis = {}, std::optional<DType> dtype = {},
                const std::optional<NdArray>& out = {}, bool keepdims = false,
                const std::optional<NdArray>& where = {});
NdArray nanvar(const NdArray& a, const Axes& axis = {}, std::optional<DType> dtype = {},
               const std::optional<NdArray>& out = {}, double ddof = 0, bool keepdims = false,
               const std::optional<NdArray>& where = {}, const std::optional<NdArray>& mean = {},
               std::optional<double> correction = {});
NdArray nanstd(const NdArray& a, const Axes& axis = {}, std::optional<DType> dtype = {},
               const std::optional<NdArray>& out = {}, double ddof = 0, bool keepdims = false,
               const std::optional<NdArray>& where = {}, const std::optional<NdArray>& mean = {},
               std::optional<double> correction = {});

}  // namespace quarry::local::ops
