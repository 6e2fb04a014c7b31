#include "quarry/local/ops/creation/creation.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "quarry/local/ndarray/dlpack.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::local::ops {
namespace {

ExecContext context_of(std::optional<Device> device) { return device ? context_for(*device) : current_context(); }

// Of arrays that are not made like another one.
NdArray shaped(const Ints& shape, std::optional<DType> dtype, std::string_view order, std::optional<Device> device) {
  const Order wanted = parse_order(order);
  if (wanted == Order::A || wanted == Order::K) throw InvalidArgument("only 'C' or 'F' order is permitted");
  return new_array(shape_of(shape), dtype.value_or(DType::float64), wanted, context_of(device));
}

NdArray like(const NdArray& a, std::optional<DType> dtype, std::string_view order, const std::optional<Ints>& shape,
             std::optional<Device> device) {
  return new_array(shape ? shape_of(*shape) : a.shape(), dtype.value_or(a.dtype()), parse_order(order),
                   context_for(device.value_or(a.device())), &a);
}

const NdArray& filled(const NdArray& a, const Scalar& value) {
  a.fill(value, context_for(a.device()));
  return a;
}

NdArray filled(const NdArray& a, const Arg& value) {
  if (!value.array()) return filled(a, value.scalar());
  const NdArray* both[] = {&a, value.array()};
  common_device(both);
  NdArray source = *value.array();
  while (source.ndim() > a.ndim() && source.shape()[0] == 1) source = squeeze(source, 0);
  const int shift = a.ndim() - source.ndim();
  bool fits = shift >= 0;
  for (int d = 0; fits && d < source.ndim(); ++d)
    fits = source.shape()[d] == 1 || source.shape()[d] == a.shape()[d + shift];
  if (!fits) {
    throw InvalidArgument(fmt::format("could not broadcast input array from shape {} into shape {}",
                                      local::to_string(value.array()->shape()), local::to_string(a.shape())));
  }
  write_into(a, source);
  return a;
}

// The device that a creation from `args` uses: that of their arrays, else the current one.
Device device_of(std::initializer_list<const Arg*> args) {
  std::vector<const NdArray*> arrays;
  for (const Arg* arg : args)
    if (arg->array()) arrays.push_back(arg->array());
  return arrays.empty() ? current_context().device : local::common_device(std::span<const NdArray* const>(arrays));
}

NdArray scalar_array(const Scalar& value, DType dtype, Device device) {
  const ExecContext context = context_for(device);
  NdArray result(Dims{}, dtype, context);
  result.fill(Scalar::strong(value, dtype), context);
  return result;
}

NdArray as_array(const Arg& arg, DType dtype, Device device) {
  if (!arg.array()) return scalar_array(arg.scalar(), dtype, device);
  return arg.array()->dtype() == dtype ? *arg.array() : arg.array()->astype(dtype, context_for(device));
}

// --- arange ----------------------------------------------------------------------------------------------------------

int64_t ceil_to_count(double value) {
  if (std::isnan(value)) throw InvalidArgument("arange: cannot compute length");
  const double count = std::ceil(value);
  if (count >= 0x1p63) throw InvalidArgument(fmt::format("Maximum allowed size exceeded: {} elements", count));
  return count > 0 ? static_cast<int64_t>(count) : 0;
}

// As Python divides: correctly rounded for integers, in double otherwise.
int64_t arange_count(const Scalar& start, const Scalar& stop, const Scalar& step, bool integers) {
  if (integers) {
    const auto wide = [](const Scalar& value) {
      return value.dtype() == DType::uint64 ? static_cast<__int128>(value.as_uint64())
                                            : static_cast<__int128>(value.as_int64());
    };
    if (wide(step) == 0) throw InvalidArgument("arange: the step is zero");
    return ceil_to_count(static_cast<double>(wide(stop) - wide(start)) / static_cast<double>(wide(step)));
  }
  const std::complex<double> distance = stop.as_complex() - start.as_complex(), by = step.as_complex();
  if (by == 0.0) throw InvalidArgument("arange: the step is zero");
  if (is_complex(start.dtype()) || is_complex(stop.dtype()) || is_complex(step.dtype())) {
    const std::complex<double> ratio = distance / by;
    return std::min(ceil_to_count(ratio.real()), ceil_to_count(ratio.imag()));
  }
  const double ratio = distance.real() / by.real();
  // A quotient that underflows still means one step.
  if (ratio == 0 && distance.real() != 0) return std::signbit(ratio) ? 0 : 1;
  return ceil_to_count(ratio);
}

Scalar sum_of(const Scalar& a, const Scalar& b, bool integers) {
  if (integers) {  // wraps where Python would go on; the conversion to the dtype wraps too
    return static_cast<int64_t>(a.as_uint64() + b.as_uint64());
  }
  if (is_complex(a.dtype()) || is_complex(b.dtype())) return a.as_complex() + b.as_complex();
  return a.as_double() + b.as_double();
}

// Fills with first + i * (next - first), as NumPy does for every dtype: halves in float32, integers modulo 2^n.
void fill_range(const NdArray& result, const Scalar& first, const Scalar& next, const ExecContext& context) {
  const DType dtype = result.dtype();
  const bool half = is_half(dtype);
  const DType loop = half ? DType::float32 : is_integer(dtype) ? DType::int64 : dtype;
  const Scalar begin = Scalar::strong(first, dtype), second = Scalar::strong(next, dtype);
  Scalar delta;
  bool lands = true;  // on `next` at i = 1
  if (is_integer(dtype)) {
    delta = static_cast<int64_t>(second.as_uint64() - begin.as_uint64());
  } else {
    const DType part = is_complex(loop) ? DType::complex128 : DType::float64;
    delta = Scalar::strong(second.as_complex() - begin.as_complex(), part);
    delta = Scalar::strong(delta, loop);
    const Scalar sum = Scalar::strong(begin.as_complex() + delta.as_complex(), loop);
    lands = Scalar::strong(sum, dtype).as_complex() == second.as_complex();
  }
  Program program;
  const ValueId index = program.index(0);
  ValueId value = program.cast(index, loop);
  // Steps that change nothing cost as much as others. (0 times -1 is -0, which only a sum with 0 makes 0.)
  const bool by_one = delta.as_complex() == 1.0;
  if (!by_one)
    value = program.apply("multiply"_op, std::array{value, program.constant(Scalar::strong(delta, loop), loop)});
  if (!by_one || begin.as_complex() != 0.0)
    value = program.apply("add"_op, std::array{program.constant(Scalar::strong(begin, loop), loop), value});
  value = program.cast(value, dtype);
  if (!lands) {
    const ValueId at_one[] = {index, program.constant(1, DType::int64)};
    const ValueId chosen[] = {program.apply("equal"_op, at_one), program.constant(second, dtype), value};
    value = program.apply("where"_op, chosen);
  }
  program.output(value);
  const NdArray* out[] = {&result};
  run_elementwise(program, {}, out, context);
}

// --- linspace --------------------------------------------------------------------------------------------------------

// The floating point dtype that start and stop are interpolated in.
DType inexact_type(const Arg& start, const Arg& stop) {
  const PromotionOperand operands[] = {start.promotion(), stop.promotion(), {DType::float64, /*weak=*/true}};
  return result_type(operands);
}

struct Samples {
  NdArray values, step;
};

Samples interpolate(const Arg& start, const Arg& stop, int64_t num, bool endpoint, std::optional<DType> dtype,
                    int64_t axis, std::optional<Device> device) {
  if (num < 0) throw InvalidArgument(fmt::format("Number of samples, {}, must be non-negative.", num));
  const bool scalars = !start.array() && !stop.array();
  const Device owner = scalars ? device.value_or(current_context().device) : device_of({&start, &stop});
  const DType loop = inexact_type(start, stop), wanted = dtype.value_or(loop);
  if (is_integer(wanted) && is_complex(loop))
    throw TypeError("ufunc 'floor' not supported for the input types (complex numbers do not round to integers)");
  const int64_t parts = endpoint ? num - 1 : num;

  // Two numbers are worked on by the host; what becomes of them are constants of the kernel.
  const Device where = scalars ? kCpu : owner;
  const NdArray from = as_array(start, loop, where), to = as_array(stop, loop, where);
  const NdArray distance = apply("subtract"_op, {to, from});
  NdArray step = scalar_array(NAN, loop, where);
  bool divide_first = false;
  if (parts > 0) {
    step = apply("divide"_op, {distance, Scalar(parts)});
    divide_first = item_or(ops::any(step == Scalar(0)), true).as_bool();  // a step that underflows
  }

  Dims shape = distance.shape();
  const int ndim = shape.size() + 1, along = normalize_axis(axis, ndim);
  shape.insert(along, num);
  const ExecContext context = context_for(owner);
  const NdArray values(shape, wanted, context);
  if (values.size() > 0) {
    Program program;
    std::vector<NdArray> operands;
    const auto bind = [&](const NdArray& a) {
      if (scalars) return program.constant(a.item(), loop);
      operands.push_back(a.ndim() == 0 ? a : expand_dims(a.broadcast_to(distance.shape()), along));
      return program.input(loop);
    };
    const ValueId index = program.index(along);
    ValueId y = program.cast(index, loop);
    const auto combine = [&](Op op, ValueId other) {
      const ValueId args[] = {y, other};
      y = program.apply(op, args);
    };
    if (divide_first) combine("divide"_op, program.constant(Scalar::strong(parts, loop), loop));
    combine("multiply"_op, bind(divide_first || parts <= 0 ? distance : step));
    combine("add"_op, bind(from));
    if (endpoint && num > 1) {
      const ValueId last[] = {index, program.constant(num - 1, DType::int64)};
      const ValueId chosen[] = {program.apply("equal"_op, last), bind(to), y};
      y = program.apply("where"_op, chosen);
    }
    if (is_integer(wanted)) {
      const ValueId args[] = {y};
      y = program.apply("floor"_op, args);
    }
    program.output(program.cast(y, wanted));
    std::vector<const NdArray*> inputs;
    for (const NdArray& a : operands) inputs.push_back(&a);
    const NdArray* out[] = {&values};
    run_elementwise(program, inputs, out, context);
  }
  if (device && !(*device == owner)) return {values.to(*device), step.to(*device)};
  return {values, scalars ? step.to(owner) : step};
}

}  // namespace

