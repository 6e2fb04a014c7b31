// The bodies of BasicMaskedArray, for the source that instantiates them. Its namespace `functions` has these functions
// of its arrays: apply, reduce, full, broadcast_to, assign, get, ravel, transpose, swapaxes, squeeze, round, clip,
// take, repeat, diagonal, compress, trace, argsort, take_along_axis, nonzero, cumsum, cumprod, nanmedian, copy, item,
// str, repr.

template <class K>
using ArrayOf = typename K::Array;
template <class K>
using ValueOf = typename K::Fusing::Value;

// ---- Arguments ----

template <class K>
BasicMaskedOperand<K>::BasicMaskedOperand(const BasicMaskedArray<K>& x)
    : array_(x.data()), mask_(x.mask_or_none()), fill_value_(x.given_fill_value()), is_masked_array_(true) {}
template <class K>
BasicMaskedOperand<K>::BasicMaskedOperand(const BasicMaskedElements<K>& x) : BasicMaskedOperand(x.value()) {}
template <class K>
BasicMaskedOperand<K>::BasicMaskedOperand(Masked) : BasicMaskedOperand(BasicMaskedArray<K>(masked)) {
  is_masked_word_ = true;
}
template <class K>
typename K::Operand BasicMaskedOperand<K>::data() const {
  if (array_) return *array_;
  return scalar_;
}
template <class K>
ArrayOf<K> BasicMaskedOperand<K>::data_array() const {
  return array_ ? *array_ : functions::full(Dims{}, scalar_, scalar_.dtype());
}

// ---- Construction ----

template <class K>
BasicMaskedArray<K>::BasicMaskedArray(Array data, std::optional<Array> mask, const std::optional<Scalar>& fill_value)
    : data_(std::move(data)), mask_(std::move(mask)) {
  if (mask_ && mask_->dtype() != DType::bool_)
    throw TypeError(fmt::format("a mask is an array of bool, not {}", name(mask_->dtype())));
  if (mask_ && !(mask_->shape() == data_.shape()))
    throw InvalidArgument(fmt::format("the mask of shape {} is not of the data's shape {}",
                                      compact_shape(mask_->shape()), compact_shape(data_.shape())));
  set_fill_value(fill_value);
}
template <class K>
BasicMaskedArray<K>::BasicMaskedArray(Masked)
    : data_(functions::full(Dims{}, Scalar(0.0), DType::float64)),
      mask_(functions::full(Dims{}, Scalar(true), DType::bool_)) {}

template <class K>
void BasicMaskedArray<K>::set_fill_value(const std::optional<Scalar>& value) {
  fill_value_.reset();
  if (value) fill_value_ = checked_fill_value(*value, dtype());
}

template <class K>
ArrayOf<K> BasicMaskedArray<K>::mask() const {
  return mask_ ? *mask_ : functions::full(shape(), Scalar(false), DType::bool_);
}

template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::with_fill_of(const BasicMaskedArray& other) const {
  BasicMaskedArray result = *this;
  if (other.fill_value_) result.fill_value_ = Scalar::strong(*other.fill_value_, dtype());
  return result;
}

template <class K>
template <class F>
BasicMaskedArray<K> BasicMaskedArray<K>::alike(F&& function) const {
  BasicMaskedArray result;
  result.data_ = function(data_);
  if (mask_) result.mask_ = function(*mask_);
  return result.with_fill_of(*this);
}

// ---- Elementwise ----

// The union of masks that broadcast to a shape; none where there is none.
template <class K>
std::optional<ArrayOf<K>> united(std::span<const BasicMaskedOperand<K>> args, const Dims& shape) {
  std::optional<ArrayOf<K>> mask;
  for (const BasicMaskedOperand<K>& arg : args) {
    if (!arg.mask()) continue;
    if (!mask) {
      mask = *arg.mask();
      continue;
    }
    if (K::same(*mask, *arg.mask())) continue;
    const typename K::Operand both[] = {*mask, *arg.mask()};
    mask = functions::apply("logical_or"_op, both);
  }
  if (mask && !(mask->shape() == shape)) mask = functions::broadcast_to(*mask, shape);
  return mask;
}

