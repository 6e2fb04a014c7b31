// The bodies of functions.inl, in the same namespaces. `functions` is that of masked_array.inl, and has concatenate,
// stack, dot and zeros besides. Kind is the kind of arrays.

namespace {

using V = Kind::Fusing::Value;

// The mask that an argument means for an array of the shape; none for what masks nothing.
std::optional<Array> mask_of(const Operand& mask, const Dims& shape) {
  if (!mask.array()) {
    // A number stands for all elements.
    return functions::full(shape, Scalar(mask.scalar().as_bool()), DType::bool_);
  }
  Array array = *mask.array();
  if (array.dtype() != DType::bool_) array = array.astype(DType::bool_);
  if (array.shape() == shape) return array;
  const int64_t size = local::element_count(shape);
  if (array.size() == 1) return functions::broadcast_to(functions::reshape(array, Dims{}), shape);
  if (array.size() == size) return functions::reshape(array, shape);
  throw local::InvalidArgument(
      fmt::format("Mask and data not compatible: data size is {}, mask size is {}.", size, array.size()));
}

std::optional<Array> either(const std::optional<Array>& a, const std::optional<Array>& b) {
  if (!a || !b) return a ? a : b;
  const Kind::Operand both[] = {*a, *b};
  return functions::apply("logical_or"_op, both);
}

MaskedArray with_more(const MaskedArray& a, const Array& more) {
  return MaskedArray(a.data(), either(a.mask_or_none(), more), a.given_fill_value());
}

Array full_like(const MaskedArray& a, double value, std::optional<DType> dtype) {
  const DType type = dtype.value_or(a.dtype());
  return functions::full(a.shape(), Scalar::strong(value, type), type);
}

MaskedArray like(const MaskedArray& a, double value, std::optional<DType> dtype) {
  MaskedArray result(full_like(a, value, dtype), a.mask_or_none());
  if (a.given_fill_value()) result.set_fill_value(Scalar::strong(*a.given_fill_value(), result.dtype()));
  return result;
}

// A number that elements are compared with: beyond the range of integers as a float.
V number(const Scalar& value, DType dtype) {
  if (!local::is_float(dtype) && !local::is_complex(dtype) && dtype != DType::bool_ && value.weak() &&
      !local::is_float(value.dtype())) {
    try {
      local::check_weak_fits(value, dtype);
    } catch (const local::InvalidArgument&) {
      return Scalar(value.as_double());
    }
  }
  return value;
}

MaskedArray masked_where_compared(local::detail::Op op, const MaskedArray& x, const Operand& value) {
  const Operand args[] = {x, value};
  return masked_where(apply(op, args), x);
}

}  // namespace

MaskedArray masked_array(const MaskedArray& data, const std::optional<Operand>& mask, std::optional<DType> dtype,
                         const std::optional<Scalar>& fill_value, bool keep_mask) {
  std::optional<Array> own = keep_mask ? data.mask_or_none() : std::nullopt;
  if (mask) own = either(own, mask_of(*mask, data.shape()));
  const Array values = dtype && *dtype != data.dtype() ? data.data().astype(*dtype) : data.data();
  MaskedArray result(values, own, fill_value);
  if (!fill_value && data.given_fill_value())
    result.set_fill_value(Scalar::strong(*data.given_fill_value(), values.dtype()));
  return result;
}

MaskedArray masked_where(const Operand& condition, const MaskedArray& a) {
  const Dims shape = condition.shape();
  if (!shape.empty() && !(shape == a.shape()))
    throw local::IndexError(fmt::format("Inconsistent shape between the condition and the input (got {} and {})",
                                        local::compact_shape(shape), local::compact_shape(a.shape())));
  if (!condition.array()) {
    if (!condition.scalar().as_bool()) return a;
    return with_more(a, functions::full(a.shape(), Scalar(true), DType::bool_));
  }
  // A masked condition is true.
  Array truth = *condition.array();
  if (truth.dtype() != DType::bool_) truth = truth.astype(DType::bool_);
  return with_more(a, *mask_of(Operand(*either(truth, condition.mask())), a.shape()));
}