NdArray array(const NdArray& object, std::optional<DType> dtype, std::optional<bool> copy, std::string_view order,
              bool /*subok*/, int64_t ndmin) {
  const Range named("array");
  if (ndmin < 0 || ndmin > kMaxDims)
    throw InvalidArgument(fmt::format("ndmin must be in [0, {}], not {}", kMaxDims, ndmin));
  NdArray result = copy && *copy ? astype_method(object, dtype.value_or(object.dtype()), order)
                                 : asarray(object, dtype, order, std::nullopt, copy);
  Dims shape = result.shape(), strides = result.strides();
  while (shape.size() < ndmin) {
    shape.insert(0, 1);
    strides.insert(0, 0);
  }
  return with_strides(result, shape, strides, result.offset());
}

NdArray asarray(const NdArray& a, std::optional<DType> dtype, std::optional<std::string_view> order,
                std::optional<Device> device, std::optional<bool> copy) {
  const Range named("asarray");
  const bool moves = device && !(*device == a.device());
  const NdArray here = moves ? a.to(*device) : a;
  NdArray result = astype_method(here, dtype.value_or(a.dtype()), order.value_or("K"), "unsafe", true,
                                 /*copy=*/copy.value_or(false) && !moves);
  if (copy && !*copy && result.buffer() != a.buffer())
    throw InvalidArgument("Unable to avoid copy while creating an array as requested.");
  return result;
}