// Where numpy.ma masks the results of a function besides the masked arguments.
enum class Domain : uint8_t { all, finite, at_least, above, interval, tangent, division };
struct DomainRow {
  Op op;
  Domain domain;
  double low = 0, high = 0;
};
inline const DomainRow* domain_of(Op op) {
  static const DomainRow rows[] = {{"sqrt"_op, Domain::at_least, 0},
                                   {"log"_op, Domain::above, 0},
                                   {"log2"_op, Domain::above, 0},
                                   {"log10"_op, Domain::above, 0},
                                   {"tan"_op, Domain::tangent, 1e-35},
                                   {"arcsin"_op, Domain::interval, -1, 1},
                                   {"arccos"_op, Domain::interval, -1, 1},
                                   {"arccosh"_op, Domain::at_least, 1},
                                   {"arctanh"_op, Domain::interval, -1 + 1e-15, 1 - 1e-15},
                                   {"divide"_op, Domain::division},
                                   {"floor_divide"_op, Domain::division},
                                   {"remainder"_op, Domain::division},
                                   {"fmod"_op, Domain::division},
                                   {"power"_op, Domain::finite}};
  for (const DomainRow& row : rows)
    if (row.op == op) return &row;
  return nullptr;
}

// Whether arguments are outside of the domain; nothing where none is.
template <class F, class V>
std::optional<V> outside(F& f, const DomainRow& row, std::span<const V> x) {
  switch (row.domain) {
    case Domain::all:
    case Domain::finite:
      return std::nullopt;
    case Domain::at_least:
      return f("less"_op, x[0], row.low);
    case Domain::above:
      return f("less_equal"_op, x[0], row.low);
    case Domain::interval:
      return f("logical_or"_op, f("less"_op, x[0], row.low), f("greater"_op, x[0], row.high));
    case Domain::tangent:
      return f("less"_op, f("absolute"_op, f("cos"_op, x[0])), row.low);
    case Domain::division:
      break;
  }
  // Quotients that leave the range of float64; of narrower numbers those by 0 alone.
  const DType a = f.dtype(x[0]), b = f.dtype(x[1]);
  const auto is_wide = [](DType dtype) { return real_type(dtype) == DType::float64; };
  if (!is_wide(a) && !is_wide(b)) return f("equal"_op, x[1], 0);
  const auto size = [&](const V& value, DType dtype) {
    return is_complex(dtype) ? f.cast(f("absolute"_op, value), DType::float64)
                             : f("absolute"_op, f.cast(value, DType::float64));
  };
  return f("greater_equal"_op, f("multiply"_op, size(x[0], a), std::numeric_limits<double>::min()), size(x[1], b));
}