MaskedArray masked_equal(const MaskedArray& x, const Operand& value) {
  MaskedArray result = masked_where_compared("equal"_op, x, value);
  if (!value.array()) result.set_fill_value(value.scalar());
  return result;
}
MaskedArray masked_not_equal(const MaskedArray& x, const Operand& value) {
  return masked_where_compared("not_equal"_op, x, value);
}
MaskedArray masked_greater(const MaskedArray& x, const Operand& value) {
  return masked_where_compared("greater"_op, x, value);
}
MaskedArray masked_greater_equal(const MaskedArray& x, const Operand& value) {
  return masked_where_compared("greater_equal"_op, x, value);
}
MaskedArray masked_less(const MaskedArray& x, const Operand& value) {
  return masked_where_compared("less"_op, x, value);
}
MaskedArray masked_less_equal(const MaskedArray& x, const Operand& value) {
  return masked_where_compared("less_equal"_op, x, value);
}

namespace {

// Of data as it is: what is masked stays masked whatever the comparison says.
MaskedArray masked_by_bounds(const MaskedArray& x, Scalar low, Scalar high, bool inside) {
  if (high.as_double() < low.as_double()) std::swap(low, high);
  Kind::Fusing f;
  const V value = f.input(x.data());
  const V more = inside ? f("logical_and"_op, f("greater_equal"_op, value, number(low, x.dtype())),
                            f("less_equal"_op, value, number(high, x.dtype())))
                        : f("logical_or"_op, f("less"_op, value, number(low, x.dtype())),
                            f("greater"_op, value, number(high, x.dtype())));
  return with_more(x, f.run({more})[0]);
}

}  // namespace

MaskedArray masked_inside(const MaskedArray& x, const Scalar& v1, const Scalar& v2) {
  return masked_by_bounds(x, v1, v2, /*inside=*/true);
}
MaskedArray masked_outside(const MaskedArray& x, const Scalar& v1, const Scalar& v2) {
  return masked_by_bounds(x, v1, v2, /*inside=*/false);
}

MaskedArray masked_values(const MaskedArray& x, const Scalar& value, double rtol, double atol) {
  Kind::Fusing f;
  const V values = f.input(x.data());
  V is_value = f("equal"_op, values, number(value, x.dtype()));
  if (local::is_float(x.dtype()))
    is_value =
        local::compositions::isclose<V>([&](local::detail::Op op, const auto&... args) { return f(op, args...); },
                                        values, V(value), V(Scalar(rtol)), V(Scalar(atol)),
                                        /*equal_nan=*/false);
  MaskedArray result = with_more(x, f.run({is_value})[0]);
  result.set_fill_value(value);
  return result;
}

MaskedArray masked_invalid(const MaskedArray& a) {
  if (!local::is_float(a.dtype()) && !local::is_complex(a.dtype()))
    return MaskedArray(a.data(), a.mask(), a.given_fill_value());
  Kind::Fusing f;
  return with_more(a, f.run({f("logical_not"_op, f("isfinite"_op, f.input(a.data())))})[0]);
}

MaskedArray fix_invalid(const MaskedArray& a, const std::optional<Operand>& mask,
                        const std::optional<Scalar>& fill_value) {
  const MaskedArray given = masked_array(a, mask);
  if (!local::is_float(a.dtype()) && !local::is_complex(a.dtype())) return given;
  Kind::Fusing f;
  const V x = f.input(given.data()), invalid = f("logical_not"_op, f("isfinite"_op, x));
  const Scalar with = fill_value ? local::ma::checked_fill_value(*fill_value, a.dtype())
                                 : Scalar::strong(given.fill_value(), a.dtype());
  std::vector<V> wanted{f("where"_op, invalid, V(with), x)};
  wanted.push_back(given.mask_or_none() ? f("logical_or"_op, invalid, f.input(*given.mask_or_none())) : invalid);
  const std::vector<Array> made = f.run(wanted);
  return MaskedArray(made[0], made[1], given.given_fill_value());
}