NdArray empty(const Ints& shape, std::optional<DType> dtype, std::string_view order, std::optional<Device> device) {
  const Range named("empty");
  return shaped(shape, dtype, order, device);
}
NdArray zeros(const Ints& shape, std::optional<DType> dtype, std::string_view order, std::optional<Device> device) {
  const Range named("zeros");
  return filled(shaped(shape, dtype, order, device), Scalar(0));
}
NdArray ones(const Ints& shape, std::optional<DType> dtype, std::string_view order, std::optional<Device> device) {
  const Range named("ones");
  return filled(shaped(shape, dtype, order, device), Scalar(1));
}
NdArray full(const Ints& shape, const Arg& fill_value, std::optional<DType> dtype, std::string_view order,
             std::optional<Device> device) {
  const Range named("full");
  if (!device && fill_value.array()) device = fill_value.array()->device();
  return filled(shaped(shape, dtype.value_or(fill_value.promotion().dtype), order, device), fill_value);
}
NdArray empty_like(const NdArray& prototype, std::optional<DType> dtype, std::string_view order, bool /*subok*/,
                   const std::optional<Ints>& shape, std::optional<Device> device) {
  const Range named("empty_like");
  return like(prototype, dtype, order, shape, device);
}
NdArray zeros_like(const NdArray& a, std::optional<DType> dtype, std::string_view order, bool /*subok*/,
                   const std::optional<Ints>& shape, std::optional<Device> device) {
  const Range named("zeros_like");
  return filled(like(a, dtype, order, shape, device), Scalar(0));
}
NdArray ones_like(const NdArray& a, std::optional<DType> dtype, std::string_view order, bool /*subok*/,
                  const std::optional<Ints>& shape, std::optional<Device> device) {
  const Range named("ones_like");
  return filled(like(a, dtype, order, shape, device), Scalar(1));
}
NdArray full_like(const NdArray& a, const Arg& fill_value, std::optional<DType> dtype, std::string_view order,
                  bool /*subok*/, const std::optional<Ints>& shape, std::optional<Device> device) {
  const Range named("full_like");
  return filled(like(a, dtype, order, shape, device), fill_value);
}