template <class K>
BasicMaskedArray<K> MaskedOperators<K>::apply(Op op, std::span<const Operand> args) {
  using V = ValueOf<K>;
  std::optional<Scalar> fill_value;
  bool any = false;
  for (const Operand& arg : args) {
    if (!any && arg.is_masked_array()) fill_value = arg.given_fill_value();
    any = any || arg.is_masked_array();
  }
  const auto finished = [&](ArrayOf<K> data, std::optional<ArrayOf<K>> mask) {
    if (fill_value) fill_value = Scalar::strong(*fill_value, data.dtype());
    return Result(std::move(data), std::move(mask), fill_value);
  };
  const DomainRow* row = domain_of(op);
  const bool is_extreme = op == "maximum"_op || op == "minimum"_op;
  if (row == nullptr && !is_extreme) {
    std::vector<typename K::Operand> operands;
    for (const Operand& arg : args) operands.push_back(arg.data());
    ArrayOf<K> data = functions::apply(op, operands);
    std::optional<ArrayOf<K>> mask = united<K>(args, data.shape());
    return finished(std::move(data), std::move(mask));
  }
  if (op == "power"_op || std::none_of(args.begin(), args.end(), [](const Operand& arg) { return !!arg.array(); })) {
    // The ufunc checks what a program does not: negative powers of integers.
    std::vector<typename K::Operand> operands;
    for (const Operand& arg : args) operands.push_back(arg.data());
    ArrayOf<K> data = functions::apply(op, operands);
    std::optional<ArrayOf<K>> mask = united<K>(args, data.shape());
    if (!is_float(data.dtype()) && !is_complex(data.dtype())) return finished(std::move(data), std::move(mask));
    typename K::Fusing f;
    V missing = f("logical_not"_op, f("isfinite"_op, f.input(data)));
    if (mask) missing = f("logical_or"_op, missing, f.input(*mask));
    mask = f.run({missing})[0];
    return finished(std::move(data), std::move(mask));
  }
  typename K::Fusing f;
  std::vector<V> values;
  for (const Operand& arg : args) {
    if (arg.array())
      values.push_back(f.input(*arg.array()));
    else
      values.push_back(V(arg.scalar()));
  }
  std::optional<V> missing;
  const auto add = [&](const V& more) { missing = missing ? f("logical_or"_op, *missing, more) : more; };
  V result = values[0];
  if (is_extreme) {
    // Of NaN and a number the second argument, as numpy.ma's, which compares and chooses.
    const V first = f(op == "maximum"_op ? "greater"_op : "less"_op, values[0], values[1]);
    result = f("where"_op, first, values[0], values[1]);
  } else {
    result = values.size() == 1 ? f(op, values[0]) : f(op, values[0], values[1]);
    if (is_float(f.dtype(result)) || is_complex(f.dtype(result))) add(f("logical_not"_op, f("isfinite"_op, result)));
    if (const std::optional<V> more = outside<typename K::Fusing, V>(f, *row, values)) add(*more);
  }
  for (const Operand& arg : args)
    if (arg.mask()) add(f.input(*arg.mask()));
  std::vector<V> wanted{result};
  if (missing) wanted.push_back(*missing);
  std::vector<ArrayOf<K>> made = f.run(wanted);
  return finished(std::move(made[0]), missing ? std::optional(std::move(made[1])) : std::nullopt);
}

// ---- Filling and reading ----

template <class K>
ArrayOf<K> BasicMaskedArray<K>::filled(const std::optional<Operand>& value) const {
  if (!mask_) return data_;
  using V = ValueOf<K>;
  typename K::Fusing f;
  const V x = f.input(data_), missing = f.input(*mask_);
  V with(Scalar::strong(fill_value(), dtype()));
  if (value && value->array()) {
    if (!(broadcast_shapes(value->shape(), shape()) == shape()))
      throw InvalidArgument(fmt::format("a fill value of shape {} does not broadcast to the array's shape {}",
                                        compact_shape(value->shape()), compact_shape(shape())));
    with = f.cast(f.input(*value->array()), dtype());
  } else if (value) {
    with = V(checked_fill_value(value->scalar(), dtype()));
  }
  return f.run({f("where"_op, missing, with, x)})[0];
}

template <class K>
ArrayOf<K> BasicMaskedArray<K>::compressed() const {
  const Array flat = functions::ravel(data_);
  if (!mask_) return flat;
  const Array mask = functions::ravel(*mask_);
  const typename K::Operand masks[] = {mask};
  const typename K::IndexTerm present[] = {functions::apply("logical_not"_op, masks)};
  return functions::get(flat, present);
}

template <class K>
Scalar BasicMaskedArray<K>::masked_item() const {
  if (size() != 1) throw InvalidArgument("can only convert an array of size 1 to a scalar");
  if (!mask_) return functions::item(data_);
  if (!functions::item(*mask_).as_bool()) return functions::item(data_);
  if (!is_float(dtype()) && !is_complex(dtype()))
    throw InvalidArgument(fmt::format("the element, of dtype {}, is masked", name(dtype())));
  return Scalar::strong(std::numeric_limits<double>::quiet_NaN(), dtype());
}

template <class K>
bool BasicMaskedArray<K>::is_masked() const {
  if (!mask_) return false;
  return functions::item(functions::reduce("any"_reduction, *mask_, Axes(), {})).as_bool();
}

// ---- Reductions ----

template <class K>
ArrayOf<K> without_axes(const ArrayOf<K>& kept, const Dims& shape, uint32_t mask, bool keepdims) {
  return keepdims || mask == 0 ? kept : functions::reshape(kept, reduced_shape(shape, mask, false));
}

