#include "quarry/local/ops/manipulation/windows.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/ops/ufunc/ufuncs.h"

namespace quarry::local::ops {
namespace {

// A window as a program of the point's position.
class Window {
 public:
  using Id = ValueId;
  Id number(double value) { return program_.constant(value, DType::float64); }
  Id apply(Op op, Id x, Id y) {
    const Id args[] = {x, y};
    return program_.apply(op, args);
  }
  Id apply(Op op, Id x) { return program_.apply(op, std::span(&x, 1)); }
  Id where(Id condition, Id x, Id y) {
    const Id args[] = {condition, x, y};
    return program_.apply("where"_op, args);
  }
  // first, first + step, ...
  Id positions(double first, double step) {
    const Id index = program_.cast(program_.index(0), DType::float64);
    return apply("add"_op, apply("multiply"_op, index, number(step)), number(first));
  }
  // weight * cos(factor * n)
  Id cosine(double weight, double factor, Id n) {
    return apply("multiply"_op, number(weight), apply("cos"_op, apply("multiply"_op, number(factor), n)));
  }
  NdArray run(double points, Id value) {
    program_.output(value);
    const ExecContext context = current_context();
    NdArray result({static_cast<int64_t>(points)}, DType::float64, context);
    const NdArray* out[] = {&result};
    run_elementwise(program_, {}, out, context);
    return result;
  }

 private:
  Program program_;
};

// The windows of fewer than two points, which have no shape.
std::optional<NdArray> trivial_window(double points) {
  if (std::isnan(points) || points >= 0x1p53)
    throw InvalidArgument(fmt::format("a window of {} points is not possible", points));
  if (points >= 1 && points != 1) return std::nullopt;
  const NdArray result({points == 1 ? 1 : 0}, DType::float64);
  result.fill(1);
  return result;
}

// How many of 1 - points, 3 - points ... lie below `points`.
double doubled_steps(double points) { return std::ceil(points - 0.5); }

// offset + weight cos(pi n / (M - 1)) + second cos(2 pi n / (M - 1)), n = 1 - M, 3 - M ...
NdArray cosine_window(double points, double offset, double weight, double second = 0) {
  if (std::optional<NdArray> trivial = trivial_window(points)) return *trivial;
  Window window;
  const ValueId n = window.positions(1 - points, 2);
  const double angle = std::numbers::pi / (points - 1);
  ValueId value = window.apply("add"_op, window.number(offset), window.cosine(weight, angle, n));
  if (second != 0) value = window.apply("add"_op, value, window.cosine(second, 2 * angle, n));
  return window.run(doubled_steps(points), value);
}

}  // namespace

NdArray bartlett(double M) {
  const Range named("bartlett");
  if (std::optional<NdArray> trivial = trivial_window(M)) return *trivial;
  Window window;
  const ValueId n = window.positions(1 - M, 2);
  const ValueId slope = window.apply("divide"_op, n, window.number(M - 1)), one = window.number(1);
  const ValueId rising = window.apply("less_equal"_op, n, window.number(0));
  return window.run(M,
                    window.where(rising, window.apply("add"_op, one, slope), window.apply("subtract"_op, one, slope)));
}

NdArray blackman(double M) { return cosine_window(M, 0.42, 0.5, 0.08); }
NdArray hamming(double M) { return cosine_window(M, 0.54, 0.46); }
NdArray hanning(double M) { return cosine_window(M, 0.5, 0.5); }

NdArray kaiser(double M, double beta) {
  const Range named("kaiser");
  if (std::optional<NdArray> trivial = trivial_window(M)) return *trivial;
  const double half = (M - 1) / 2;
  Window window;
  const ValueId relative = window.apply("divide"_op, window.positions(-half, 1), window.number(half));
  const ValueId inside = window.apply("subtract"_op, window.number(1), window.apply("square"_op, relative));
  const ValueId height = window.apply("sqrt"_op, inside);
  const NdArray argument = window.run(std::ceil(M), window.apply("multiply"_op, window.number(beta), height));
  const NdArray peak({}, DType::float64, context_for(argument.device()));
  peak.fill(beta);
  return i0(argument) / i0(peak);
}

}  // namespace quarry::local::ops
