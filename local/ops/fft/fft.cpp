#include "quarry/local/ops/fft/fft.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/fft/request.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/manipulation/arrange.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/numerical/gufunc.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/results.h"
#include "quarry/local/program/transforms.h"

namespace quarry::local::ops::fft {
namespace {

// One of the four kinds of transforms that the functions are made of.
struct Kind {
  const char* name;  // of NumPy's ufunc
  TransformKind kind;
  bool inverse;
};
constexpr Kind kFft{"fft", TransformKind::complex, false}, kIfft{"ifft", TransformKind::complex, true},
    kRfft{"rfft", TransformKind::real_to_half, false}, kIrfft{"irfft", TransformKind::half_to_real, true};

enum class Division : uint8_t { none, root, whole };

// What the direction divides by.
Division division(Norm norm, bool inverse) {
  const std::string_view text = norm.value_or("backward");
  if (text == "ortho") return Division::root;
  if (text != "backward" && text != "forward") {
    throw InvalidArgument(
        fmt::format("Invalid norm value {}; should be \"backward\", \"ortho\" or \"forward\".", text));
  }
  return (text == "backward") == inverse ? Division::whole : Division::none;
}
Norm swapped(Norm norm) {
  if (!norm || *norm == "backward") return "forward";
  return *norm == "forward" ? "backward" : norm;
}

// NumPy's result_type(dtype of the real parts, 1.0).
DType real_result(DType dtype) { return is_float(real_type(dtype)) ? real_type(dtype) : DType::float64; }
// What it is computed in.
DType precision(DType dtype) { return real_result(dtype) == DType::float64 ? DType::float64 : DType::float32; }

// 1, or one over n or its root, in the arithmetic of `dtype`.
double factor(Division division, int64_t n, DType dtype) {
  const auto rounded = [dtype](double x) { return Scalar::strong(Scalar(x), dtype).as_double(); };
  const double points = rounded(static_cast<double>(n));
  switch (division) {
    case Division::none:
      return 1;
    case Division::root:
      return rounded(1 / rounded(std::sqrt(points)));
    case Division::whole:
      return rounded(1 / points);
  }
  return 1;
}

void check_length(int64_t n) {
  if (n < 1) throw InvalidArgument(fmt::format("Invalid number of FFT data points ({}) specified.", n));
}

// As a tuple's index in Python.
int64_t extent(const Dims& shape, int64_t axis) {
  if (axis < -shape.size() || axis >= shape.size())
    throw IndexError(fmt::format("axis {} is out of bounds for array of dimension {}", axis, shape.size()));
  return shape[static_cast<int>(axis < 0 ? axis + shape.size() : axis)];
}

// The length that a transform along an axis has by default.
int64_t default_length(TransformKind kind, const Dims& shape, int64_t axis) {
  const int64_t n = extent(shape, axis);
  return kind == TransformKind::half_to_real ? 2 * (n - 1) : n;
}

// Runs a transform into `result`, which has its dtype and shape. The input has the dtype that is read.
void run(const Kind& kind, const Request& request, double scale, DType dtype, const NdArray& input,
         const NdArray& result, const ExecContext& context) {
  Transform transform;
  transform.kind = kind.kind;
  transform.dtype = dtype;
  transform.inverse = kind.kind == TransformKind::complex && kind.inverse;
  transform.scale = scale;
  transform.shape = result.shape();
  for (size_t i = 0; i < request.axes.size(); ++i) transform.shape[request.axes[i]] = request.lengths[i];
  transform.axes = request.axes;
  transform.input_shape = input.shape();
  transform.input = {input.raw(), input.strides()};
  transform.output = {result.raw(), result.strides()};
  input.begin_read(context.stream);
  result.begin_write(context.stream);
  engine(context.device).transforms().transform(transform, context);
}

// The other half of a real array's spectrum: y[k] = conj(y[-k]), for every index of the transformed axes modulo its
// length. `spectrum` has the first half along the last of the axes.
void mirror(const Request& request, const NdArray& spectrum, const ExecContext& context) {
  Program program;
  const ValueId value = program.input(spectrum.dtype());
  program.output(program.apply("conjugate"_op, std::array{value}));
  const int last = request.axes.back();
  const int64_t n = request.lengths.back(), missing = (n - 1) / 2;
  if (missing == 0) return;
  // Index 0 of another axis is its own image; the rest runs backwards.
  const size_t others = request.axes.size() - 1;
  for (uint32_t zeros = 0; zeros < (1u << others); ++zeros) {
    NdArray from = sliced(spectrum, last, missing, missing, -1), to = sliced(spectrum, last, n - missing, missing);
    for (size_t i = 0; i < others; ++i) {
      const int axis = request.axes[i];
      const bool zero = (zeros >> i & 1) != 0;
      const int64_t count = zero ? 1 : request.lengths[i] - 1;
      from = sliced(from, axis, zero ? 0 : count, count, zero ? 1 : -1);
      to = sliced(to, axis, zero ? 0 : 1, count);
    }
    if (to.size() == 0) continue;
    const NdArray *inputs[] = {&from}, *outputs[] = {&to};
    run_elementwise(program, inputs, outputs, context);
  }
}

// The whole spectrum of a real array by half of the work.
void run_real(const Request& request, double scale, DType dtype, const NdArray& input, const NdArray& result,
              const ExecContext& context) {
  Request halved = request;
  // The half is that of the axis along which the result lies closest.
  size_t innermost = 0;
  for (size_t i = 0; i < request.axes.size(); ++i)
    if (std::abs(result.strides()[request.axes[i]]) < std::abs(result.strides()[request.axes[innermost]]))
      innermost = i;
  std::swap(halved.axes[innermost], halved.axes.back());
  std::swap(halved.lengths[innermost], halved.lengths.back());
  const NdArray half = sliced(result, halved.axes.back(), 0, halved.lengths.back() / 2 + 1);
  run(kRfft, halved, scale, dtype, input, half, context);
  mirror(halved, result, context);
}

NdArray transformed(const Kind& kind, const NdArray& a, const Request& request, Norm norm,
                    const std::optional<NdArray>& out) {
  for (const int64_t n : request.lengths) check_length(n);
  const Division divide = division(norm, kind.inverse);
  if (kind.kind == TransformKind::real_to_half && is_complex(a.dtype()))
    throw TypeError(fmt::format("ufunc 'rfft' not supported for the input types: {}", name(a.dtype())));
  const DType dtype = precision(a.dtype());
  // NumPy goes axis by axis, and only the first one finds 16-bit floats.
  const bool backwards = kind.kind != TransformKind::half_to_real;
  const DType real = request.axes.size() == 1 ? real_result(a.dtype()) : dtype;
  double scale = 1;
  for (size_t i = 0; i < request.lengths.size(); ++i) {
    const bool first = i == (backwards ? request.lengths.size() - 1 : 0);
    scale *= factor(divide, request.lengths[i], first ? real_result(a.dtype()) : dtype);
  }

  NdArray input = a;
  Dims shape = a.shape();
  for (size_t i = 0; i < request.axes.size(); ++i) {
    const int axis = request.axes[i];
    const int64_t read = read_extent(kind.kind, request, i);
    if (shape[axis] > read) input = sliced(input, axis, 0, read);
    shape[axis] = made_extent(kind.kind, request, i);
  }
  const ExecContext context = context_for(a.device());
  constexpr size_t kMostMirrored = 3;  // axes: each doubles the number of parts
  const bool mirrored = kind.kind == TransformKind::complex && !kind.inverse && !is_complex(a.dtype()) &&
                        request.axes.size() <= kMostMirrored;
  const DType read = kind.kind == TransformKind::real_to_half || mirrored ? dtype : complex_type(dtype);
  if (input.dtype() != read) input = input.astype(read, context);
  const DType written = kind.kind == TransformKind::half_to_real ? dtype : complex_type(dtype);
  const bool direct =
      out && out->dtype() == written && out->shape() == shape && out->device() == a.device() && !may_overlap(*out, a);
  if (out && out->ndim() != a.ndim()) throw InvalidArgument("output array has wrong shape.");
  if (out) check_writable(*out);
  NdArray result = direct ? *out : NdArray(shape, written, context);
  if (mirrored)
    run_real(request, scale, dtype, input, result, context);
  else
    run(kind, request, scale, dtype, input, result, context);
  if (direct) return result;
  if (out) return store_result(kind.name, result, *out, Casting::same_kind);
  return kind.kind == TransformKind::half_to_real && real != dtype ? result.astype(real, context) : result;
}

// Along the axes of a request one after the other where they repeat, else at once.
NdArray along_all(const Kind& kind, const NdArray& a, const Request& request, Norm norm,
                  const std::optional<NdArray>& out) {
  if (request.axes.empty()) return a;
  if (has_distinct_axes(request)) return transformed(kind, a, request, norm, out);

  // One axis after the other: the last one first, but a half comes back to a whole at the very end.
  const size_t count = request.axes.size();
  NdArray result = a;
  const auto step = [&](const Kind& one, size_t i, bool to_out) {
    result = transformed(one, result, {{request.axes[i]}, {request.lengths[i]}}, norm, to_out ? out : std::nullopt);
  };
  if (kind.kind == TransformKind::half_to_real) {
    for (size_t i = 0; i + 1 < count; ++i) step(kIfft, i, false);
    step(kind, count - 1, true);
  } else {
    step(kind, count - 1, false);
    for (size_t i = count - 1; i-- > 0;) step(kind.inverse ? kIfft : kFft, i, i == 0);
  }
  return result;
}

NdArray along_axis(const Kind& kind, const NdArray& a, std::optional<int64_t> n, int64_t axis, Norm norm,
                   const std::optional<NdArray>& out) {
  return transformed(kind, a, request_along(kind.kind, a.shape(), n, axis), norm, out);
}

NdArray along_axes(const Kind& kind, const NdArray& a, const Lengths& s, const Lengths& axes, Norm norm,
                   const std::optional<NdArray>& out) {
  return along_all(kind, a, request_along_all(kind.kind, a.shape(), s, axes), norm, out);
}

// (position, or where `wraps`, position - n from the middle on) / (n d)
NdArray frequencies(int64_t n, double d, int64_t count, bool wraps, std::optional<Device> device) {
  if (static_cast<double>(n) * d == 0) throw InvalidArgument("float division by zero: n * d is 0");
  const ExecContext context = device ? context_for(*device) : current_context();
  NdArray result({count}, DType::float64, context);
  Program program;
  ValueId position = program.index(0);
  if (wraps) {
    const ValueId lower =
        program.apply("less"_op, std::array{position, program.constant(Scalar((n - 1) / 2 + 1), DType::int64)});
    const ValueId negative =
        program.apply("subtract"_op, std::array{position, program.constant(Scalar(n), DType::int64)});
    position = program.apply("where"_op, std::array{lower, position, negative});
  }
  const ValueId step = program.constant(Scalar(1.0 / (static_cast<double>(n) * d)), DType::float64);
  program.output(program.apply("multiply"_op, std::array{program.cast(position, DType::float64), step}));
  const NdArray* outputs[] = {&result};
  run_elementwise(program, {}, outputs, context);
  return result;
}

NdArray shifted(const NdArray& x, const Axes& axes, int64_t sign) {
  const auto [shifts, chosen] = arrange::half_shifts(x, axes, sign);
  return roll(x, shifts, chosen);
}

}  // namespace

Request request_along(TransformKind kind, const Dims& shape, std::optional<int64_t> n, int64_t axis) {
  const int64_t length = n ? *n : default_length(kind, shape, axis);
  check_length(length);
  return {{normalize_axis(axis, shape.size())}, {length}};
}

Request request_along_all(TransformKind kind, const Dims& shape, const Lengths& s, const Lengths& axes) {
  std::vector<int64_t> chosen(s ? s->size() : static_cast<size_t>(shape.size()));
  std::iota(chosen.begin(), chosen.end(), -static_cast<int64_t>(chosen.size()));
  if (axes) chosen = *axes;
  if (s && s->size() != chosen.size()) throw InvalidArgument("Shape and axes have different lengths.");
  if (chosen.empty() && kind != TransformKind::complex) throw IndexError("list index out of range");
  Request request;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const bool last = i + 1 == chosen.size();
    request.lengths.push_back(s && (*s)[i] != -1 ? (*s)[i]
                              : s || !last       ? extent(shape, chosen[i])
                                                 : default_length(kind, shape, chosen[i]));
  }
  for (const int64_t n : request.lengths) check_length(n);
  for (const int64_t axis : chosen) request.axes.push_back(normalize_axis(axis, shape.size()));
  return request;
}

