// Complex numbers.
namespace quarry::local::fn {

template <class T>
QUARRY_FN T real(cx<T> x) {
  return x.re;
}
template <class T>
QUARRY_FN T imag(cx<T> x) {
  return x.im;
}
template <class T>
QUARRY_FN cx<T> conjugate(cx<T> x) {
  return {x.re, -x.im};
}
template <class T>
QUARRY_FN cx<T> add(cx<T> x, cx<T> y) {
  return {x.re + y.re, x.im + y.im};
}
template <class T>
QUARRY_FN cx<T> subtract(cx<T> x, cx<T> y) {
  return {x.re - y.re, x.im - y.im};
}
template <class T>
QUARRY_FN cx<T> multiply(cx<T> x, cx<T> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
// R. L. Smith, Algorithm 116 (1962).
template <class T>
QUARRY_FN cx<T> divide(cx<T> x, cx<T> y) {
  const T re = absolute(y.re), im = absolute(y.im);
  if (re >= im) {
    if (re == 0 && im == 0) return {x.re / re, x.im / re};
    const T ratio = y.im / y.re, scale = T(1) / (y.re + y.im * ratio);
    return {(x.re + x.im * ratio) * scale, (x.im - x.re * ratio) * scale};
  }
  const T ratio = y.re / y.im, scale = T(1) / (y.im + y.re * ratio);
  return {(x.re * ratio + x.im) * scale, (x.im * ratio - x.re) * scale};
}
template <class T>
QUARRY_FN cx<T> negative(cx<T> x) {
  return {-x.re, -x.im};
}
template <class T>
QUARRY_FN T absolute(cx<T> x) {
  return math::hypot(x.re, x.im);
}
template <class T>
QUARRY_FN cx<T> square(cx<T> x) {
  return {x.re * x.re - x.im * x.im, x.re * x.im + x.im * x.re};
}
template <class T>
QUARRY_FN cx<T> reciprocal(cx<T> x) {
  if (absolute(x.im) <= absolute(x.re)) {
    const T ratio = x.im / x.re, scale = x.re + x.im * ratio;
    return {T(1) / scale, -ratio / scale};
  }
  const T ratio = x.re / x.im, scale = x.re * ratio + x.im;
  return {ratio / scale, T(-1) / scale};
}
template <class T>
QUARRY_FN cx<T> sign(cx<T> x) {
  const T r = absolute(x);
  if (r == 0) return {T(0), T(0)};
  if (isinf(x)) {
    if (isinf(x.re) && isinf(x.im)) return {quiet_nan<T>(), quiet_nan<T>()};
    return isinf(x.re) ? cx<T>{copysign(T(1), x.re), T(0)} : cx<T>{T(0), copysign(T(1), x.im)};
  }
  if (isnan(x)) return {quiet_nan<T>(), quiet_nan<T>()};
  return {x.re / r, x.im / r};
}
template <class T>
QUARRY_FN cx<T> rint(cx<T> x) {
  return {math::rint(x.re), math::rint(x.im)};
}

template <class T>
QUARRY_FN cx<T> exp(cx<T> z) {
  if (z.im == 0) return {math::exp(z.re), z.im};
  if (!isfinite(z.im)) {
    if (isinf(z.re)) return z.re < 0 ? cx<T>{T(0), T(0)} : cx<T>{z.re, quiet_nan<T>()};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  const T c = math::cos(z.im), s = math::sin(z.im);
  if (isnan(z.re)) return {z.re, z.re};
  // exp overflows before its product with a small sine or cosine does.
  constexpr T large = sizeof(T) == 8 ? T(700) : T(85);
  if (z.re > large && isfinite(z.re)) {
    const T head = math::exp(large), rest = math::exp(z.re - large);
    return {head * c * rest, head * s * rest};
  }
  const T r = math::exp(z.re);
  return {r * c, r * s};
}
// log |z|: exact where |z| is near 1, no overflow where |z|^2 would.
template <class T>
QUARRY_FN T log_modulus(T re, T im) {
  T a = absolute(re), b = absolute(im);
  if (a < b) {
    const T t = a;
    a = b;
    b = t;
  }
  if (isinf(a) || isinf(b)) return infinity<T>();
  if (a > T(0.5) && a < T(1.5)) return T(0.5) * math::log1p((a - T(1)) * (a + T(1)) + b * b);
  constexpr T huge = sizeof(T) == 8 ? T(8e307) : T(1e38);
  if (a > huge) return math::log(math::hypot(a * T(0.5), b * T(0.5))) + T(0.69314718055994530942);
  return math::log(math::hypot(a, b));
}
template <class T>
QUARRY_FN cx<T> log(cx<T> z) {
  return {log_modulus(z.re, z.im), math::atan2(z.im, z.re)};
}
template <class T>
QUARRY_FN cx<T> log2(cx<T> z) {
  const cx<T> l = log(z);
  return {l.re * T(1.44269504088896340736), l.im * T(1.44269504088896340736)};
}
template <class T>
QUARRY_FN cx<T> log10(cx<T> z) {
  const cx<T> l = log(z);
  return {l.re * T(0.43429448190325182765), l.im * T(0.43429448190325182765)};
}
template <class T>
QUARRY_FN cx<T> log1p(cx<T> z) {
  const T a = absolute(z.re), b = absolute(z.im);
  if (a < T(0.5) && b < T(0.5)) {
    return {T(0.5) * math::log1p(z.re * (T(2) + z.re) + z.im * z.im), math::atan2(z.im, z.re + T(1))};
  }
  return log(cx<T>{z.re + T(1), z.im});
}
template <class T>
QUARRY_FN cx<T> exp2(cx<T> z) {
  return exp(cx<T>{z.re * T(0.69314718055994530942), z.im * T(0.69314718055994530942)});
}
template <class T>
QUARRY_FN cx<T> expm1(cx<T> z) {
  const T half_sine = math::sin(z.im * T(0.5));
  return {math::expm1(z.re) * math::cos(z.im) - T(2) * half_sine * half_sine, math::exp(z.re) * math::sin(z.im)};
}
template <class T>
QUARRY_FN cx<T> sqrt(cx<T> z) {
  if (z.re == 0 && z.im == 0) return {T(0), z.im};
  if (isinf(z.im)) return {infinity<T>(), z.im};
  if (isnan(z.re)) return {z.re, z.re};
  if (isinf(z.re)) {
    if (z.re > 0) return {z.re, isnan(z.im) ? z.im : copysign(T(0), z.im)};
    return {isnan(z.im) ? z.im : T(0), copysign(infinity<T>(), z.im)};
  }
  if (isnan(z.im)) return {z.im, z.im};
  // |z| + |re| must neither overflow nor lose a subnormal.
  constexpr T huge = sizeof(T) == 8 ? T(4e307) : T(8e37);
  constexpr T tiny = sizeof(T) == 8 ? T(4e-292) : T(4e-31);
  const T a = absolute(z.re), b = absolute(z.im);
  T x = z.re, y = z.im, scale = T(1);
  if (a >= huge || b >= huge) {
    x *= T(0.25);
    y *= T(0.25);
    scale = T(2);
  } else if (a <= tiny && b <= tiny) {
    constexpr T up = sizeof(T) == 8 ? T(18014398509481984.0) : T(16777216.0);  // 2^54, 2^24
    constexpr T down = sizeof(T) == 8 ? T(7.450580596923828125e-09) : T(2.44140625e-04);
    x *= up;
    y *= up;
    scale = down;
  }
  const T t = math::sqrt((absolute(x) + math::hypot(x, y)) * T(0.5));
  const T other = absolute(y) / (T(2) * t);
  const T re = x >= 0 ? t : other, im = x >= 0 ? other : t;
  return {re * scale, copysign(im * scale, z.im)};
}

template <class T>
QUARRY_FN cx<T> sinh(cx<T> z) {
  if (z.im == 0) return {math::sinh(z.re), z.im};
  if (z.re == 0) return {isfinite(z.im) ? copysign(T(0), z.re * math::cos(z.im)) : z.re, math::sin(z.im)};
  if (!isfinite(z.im)) {
    if (isinf(z.re)) return {z.re, quiet_nan<T>()};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  const T c = math::cos(z.im), s = math::sin(z.im);
  constexpr T large = sizeof(T) == 8 ? T(700) : T(85);
  if (absolute(z.re) > large && isfinite(z.re)) {
    const T head = T(0.5) * math::exp(large), rest = math::exp(absolute(z.re) - large);
    return {copysign(head, z.re) * c * rest, head * s * rest};
  }
  return {math::sinh(z.re) * c, math::cosh(z.re) * s};
}
template <class T>
QUARRY_FN cx<T> cosh(cx<T> z) {
  if (z.im == 0) return {math::cosh(z.re), isnan(z.re) ? z.im : copysign(T(0), z.re) * z.im};
  if (z.re == 0) return {math::cos(z.im), isfinite(z.im) ? z.re * math::sin(z.im) : z.re};
  if (!isfinite(z.im)) {
    if (isinf(z.re)) return {infinity<T>(), quiet_nan<T>()};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  const T c = math::cos(z.im), s = math::sin(z.im);
  constexpr T large = sizeof(T) == 8 ? T(700) : T(85);
  if (absolute(z.re) > large && isfinite(z.re)) {
    const T head = T(0.5) * math::exp(large), rest = math::exp(absolute(z.re) - large);
    return {head * c * rest, copysign(head, z.re) * s * rest};
  }
  return {math::cosh(z.re) * c, math::sinh(z.re) * s};
}
// W. Kahan, Branch Cuts for Complex Elementary Functions (1987), for this and the inverse functions below.
template <class T>
QUARRY_FN cx<T> tanh(cx<T> z) {
  if (isinf(z.re)) {
    const T sign = isfinite(z.im) ? math::sin(T(2) * z.im) : T(1);
    return {copysign(T(1), z.re), copysign(T(0), sign)};
  }
  if (!isfinite(z.im)) return {z.re == 0 ? z.re : quiet_nan<T>(), quiet_nan<T>()};
  if (isnan(z.re)) return {z.re, z.im == 0 ? z.im : z.re};
  constexpr T saturated = sizeof(T) == 8 ? T(22) : T(11);
  if (absolute(z.re) > saturated) {
    const T e = math::exp(-absolute(z.re));
    return {copysign(T(1), z.re), T(4) * math::sin(z.im) * math::cos(z.im) * e * e};
  }
  const T t = math::tan(z.im), beta = T(1) + t * t, s = math::sinh(z.re), rho = math::sqrt(T(1) + s * s);
  if (isinf(t)) return {rho / s, T(1) / t};
  const T d = T(1) + beta * s * s;
  return {beta * rho * s / d, t / d};
}
template <class T>
QUARRY_FN cx<T> times_i(cx<T> z) {
  return {-z.im, z.re};
}
template <class T>
QUARRY_FN cx<T> times_minus_i(cx<T> z) {
  return {z.im, -z.re};
}
template <class T>
QUARRY_FN cx<T> sin(cx<T> z) {
  return times_minus_i(sinh(times_i(z)));
}
template <class T>
QUARRY_FN cx<T> cos(cx<T> z) {
  return cosh(times_i(z));
}
template <class T>
QUARRY_FN cx<T> tan(cx<T> z) {
  return times_minus_i(tanh(times_i(z)));
}
template <class T>
QUARRY_FN cx<T> arcsinh(cx<T> z);
template <class T>
QUARRY_FN cx<T> arctanh(cx<T> z);
template <class T>
QUARRY_FN cx<T> arcsin(cx<T> z) {
  return times_minus_i(arcsinh(times_i(z)));
}
template <class T>
QUARRY_FN cx<T> arctan(cx<T> z) {
  return times_minus_i(arctanh(times_i(z)));
}
// Where 1 +- z would lose z or overflow: log(2 |z|) and the direction.
template <class T>
QUARRY_FN bool is_huge(cx<T> z) {
  constexpr T bound = sizeof(T) == 8 ? T(1e150) : T(1e18);
  return absolute(z.re) > bound || absolute(z.im) > bound;
}
template <class T>
QUARRY_FN cx<T> arccos(cx<T> z) {
  constexpr T half_pi = T(1.57079632679489661923);
  if (isnan(z)) {
    if (isinf(z.re)) return {quiet_nan<T>(), infinity<T>()};
    if (isinf(z.im)) return {quiet_nan<T>(), -z.im};
    if (z.re == 0) return {half_pi, quiet_nan<T>()};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  if (is_huge(z)) {
    const T magnitude = log_modulus(z.re, z.im) + T(0.69314718055994530942);
    return {math::atan2(absolute(z.im), z.re), copysign(magnitude, signbit(z.im) ? T(1) : T(-1))};
  }
  const cx<T> minus = sqrt(cx<T>{T(1) - z.re, -z.im}), plus = sqrt(cx<T>{T(1) + z.re, z.im});
  return {T(2) * math::atan2(minus.re, plus.re), math::asinh(plus.re * minus.im - plus.im * minus.re)};
}
template <class T>
QUARRY_FN cx<T> arccosh(cx<T> z) {
  constexpr T half_pi = T(1.57079632679489661923);
  if (isnan(z)) {
    if (isinf(z.re) || isinf(z.im)) return {infinity<T>(), quiet_nan<T>()};
    if (z.re == 0) return {quiet_nan<T>(), half_pi};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  if (is_huge(z)) {
    return {log_modulus(z.re, z.im) + T(0.69314718055994530942), math::atan2(z.im, z.re)};
  }
  const cx<T> minus = sqrt(cx<T>{z.re - T(1), z.im}), plus = sqrt(cx<T>{z.re + T(1), z.im});
  return {math::asinh(minus.re * plus.re + minus.im * plus.im), T(2) * math::atan2(minus.im, plus.re)};
}
template <class T>
QUARRY_FN cx<T> arcsinh(cx<T> z) {
  if (isnan(z)) {
    if (isinf(z.re)) return {z.re, quiet_nan<T>()};
    if (isinf(z.im)) return {z.im < 0 ? -infinity<T>() : infinity<T>(), quiet_nan<T>()};
    if (z.im == 0) return {quiet_nan<T>(), z.im};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  if (is_huge(z)) {
    const T magnitude = log_modulus(z.re, z.im) + T(0.69314718055994530942);
    return {copysign(magnitude, z.re), math::atan2(z.im, absolute(z.re))};
  }
  // -i arcsin(i z) with w = i z = (-im, re).
  const cx<T> minus = sqrt(cx<T>{T(1) + z.im, -z.re}), plus = sqrt(cx<T>{T(1) - z.im, z.re});
  const T angle = math::atan2(-z.im, minus.re * plus.re - minus.im * plus.im);
  const T height = math::asinh(minus.re * plus.im - minus.im * plus.re);
  return {copysign(height, z.re), -angle};
}
template <class T>
QUARRY_FN cx<T> arctanh(cx<T> z) {
  constexpr T half_pi = T(1.57079632679489661923);
  if (isnan(z)) {
    if (isinf(z.re)) return {copysign(T(0), z.re), quiet_nan<T>()};
    if (isinf(z.im)) return {copysign(T(0), z.re), copysign(half_pi, z.im)};
    if (z.re == 0) return {z.re, quiet_nan<T>()};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  const T x = absolute(z.re), y = absolute(z.im);
  T re, im;
  if (is_huge(z)) {
    // Re(1 / z), scaled against overflow of |z|^2.
    const T m = x > y ? x : y, a = x / m, b = y / m;
    re = isinf(m) ? T(0) : a / (a * a + b * b) / m;
    im = half_pi;
  } else {
    const T y2 = y * y;
    if (x == 1 && y == 0) return {copysign(infinity<T>(), z.re), z.im};
    if (x == 1 && y < (sizeof(T) == 8 ? T(1e-150) : T(1e-18))) {
      re = T(0.5) * (T(0.69314718055994530942) - math::log(y));
    } else {
      re = T(0.25) * math::log1p(T(4) * x / ((T(1) - x) * (T(1) - x) + y2));
    }
    im = T(0.5) * math::atan2(T(2) * y, (T(1) - x) * (T(1) + x) - y2);
  }
  return {copysign(re, z.re), copysign(im, z.im)};
}
// Small integer exponents multiply, as NumPy; 0^w is 0 for a positive real part of w.
template <class T>
QUARRY_FN cx<T> power(cx<T> x, cx<T> y) {
  if (y.re == 0 && y.im == 0) return {T(1), T(0)};
  if (x.re == 0 && x.im == 0) {
    if (y.re > 0) return {T(0), T(0)};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  if (y.im == 0 && y.re > T(-100) && y.re < T(100) && math::floor(y.re) == y.re) {
    int n = static_cast<int>(y.re);
    if (n == 1) return x;
    const bool invert_result = n < 0;
    if (n < 0) n = -n;
    cx<T> result{T(1), T(0)}, base = x;
    bool started = false;
    for (; n != 0; n >>= 1) {
      if (n & 1) {
        result = started ? multiply(result, base) : base;
        started = true;
      }
      if (n > 1) base = multiply(base, base);
    }
    return invert_result ? reciprocal(result) : result;
  }
  if constexpr (same_type<T, float>) {
    // The exponential magnifies the error of y log x.
    const cx<double> z = exp(multiply(cx<double>{y.re, y.im}, log(cx<double>{x.re, x.im})));
    return {static_cast<float>(z.re), static_cast<float>(z.im)};
  } else {
    return exp(multiply(y, log(x)));
  }
}

}  // namespace quarry::local::fn
