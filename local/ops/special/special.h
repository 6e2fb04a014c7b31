// SciPy's scipy.special over axes: sums of exponentials that do not overflow. Its ufuncs are rows of
// local/program/ufunc.def (ops::special::erf ..., local/ops/ufunc/ufunc.h).
//
// Integers and bool are computed in float64; float16 and bfloat16 in float32, with results of their own dtype. Throw
// TypeError for complex numbers, IndexError for an axis out of range, InvalidArgument for axes named twice,
// OutOfMemory. None waits for its result.
//
// Ufuncs err by at most 8 units in the last place, those of the gamma and beta functions by 32; within 1e-6 of a zero
// of gammaln or digamma at a negative argument, and of digamma's at 1.46, by 1e-20. Devices agree within these bounds,
// not bit by bit. They keep float32 and the 16-bit floats.
#pragma once

#include <utility>
#include <variant>

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops::special {

// log(sum(b exp(a))) over axes, all by default. `a` and the weights `b` broadcast; an element of weight 0 counts as
// nothing, whatever it is. -inf for no elements. NaN where the sum is negative. The largest term is added last, by
// log1p, so that a result near it keeps its digits (P. Blanchard, D. J. Higham, N. J. Higham, "Accurately computing the
// log-sum-exp and softmax functions", IMA J. Numer. Anal. 41, 2021).
NdArray logsumexp(const NdArray& a, const Axes& axis = {}, const std::optional<Arg>& b = {}, bool keepdims = false);
// (log(|sum|), the sign of the sum: -1, 0 or 1; that of no elements is -1, as SciPy has it).
std::pair<NdArray, NdArray> signed_logsumexp(const NdArray& a, const Axes& axis = {}, const std::optional<Arg>& b = {},
                                             bool keepdims = false);
// Either, by return_sign.
std::variant<NdArray, std::pair<NdArray, NdArray>> logsumexp_of(const NdArray& a, const Axes& axis = {},
                                                                const std::optional<Arg>& b = {}, bool keepdims = false,
                                                                bool return_sign = false);
// exp(x) / sum(exp(x)) and its logarithm. InvalidArgument where an axis has no elements, but the result has.
NdArray softmax(const NdArray& x, const Axes& axis = {});
NdArray log_softmax(const NdArray& x, const Axes& axis = {});

}  // namespace quarry::local::ops::special
