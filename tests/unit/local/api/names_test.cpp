// Every function of one process is in quarry::local under NumPy's own path.
#include "quarry/local/local.h"

namespace {

// A name of each namespace below is one that NumPy has too; those that are keywords of C++ end in an underscore.
#define QUARRY_NAME(name)                                        \
  static_assert([] {                                             \
    using quarry::local::name; /* does not compile without it */ \
    return true;                                                 \
  }());
// clang-format off
QUARRY_NAME(abs) QUARRY_NAME(absolute) QUARRY_NAME(acos) QUARRY_NAME(acosh) QUARRY_NAME(add) QUARRY_NAME(all)
QUARRY_NAME(allclose) QUARRY_NAME(amax) QUARRY_NAME(amin) QUARRY_NAME(angle) QUARRY_NAME(any) QUARRY_NAME(append)
QUARRY_NAME(apply_along_axis) QUARRY_NAME(apply_over_axes) QUARRY_NAME(arange) QUARRY_NAME(arccos)
QUARRY_NAME(arccosh) QUARRY_NAME(arcsin) QUARRY_NAME(arcsinh) QUARRY_NAME(arctan) QUARRY_NAME(arctan2)
QUARRY_NAME(arctanh) QUARRY_NAME(argmax) QUARRY_NAME(argmin) QUARRY_NAME(argpartition) QUARRY_NAME(argsort)
QUARRY_NAME(argwhere) QUARRY_NAME(around) QUARRY_NAME(array) QUARRY_NAME(array_equal) QUARRY_NAME(array_equiv)
QUARRY_NAME(array_split) QUARRY_NAME(asarray) QUARRY_NAME(ascontiguousarray) QUARRY_NAME(asin) QUARRY_NAME(asinh)
QUARRY_NAME(astype) QUARRY_NAME(atan) QUARRY_NAME(atan2) QUARRY_NAME(atanh) QUARRY_NAME(atleast_1d)
QUARRY_NAME(atleast_2d) QUARRY_NAME(atleast_3d) QUARRY_NAME(average) QUARRY_NAME(bartlett) QUARRY_NAME(bincount)
QUARRY_NAME(bitwise_and) QUARRY_NAME(bitwise_count) QUARRY_NAME(bitwise_invert) QUARRY_NAME(bitwise_left_shift)
QUARRY_NAME(bitwise_not) QUARRY_NAME(bitwise_or) QUARRY_NAME(bitwise_right_shift) QUARRY_NAME(bitwise_xor)
QUARRY_NAME(blackman) QUARRY_NAME(block) QUARRY_NAME(broadcast) QUARRY_NAME(broadcast_arrays)
QUARRY_NAME(broadcast_shapes) QUARRY_NAME(broadcast_to) QUARRY_NAME(can_cast) QUARRY_NAME(cbrt) QUARRY_NAME(ceil)
QUARRY_NAME(choose) QUARRY_NAME(clip) QUARRY_NAME(column_stack) QUARRY_NAME(compress) QUARRY_NAME(concat)
QUARRY_NAME(concatenate) QUARRY_NAME(conj) QUARRY_NAME(conjugate) QUARRY_NAME(convolve) QUARRY_NAME(copy)
QUARRY_NAME(copysign) QUARRY_NAME(corrcoef) QUARRY_NAME(correlate) QUARRY_NAME(cos) QUARRY_NAME(cosh)
QUARRY_NAME(count_nonzero) QUARRY_NAME(cov) QUARRY_NAME(cross) QUARRY_NAME(cumprod) QUARRY_NAME(cumsum)
QUARRY_NAME(cumulative_prod) QUARRY_NAME(cumulative_sum) QUARRY_NAME(deg2rad) QUARRY_NAME(degrees)
QUARRY_NAME(delete_) QUARRY_NAME(diag) QUARRY_NAME(diag_indices) QUARRY_NAME(diag_indices_from) QUARRY_NAME(diagflat)
QUARRY_NAME(diagonal) QUARRY_NAME(diff) QUARRY_NAME(digitize) QUARRY_NAME(divide) QUARRY_NAME(divmod) QUARRY_NAME(dot)
QUARRY_NAME(dsplit) QUARRY_NAME(dstack) QUARRY_NAME(ediff1d) QUARRY_NAME(einsum) QUARRY_NAME(einsum_path)
QUARRY_NAME(empty) QUARRY_NAME(empty_like) QUARRY_NAME(equal) QUARRY_NAME(exp) QUARRY_NAME(exp2)
QUARRY_NAME(expand_dims) QUARRY_NAME(expm1) QUARRY_NAME(extract) QUARRY_NAME(eye) QUARRY_NAME(fabs)
QUARRY_NAME(fft::fft) QUARRY_NAME(fft::fft2) QUARRY_NAME(fft::fftfreq) QUARRY_NAME(fft::fftn)
QUARRY_NAME(fft::fftshift) QUARRY_NAME(fft::hfft) QUARRY_NAME(fft::ifft) QUARRY_NAME(fft::ifft2)
QUARRY_NAME(fft::ifftn) QUARRY_NAME(fft::ifftshift) QUARRY_NAME(fft::ihfft) QUARRY_NAME(fft::irfft)
QUARRY_NAME(fft::irfft2) QUARRY_NAME(fft::irfftn) QUARRY_NAME(fft::rfft) QUARRY_NAME(fft::rfft2)
QUARRY_NAME(fft::rfftfreq) QUARRY_NAME(fft::rfftn) QUARRY_NAME(fill_diagonal) QUARRY_NAME(finfo) QUARRY_NAME(fix)
QUARRY_NAME(flatnonzero) QUARRY_NAME(flip) QUARRY_NAME(fliplr) QUARRY_NAME(flipud) QUARRY_NAME(float_power)
QUARRY_NAME(floor) QUARRY_NAME(floor_divide) QUARRY_NAME(fmax) QUARRY_NAME(fmin) QUARRY_NAME(fmod) QUARRY_NAME(frexp)
QUARRY_NAME(from_dlpack) QUARRY_NAME(fromfunction) QUARRY_NAME(full) QUARRY_NAME(full_like) QUARRY_NAME(gcd)
QUARRY_NAME(geomspace) QUARRY_NAME(gradient) QUARRY_NAME(greater) QUARRY_NAME(greater_equal) QUARRY_NAME(hamming)
QUARRY_NAME(hanning) QUARRY_NAME(heaviside) QUARRY_NAME(histogram) QUARRY_NAME(histogram2d)
QUARRY_NAME(histogram_bin_edges) QUARRY_NAME(histogramdd) QUARRY_NAME(hsplit) QUARRY_NAME(hstack) QUARRY_NAME(hypot)
QUARRY_NAME(i0) QUARRY_NAME(identity) QUARRY_NAME(iinfo) QUARRY_NAME(imag) QUARRY_NAME(indices) QUARRY_NAME(inner)
QUARRY_NAME(insert) QUARRY_NAME(interp) QUARRY_NAME(intersect1d) QUARRY_NAME(invert) QUARRY_NAME(isclose)
QUARRY_NAME(iscomplex) QUARRY_NAME(iscomplexobj) QUARRY_NAME(isdtype) QUARRY_NAME(isfinite) QUARRY_NAME(isin)
QUARRY_NAME(isinf) QUARRY_NAME(isnan) QUARRY_NAME(isnat) QUARRY_NAME(isneginf) QUARRY_NAME(isposinf)
QUARRY_NAME(isreal) QUARRY_NAME(isrealobj) QUARRY_NAME(issubdtype) QUARRY_NAME(ix_) QUARRY_NAME(kaiser)
QUARRY_NAME(kron) QUARRY_NAME(lcm) QUARRY_NAME(ldexp) QUARRY_NAME(left_shift) QUARRY_NAME(less)
QUARRY_NAME(less_equal) QUARRY_NAME(lexsort) QUARRY_NAME(linalg::cholesky) QUARRY_NAME(linalg::cond)
QUARRY_NAME(linalg::cross) QUARRY_NAME(linalg::det) QUARRY_NAME(linalg::diagonal) QUARRY_NAME(linalg::eig)
QUARRY_NAME(linalg::eigh) QUARRY_NAME(linalg::eigvals) QUARRY_NAME(linalg::eigvalsh) QUARRY_NAME(linalg::inv)
QUARRY_NAME(linalg::lstsq) QUARRY_NAME(linalg::matmul) QUARRY_NAME(linalg::matrix_norm)
QUARRY_NAME(linalg::matrix_power) QUARRY_NAME(linalg::matrix_rank) QUARRY_NAME(linalg::matrix_transpose)
QUARRY_NAME(linalg::multi_dot) QUARRY_NAME(linalg::norm) QUARRY_NAME(linalg::outer) QUARRY_NAME(linalg::pinv)
QUARRY_NAME(linalg::qr) QUARRY_NAME(linalg::slogdet) QUARRY_NAME(linalg::solve) QUARRY_NAME(linalg::svd)
QUARRY_NAME(linalg::svdvals) QUARRY_NAME(linalg::tensordot) QUARRY_NAME(linalg::tensorinv)
QUARRY_NAME(linalg::tensorsolve) QUARRY_NAME(linalg::trace) QUARRY_NAME(linalg::vecdot)
QUARRY_NAME(linalg::vector_norm) QUARRY_NAME(linspace) QUARRY_NAME(log) QUARRY_NAME(log10) QUARRY_NAME(log1p)
QUARRY_NAME(ma::average) QUARRY_NAME(ma::empty_like) QUARRY_NAME(ma::filled) QUARRY_NAME(ma::fix_invalid)
QUARRY_NAME(ma::getdata) QUARRY_NAME(ma::getmaskarray) QUARRY_NAME(ma::masked_array) QUARRY_NAME(ma::masked_equal)
QUARRY_NAME(ma::masked_greater) QUARRY_NAME(ma::masked_greater_equal) QUARRY_NAME(ma::masked_inside)
QUARRY_NAME(ma::masked_invalid) QUARRY_NAME(ma::masked_less) QUARRY_NAME(ma::masked_less_equal)
QUARRY_NAME(ma::masked_not_equal) QUARRY_NAME(ma::masked_outside) QUARRY_NAME(ma::masked_values)
QUARRY_NAME(ma::masked_where) QUARRY_NAME(ma::nonzero) QUARRY_NAME(ma::ones_like) QUARRY_NAME(ma::set_fill_value)
QUARRY_NAME(ma::where) QUARRY_NAME(ma::zeros_like)
QUARRY_NAME(log2) QUARRY_NAME(logaddexp) QUARRY_NAME(logaddexp2) QUARRY_NAME(logical_and) QUARRY_NAME(logical_not)
QUARRY_NAME(logical_or) QUARRY_NAME(logical_xor) QUARRY_NAME(logspace) QUARRY_NAME(mask_indices) QUARRY_NAME(matmul)
QUARRY_NAME(matrix_transpose) QUARRY_NAME(matvec) QUARRY_NAME(max) QUARRY_NAME(maximum) QUARRY_NAME(mean)
QUARRY_NAME(median) QUARRY_NAME(meshgrid) QUARRY_NAME(min) QUARRY_NAME(minimum) QUARRY_NAME(mod) QUARRY_NAME(modf)
QUARRY_NAME(moveaxis) QUARRY_NAME(multiply) QUARRY_NAME(nan_to_num) QUARRY_NAME(nanargmax) QUARRY_NAME(nanargmin)
QUARRY_NAME(nancumprod) QUARRY_NAME(nancumsum) QUARRY_NAME(nanmax) QUARRY_NAME(nanmean) QUARRY_NAME(nanmedian)
QUARRY_NAME(nanmin) QUARRY_NAME(nanpercentile) QUARRY_NAME(nanprod) QUARRY_NAME(nanquantile) QUARRY_NAME(nanstd)
QUARRY_NAME(nansum) QUARRY_NAME(nanvar) QUARRY_NAME(negative) QUARRY_NAME(nextafter) QUARRY_NAME(nonzero)
QUARRY_NAME(not_equal) QUARRY_NAME(ones) QUARRY_NAME(ones_like) QUARRY_NAME(outer) QUARRY_NAME(packbits)
QUARRY_NAME(pad) QUARRY_NAME(partition) QUARRY_NAME(percentile) QUARRY_NAME(permute_dims) QUARRY_NAME(piecewise)
QUARRY_NAME(poly) QUARRY_NAME(polyadd) QUARRY_NAME(polyder) QUARRY_NAME(polydiv) QUARRY_NAME(polyfit)
QUARRY_NAME(polyint) QUARRY_NAME(polymul) QUARRY_NAME(polysub) QUARRY_NAME(polyval) QUARRY_NAME(positive)
QUARRY_NAME(pow) QUARRY_NAME(power) QUARRY_NAME(prod) QUARRY_NAME(promote_types) QUARRY_NAME(ptp)
QUARRY_NAME(put_along_axis) QUARRY_NAME(quantile) QUARRY_NAME(rad2deg) QUARRY_NAME(radians) QUARRY_NAME(ravel)
QUARRY_NAME(ravel_multi_index) QUARRY_NAME(real) QUARRY_NAME(reciprocal) QUARRY_NAME(remainder) QUARRY_NAME(repeat)
QUARRY_NAME(reshape) QUARRY_NAME(resize) QUARRY_NAME(result_type) QUARRY_NAME(right_shift) QUARRY_NAME(rint)
QUARRY_NAME(roll) QUARRY_NAME(rollaxis) QUARRY_NAME(roots) QUARRY_NAME(rot90) QUARRY_NAME(round)
QUARRY_NAME(searchsorted) QUARRY_NAME(select) QUARRY_NAME(setdiff1d) QUARRY_NAME(setxor1d) QUARRY_NAME(shares_memory)
QUARRY_NAME(sign) QUARRY_NAME(signbit) QUARRY_NAME(sin) QUARRY_NAME(sinc) QUARRY_NAME(sinh) QUARRY_NAME(sort)
QUARRY_NAME(sort_complex) QUARRY_NAME(spacing) QUARRY_NAME(split) QUARRY_NAME(sqrt) QUARRY_NAME(square)
QUARRY_NAME(squeeze) QUARRY_NAME(stack) QUARRY_NAME(std) QUARRY_NAME(subtract) QUARRY_NAME(sum) QUARRY_NAME(swapaxes)
QUARRY_NAME(take) QUARRY_NAME(take_along_axis) QUARRY_NAME(tan) QUARRY_NAME(tanh) QUARRY_NAME(tensordot)
QUARRY_NAME(tile) QUARRY_NAME(top_k) QUARRY_NAME(trace) QUARRY_NAME(transpose) QUARRY_NAME(trapezoid) QUARRY_NAME(tri)
QUARRY_NAME(tril) QUARRY_NAME(tril_indices) QUARRY_NAME(tril_indices_from) QUARRY_NAME(trim_zeros) QUARRY_NAME(triu)
QUARRY_NAME(triu_indices) QUARRY_NAME(triu_indices_from) QUARRY_NAME(true_divide) QUARRY_NAME(trunc)
QUARRY_NAME(union1d) QUARRY_NAME(unique) QUARRY_NAME(unique_all) QUARRY_NAME(unique_counts)
QUARRY_NAME(unique_inverse) QUARRY_NAME(unique_values) QUARRY_NAME(unpackbits) QUARRY_NAME(unravel_index)
QUARRY_NAME(unstack) QUARRY_NAME(unwrap) QUARRY_NAME(vander) QUARRY_NAME(var) QUARRY_NAME(vdot) QUARRY_NAME(vecdot)
QUARRY_NAME(vecmat) QUARRY_NAME(vsplit) QUARRY_NAME(vstack) QUARRY_NAME(where) QUARRY_NAME(zeros)
QUARRY_NAME(zeros_like)
// clang-format on
#undef QUARRY_NAME

#define QUARRY_METHOD(name) static_assert(requires { &quarry::local::random::Generator::name; });
    // clang-format off
QUARRY_METHOD(beta) QUARRY_METHOD(binomial) QUARRY_METHOD(chisquare) QUARRY_METHOD(choice) QUARRY_METHOD(dirichlet)
QUARRY_METHOD(exponential) QUARRY_METHOD(f) QUARRY_METHOD(gamma) QUARRY_METHOD(geometric) QUARRY_METHOD(gumbel)
QUARRY_METHOD(hypergeometric) QUARRY_METHOD(integers) QUARRY_METHOD(laplace) QUARRY_METHOD(logistic)
QUARRY_METHOD(lognormal) QUARRY_METHOD(logseries) QUARRY_METHOD(multinomial)
QUARRY_METHOD(multivariate_hypergeometric) QUARRY_METHOD(multivariate_normal) QUARRY_METHOD(negative_binomial)
QUARRY_METHOD(noncentral_chisquare) QUARRY_METHOD(noncentral_f) QUARRY_METHOD(normal) QUARRY_METHOD(pareto)
QUARRY_METHOD(permutation) QUARRY_METHOD(permuted) QUARRY_METHOD(poisson) QUARRY_METHOD(power) QUARRY_METHOD(random)
QUARRY_METHOD(rayleigh) QUARRY_METHOD(shuffle) QUARRY_METHOD(standard_cauchy) QUARRY_METHOD(standard_exponential)
QUARRY_METHOD(standard_gamma) QUARRY_METHOD(standard_normal) QUARRY_METHOD(standard_t) QUARRY_METHOD(triangular)
QUARRY_METHOD(uniform) QUARRY_METHOD(vonmises) QUARRY_METHOD(wald) QUARRY_METHOD(weibull) QUARRY_METHOD(zipf)
// clang-format on
#undef QUARRY_METHOD

    // The methods of NumPy's ufuncs are those of an object.
    static_assert(requires(quarry::local::NdArray x) {
      quarry::local::ufunc::add.reduce(x);
      quarry::local::ufunc::add.accumulate(x);
      quarry::local::ufunc::add.outer(x, x);
      quarry::local::ufunc::add.reduceat(x, x);
      quarry::local::ufunc::add.at(x, x, 1);
    });

}  // namespace
