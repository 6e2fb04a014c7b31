// The parameters of numpy.ma, for the rows of local/ops/functions/ma.def. Included in a namespace for each kind of
// arrays, which has K (the kind), MaskedArray, Operand and Array, and Tuple (a tuple of arrays).

template <class T>
using Maybe = std::optional<T>;
using Result = Decaying<K>;
using NoOut = Maybe<Refused>;

inline MaskedArray with_axes(MaskedArray x, int64_t ndmin) {
  Dims shape;
  for (int64_t d = x.ndim(); d < ndmin; ++d) shape.push_back(1);
  if (shape.empty()) return x;
  for (const int64_t extent : x.shape()) shape.push_back(extent);
  return x.reshape(shape);
}
// mask=False is numpy.ma's word for none.
inline MaskedArray masked_array_of(const MaskedArray& data, const Maybe<Operand>& mask, Maybe<DType> dtype, Ignored,
                                   Ignored, int64_t ndmin, const Maybe<Scalar>& fill_value, bool keep_mask,
                                   Maybe<bool> hard_mask, Ignored, Ignored) {
  if (hard_mask.value_or(false)) throw local::NotSupported("masked arrays have no hard masks here");
  Maybe<Operand> given = mask;
  if (given && !given->array() && !given->scalar().as_bool()) given.reset();
  // A masked mask is true.
  if (given && given->mask()) given = Operand(MaskedArray(*given->array(), given->mask()).filled(Operand(1)));
  return with_axes(masked_array(data, given, dtype, fill_value, keep_mask), ndmin);
}
inline MaskedArray array_of(const MaskedArray& data, Maybe<DType> dtype, Ignored copy, Ignored order,
                            const Maybe<Operand>& mask, const Maybe<Scalar>& fill_value, bool keep_mask,
                            Maybe<bool> hard_mask, Ignored shrink, Ignored subok, int64_t ndmin) {
  return masked_array_of(data, mask, dtype, copy, subok, ndmin, fill_value, keep_mask, hard_mask, shrink, order);
}
inline MaskedArray asarray(const MaskedArray& a, Maybe<DType> dtype, Ignored) { return dtype ? a.astype(*dtype) : a; }
inline MaskedArray masked_where_of(const Operand& condition, const MaskedArray& a, Ignored) {
  return masked_where(condition, a);
}
#define QUARRY_COMPARED(name) \
  inline MaskedArray name##_of(const MaskedArray& x, const Operand& value, Ignored) { return name(x, value); }
QUARRY_COMPARED(masked_equal)
QUARRY_COMPARED(masked_not_equal)
QUARRY_COMPARED(masked_greater)
QUARRY_COMPARED(masked_greater_equal)
QUARRY_COMPARED(masked_less)
QUARRY_COMPARED(masked_less_equal)
#undef QUARRY_COMPARED
inline MaskedArray masked_inside_of(const MaskedArray& x, const Scalar& v1, const Scalar& v2, Ignored) {
  return masked_inside(x, v1, v2);
}
inline MaskedArray masked_outside_of(const MaskedArray& x, const Scalar& v1, const Scalar& v2, Ignored) {
  return masked_outside(x, v1, v2);
}
inline MaskedArray masked_values_of(const MaskedArray& x, const Scalar& value, double rtol, double atol, Ignored,
                                    Ignored) {
  return masked_values(x, value, rtol, atol);
}
inline MaskedArray masked_invalid_of(const MaskedArray& a, Ignored) { return masked_invalid(a); }
inline MaskedArray fix_invalid_of(const MaskedArray& a, const Maybe<Operand>& mask, Ignored,
                                  const Maybe<Scalar>& fill_value) {
  const bool none = !mask || (!mask->array() && !mask->scalar().as_bool());
  return fix_invalid(a, none ? std::nullopt : mask, fill_value);
}
#define QUARRY_LIKE(name)                                                                                            \
  inline MaskedArray name##_of(const MaskedArray& a, Maybe<DType> dtype, Ignored, Ignored, const Maybe<Dims>& shape, \
                               const Maybe<Refused>&) {                                                              \
    if (!shape || *shape == a.shape()) return name(a, dtype);                                                        \
    const DType type = dtype.value_or(a.dtype());                                                                    \
    return name(MaskedArray(getdata(masked_all(*shape, type))), type);                                               \
  }
QUARRY_LIKE(empty_like)
QUARRY_LIKE(zeros_like)
QUARRY_LIKE(ones_like)
#undef QUARRY_LIKE
inline Scalar default_fill_value_of(const std::variant<DType, MaskedArray>& obj) {
  const auto* dtype = std::get_if<DType>(&obj);
  return local::ma::default_fill_value(dtype != nullptr ? *dtype : std::get<MaskedArray>(obj).dtype());
}