NdArray arange(const Scalar& start_or_stop, const std::optional<Scalar>& stop, const Scalar& step,
               std::optional<DType> dtype, std::optional<Device> device) {
  const Range named("arange");
  const Scalar start = stop ? start_or_stop : Scalar(0), end = stop ? *stop : start_or_stop;
  const auto is_whole = [](const Scalar& s) { return is_integer(s.dtype()) || s.dtype() == DType::bool_; };
  const bool integers = is_whole(start) && is_whole(end) && is_whole(step);
  const DType natural = promote_types(promote_types(start.dtype(), end.dtype()), step.dtype());
  const DType wanted = dtype.value_or(promote_types(natural, DType::int64));
  const int64_t count = arange_count(start, end, step, integers);
  if (wanted == DType::bool_ && count > 2) {
    throw TypeError(
        fmt::format("arange() is only supported for booleans when the result has at most length 2, not {}", count));
  }
  const Scalar next = sum_of(start, step, integers);
  if (count > 0) check_weak_fits(start, wanted);
  if (count > 1) check_weak_fits(next, wanted);
  const ExecContext context = context_of(device);
  NdArray result({count}, wanted, context);
  if (count == 0) return result;
  if (wanted == DType::bool_) {
    sliced(result, 0, 0, 1).fill(start, context);
    if (count > 1) sliced(result, 0, 1, 1).fill(next, context);
    return result;
  }
  fill_range(result, start, next, context);
  return result;
}

