// The functions of numpy.ma, declared in the namespace of each kind of arrays: quarry::local::ma and quarry::ma. Their
// namespace says what MaskedArray, Operand (BasicMaskedOperand) and Array are. Parameters are NumPy's; those that mean
// nothing here (copy, subok, shrink, order) are left out. What blocks or is collective for chunked arrays says so.

// ---- Making masked arrays ----

// Data with a mask: an array of its shape or of as many elements, or one truth value for all. The data's own mask is
// kept and united with it, or replaced where keep_mask is false. Throws InvalidArgument for masks of other sizes,
// TypeError for a fill value that does not fit.
MaskedArray masked_array(const MaskedArray& data, const std::optional<Operand>& mask = std::nullopt,
                         std::optional<DType> dtype = std::nullopt,
                         const std::optional<Scalar>& fill_value = std::nullopt, bool keep_mask = true);
// `a` with what the condition, of its shape or 0-d, says masked too. Throws IndexError for another shape.
MaskedArray masked_where(const Operand& condition, const MaskedArray& a);
// Where x compares so with a number or an array; masked_equal() makes the number the fill value.
MaskedArray masked_equal(const MaskedArray& x, const Operand& value);
MaskedArray masked_not_equal(const MaskedArray& x, const Operand& value);
MaskedArray masked_greater(const MaskedArray& x, const Operand& value);
MaskedArray masked_greater_equal(const MaskedArray& x, const Operand& value);
MaskedArray masked_less(const MaskedArray& x, const Operand& value);
MaskedArray masked_less_equal(const MaskedArray& x, const Operand& value);
// Where x lies between v1 and v2, in any order, bounds included; or beyond them.
MaskedArray masked_inside(const MaskedArray& x, const Scalar& v1, const Scalar& v2);
MaskedArray masked_outside(const MaskedArray& x, const Scalar& v1, const Scalar& v2);
// Where x is close to the value, as isclose() says, or of other dtypes than floats equal to it. It is the fill value.
MaskedArray masked_values(const MaskedArray& x, const Scalar& value, double rtol = 1e-5, double atol = 1e-8);
// Where x is NaN or infinite.
MaskedArray masked_invalid(const MaskedArray& a);
// The same, with the fill value (that of `a`) written into the data there.
MaskedArray fix_invalid(const MaskedArray& a, const std::optional<Operand>& mask = std::nullopt,
                        const std::optional<Scalar>& fill_value = std::nullopt);
MaskedArray masked_all(const Dims& shape, DType dtype = DType::float64);
MaskedArray masked_all_like(const MaskedArray& arr);
// With the mask of a masked prototype.
MaskedArray empty_like(const MaskedArray& prototype, std::optional<DType> dtype = std::nullopt);
MaskedArray zeros_like(const MaskedArray& a, std::optional<DType> dtype = std::nullopt);
MaskedArray ones_like(const MaskedArray& a, std::optional<DType> dtype = std::nullopt);
// Where a data set of files says that elements are missing. The first of the values is the fill value; values that the
// dtype does not have mask nothing.
MaskedArray masked_missing(const MaskedArray& a, const local::ma::MissingValues& missing);
// What the stored numbers mean, by the CF conventions ("Packed Data", "Missing data, valid and actual range of data"):
// missing ones are masked, the others scaled. Floats stay what they are; integers that are scaled, or some of which may
// be missing, become float32 where they have two bytes at most and no offset, else float64. The fill value is then NaN.
MaskedArray unpacked(const MaskedArray& a, const local::ma::MissingValues& missing, const local::ma::Packing& packing);

// ---- Parts ----

Array getdata(const MaskedArray& a);
Array getmaskarray(const MaskedArray& arr);
// The data of arrays without a mask as it is.
Array filled(const MaskedArray& a, const std::optional<Operand>& fill_value = std::nullopt);
Array compressed(const MaskedArray& x);  // blocks; collective
void set_fill_value(MaskedArray& a, const std::optional<Scalar>& fill_value);
bool is_masked(const MaskedArray& x);  // blocks; collective
Array count_masked(const MaskedArray& arr, const Axes& axis = {});
std::vector<Array> nonzero(const MaskedArray& a);  // blocks; collective

// ---- Functions of several arrays ----