inline Array getdata_of(const MaskedArray& a, Ignored) { return getdata(a); }
inline std::variant<Array, bool> getmask(const MaskedArray& a) {
  if (a.mask_or_none()) return *a.mask_or_none();
  return false;
}
inline void set_fill_value_of(const Changed<K>& a, const Maybe<Scalar>& fill_value) {
  if (a.array != nullptr) a.array->set_fill_value(fill_value);
}
inline Tuple nonzero_of(const MaskedArray& a) {
  Tuple tuple;
  for (const Array& each : nonzero(a)) tuple.push_back(each);
  return tuple;
}
inline std::variant<Result, Tuple> where_of(const Operand& condition, const Maybe<Operand>& x,
                                            const Maybe<Operand>& y) {
  if (x.has_value() != y.has_value()) throw local::InvalidArgument("Must provide both 'x' and 'y' or neither.");
  if (x) return Result{where(condition, *x, *y)};
  const MaskedArray array =
      condition.array() ? MaskedArray(*condition.array(), condition.mask()) : MaskedArray(condition.data_array());
  return nonzero_of(array);
}
inline MaskedArray concatenate_of(const std::vector<MaskedArray>& arrays, Maybe<int64_t> axis) {
  return concatenate(arrays, axis);
}
inline MaskedArray stack_of(const std::vector<MaskedArray>& arrays, int64_t axis, const NoOut&, Maybe<DType> dtype,
                            Ignored) {
  const MaskedArray result = stack(arrays, axis);
  return dtype ? result.astype(*dtype) : result;
}
inline Result dot_of(const MaskedArray& a, const MaskedArray& b, bool strict, const NoOut&) {
  if (strict) throw local::NotSupported("dot(): strict=True of masked arrays");
  return {dot(a, b)};
}
inline Result dot_method(const MaskedArray& a, const MaskedArray& b, const NoOut& out, bool strict) {
  return dot_of(a, b, strict, out);
}

#define QUARRY_TOTAL(name)                                                                                           \
  inline Result name##_of(const MaskedArray& a, const Axes& axis, Maybe<DType> dtype, const NoOut&, bool keepdims) { \
    return {a.name(axis, {.dtype = dtype, .keepdims = keepdims})};                                                   \
  }
QUARRY_TOTAL(sum)
QUARRY_TOTAL(prod)
QUARRY_TOTAL(mean)
#undef QUARRY_TOTAL
#define QUARRY_SPREAD(name)                                                                                      \
  inline Result name##_of(const MaskedArray& a, const Axes& axis, Maybe<DType> dtype, const NoOut&, double ddof, \
                          bool keepdims, const Maybe<Refused>&) {                                                \
    return {a.name(axis, {.dtype = dtype, .ddof = ddof, .keepdims = keepdims})};                                 \
  }
QUARRY_SPREAD(var)
QUARRY_SPREAD(std)
#undef QUARRY_SPREAD
#define QUARRY_EXTREME(name)                                                                           \
  inline Result name##_of(const MaskedArray& a, const Axes& axis, const NoOut&, const Maybe<Refused>&, \
                          bool keepdims) {                                                             \
    return {a.name(axis, {.keepdims = keepdims})};                                                     \
  }
QUARRY_EXTREME(min)
QUARRY_EXTREME(max)
QUARRY_EXTREME(ptp)
#undef QUARRY_EXTREME
#define QUARRY_TRUTH(name)                                                                       \
  inline Result name##_of(const MaskedArray& a, const Axes& axis, const NoOut&, bool keepdims) { \
    return {a.name(axis, {.keepdims = keepdims})};                                               \
  }