MaskedArray masked_all(const Dims& shape, DType dtype) {
  return MaskedArray(functions::full(shape, Scalar::strong(0, dtype), dtype),
                     functions::full(shape, Scalar(true), DType::bool_));
}
MaskedArray masked_all_like(const MaskedArray& arr) { return masked_all(arr.shape(), arr.dtype()); }
MaskedArray empty_like(const MaskedArray& prototype, std::optional<DType> dtype) { return like(prototype, 0, dtype); }
MaskedArray zeros_like(const MaskedArray& a, std::optional<DType> dtype) { return like(a, 0, dtype); }
MaskedArray ones_like(const MaskedArray& a, std::optional<DType> dtype) { return like(a, 1, dtype); }

MaskedArray masked_missing(const MaskedArray& a, const local::ma::MissingValues& missing) {
  Kind::Fusing f;
  const V x = f.input(a.data());
  std::optional<V> is_missing;
  const auto add = [&](const V& more) { is_missing = is_missing ? f("logical_or"_op, *is_missing, more) : more; };
  std::optional<Scalar> fill_value;
  for (const Scalar& value : missing.values) {
    const Scalar element = Scalar::strong(value, a.dtype());
    const std::complex<double> given = value.as_complex(), kept = element.as_complex();
    const bool is_nan = std::isnan(given.real());
    // A float32 that was written as a float64 is still itself.
    const bool is_rounded = local::is_float(a.dtype()) || local::is_complex(a.dtype());
    if (!is_rounded && given != kept) continue;
    if (is_nan && !is_rounded) continue;
    add(is_nan ? f("isnan"_op, x) : f("equal"_op, x, V(element)));
    if (!fill_value) fill_value = element;
  }
  if (missing.least) add(f("less"_op, x, number(*missing.least, a.dtype())));
  if (missing.most) add(f("greater"_op, x, number(*missing.most, a.dtype())));
  if (!is_missing) return a;
  MaskedArray result = with_more(a, f.run({*is_missing})[0]);
  if (fill_value) result.set_fill_value(fill_value);
  return result;
}

namespace {

DType unsigned_of(DType dtype) {
  constexpr std::pair<DType, DType> kPairs[] = {{DType::int8, DType::uint8},
                                                {DType::int16, DType::uint16},
                                                {DType::int32, DType::uint32},
                                                {DType::int64, DType::uint64}};
  for (const auto& [with, without] : kPairs)
    if (dtype == with) return without;
  return dtype;
}

}  // namespace

MaskedArray unpacked(const MaskedArray& a, const local::ma::MissingValues& missing, const local::ma::Packing& packing) {
  if (local::is_complex(a.dtype()) || a.dtype() == DType::bool_) return masked_missing(a, missing);
  const DType stored = packing.is_unsigned ? unsigned_of(a.dtype()) : a.dtype();
  local::ma::MissingValues values = missing;
  if (stored != a.dtype())
    for (Scalar& value : values.values)
      if (value.as_double() < 0)
        value = Scalar(std::ldexp(1.0, 8 * static_cast<int>(local::itemsize(stored))) + value.as_double());
  const MaskedArray given = stored == a.dtype() ? a : MaskedArray(a.data().astype(stored), a.mask_or_none());
  const MaskedArray known = masked_missing(given, values);
  const bool scaled = packing.scale || packing.offset;
  if (!scaled && (local::is_float(stored) || !missing.any())) return known;
  constexpr int64_t kNarrowInteger = 2, kNarrowFloat = 4;
  const bool narrow = local::is_float(stored) ? local::itemsize(stored) <= kNarrowFloat
                                              : local::itemsize(stored) <= kNarrowInteger && !packing.offset;
  const DType dtype = narrow ? DType::float32 : DType::float64;
  Kind::Fusing f;
  V value = f.input(known.data().astype(dtype));
  if (packing.scale) value = f("multiply"_op, value, V(Scalar::strong(Scalar(*packing.scale), dtype)));
  if (packing.offset) value = f("add"_op, value, V(Scalar::strong(Scalar(*packing.offset), dtype)));
  MaskedArray result(scaled ? f.run({value})[0] : known.data().astype(dtype), known.mask_or_none());
  if (known.mask_or_none()) result.set_fill_value(Scalar(std::numeric_limits<double>::quiet_NaN()));
  return result;
}