// The reductions of data and mask: sum, prod, min, max, any, all.
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::reduced(Reduction reduction, const Axes& axis, const Options& options) const {
  const uint32_t axes = axis.mask(ndim());
  const ReductionInfo& row = info(reduction);
  if (!mask_) return functions::reduce(reduction, data_, axis, {.dtype = options.dtype, .keepdims = options.keepdims});
  typename K::Fusing f;
  using V = ValueOf<K>;
  const V x = f.input(data_), missing = f.input(*mask_);
  DType result = accumulate_dtype(reduction, dtype());
  std::optional<typename K::Fusing::Reduced> term;
  if (row.of_truth) {
    result = DType::bool_;
    const bool neutral = reduction == "all"_reduction;
    const V truth = f("where"_op, missing, V(Scalar::strong(neutral, result)), f.cast(x, result));
    term = typename K::Fusing::Reduced{reduction, truth, result};
  } else if (row.takes_dtype) {
    result = options.dtype.value_or(result);
    term = missing::total(f, reduction, x, missing, result);
  } else {
    term = missing::extreme(f, reduction, x, missing, missing::worst_of(reduction, dtype()));
  }
  const std::vector<Array> parts = f.reduce(shape(), axes, {*term, missing::none(f, missing)});
  const Array value = parts[0].dtype() == result ? parts[0] : parts[0].astype(result);
  return BasicMaskedArray(without_axes<K>(value, shape(), axes, options.keepdims),
                          without_axes<K>(parts[1], shape(), axes, options.keepdims));
}

