// The bodies of ArrayMethods, for the source that instantiates them. Its namespace `functions` has these functions of
// its arrays: reduce, ravel, flatten, squeeze, swapaxes, matrix_transpose, round, clip, conjugate.
#define QUARRY_METHOD(name)                                                               \
  template <class Self, class Value>                                                      \
  Value ArrayMethods<Self, Value>::name(const Axes& axis, const Options& options) const { \
    return functions::reduce(named_reduction<#name>(), value(), axis, options);           \
  }
QUARRY_METHOD(sum)
QUARRY_METHOD(prod)
QUARRY_METHOD(min)
QUARRY_METHOD(max)
QUARRY_METHOD(any)
QUARRY_METHOD(all)
QUARRY_METHOD(mean)
QUARRY_METHOD(var)
QUARRY_METHOD(std)
QUARRY_METHOD(argmin)
QUARRY_METHOD(argmax)
#undef QUARRY_METHOD

template <class Self, class Value>
Value ArrayMethods<Self, Value>::ravel() const {
  return functions::ravel(value());
}
template <class Self, class Value>
Value ArrayMethods<Self, Value>::flatten() const {
  return functions::flatten(value());
}
template <class Self, class Value>
Value ArrayMethods<Self, Value>::squeeze(const Axes& axis) const {
  return functions::squeeze(value(), axis);
}
template <class Self, class Value>
Value ArrayMethods<Self, Value>::swapaxes(int64_t axis1, int64_t axis2) const {
  return functions::swapaxes(value(), axis1, axis2);
}
template <class Self, class Value>
Value ArrayMethods<Self, Value>::mT() const {
  return functions::matrix_transpose(value());
}
template <class Self, class Value>
Value ArrayMethods<Self, Value>::round(int64_t decimals) const {
  return functions::round(value(), decimals);
}
template <class Self, class Value>
Value ArrayMethods<Self, Value>::clip(const std::optional<Scalar>& low, const std::optional<Scalar>& high) const {
  return functions::clip(value(), low, high);
}
template <class Self, class Value>
Value ArrayMethods<Self, Value>::conj() const {
  return functions::conjugate(value());
}