// Any ufunc: what MaskedOperators::apply() says.
MaskedArray apply(local::detail::Op op, std::span<const Operand> args);
// x where the condition is true, else y; masked where what is chosen is, or the condition.
MaskedArray where(const Operand& condition, const Operand& x, const Operand& y);
MaskedArray concatenate(const std::vector<MaskedArray>& arrays, std::optional<int64_t> axis = 0);
MaskedArray stack(const std::vector<MaskedArray>& arrays, int64_t axis = 0);
// The product with masked elements as 0; masked where no product of two unmasked elements is added.
MaskedArray dot(const MaskedArray& a, const MaskedArray& b);
// Whether all elements that neither array masks are equal; masked ones count as equal, or not without `fill_value`.
// Blocks; collective.
bool allequal(const MaskedArray& a, const MaskedArray& b, bool fill_value = true);

// ---- Reductions: the methods of these names ----

#define QUARRY_MASKED_REDUCTION(name)                                                                                 \
  template <class = void>                                                                                             \
  MaskedArray name(const MaskedArray& a, const Axes& axis = {}, const local::ma::MaskedReduceOptions& options = {}) { \
    return a.name(axis, options);                                                                                     \
  }                                                                                                                   \
  inline MaskedArray name(const MaskedArray& a, const local::ma::MaskedReduceOptions& options) {                      \
    return a.name(options);                                                                                           \
  }
QUARRY_MASKED_REDUCTION(sum)
QUARRY_MASKED_REDUCTION(prod)
QUARRY_MASKED_REDUCTION(mean)
QUARRY_MASKED_REDUCTION(var)
QUARRY_MASKED_REDUCTION(std)
QUARRY_MASKED_REDUCTION(min)
QUARRY_MASKED_REDUCTION(max)
QUARRY_MASKED_REDUCTION(ptp)
QUARRY_MASKED_REDUCTION(any)
QUARRY_MASKED_REDUCTION(all)
QUARRY_MASKED_REDUCTION(median)
#undef QUARRY_MASKED_REDUCTION
inline Array count(const MaskedArray& a, const Axes& axis = {}, bool keepdims = false) {
  return a.count(axis, keepdims);
}
inline Array argmin(const MaskedArray& a, std::optional<int64_t> axis = std::nullopt) { return a.argmin(axis); }
inline Array argmax(const MaskedArray& a, std::optional<int64_t> axis = std::nullopt) { return a.argmax(axis); }
inline MaskedArray cumsum(const MaskedArray& a, std::optional<int64_t> axis = std::nullopt) { return a.cumsum(axis); }
inline MaskedArray cumprod(const MaskedArray& a, std::optional<int64_t> axis = std::nullopt) { return a.cumprod(axis); }
inline MaskedArray anom(const MaskedArray& a, const Axes& axis = {}) { return a.anom(axis); }
inline MaskedArray sort(const MaskedArray& a, std::optional<int64_t> axis = -1, bool endwith = true) {
  return a.sort(axis, endwith);
}
inline Array argsort(const MaskedArray& a, std::optional<int64_t> axis = -1, bool endwith = true) {
  return a.argsort(axis, endwith);
}

// The mean, or with weights of a's shape or of that of the axes sum(a w) / sum(w) over the unmasked elements; with
// `returned` beside it the sum of the weights. Throws TypeError and InvalidArgument for weights of other shapes.
struct Returned {};
inline constexpr Returned returned{};
MaskedArray average(const MaskedArray& a, const Axes& axis = {},
                    const std::optional<MaskedArray>& weights = std::nullopt, bool keepdims = false);
std::pair<MaskedArray, MaskedArray> average(const MaskedArray& a, const Axes& axis,
                                            const std::optional<MaskedArray>& weights, Returned, bool keepdims = false);

// ---- Ufuncs ----

#define QUARRY_MASKED_1(text, name)                      \
  inline MaskedArray name(const Operand& x) {            \
    const Operand args[] = {x};                          \
    return apply(local::detail::named_op<text>(), args); \
  }
#define QUARRY_MASKED_2(text, name)                             \
  inline MaskedArray name(const Operand& x, const Operand& y) { \
    const Operand args[] = {x, y};                              \
    return apply(local::detail::named_op<text>(), args);        \
  }
#define QUARRY_MASKED_3(text, name)  // where() is above
#define QUARRY_OP(name, aliases, arity, kinds, result, rule, ...) \
  QUARRY_PUBLIC(rule, QUARRY_MASKED_##arity(#name, name)) QUARRY_EACH(QUARRY_MASKED_##arity, #name, aliases)
#define QUARRY_SPECIAL(...)
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_SPECIAL
#undef QUARRY_MASKED_1
#undef QUARRY_MASKED_2
#undef QUARRY_MASKED_3
