#include "quarry/chunked/api/random.h"

#include <fmt/format.h>

#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"

namespace quarry::random {

using local::InvalidArgument;

namespace {

expr::NodePtr constant(uint64_t value) {
  return expr::constant(Scalar(static_cast<unsigned long long>(value)), DType::uint64);
}

// The C-order index of every element.
expr::NodePtr element_index(const Dims& shape) {
  expr::NodePtr sum = expr::constant(0, DType::int64, shape);
  int64_t stride = 1;
  bool first = true;
  for (int d = shape.size() - 1; d >= 0; --d) {
    expr::NodePtr term = expr::index(shape, d);
    if (stride != 1) term = expr::elementwise("multiply"_op, {term, expr::constant(stride, DType::int64)});
    sum = first ? term : expr::elementwise("add"_op, {term, sum});
    first = false;
    stride *= std::max<int64_t>(shape[d], 1);
  }
  return sum;
}

Array draw(local::Op op, const Dims& shape, uint64_t seed, uint64_t stream, DType dtype) {
  for (int64_t extent : shape)
    if (extent < 0) throw InvalidArgument("negative dimensions are not allowed");
  local::element_count(shape);
  return Array(expr::elementwise(op, {element_index(shape), constant(seed), constant(stream)}, dtype));
}

void check_float(DType dtype) {
  if (dtype != DType::float32 && dtype != DType::float64)
    throw local::TypeError(fmt::format("random numbers are float32 or float64, not {}", local::name(dtype)));
}

}  // namespace

Array Generator::uniform(const Dims& shape, double low, double high, DType dtype) {
  check_float(dtype);
  const Array u = draw("random_uniform"_op, shape, seed_, stream_++, dtype);
  return low == 0 && high == 1 ? u : u * (high - low) + low;
}

Array Generator::normal(const Dims& shape, double mean, double scale, DType dtype) {
  check_float(dtype);
  if (!(scale >= 0)) throw InvalidArgument(fmt::format("the scale {} of a normal distribution is negative", scale));
  const Array z = draw("random_normal"_op, shape, seed_, stream_++, dtype);
  return mean == 0 && scale == 1 ? z : z * scale + mean;
}

Array Generator::integers(const Dims& shape, int64_t low, int64_t high, DType dtype) {
  if (!local::is_integer(dtype))
    throw local::TypeError(fmt::format("random integers have an integer dtype, not {}", local::name(dtype)));
  if (low >= high) throw InvalidArgument(fmt::format("low >= high ({} >= {})", low, high));
  local::check_weak_fits(low, dtype);
  local::check_weak_fits(high - 1, dtype);
  const Array bits = draw("random_bits"_op, shape, seed_, stream_++, DType::uint64);
  const DType wide = DType::int64;
  const Array value(expr::elementwise("random_integers"_op,
                                      {bits.node(), expr::constant(low, wide), expr::constant(high, wide)}, wide));
  return value.astype(dtype);
}

namespace {

Generator& shared() {
  static Generator generator(0);
  return generator;
}

}  // namespace

Generator& default_generator() { return shared(); }
void seed(uint64_t value) { shared() = Generator(value); }

Array uniform(const Dims& shape, double low, double high, DType dtype) {
  return shared().uniform(shape, low, high, dtype);
}
Array normal(const Dims& shape, double mean, double scale, DType dtype) {
  return shared().normal(shape, mean, scale, dtype);
}
Array integers(const Dims& shape, int64_t low, int64_t high, DType dtype) {
  return shared().integers(shape, low, high, dtype);
}

}  // namespace quarry::random