std::variant<NdArray, std::pair<NdArray, NdArray>> linspace(const Arg& start, const Arg& stop, int64_t num,
                                                            bool endpoint, bool retstep, std::optional<DType> dtype,
                                                            int64_t axis, std::optional<Device> device) {
  const Range named("linspace");
  Samples samples = interpolate(start, stop, num, endpoint, dtype, axis, device);
  if (retstep) return std::pair(std::move(samples.values), std::move(samples.step));
  return std::move(samples.values);
}

NdArray logspace(const Arg& start, const Arg& stop, int64_t num, bool endpoint, const Arg& base,
                 std::optional<DType> dtype, int64_t axis) {
  const Range named("logspace");
  NdArray values;
  if (base.array() && base.array()->ndim() > 0) {
    // The base takes part in the broadcast before the new axis is placed.
    const Device device = device_of({&start, &stop, &base});
    const DType loop = inexact_type(start, stop);
    const NdArray from = as_array(start, loop, device), to = as_array(stop, loop, device);
    const int ndim = std::max({from.ndim(), to.ndim(), base.array()->ndim()});
    const auto widened = [&](const NdArray& a) { return array(a, std::nullopt, std::nullopt, "K", false, ndim); };
    const NdArray first = widened(from), last = widened(to);
    values = apply("power"_op, {expand_dims(widened(*base.array()), axis),
                                interpolate(first, last, num, endpoint, std::nullopt, axis, std::nullopt).values});
  } else {
    const NdArray exponents = interpolate(start, stop, num, endpoint, std::nullopt, axis, std::nullopt).values;
    values = apply("power"_op, {base, exponents});
  }
  return dtype && *dtype != values.dtype() ? values.astype(*dtype, context_for(values.device())) : values;
}

NdArray geomspace(const Arg& start, const Arg& stop, int64_t num, bool endpoint, std::optional<DType> dtype,
                  int64_t axis) {
  const Range named("geomspace");
  const bool scalars = !start.array() && !stop.array();
  const Device owner = device_of({&start, &stop}), where = scalars ? kCpu : owner;
  const PromotionOperand operands[] = {start.promotion(), stop.promotion(), {dtype.value_or(DType::float64), false}};
  const DType loop = promote_types(result_type(operands), DType::float64);
  NdArray from = as_array(start, loop, where), to = as_array(stop, loop, where);
  const auto has_zero = [](const NdArray& a) { return item_or(ops::any(a == Scalar(0)), false).as_bool(); };
  if (has_zero(from) || has_zero(to)) throw InvalidArgument("Geometric sequence cannot include zero");
  // Turned so that the start is a positive real number, and back at the end.
  NdArray turn = apply("sign"_op, {from});
  from = from / turn;
  to = to / turn;
  const NdArray low = apply("log10"_op, {from}), high = apply("log10"_op, {to});
  NdArray values;
  if (scalars) {
    values = logspace(low.item(), high.item(), num, endpoint, 10.0, loop);
    from = from.to(owner);
    to = to.to(owner);
    turn = turn.to(owner);
  } else {
    values = logspace(low, high, num, endpoint, 10.0, loop);
  }
  if (num > 0) write_into(sliced(values, 0, 0, 1), from);
  if (num > 1 && endpoint) write_into(sliced(values, 0, num - 1, 1), to);
  values = values * turn;
  values = moveaxis(values, 0, axis);
  const DType wanted = dtype.value_or(loop);
  return wanted == loop ? values : values.astype(wanted, context_for(owner));
}

NdArray eye(int64_t N, std::optional<int64_t> M, int64_t k, std::optional<DType> dtype, std::string_view order,
            std::optional<Device> device) {
  const Range named("eye");
  NdArray result = shaped({N, M.value_or(N)}, dtype, order, device);
  if (result.size() == 0) return result;
  const ExecContext context = context_for(result.device());
  result.fill(Scalar::strong(0, result.dtype()), context);
  NdArray ones = diagonal(result, k);
  ones.set_writeable(true);
  if (ones.size() > 0) ones.fill(Scalar::strong(1, result.dtype()), context);
  return result;
}

