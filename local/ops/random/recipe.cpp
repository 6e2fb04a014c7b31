#include "quarry/local/ops/random/recipe.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/random/words.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/results.h"
#include "quarry/local/program/bit_generators.h"

namespace quarry::local {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr const char* kNoNan = "{0} must not be NaN";
constexpr const char* kOutsideUnit = "{0} < 0, {0} > 1 or {0} is NaN";
constexpr const char* kOutsideHalfOpen = "{0} <= 0, {0} > 1 or {0} contains NaNs";
constexpr const char* kOutsideLogSeries = "{0} < 0, {0} >= 1 or {0} is NaN";

}  // namespace

const ParameterRange kAnyReal{-kInfinity, false, kInfinity, false, kNoNan, kNoNan};
const ParameterRange kNonNegative{0, false, kInfinity, false, "{0} < 0", kNoNan};
const ParameterRange kPositive{0, true, kInfinity, false, "{0} <= 0", kNoNan};
const ParameterRange kProbability{0, false, 1, false, kOutsideUnit, kOutsideUnit};
const ParameterRange kPositiveProbability{0, true, 1, false, kOutsideHalfOpen, kOutsideHalfOpen};
const ParameterRange kLogSeries{0, false, 1, true, kOutsideLogSeries, kOutsideLogSeries};
const ParameterRange kZipf{1, true, kInfinity, false, "{0} <= 1 or {0} is NaN", "{0} <= 1 or {0} is NaN"};
// Ten deviations below 2^63.
const ParameterRange kPoisson{0, false, 9.223372006484771e18, false, "{0} < 0 or {0} is NaN", "{0} < 0 or {0} is NaN"};

bool in_range(double x, const ParameterRange& range) {
  return (range.above_low ? x > range.low : x >= range.low) && (range.below_high ? x < range.high : x <= range.high);
}

namespace {

// Whether any element's `value` is true.
bool any_element(Program& program, ValueId value, const NdArray& array) {
  const ValueId args[] = {value};
  program.reduce("any"_reduction, args, DType::bool_);
  const NdArray* inputs[] = {&array};
  const uint32_t all = array.ndim() == 0 ? 0 : (uint32_t{1} << (array.ndim() - 1) << 1) - 1;
  const NdArray found = run_reductions(program, inputs, array.shape(), all, context_for(array.device()))[0];
  return item_or(found, false).as_bool();
}

void check_real(const char* name, DType dtype) {
  if (is_complex(dtype)) throw TypeError(fmt::format("{}: a complex number is not a real one", name));
}

}  // namespace

void out_of_range(const char* name, const ParameterRange& range, bool nan, bool too_large) {
  if (&range == &kPoisson && too_large) throw InvalidArgument(fmt::format("{} value too large", name));
  throw InvalidArgument(fmt::format(fmt::runtime(nan ? range.nan_message : range.message), name));
}

void check_parameter(const char* name, const Scalar& value, const ParameterRange& range) {
  check_real(name, value.dtype());
  const double x = value.as_double();
  if (!in_range(x, range)) out_of_range(name, range, std::isnan(x), x > range.high);
}

void check_parameter(const char* name, const Arg& value, const ParameterRange& range) {
  const NdArray* array = value.array();
  if (array == nullptr) return check_parameter(name, value.scalar(), range);
  check_real(name, array->dtype());
  if (array->size() == 0) return;
  const auto any = [&](auto&& condition) {
    Program program;
    const ValueId x = program.cast(program.input(array->dtype()), DType::float64);
    return any_element(program, condition(program, x), *array);
  };
  const auto compare = [](Program& p, Op op, ValueId x, double bound) {
    return applied(p, op, {x, p.constant(bound, DType::float64)});
  };
  const bool bad = any([&](Program& p, ValueId x) {
    const ValueId low = compare(p, range.above_low ? "greater"_op : "greater_equal"_op, x, range.low);
    const ValueId high = compare(p, range.below_high ? "less"_op : "less_equal"_op, x, range.high);
    return applied(p, "logical_not"_op, {applied(p, "logical_and"_op, {low, high})});
  });
  if (!bad) return;
  const bool low = any(
      [&](Program& p, ValueId x) { return compare(p, range.above_low ? "less_equal"_op : "less"_op, x, range.low); });
  const bool nan = !low && any([&](Program& p, ValueId x) { return applied(p, "isnan"_op, {x}); });
  out_of_range(name, range, nan, !low && !nan);
}

bool holds(Op comparison, double x, double y) {
  return comparison == "less"_op            ? x < y
         : comparison == "less_equal"_op    ? x <= y
         : comparison == "greater"_op       ? x > y
         : comparison == "greater_equal"_op ? x >= y
                                            : x == y;
}

void check_none(Op comparison, const Arg& a, const Arg& b, const char* message) {
  const bool fixed = a.array() == nullptr && b.array() == nullptr;
  if (fixed ? holds(comparison, a.scalar().as_double(), b.scalar().as_double()) : holds_any(apply(comparison, {a, b})))
    throw InvalidArgument(message);
}

NdArray as_array(const Arg& a) {
  if (a.array() != nullptr) return *a.array();
  return filled(Dims{}, a.scalar(), a.scalar().dtype(), current_context());
}

void check_random_dtype(DType dtype, const char* function) {
  if (dtype != DType::float32 && dtype != DType::float64)
    throw TypeError(fmt::format("Unsupported dtype dtype('{}') for {}", name(dtype), function));
}