#define QUARRY_MASKED_REDUCTION(name)                                                                         \
  template <class K>                                                                                          \
  BasicMaskedArray<K> BasicMaskedArray<K>::name(const Axes& axis, const MaskedReduceOptions& options) const { \
    return reduced(named_reduction<#name>(), axis, options);                                                  \
  }
QUARRY_MASKED_REDUCTION(sum)
QUARRY_MASKED_REDUCTION(prod)
QUARRY_MASKED_REDUCTION(min)
QUARRY_MASKED_REDUCTION(max)
QUARRY_MASKED_REDUCTION(any)
QUARRY_MASKED_REDUCTION(all)
#undef QUARRY_MASKED_REDUCTION

// What sums of numpy.ma's mean are accumulated in, and the dtype of the quotient.
inline DType mean_accumulator(DType dtype, std::optional<DType> given) {
  if (given) return *given;
  if (!is_float(dtype) && !is_complex(dtype)) return DType::float64;
  return widened(dtype);
}
inline DType mean_dtype(DType dtype, std::optional<DType> given) {
  if (!given && widened(dtype) != dtype) return dtype;
  return promote_types(mean_accumulator(dtype, given), DType::float64);
}

template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::mean(const Axes& axis, const Options& options) const {
  if (!mask_)
    return functions::reduce("mean"_reduction, data_, axis, {.dtype = options.dtype, .keepdims = options.keepdims});
  const uint32_t axes = axis.mask(ndim());
  const DType accumulate = mean_accumulator(dtype(), options.dtype), result = mean_dtype(dtype(), options.dtype);
  typename K::Fusing f;
  using V = ValueOf<K>;
  const V x = f.input(data_), missing = f.input(*mask_);
  const std::vector<Array> parts = f.reduce(shape(), axes, missing::sum_and_count(f, x, missing, accumulate));
  typename K::Fusing last;
  const V count = last.input(parts[1]);
  V mean = last("divide"_op, last.cast(last.input(parts[0]), promote_types(accumulate, DType::float64)),
                last.cast(count, DType::float64));
  mean = last.cast(mean, result);
  V none = last("equal"_op, count, 0);
  if (options.keepdims ? ndim() > 0 : reduced_shape(shape(), axes, false).size() > 0)
    none = last("logical_or"_op, none, last("logical_not"_op, last("isfinite"_op, mean)));
  const std::vector<Array> made = last.run({mean, none});
  return BasicMaskedArray(without_axes<K>(made[0], shape(), axes, options.keepdims),
                          without_axes<K>(made[1], shape(), axes, options.keepdims));
}

// Two passes: squared distances from the mean. Not finite ones are masked.
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::var(const Axes& axis, const Options& options) const {
  if (!mask_)
    return functions::reduce("var"_reduction, data_, axis,
                             {.dtype = options.dtype, .ddof = options.ddof, .keepdims = options.keepdims});
  const uint32_t axes = axis.mask(ndim());
  std::optional<DType> accumulate = options.dtype;
  if (!accumulate && widened(dtype()) != dtype()) accumulate = DType::float32;
  const BasicMaskedArray center = mean(axis, {.dtype = accumulate, .keepdims = true});
  const DType wide = promote_types(promote_types(dtype(), center.dtype()), DType::float64);
  typename K::Fusing f;
  using V = ValueOf<K>;
  const V x = f.input(data_), missing = f.input(*mask_);
  const std::vector<Array> parts = f.reduce(
      shape(), axes, {missing::squares(f, x, missing, f.input(center.data()), wide), missing::count(f, missing)});
  typename K::Fusing last;
  const V count = last("subtract"_op, last.cast(last.input(parts[1]), DType::float64), options.ddof);
  const V var = last("divide"_op, last.input(parts[0]), count);
  const bool is_array = options.keepdims ? ndim() > 0 : reduced_shape(shape(), axes, false).size() > 0;
  // numpy.ma gives negative ones for no axes and fewer than no degrees of freedom.
  const V none =
      is_array ? V(last("less_equal"_op, count, 0.0))
               : V(last("logical_or"_op, last("equal"_op, count, 0.0), last("equal"_op, last.input(parts[1]), 0)));
  const std::vector<Array> made =
      last.run({var, last("logical_or"_op, none, last("logical_not"_op, last("isfinite"_op, var)))});
  return BasicMaskedArray(without_axes<K>(made[0], shape(), axes, options.keepdims),
                          without_axes<K>(made[1], shape(), axes, options.keepdims));
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::std(const Axes& axis, const Options& options) const {
  if (!mask_)
    return functions::reduce("std"_reduction, data_, axis,
                             {.dtype = options.dtype, .ddof = options.ddof, .keepdims = options.keepdims});
  return MaskedOperators<K>::apply("sqrt"_op, {var(axis, options)});
}

template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::ptp(const Axes& axis, const Options& options) const {
  if (!mask_) return MaskedOperators<K>::apply("subtract"_op, {max(axis, options), min(axis, options)});
  const uint32_t axes = axis.mask(ndim());
  typename K::Fusing f;
  const ValueOf<K> x = f.input(data_), missing = f.input(*mask_);
  const auto extreme = [&](Reduction reduction) {
    return missing::extreme(f, reduction, x, missing, missing::worst_of(reduction, dtype()));
  };
  const std::vector<Array> parts =
      f.reduce(shape(), axes, {extreme("max"_reduction), extreme("min"_reduction), missing::none(f, missing)});
  const typename K::Operand range[] = {parts[0], parts[1]};
  return BasicMaskedArray(without_axes<K>(functions::apply("subtract"_op, range), shape(), axes, options.keepdims),
                          without_axes<K>(parts[2], shape(), axes, options.keepdims));
}

template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::median(const Axes& axis, const Options& options) const {
  if (!mask_) return functions::median(data_, axis, options.keepdims);
  using V = ValueOf<K>;
  const uint32_t axes = axis.mask(ndim());
  if (is_complex(dtype())) throw TypeError("median() of masked complex numbers");
  const DType inexact = is_float(dtype()) ? dtype() : DType::float64;
  const Scalar nan = Scalar::strong(std::numeric_limits<double>::quiet_NaN(), inexact);
  typename K::Fusing f;
  const V x = f.cast(f.input(data_), inexact);
  const Array numbers = f.run({f("where"_op, f.input(*mask_), V(nan), x)})[0];
  const Array middle = functions::nanmedian(numbers, axis, /*keepdims=*/true);
  typename K::Fusing g;
  const V y = g.input(data_), missing = g.input(*mask_);
  std::vector<typename K::Fusing::Reduced> terms{missing::none(g, missing)};
  if (is_float(dtype())) {  // NaN that is not masked is the result
    const V is_nan = g("logical_and"_op, g("isnan"_op, y), g("logical_not"_op, missing));
    terms.push_back(typename K::Fusing::Reduced{"any"_reduction, is_nan, DType::bool_});
  }
  const std::vector<Array> parts = g.reduce(shape(), axes, terms);
  typename K::Fusing last;
  V result = last.input(middle);
  if (parts.size() > 1) result = last("where"_op, last.input(parts[1]), V(nan), result);
  const Array value = last.run({result})[0];
  return BasicMaskedArray(without_axes<K>(value, shape(), axes, options.keepdims),
                          without_axes<K>(parts[0], shape(), axes, options.keepdims));
}

template <class K>
ArrayOf<K> extreme_position(const BasicMaskedArray<K>& x, Reduction reduction, std::optional<int64_t> axis,
                            const std::optional<Scalar>& fill_value, bool keepdims) {
  const Axes axes = axis ? Axes(*axis) : Axes();
  if (!x.mask_or_none()) return functions::reduce(reduction, x.data(), axes, {.keepdims = keepdims});
  const uint32_t mask = axes.mask(x.ndim());
  typename K::Fusing f;
  using V = ValueOf<K>;
  const Scalar worst =
      fill_value ? checked_fill_value(*fill_value, x.dtype()) : missing::worst_of(reduction, x.dtype());
  const V values = f.input(x.data()), missing = f.input(*x.mask_or_none());
  const ArrayOf<K> position = f.reduce(x.shape(), mask, {missing::extreme(f, reduction, values, missing, worst)})[0];
  return without_axes<K>(position, x.shape(), mask, keepdims);
}
template <class K>
ArrayOf<K> BasicMaskedArray<K>::argmin(std::optional<int64_t> axis, const std::optional<Scalar>& fill_value,
                                       bool keepdims) const {
  return extreme_position(*this, "argmin"_reduction, axis, fill_value, keepdims);
}
template <class K>
ArrayOf<K> BasicMaskedArray<K>::argmax(std::optional<int64_t> axis, const std::optional<Scalar>& fill_value,
                                       bool keepdims) const {
  return extreme_position(*this, "argmax"_reduction, axis, fill_value, keepdims);
}

template <class K>
ArrayOf<K> BasicMaskedArray<K>::count(const Axes& axis, bool keepdims) const {
  const uint32_t axes = axis.mask(ndim());
  if (!mask_) {
    int64_t items = 1;
    for (int d = 0; d < ndim(); ++d)
      if ((axes >> d & 1u) != 0) items *= shape()[d];
    return functions::full(reduced_shape(shape(), axes, keepdims), Scalar(items), DType::int64);
  }
  typename K::Fusing f;
  const ValueOf<K> missing = f.input(*mask_);
  return without_axes<K>(f.reduce(shape(), axes, {missing::count(f, missing)})[0], shape(), axes, keepdims);
}

template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::anom(const Axes& axis, std::optional<DType> dtype) const {
  return MaskedOperators<K>::apply("subtract"_op, {*this, mean(axis, {.dtype = dtype, .keepdims = true})});
}

template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::cumsum(std::optional<int64_t> axis, std::optional<DType> dtype) const {
  const Array data = functions::cumsum(filled(Operand(0)), axis, dtype);
  return BasicMaskedArray(data, mask_ && !axis ? std::optional(functions::ravel(*mask_)) : mask_);
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::cumprod(std::optional<int64_t> axis, std::optional<DType> dtype) const {
  const Array data = functions::cumprod(filled(Operand(1)), axis, dtype);
  return BasicMaskedArray(data, mask_ && !axis ? std::optional(functions::ravel(*mask_)) : mask_);
}

// ---- Shapes and elements ----

template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::ravel() const {
  return alike([](const Array& x) { return functions::ravel(x); });
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::reshape(const Dims& shape) const {
  return alike([&](const Array& x) { return functions::reshape(x, shape); });
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::transpose(const Axes& axes) const {
  return alike([&](const Array& x) { return functions::transpose(x, axes); });
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::swapaxes(int64_t axis1, int64_t axis2) const {
  return alike([&](const Array& x) { return functions::swapaxes(x, axis1, axis2); });
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::squeeze(const Axes& axis) const {
  return alike([&](const Array& x) { return functions::squeeze(x, axis); });
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::astype(DType dtype) const {
  return BasicMaskedArray(data_.astype(dtype), mask_).with_fill_of(*this);
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::real() const {
  return BasicMaskedArray(functions::real(data_), mask_).with_fill_of(*this);
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::imag() const {
  return BasicMaskedArray(functions::imag(data_), mask_).with_fill_of(*this);
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::conj() const {
  return MaskedOperators<K>::apply("conjugate"_op, {*this});
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::round(int64_t decimals) const {
  return BasicMaskedArray(functions::round(data_, decimals), mask_).with_fill_of(*this);
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::clip(const std::optional<Scalar>& low,
                                              const std::optional<Scalar>& high) const {
  return BasicMaskedArray(functions::clip(data_, low, high), mask_).with_fill_of(*this);
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::take(const Array& indices, std::optional<int64_t> axis) const {
  return BasicMaskedArray(functions::take(data_, indices, axis),
                          mask_ ? std::optional(functions::take(*mask_, indices, axis)) : std::nullopt);
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::repeat(int64_t repeats, std::optional<int64_t> axis) const {
  return alike([&](const Array& x) { return functions::repeat(x, repeats, axis); });
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::diagonal(int64_t offset, int64_t axis1, int64_t axis2) const {
  return alike([&](const Array& x) { return functions::diagonal(x, offset, axis1, axis2); });
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::compress(const Array& condition, std::optional<int64_t> axis) const {
  return alike([&](const Array& x) { return functions::compress(condition, x, axis); });
}
template <class K>
ArrayOf<K> BasicMaskedArray<K>::trace(int64_t offset, int64_t axis1, int64_t axis2, std::optional<DType> dtype) const {
  const BasicMaskedArray lines = diagonal(offset, axis1, axis2);
  const Array numbers = (dtype ? lines.astype(*dtype) : lines).filled(Operand(0));
  return functions::reduce("sum"_reduction, numbers, Axes(-1), {});
}
template <class K>
ArrayOf<K> BasicMaskedArray<K>::argsort(std::optional<int64_t> axis, bool endwith) const {
  Array keys = data_;
  if (mask_) {
    // numpy.ma sorts masked floats as NaN, so that they come behind those that are infinite.
    const Scalar worst = endwith && is_float(dtype())
                             ? Scalar::strong(std::numeric_limits<double>::quiet_NaN(), dtype())
                             : missing::worst_of(endwith ? "min"_reduction : "max"_reduction, dtype());
    typename K::Fusing f;
    keys = f.run({f("where"_op, f.input(*mask_), ValueOf<K>(worst), f.input(data_))})[0];
  }
  return functions::argsort(keys, axis);
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::sort(std::optional<int64_t> axis, bool endwith) const {
  if (!axis) return ravel().sort(0, endwith);
  const Array order = argsort(axis, endwith);
  return alike([&](const Array& x) { return functions::take_along_axis(x, order, *axis); });
}
template <class K>
std::vector<ArrayOf<K>> BasicMaskedArray<K>::nonzero() const {
  return functions::nonzero(filled(Operand(0)));
}
template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::copy() const {
  return alike([](const Array& x) { return functions::copy(x); });
}

template <class K>
BasicMaskedArray<K> BasicMaskedArray<K>::get(std::span<const typename K::IndexTerm> index) const {
  return alike([&](const Array& x) { return functions::get(x, index); });
}

template <class K>
void BasicMaskedArray<K>::set(std::span<const typename K::IndexTerm> index, const Operand& value) {
  if (!value.is_masked_word()) functions::assign(data_, index, value.data());
  if (!mask_ && !value.mask()) return;
  mask_ = mask_ ? functions::own(*mask_) : functions::full(shape(), Scalar(false), DType::bool_);
  functions::assign(*mask_, index, value.mask() ? typename K::Operand(*value.mask()) : typename K::Operand(false));
}

template <class K>
std::string BasicMaskedArray<K>::to_string() const {
  return functions::str(*this);
}
template <class K>
std::string BasicMaskedArray<K>::repr() const {
  return functions::repr(*this);
}