bool has_distinct_axes(const Request& request) {
  std::vector<int> axes = request.axes;
  std::sort(axes.begin(), axes.end());
  return std::adjacent_find(axes.begin(), axes.end()) == axes.end();
}

NdArray fft(const NdArray& a, std::optional<int64_t> n, int64_t axis, Norm norm, const std::optional<NdArray>& out) {
  return along_axis(kFft, a, n, axis, norm, out);
}
NdArray ifft(const NdArray& a, std::optional<int64_t> n, int64_t axis, Norm norm, const std::optional<NdArray>& out) {
  return along_axis(kIfft, a, n, axis, norm, out);
}
NdArray rfft(const NdArray& a, std::optional<int64_t> n, int64_t axis, Norm norm, const std::optional<NdArray>& out) {
  return along_axis(kRfft, a, n, axis, norm, out);
}
NdArray irfft(const NdArray& a, std::optional<int64_t> n, int64_t axis, Norm norm, const std::optional<NdArray>& out) {
  return along_axis(kIrfft, a, n, axis, norm, out);
}
NdArray hfft(const NdArray& a, std::optional<int64_t> n, int64_t axis, Norm norm, const std::optional<NdArray>& out) {
  return along_axis(kIrfft, conjugated(a), n, axis, swapped(norm), out);
}
NdArray ihfft(const NdArray& a, std::optional<int64_t> n, int64_t axis, Norm norm, const std::optional<NdArray>& out) {
  const NdArray half = along_axis(kRfft, a, n, axis, swapped(norm), out);
  const Arg args[] = {half};
  return apply("conjugate"_op, args, UfuncOptions{.out = half});
}

