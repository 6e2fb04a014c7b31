#include "quarry/local/ops/numerical/polynomials.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <complex>
#include <limits>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/numerical/fits.h"
#include "quarry/local/ops/numerical/numerical.h"
#include "quarry/local/ops/products/contract.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local {

void fits::check(int64_t deg, const Dims& x, const Dims& y, const std::optional<Dims>& w) {
  if (deg < 0) throw InvalidArgument("expected deg >= 0");
  if (x.size() != 1) throw TypeError("expected 1D vector for x");
  if (x[0] == 0) throw TypeError("expected non-empty vector for x");
  if (y.size() < 1 || y.size() > 2) throw TypeError("expected 1D or 2D array for y");
  if (x[0] != y[0]) throw TypeError("expected x and y to have same length");
  if (!w) return;
  if (w->size() != 1) throw TypeError("expected a 1-d array for weights");
  if ((*w)[0] != y[0]) throw TypeError("expected w and y to have the same length");
}

DType fits::in_double(DType dtype) {
  if (is_half(dtype)) throw TypeError(fmt::format("array type {} is unsupported in linalg", name(dtype)));
  return is_complex(dtype) ? DType::complex128 : DType::float64;
}

}  // namespace quarry::local

namespace quarry::local::ops {
namespace {

constexpr DType kInt = DType::int64;

NdArray as_vector(const NdArray& a) { return a.ndim() == 0 ? a.reshape({1}) : a; }
NdArray part(const NdArray& vector, int64_t first, int64_t count) { return vector[{Slice{first, first + count, 1}}]; }
DType promoted(const NdArray& a, const NdArray& b) {
  const PromotionOperand operands[] = {{a.dtype(), false}, {b.dtype(), false}};
  return result_type(operands);
}
// NumPy iterates over the argument of poly and roots.
void check_sequence(const NdArray& a) {
  if (a.ndim() == 0) throw TypeError("iteration over a 0-d array");
}
// x + 0.0
NdArray inexact(const NdArray& x) { return apply("add"_op, {x, 0.0}); }

NdArray joined(const NdArray& a, const NdArray& b) {
  NdArray result({a.size() + b.size()}, promoted(a, b), context_for(a.device()));
  part(result, 0, a.size()).assign(a);
  part(result, a.size(), b.size()).assign(b);
  return result;
}

// The number of zeros before the first other element; all of them where there is none. Blocks.
int64_t leading_zeros(const NdArray& p) {
  if (p.size() == 0) return 0;
  const NdArray other = apply("not_equal"_op, {p, 0});
  if (!ops::any(other).item().as_bool()) return p.size();
  return ops::argmax(other).item().as_int64();
}
NdArray trimmed(const NdArray& a) {
  const NdArray p = as_vector(a);
  if (p.ndim() > 1) throw InvalidArgument("Polynomial must be 1d only.");
  const int64_t zeros = leading_zeros(p);
  if (zeros < p.size()) return part(p, zeros, p.size() - zeros);
  NdArray zero({1}, p.dtype(), context_for(p.device()));
  zero.fill(0);
  return zero;
}

NdArray sum_of(Op op, const NdArray& a1, const NdArray& a2) {
  const NdArray a = as_vector(a1), b = as_vector(a2);
  const int64_t difference = a.shape(0) - b.shape(0);
  if (difference == 0) return apply(op, {a, b});
  if (a.ndim() != 1 || b.ndim() != 1)
    throw InvalidArgument("all the input array dimensions except for the concatenation axis must match exactly");
  const NdArray& longer = difference > 0 ? a : b;
  const NdArray& shorter = difference > 0 ? b : a;
  NdArray padded({longer.size()}, shorter.dtype(), context_for(shorter.device()));
  padded.fill(0);
  part(padded, std::abs(difference), shorter.size()).assign(shorter);
  return difference > 0 ? apply(op, {a, padded}) : apply(op, {padded, b});
}

// Calls f<T>() for the dtypes that sequential algorithms compute in on the host.
template <class F>
auto with_host_type(DType dtype, F&& f) {
  if (dtype == DType::float32) return f.template operator()<float>();
  if (dtype == DType::complex64) return f.template operator()<std::complex<float>>();
  if (dtype == DType::complex128) return f.template operator()<std::complex<double>>();
  return f.template operator()<double>();
}
template <class T>
NdArray on_device(const std::vector<T>& values, DType dtype, Device device) {
  const DeviceScope host(kCpu);
  return from_vector(values).astype(dtype).to(device);
}

// NumPy's linalg computes in double precision and takes no 16-bit floats.
NdArray in_double(const NdArray& a) { return a.astype(fits::in_double(a.dtype())); }
NdArray eigenvalues(const NdArray& a) {
  NdArray values = eigvals(in_double(a));
  if (real_type(a.dtype()) != DType::float32) return values;
  return values.astype(is_complex(values.dtype()) ? DType::complex64 : DType::float32);
}

}  // namespace

NdArray poly(const NdArray& seq_of_zeros) {
  const Range named("poly");
  check_sequence(seq_of_zeros);
  NdArray zeros = seq_of_zeros;
  if (zeros.ndim() == 2 && zeros.shape(0) == zeros.shape(1) && zeros.shape(0) != 0)
    zeros = eigenvalues(zeros);
  else if (zeros.ndim() != 1)
    throw InvalidArgument("input must be 1d or non-empty square 2d array.");
  if (zeros.size() == 0) return on_device(std::vector<double>{1}, DType::float64, zeros.device()).reshape(Dims{});
  const DType dtype = zeros.dtype() == DType::float32 || is_complex(zeros.dtype()) ? zeros.dtype() : DType::float64;
  return with_host_type(dtype, [&]<class T>() {
    const std::vector<T> values = to_vector<T>(zeros.astype(dtype_of_v<T>));
    std::vector<T> p{T(1)};
    for (const T zero : values) {
      p.push_back(T(0));
      for (size_t i = p.size() - 1; i > 0; --i) p[i] = i + 1 == p.size() ? -zero * p[i - 1] : p[i] + -zero * p[i - 1];
    }
    if (is_complex(dtype)) {
      // Conjugate pairs of zeros have real coefficients.
      const auto sorted = [&](bool conjugate) {
        std::vector<std::complex<double>> list;
        for (const T value : values) list.emplace_back(std::complex<double>(value));
        for (auto& value : list)
          if (conjugate) value = std::conj(value);
        std::sort(list.begin(), list.end(), [](const auto& x, const auto& y) {
          return x.real() != y.real() ? x.real() < y.real() : x.imag() < y.imag();
        });
        return list;
      };
      if (sorted(false) == sorted(true)) return on_device(p, dtype, zeros.device()).real().copy();
    }
    return on_device(p, dtype, zeros.device());
  });
}

NdArray polyadd(const NdArray& a1, const NdArray& a2) { return sum_of("add"_op, a1, a2); }
NdArray polysub(const NdArray& a1, const NdArray& a2) { return sum_of("subtract"_op, a1, a2); }
NdArray polymul(const NdArray& a1, const NdArray& a2) {
  const Range named("polymul");
  return convolve(trimmed(a1), trimmed(a2));
}

std::pair<NdArray, NdArray> polydiv(const NdArray& u_in, const NdArray& v_in) {
  const Range named("polydiv");
  const NdArray u = inexact(as_vector(u_in)), v = inexact(as_vector(v_in));
  if (u.ndim() != 1 || v.ndim() != 1) throw InvalidArgument("polydiv takes one-dimensional arrays");
  for (const NdArray* p : {&u, &v})
    if (p->size() == 0) throw IndexError("index 0 is out of bounds for axis 0 with size 0");
  const DType dtype = promoted(u, v);
  return with_host_type(dtype, [&]<class T>() {
    std::vector<T> r = to_vector<T>(u.astype(dtype_of_v<T>));
    const std::vector<T> d = to_vector<T>(v.astype(dtype_of_v<T>));
    const NdArray reciprocal = apply("divide"_op, {1.0, part(v, 0, 1)});
    const T scale = to_vector<T>(reciprocal.astype(dtype_of_v<T>))[0];
    const auto m = static_cast<int64_t>(r.size()) - 1, n = static_cast<int64_t>(d.size()) - 1;
    std::vector<T> q(static_cast<size_t>(std::max<int64_t>(m - n + 1, 1)), T(0));
    for (int64_t k = 0; k <= m - n; ++k) {
      const T factor = scale * r[static_cast<size_t>(k)];
      q[static_cast<size_t>(k)] = factor;
      for (int64_t j = 0; j <= n; ++j) r[static_cast<size_t>(k + j)] -= factor * d[static_cast<size_t>(j)];
    }
    constexpr double kZero = 1e-8;  // allclose()'s absolute tolerance
    size_t first = 0;
    while (first + 1 < r.size() && std::abs(r[first]) <= kZero) ++first;
    r.erase(r.begin(), r.begin() + static_cast<std::ptrdiff_t>(first));
    return std::pair(on_device(q, dtype, u.device()), on_device(r, dtype, u.device()));
  });
}

NdArray polyder(const NdArray& p_in, int64_t m) {
  if (m < 0) throw InvalidArgument("Order of derivative must be positive (see polyint)");
  NdArray p = p_in;
  if (p.ndim() != 1) throw InvalidArgument("polyder takes one-dimensional arrays");
  for (; m > 0; --m) {
    const int64_t count = std::max<int64_t>(p.size() - 1, 0);
    Program program;
    const ValueId power =
        program.apply("subtract"_op, std::array{program.constant(Scalar(count), kInt), program.index(0)});
    const NdArray kept = part(p, 0, count);
    program.output(program.apply("multiply"_op, std::array{program.input(p.dtype()), power}));
    const NdArray result({count}, program.dtype(program.outputs()[0]), context_for(p.device()));
    const NdArray *in[] = {&kept}, *out[] = {&result};
    run_elementwise(program, in, out, context_for(p.device()));
    p = result;
  }
  return p;
}

NdArray polyint(const NdArray& p_in, int64_t m, const std::optional<NdArray>& k) {
  if (m < 0) throw InvalidArgument("Order of integral must be positive (see polyder)");
  NdArray p = p_in;
  if (p.ndim() != 1) throw InvalidArgument("polyint takes one-dimensional arrays");
  const ExecContext context = context_for(p.device());
  NdArray constants({m}, DType::float64, context);
  if (!k) {
    constants.fill(0, context);
  } else {
    const NdArray given = as_vector(*k);
    if (given.size() == 1 && m > 1)
      constants = inexact(given).broadcast_to({m});
    else if (given.size() < m)
      throw InvalidArgument("k must be a scalar or a rank-1 array of length 1 or >m.");
    else
      constants = given;
  }
  for (int64_t step = 0; step < m; ++step) {
    Program program;
    const ValueId power =
        program.apply("subtract"_op, std::array{program.constant(Scalar(p.size()), kInt), program.index(0)});
    program.output(program.apply("divide"_op, std::array{program.input(p.dtype()), power}));
    const NdArray result({p.size()}, program.dtype(program.outputs()[0]), context);
    const NdArray *in[] = {&p}, *out[] = {&result};
    run_elementwise(program, in, out, context);
    p = joined(result, part(constants, step, 1));
  }
  return p;
}

NdArray polyval(const NdArray& p, const NdArray& x) {
  const NdArray* both[] = {&p, &x};
  const ExecContext context = context_for(common_device(both));
  if (p.ndim() == 0) throw TypeError("iteration over a 0-d array");
  constexpr int64_t kAtOnce = 16;  // coefficients of one program
  NdArray y(x.shape(), x.dtype(), context);
  y.fill(0, context);
  const int64_t terms = p.shape(0);
  for (int64_t first = 0; first < terms; first += kAtOnce) {
    std::vector<NdArray> inputs{y, x};
    Program program;
    ValueId value = program.input(y.dtype());
    const ValueId at = program.input(x.dtype());
    std::array<Dims, 2> shapes{broadcast_shapes(y.shape(), x.shape()), Dims{}};
    for (int64_t i = first; i < std::min(first + kAtOnce, terms); ++i) {
      inputs.push_back(p[{i}]);
      value = program.apply("add"_op,
                            std::array{program.apply("multiply"_op, std::array{value, at}), program.input(p.dtype())});
      shapes[0] = broadcast_shapes(shapes[0], inputs.back().shape());
    }
    program.output(value);
    const NdArray next(shapes[0], program.dtype(value), context);
    std::vector<const NdArray*> in;
    for (const NdArray& input : inputs) in.push_back(&input);
    const NdArray* out[] = {&next};
    run_elementwise(program, in, out, context);
    y = next;
  }
  return y;
}

PolyFit polyfit(const NdArray& x_in, const NdArray& y_in, int64_t deg, std::optional<double> rcond, bool full,
                const std::optional<NdArray>& w, const std::variant<bool, std::string>& cov) {
  const Range named("polyfit");
  const int64_t order = deg + 1;
  const NdArray x = inexact(x_in), y = inexact(y_in);
  fits::check(deg, x.shape(), y.shape(), w ? std::optional(w->shape()) : std::nullopt);
  const ExecContext context = context_for(x.device());
  const int64_t n = x.size();
  if (!rcond) {
    const DType real = real_type(x.dtype());
    const double eps = real == DType::float64   ? std::numeric_limits<double>::epsilon()
                       : real == DType::float32 ? std::numeric_limits<float>::epsilon()
                                                : 0x1p-10;
    rcond = static_cast<double>(n) * eps;
  }
  // The Vandermonde matrix, highest power first, with columns of norm 1.
  const DType dtype = promote_types(x.dtype(), kInt);
  NdArray lhs({n, order}, dtype, context);
  lhs[{full_slice, order - 1}].fill(1, context);
  for (int64_t j = order - 2; j >= 0; --j)
    lhs[{full_slice, j}].assign(apply("multiply"_op, {lhs[{full_slice, j + 1}], x}), context);
  NdArray rhs = y;
  if (w) {
    const NdArray weights = inexact(*w);
    lhs = apply("multiply"_op, {lhs, weights[{full_slice, newaxis}]});
    rhs = apply("multiply"_op, {rhs, y.ndim() == 2 ? weights[{full_slice, newaxis}] : weights});
  }
  const NdArray scale = apply("sqrt"_op, {ops::sum(apply("multiply"_op, {lhs, lhs}), 0)});
  lhs = apply("divide"_op, {lhs, scale});
  const DType fitted = promote_types(lhs.dtype(), rhs.dtype());
  const auto [solution, residuals_wide, rank, values] = lstsq(in_double(lhs), in_double(rhs), *rcond);
  const NdArray residuals = residuals_wide.astype(real_type(fitted));
  const NdArray coefficients = apply("divide"_op, {solution.astype(fitted).T(), scale}).T();
  if (full) {
    return std::tuple(coefficients, residuals, rank, values.astype(real_type(fitted)), *rcond);
  }
  const bool* wanted = std::get_if<bool>(&cov);
  if (wanted && !*wanted) return coefficients;
  NdArray base = inv(in_double(dot(lhs.T(), lhs))).astype(lhs.dtype());
  base = apply("divide"_op, {base, outer(scale, scale)});
  if (!wanted && std::get<std::string>(cov) == "unscaled")
    return std::pair(coefficients, y.ndim() == 1 ? base : base[{full_slice, full_slice, newaxis}]);
  if (n <= order) throw InvalidArgument("the number of data points must exceed order to scale the covariance matrix.");
  const NdArray factor = apply("divide"_op, {residuals, n - order});
  return std::pair(coefficients,
                   apply("multiply"_op, {y.ndim() == 1 ? base : base[{full_slice, full_slice, newaxis}], factor}));
}

NdArray roots(const NdArray& p_in) {
  const Range named("roots");
  check_sequence(p_in);
  NdArray p = p_in;
  if (p.ndim() != 1) throw InvalidArgument("Input must be a rank-1 array.");
  const int64_t front = leading_zeros(p);
  if (front == p.size()) return NdArray({0}, DType::float64, context_for(p.device()));
  const int64_t back = leading_zeros(p[{Slice{{}, {}, -1}}]);
  p = part(p, front, p.size() - front - back);
  if (!is_float(p.dtype()) && !is_complex(p.dtype())) p = p.astype(DType::float64);
  const ExecContext context = context_for(p.device());
  const int64_t n = p.size() - 1;
  NdArray zeros({0}, p.dtype(), context);
  if (n == 0) {
    zeros = NdArray({0}, DType::float64, context);
  } else {
    // The companion matrix: ones below the diagonal, the scaled coefficients in the first row.
    const NdArray companion({n, n}, p.dtype(), context);
    companion.fill(0, context);
    if (n > 1) {
      const NdArray flat = companion.reshape({n * n});
      flat[{Slice{n, {}, n + 1}}].fill(1, context);
    }
    companion[{0}].assign(apply("divide"_op, {apply("negative"_op, {part(p, 1, n)}), part(p, 0, 1)}), context);
    zeros = eigenvalues(companion);
  }
  const NdArray trailing({back}, zeros.dtype(), context);
  trailing.fill(0, context);
  return joined(zeros, trailing);
}

}  // namespace quarry::local::ops