Array getdata(const MaskedArray& a) { return a.data(); }
Array getmaskarray(const MaskedArray& arr) { return arr.mask(); }
Array filled(const MaskedArray& a, const std::optional<Operand>& fill_value) { return a.filled(fill_value); }
Array compressed(const MaskedArray& x) {
  const local::Range named("ma.compressed");
  return x.compressed();
}
void set_fill_value(MaskedArray& a, const std::optional<Scalar>& fill_value) { a.set_fill_value(fill_value); }
bool is_masked(const MaskedArray& x) {
  const local::Range named("ma.is_masked");
  return x.is_masked();
}
Array count_masked(const MaskedArray& arr, const Axes& axis) {
  return functions::reduce("count_nonzero"_reduction, arr.mask(), axis, {});
}
std::vector<Array> nonzero(const MaskedArray& a) {
  const local::Range named("ma.nonzero");
  return a.nonzero();
}

MaskedArray apply(local::detail::Op op, std::span<const Operand> args) {
  return local::ma::MaskedOperators<Kind>::apply(op, args);
}

MaskedArray where(const Operand& condition, const Operand& x, const Operand& y) {
  Kind::Fusing f;
  const auto value_of = [&](const Operand& arg) { return arg.array() ? f.input(*arg.array()) : V(arg.scalar()); };
  const auto mask_of_one = [&](const Operand& arg) {
    return arg.mask() ? f.input(*arg.mask()) : V(Scalar::strong(false, DType::bool_));
  };
  // The word `masked` has no dtype of its own here.
  const auto choice = [&](const Operand& arg, const Operand& other) {
    return arg.is_masked_word() && !other.is_masked_word() ? V(Scalar::strong(0, other.dtype())) : value_of(arg);
  };
  V truth = condition.array() ? f.cast(f.input(*condition.array()), DType::bool_)
                              : V(Scalar::strong(condition.scalar(), DType::bool_));
  if (condition.mask()) truth = f("logical_and"_op, truth, f("logical_not"_op, f.input(*condition.mask())));
  std::vector<V> wanted{f("where"_op, truth, choice(x, y), choice(y, x))};
  std::optional<V> missing;
  if (x.mask() || y.mask()) missing = f("where"_op, truth, mask_of_one(x), mask_of_one(y));
  if (condition.mask()) {
    const V mask = f.input(*condition.mask());
    missing = missing ? f("logical_or"_op, *missing, mask) : mask;
  }
  if (missing) wanted.push_back(*missing);
  const std::vector<Array> made = f.run(wanted);
  return MaskedArray(made[0], missing ? std::optional(made[1]) : std::nullopt);
}

namespace {

template <class F>
MaskedArray joined(const std::vector<MaskedArray>& arrays, const F& join) {
  std::vector<Array> data, masks;
  bool any = false;
  for (const MaskedArray& array : arrays) {
    data.push_back(array.data());
    masks.push_back(array.mask());
    any = any || array.mask_or_none();
  }
  return MaskedArray(join(data), any ? std::optional(join(masks)) : std::nullopt);
}

}  // namespace

MaskedArray concatenate(const std::vector<MaskedArray>& arrays, std::optional<int64_t> axis) {
  return joined(arrays, [&](const std::vector<Array>& parts) { return functions::concatenate(parts, axis); });
}
MaskedArray stack(const std::vector<MaskedArray>& arrays, int64_t axis) {
  return joined(arrays, [&](const std::vector<Array>& parts) { return functions::stack(parts, axis); });
}

MaskedArray dot(const MaskedArray& a, const MaskedArray& b) {
  const Array product = functions::dot(a.filled(Operand(0)), b.filled(Operand(0)));
  if (!a.mask_or_none() && !b.mask_or_none()) return product;
  // Terms of two unmasked elements are counted; float32 counts far enough to tell none from some.
  const auto present = [](const MaskedArray& x) {
    Kind::Fusing f;
    return f.run({f.cast(f("logical_not"_op, f.input(x.mask())), DType::float32)})[0];
  };
  Kind::Fusing f;
  const Array count = functions::dot(present(a), present(b));
  return MaskedArray(product, f.run({f("equal"_op, f.input(count), 0)})[0]);
}