Dims random_shape(const Ints& size) {
  Dims shape(size.values());
  for (int64_t extent : shape)
    if (extent < 0) throw InvalidArgument("negative dimensions are not allowed");
  element_count(shape);
  return shape;
}

Dims random_shape(const Dims& given, const Dims& parameters) {
  const int more = given.size() - parameters.size();
  bool fits = more >= 0;
  for (int d = 0; fits && d < parameters.size(); ++d) fits = parameters[d] == 1 || parameters[d] == given[more + d];
  if (!fits) {
    throw InvalidArgument(fmt::format("Output size {} is not compatible with broadcast dimensions of inputs {}.",
                                      to_string(given), to_string(parameters)));
  }
  return given;
}

Recipe::Recipe(Generator& generator, DType dtype, std::initializer_list<const Arg*> parameters,
               const std::optional<Ints>& size, const std::optional<NdArray>& out)
    : Formula(generator, dtype), out_(out) {
  std::vector<const NdArray*> arrays;
  std::vector<Dims> shapes;
  for (const Arg* parameter : parameters) {
    const NdArray* array = parameter->array();
    if (array == nullptr) continue;
    arrays.push_back(array);
    shapes.push_back(array->shape());
    flat_ = flat_ && array->size() == 1;
  }
  if (out) arrays.push_back(&*out);
  device_ = common_device(arrays);
  if (!shapes.empty()) shape_ = broadcast_shapes(shapes);
  if (size || out) {
    const Dims given = size ? random_shape(*size) : out->shape();
    if (size && out && !(given == out->shape())) throw InvalidArgument("size must match out.shape when used together");
    shape_ = random_shape(given, shape_);
  }
  if (out) {
    if (out->dtype() != dtype) {
      throw TypeError(fmt::format("Supplied output array has the wrong type. Expected {}, got {}", name(dtype),
                                  name(out->dtype())));
    }
    check_writable(*out);
    flat_ = flat_ && out->is_contiguous();
  }
}

Term Recipe::parameter(const Arg& value, DType dtype) {
  const NdArray* array = value.array();
  if (array == nullptr) return constant(value.scalar(), dtype);
  inputs_.push_back(flat_ ? array->reshape({}) : *array);
  return {this, program_.cast(program_.input(array->dtype()), dtype)};
}

Term Formula::apply(Op op, std::initializer_list<Term> args, std::optional<DType> dtype) {
  std::array<ValueId, 3> ids{};
  size_t count = 0;
  for (const Term& arg : args) ids[count++] = arg.id_;
  return {this, program_.apply(op, std::span<const ValueId>(ids.data(), count), dtype)};
}

ValueId Recipe::index() {
  if (index_ >= 0) return index_;
  if (flat_) return index_ = program_.index(0);
  // Along the last axis the index itself, so that an engine sees that neighbours follow each other.
  const int last = shape_.size() - 1;
  index_ = last >= 0 ? program_.index(last) : program_.constant(0, DType::int64);
  int64_t stride = last >= 0 ? shape_[last] : 1;
  for (int d = last - 1; d >= 0; --d) {
    const ValueId step = program_.constant(stride, DType::int64);
    index_ = applied(program_, "add"_op, {index_, applied(program_, "multiply"_op, {program_.index(d), step})});
    stride *= std::max<int64_t>(shape_[d], 1);
  }
  return index_;
}

Term Formula::draw(Op op, DType dtype) {
  const BitGenerator bits = generator_.bit_generator();
  generator_.advance(1);
  const Term seed = constant(bits.seed, DType::uint64), stream = constant(bits.offset, DType::uint64);
  return apply(op, {Term(this, index()), seed, stream}, dtype);
}

Term Formula::key() {
  const BitGenerator::Kind kind = generator_.bit_generator().kind;
  if (is_quasi_random(kind)) {
    throw NotSupported(
        fmt::format("{}: this distribution or order takes more than one number per element", name(kind)));
  }
  return bits();
}

Term Formula::open_uniform() {
  const Term u = uniform();
  return map("maximum"_op, u, u.like(dtype_ == DType::float32 ? 0x1p-25 : 0x1p-54));
}

// 1 - u is exact. Zero has no sign.
Term Formula::exponential() { return 0.0 - map("log"_op, 1.0 - uniform()); }

Term Recipe::uniform() { return philox() ? Formula::uniform() : Words(*this).uniform(); }
Term Recipe::normal() { return philox() ? Formula::normal() : Words(*this).normal(); }
Term Recipe::bits() { return philox() ? Formula::bits() : Words(*this).bits(); }
Term Recipe::open_uniform() { return philox() ? Formula::open_uniform() : Words(*this).open_uniform(); }

NdArray Recipe::make(Term result, DType dtype) {
  program_.output(id(result.as(dtype)));
  const ExecContext context = context_for(device_);
  bool aliased = false;
  if (out_)
    for (const NdArray& input : inputs_) aliased = aliased || may_overlap(input, *out_);
  NdArray target = out_ && !aliased ? *out_ : NdArray(shape_, dtype, context);
  const NdArray row = flat_ ? target.reshape(Dims{target.size()}) : target;
  std::vector<const NdArray*> inputs;
  for (const NdArray& input : inputs_) inputs.push_back(&input);
  const NdArray* outputs[] = {&row};
  run_elementwise(program_, inputs, outputs, context);
  if (!aliased) return target;
  out_->assign(target, context);
  return *out_;
}

}  // namespace quarry::local