NdArray fftn(const NdArray& a, const Lengths& s, const Lengths& axes, Norm norm, const std::optional<NdArray>& out) {
  return along_axes(kFft, a, s, axes, norm, out);
}
NdArray ifftn(const NdArray& a, const Lengths& s, const Lengths& axes, Norm norm, const std::optional<NdArray>& out) {
  return along_axes(kIfft, a, s, axes, norm, out);
}
NdArray rfftn(const NdArray& a, const Lengths& s, const Lengths& axes, Norm norm, const std::optional<NdArray>& out) {
  return along_axes(kRfft, a, s, axes, norm, out);
}
NdArray irfftn(const NdArray& a, const Lengths& s, const Lengths& axes, Norm norm, const std::optional<NdArray>& out) {
  return along_axes(kIrfft, a, s, axes, norm, out);
}
NdArray fft2(const NdArray& a, const Lengths& s, const Lengths& axes, Norm norm, const std::optional<NdArray>& out) {
  return fftn(a, s, axes, norm, out);
}
NdArray ifft2(const NdArray& a, const Lengths& s, const Lengths& axes, Norm norm, const std::optional<NdArray>& out) {
  return ifftn(a, s, axes, norm, out);
}
NdArray rfft2(const NdArray& a, const Lengths& s, const Lengths& axes, Norm norm, const std::optional<NdArray>& out) {
  return rfftn(a, s, axes, norm, out);
}
NdArray irfft2(const NdArray& a, const Lengths& s, const Lengths& axes, Norm norm, const std::optional<NdArray>& out) {
  return irfftn(a, s, axes, norm, out);
}

NdArray fftfreq(int64_t n, double d, std::optional<Device> device) {
  if (n < 0) throw InvalidArgument("negative dimensions are not allowed");
  return frequencies(n, d, n, /*wraps=*/true, device);
}
NdArray rfftfreq(int64_t n, double d, std::optional<Device> device) {
  return frequencies(n, d, n < 0 ? 0 : n / 2 + 1, /*wraps=*/false, device);
}
NdArray fftshift(const NdArray& x, const Axes& axes) { return shifted(x, axes, 1); }
NdArray ifftshift(const NdArray& x, const Axes& axes) { return shifted(x, axes, -1); }

}  // namespace quarry::local::ops::fft