NdArray identity(int64_t n, std::optional<DType> dtype) { return eye(n, std::nullopt, 0, dtype); }

NdArray fromfunction(const ArrayFunction& function, const Ints& shape, std::optional<DType> dtype) {
  const Range named("fromfunction");
  const Dims whole = shape_of(shape);
  std::vector<NdArray> coordinates;
  for (int d = 0; d < whole.size(); ++d) {
    Dims extents = Dims::filled(whole.size(), 1);
    extents[d] = whole[d];
    const NdArray line = arange(whole[d], std::nullopt, 1, dtype.value_or(DType::float64));
    coordinates.push_back(line.reshape(extents).broadcast_to(whole));
  }
  return function(coordinates);
}

std::vector<NdArray> meshgrid(const std::vector<NdArray>& xi, bool copy, bool sparse, std::string_view indexing) {
  const Range named("meshgrid");
  if (indexing != "xy" && indexing != "ij")
    throw InvalidArgument(fmt::format("Valid values for `indexing` are 'xy' and 'ij', not '{}'.", indexing));
  const int ndim = static_cast<int>(xi.size());
  if (ndim > kMaxDims) throw InvalidArgument(fmt::format("meshgrid of {} vectors: at most {}", ndim, kMaxDims));
  const bool swapped = indexing == "xy" && ndim > 1;
  Dims whole = Dims::filled(ndim);
  std::vector<NdArray> results;
  for (int i = 0; i < ndim; ++i) {
    const NdArray& x = xi[static_cast<size_t>(i)];
    const int axis = swapped && i < 2 ? 1 - i : i;
    Dims extents = Dims::filled(ndim, 1);
    extents[axis] = whole[axis] = x.size();
    results.push_back(x.reshape(extents));
  }
  for (NdArray& result : results) {
    if (!sparse) result = result.broadcast_to(whole);
    if (copy) result = result.copy(context_for(result.device()));
  }
  return results;
}

NdArray vander(const NdArray& x, std::optional<int64_t> N, bool increasing) {
  const Range named("vander");
  if (x.ndim() != 1) {
    throw InvalidArgument(fmt::format("x must be a one-dimensional array or sequence, not {}-dimensional.", x.ndim()));
  }
  const int64_t columns = N.value_or(x.shape()[0]);
  const ExecContext context = context_for(x.device());
  NdArray result({x.shape()[0], columns}, promote_types(x.dtype(), DType::int64), context);
  if (columns == 0) return result;
  const NdArray ordered = increasing ? result : flip(result, 1);
  const NdArray values = x.astype(result.dtype(), context);
  sliced(ordered, 1, 0, 1).fill(Scalar::strong(1, result.dtype()), context);
  // A product of powers per column, in NumPy's order of multiplication.
  for (int64_t c = 1; c < columns; ++c) {
    const NdArray column = expand_dims(values, 1);
    write_into(sliced(ordered, 1, c, 1), c == 1 ? column : sliced(ordered, 1, c - 1, 1) * column);
  }
  return result;
}

NdArray from_dlpack(const NdArray& x, std::optional<Device> device, std::optional<bool> copy) {
  const Range named("from_dlpack");
  const bool moves = device && !(*device == x.device());
  if (moves && copy && !*copy) {
    throw InvalidArgument(fmt::format("from_dlpack: the array is on {}; without a copy it cannot be on {}",
                                      local::to_string(x.device()), local::to_string(*device)));
  }
  if (moves) return x.to(*device);
  const NdArray shared =
      x.device().kind == DeviceKind::emulated || !has_values(x) ? x : local::from_dlpack(to_dlpack(x));
  return copy && *copy ? shared.copy(context_for(shared.device())) : shared;
}

}  // namespace quarry::local::ops