QUARRY_TRUTH(any)
QUARRY_TRUTH(all)
#undef QUARRY_TRUTH
inline Array argmin_of(const MaskedArray& a, Maybe<int64_t> axis, const Maybe<Scalar>& fill_value, const NoOut&,
                       bool keepdims) {
  return a.argmin(axis, fill_value, keepdims);
}
inline Array argmax_of(const MaskedArray& a, Maybe<int64_t> axis, const Maybe<Scalar>& fill_value, const NoOut&,
                       bool keepdims) {
  return a.argmax(axis, fill_value, keepdims);
}
inline Array count_of(const MaskedArray& a, const Axes& axis, bool keepdims) { return a.count(axis, keepdims); }
inline Result anom_of(const MaskedArray& a, const Axes& axis, Maybe<DType> dtype) { return {a.anom(axis, dtype)}; }
inline MaskedArray cumsum_of(const MaskedArray& a, Maybe<int64_t> axis, Maybe<DType> dtype, const NoOut&) {
  return a.cumsum(axis, dtype);
}
inline MaskedArray cumprod_of(const MaskedArray& a, Maybe<int64_t> axis, Maybe<DType> dtype, const NoOut&) {
  return a.cumprod(axis, dtype);
}
inline Result median_of(const MaskedArray& a, const Axes& axis, const NoOut&, Ignored, bool keepdims) {
  return {a.median(axis, {.keepdims = keepdims})};
}
using AverageResult = std::variant<Result, std::pair<Result, Result>>;
inline AverageResult average_of(const MaskedArray& a, const Axes& axis, const Maybe<MaskedArray>& weights,
                                bool with_sum, bool keepdims) {
  const auto [mean, sum] = average(a, axis, weights, returned, keepdims);
  if (!with_sum) return Result{mean};
  return std::pair(Result{mean}, Result{sum});
}
inline MaskedArray sort_of(const MaskedArray& a, Maybe<int64_t> axis, Ignored, Ignored, bool endwith,
                           const Maybe<Refused>&, Ignored) {
  return a.sort(axis, endwith);
}
inline Array argsort_of(const MaskedArray& a, Maybe<int64_t> axis, Ignored, Ignored, bool endwith,
                        const Maybe<Refused>&, Ignored) {
  return axis ? a.argsort(axis, endwith) : a.ravel().argsort(-1, endwith);
}

inline void check_order(std::string_view order) {
  if (order != "C") throw local::NotSupported("masked arrays are reshaped in C order");
}
inline MaskedArray ravel_of(const MaskedArray& a, std::string_view order) {
  check_order(order);
  return a.ravel();
}
inline MaskedArray flatten_of(const MaskedArray& a) { return a.ravel().copy(); }
inline MaskedArray reshape_of(const MaskedArray& a, const Dims& shape, std::string_view order) {
  check_order(order);
  return a.reshape(shape);
}
inline MaskedArray reshape_method(const MaskedArray& a, const std::vector<local::Ints>& shape) {
  Dims extents;
  for (const local::Ints& part : shape)
    for (const int64_t extent : part.values()) extents.push_back(extent);
  return a.reshape(extents);
}
inline MaskedArray transpose_of(const MaskedArray& a, const Axes& axes) { return a.transpose(axes); }
inline MaskedArray transpose_method(const MaskedArray& a, const std::vector<Axes>& axes) {
  if (axes.empty()) return a.transpose();
  if (axes.size() == 1) return a.transpose(axes[0]);
  std::vector<int64_t> order;
  for (const Axes& axis : axes) order.insert(order.end(), axis.list().begin(), axis.list().end());
  return a.transpose(Axes(order));
}
inline MaskedArray swapaxes_of(const MaskedArray& a, int64_t axis1, int64_t axis2) { return a.swapaxes(axis1, axis2); }
inline MaskedArray squeeze_of(const MaskedArray& a, const Axes& axis) { return a.squeeze(axis); }
inline MaskedArray astype_of(const MaskedArray& a, DType dtype, Ignored, Ignored, Ignored, Ignored) {
  return a.astype(dtype);
}
inline Result round_of(const MaskedArray& a, int64_t decimals, const NoOut&) { return {a.round(decimals)}; }
inline Result clip_of(const MaskedArray& a, const Maybe<Scalar>& low, const Maybe<Scalar>& high, const NoOut&) {
  return {a.clip(low, high)};
}
inline MaskedArray conj_of(const MaskedArray& a) { return a.conj(); }
inline MaskedArray copy_of(const MaskedArray& a) { return a.copy(); }
inline Result take_of(const MaskedArray& a, const Array& indices, Maybe<int64_t> axis, const NoOut&,
                      std::string_view mode) {
  if (mode != "raise") throw local::NotSupported("take(): masked arrays know mode 'raise' alone");
  return {a.take(indices, axis)};
}
inline MaskedArray repeat_of(const MaskedArray& a, int64_t repeats, Maybe<int64_t> axis) {
  return a.repeat(repeats, axis);
}
inline MaskedArray diagonal_of(const MaskedArray& a, int64_t offset, int64_t axis1, int64_t axis2) {
  return a.diagonal(offset, axis1, axis2);
}
inline Array trace_of(const MaskedArray& a, int64_t offset, int64_t axis1, int64_t axis2, Maybe<DType> dtype,
                      const NoOut&) {
  return a.trace(offset, axis1, axis2, dtype);
}
inline MaskedArray compress_of(const MaskedArray& a, const Array& condition, Maybe<int64_t> axis, const NoOut&) {
  return a.compress(condition, axis);
}