bool allequal(const MaskedArray& a, const MaskedArray& b, bool fill_value) {
  const local::Range named("ma.allequal");
  const Operand args[] = {a, b};
  const MaskedArray same = apply("equal"_op, args);
  if (!same.mask_or_none() || fill_value)
    return functions::item(functions::reduce("all"_reduction, same.filled(Operand(true)), Axes(), {})).as_bool();
  return false;
}

std::pair<MaskedArray, MaskedArray> average(const MaskedArray& a, const Axes& axis,
                                            const std::optional<MaskedArray>& weights, Returned, bool keepdims) {
  if (!weights) {
    const MaskedArray mean = a.mean(axis, {.keepdims = keepdims});
    return {mean, MaskedArray(a.count(axis, keepdims).astype(mean.dtype()), mean.mask_or_none())};
  }
  const uint32_t axes = axis.mask(a.ndim());
  DType dtype = local::promote_types(a.dtype(), weights->dtype());
  if (!local::is_float(a.dtype()) && !local::is_complex(a.dtype())) dtype = local::promote_types(dtype, DType::float64);
  MaskedArray weight = *weights;
  if (!(weight.shape() == a.shape())) {
    if (axis.none()) throw local::TypeError("Axis must be specified when shapes of a and weights differ.");
    std::vector<int64_t> list;
    Dims expected, wide;
    for (const int64_t each : axis.list()) list.push_back(local::normalize_axis(each, a.ndim()));
    for (const int64_t each : list) expected.push_back(a.shape()[static_cast<int>(each)]);
    if (!(weight.shape() == expected))
      throw local::InvalidArgument("Shape of weights must be consistent with shape of a along specified axis.");
    // The weights' axes in the order of a's.
    std::vector<int64_t> order(list.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::sort(order.begin(), order.end(),
              [&](int64_t i, int64_t j) { return list[static_cast<size_t>(i)] < list[static_cast<size_t>(j)]; });
    for (int d = 0; d < a.ndim(); ++d) wide.push_back((axes >> d & 1u) != 0 ? a.shape()[d] : 1);
    weight = weight.transpose(Axes(order)).reshape(wide);
  }
  Kind::Fusing f;
  const V x = f.cast(f.input(a.data()), dtype), w = f.cast(f.input(weight.data()), dtype);
  if (!a.mask_or_none() && !weight.mask_or_none()) {
    const std::vector<Array> sums =
        f.reduce(a.shape(), axes, {{"sum"_reduction, f("multiply"_op, x, w), dtype}, {"sum"_reduction, w, dtype}});
    const Operand args[] = {sums[0].astype(dtype), sums[1].astype(dtype)};
    const auto shaped = [&](const MaskedArray& kept) {
      return keepdims ? kept : kept.reshape(local::reduced_shape(a.shape(), axes, false));
    };
    return {shaped(apply("divide"_op, args)), shaped(sums[1].astype(dtype))};
  }
  // The weights of masked elements are 0, and a masked weight masks its element.
  const std::optional<Array>& mask = a.mask_or_none();
  const std::optional<Array>& weight_mask = weight.mask_or_none();
  V missing = mask ? f.input(*mask) : f.input(*weight_mask);
  if (mask && weight_mask) missing = f("logical_or"_op, missing, f.input(*weight_mask));
  const std::vector<Array> sums =
      f.reduce(a.shape(), axes,
               {local::missing::total(f, "sum"_reduction, f("multiply"_op, x, w), missing, dtype),
                local::missing::total(f, "sum"_reduction, w, missing, dtype), local::missing::none(f, missing)});
  const auto shaped = [&](const Array& kept) {
    return keepdims ? kept : functions::reshape(kept, local::reduced_shape(a.shape(), axes, false));
  };
  const Array none = shaped(sums[2]);
  const MaskedArray scale(shaped(sums[1].astype(dtype)), none);
  const Operand args[] = {MaskedArray(shaped(sums[0].astype(dtype)), none), scale};
  return {apply("divide"_op, args), scale};
}
MaskedArray average(const MaskedArray& a, const Axes& axis, const std::optional<MaskedArray>& weights, bool keepdims) {
  return average(a, axis, weights, returned, keepdims).first;
}
