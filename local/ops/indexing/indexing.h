// Indexing by integers, slices, arrays and masks, and NumPy's functions of that chapter.
//   ops::get(x, {rows, Slice{}, 0}), ops::set(x, {mask}, 0.5), x(rows, columns) += 1 (elements.h)
#pragma once

#include <string_view>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/op.h"

namespace quarry::local {

// One entry of a general index. Integer arrays of any integer dtype, masks (bool arrays) of one or more axes; a bool is
// a mask of no axes. Vectors are brought to the array's device.
class IndexTerm {
 public:
  using Variant = std::variant<int64_t, bool, Slice, NewAxis, Ellipsis, NdArray, std::vector<int64_t>>;
  template <std::integral T>
  IndexTerm(T position) {
    if constexpr (std::is_same_v<T, bool>)
      value_ = position;
    else
      value_ = static_cast<int64_t>(position);
  }
  IndexTerm(Slice slice) : value_(slice) {}
  IndexTerm(NewAxis) : value_(newaxis) {}
  IndexTerm(Ellipsis) : value_(ellipsis) {}
  IndexTerm(NdArray array) : value_(std::move(array)) {}
  IndexTerm(std::vector<int64_t> positions) : value_(std::move(positions)) {}
  const Variant& value() const { return value_; }

 private:
  Variant value_;
};

namespace ops {

// array[index]: a view for integers, slices, newaxis and ellipsis alone; else a copy in C order, with the broadcast
// index arrays' axes where NumPy places them. Throws IndexError (out of bounds, naming index, axis and size; masks and
// index arrays of wrong shapes; too many indices), InvalidArgument (arrays on different devices). Blocks where masks
// must be counted, and on a GPU for integer arrays, whose bounds are known only there.
NdArray get(const NdArray& array, std::span<const IndexTerm> index);
inline NdArray get(const NdArray& array, std::initializer_list<IndexTerm> index) {
  return get(array, std::span<const IndexTerm>(index.begin(), index.size()));
}
// array[index] = value: the value broadcasts and is cast to the array's dtype as astype does. Where positions repeat,
// the last value counts. Nothing is written if a position is out of bounds. Throws as get(), and InvalidArgument for
// values that do not broadcast.
void set(const NdArray& array, std::span<const IndexTerm> index, const Arg& value);
inline void set(const NdArray& array, std::initializer_list<IndexTerm> index, const Arg& value) {
  set(array, std::span<const IndexTerm>(index.begin(), index.size()), value);
}
// array[index] op= value: repeated positions do not accumulate (ufunc_at() does that). Throws TypeError where the
// result does not cast to the array's dtype by same_kind.
void update(const NdArray& array, std::span<const IndexTerm> index, detail::Op op, const Arg& value);
inline void update(const NdArray& array, std::initializer_list<IndexTerm> index, detail::Op op, const Arg& value) {
  update(array, std::span<const IndexTerm>(index.begin(), index.size()), op, value);
}
// op.at(array, index, value): array[index] = op(array[index], value) one element after the other, so that repeated
// positions accumulate; without `value` for ufuncs of one operand. Results are cast to the array's dtype. Sums of
// floats at one position add up in an order that is not fixed on a GPU.
void ufunc_at(detail::Op op, const NdArray& array, std::span<const IndexTerm> index,
              const std::optional<Arg>& value = std::nullopt);
inline void ufunc_at(detail::Op op, const NdArray& array, std::initializer_list<IndexTerm> index,
                     const std::optional<Arg>& value = std::nullopt) {
  ufunc_at(op, array, std::span<const IndexTerm>(index.begin(), index.size()), value);
}

// mode: "raise" (IndexError out of bounds; negative positions count from the end), "wrap" or "clip".

// Elements along an axis, or of the flattened array; the positions' axes replace the axis. `out` must have the result's
// shape.
NdArray take(const NdArray& a, const NdArray& indices, std::optional<int64_t> axis = std::nullopt,
             const std::optional<NdArray>& out = std::nullopt, std::string_view mode = "raise");
// a.flat[ind] = v, repeated as necessary.
void put(const NdArray& a, const NdArray& ind, const Arg& v, std::string_view mode = "raise");
// The elements that argsort, argmin ... along the axis name; the other axes broadcast.
NdArray take_along_axis(const NdArray& arr, const NdArray& indices, std::optional<int64_t> axis = -1);
void put_along_axis(const NdArray& arr, const NdArray& indices, const Arg& values, std::optional<int64_t> axis);
// Element by element from choices[a]; all broadcast. Throws InvalidArgument for positions outside the choices.
NdArray choose(const NdArray& a, const std::vector<Arg>& choices, const std::optional<NdArray>& out = std::nullopt,
               std::string_view mode = "raise");
// The slices along the axis (elements of the flattened array) whose condition is true.
NdArray compress(const NdArray& condition, const NdArray& a, std::optional<int64_t> axis = std::nullopt,
                 const std::optional<NdArray>& out = std::nullopt);
// The method: a.compress(condition).
NdArray compress_array(const NdArray& a, const NdArray& condition, std::optional<int64_t> axis = std::nullopt,
                       const std::optional<NdArray>& out = std::nullopt);
NdArray extract(const NdArray& condition, const NdArray& arr);
// Writes the values one after the other, repeated as necessary, where the mask is true; putmask() writes to a.flat[i]
// the value i, repeated. Throw InvalidArgument unless mask and array have one size.
void place(const NdArray& arr, const NdArray& mask, const NdArray& vals);
void putmask(const NdArray& a, const NdArray& mask, const NdArray& values);
// dst[...] = src where `where` is true; both broadcast to dst. Throws TypeError for casts that the rule forbids.
void copyto(const NdArray& dst, const Arg& src, Casting casting = Casting::same_kind, const Arg& where = true);
// The first choice whose condition is true. Throws TypeError for conditions that are not bool.
NdArray select(const std::vector<NdArray>& condlist, const std::vector<Arg>& choicelist, const Arg& default_ = 0);
// where(condition) is nonzero(condition).
std::variant<NdArray, ArrayTuple> where_or_nonzero(const Arg& condition, const std::optional<Arg>& x = std::nullopt,
                                                   const std::optional<Arg>& y = std::nullopt);
// Positions of the elements that are not zero, in C order: one array per axis; of the flattened array; one row each.
// They block.
ArrayTuple nonzero(const NdArray& a);
NdArray flatnonzero(const NdArray& a);
NdArray argwhere(const NdArray& a);
ArrayTuple ix_(const std::vector<NdArray>& args);
// Flat positions to one array per axis and back; order "C" or "F". Throw InvalidArgument out of bounds.
ArrayTuple unravel_index(const NdArray& indices, const Dims& shape, std::string_view order = "C");
NdArray ravel_multi_index(const std::vector<NdArray>& multi_index, const Dims& dims,
                          const std::variant<std::string, std::vector<std::string>>& mode = std::string("raise"),
                          std::string_view order = "C");
ArrayTuple diag_indices(int64_t n, int64_t ndim = 2);
ArrayTuple diag_indices_from(const NdArray& arr);
// nonzero(mask_func(ones((n, n)), k)).
ArrayTuple mask_indices(int64_t n, const ArrayFunction& mask_func, const Arg& k = 0);
ArrayTuple tril_indices(int64_t n, int64_t k = 0, std::optional<int64_t> m = std::nullopt);
ArrayTuple tril_indices_from(const NdArray& arr, int64_t k = 0);
ArrayTuple triu_indices(int64_t n, int64_t k = 0, std::optional<int64_t> m = std::nullopt);
ArrayTuple triu_indices_from(const NdArray& arr, int64_t k = 0);
// The positions along every axis of a grid, stacked; sparse: a tuple of arrays that broadcast to them.
std::variant<NdArray, ArrayTuple> indices(const Dims& dimensions, DType dtype = DType::int64, bool sparse = false);
void fill_diagonal(const NdArray& a, const Arg& val, bool wrap = false);
// The element at a flat position or at one position per axis; of an array of one element without any. Blocks.
Scalar item(const NdArray& a, const std::vector<Ints>& args = {});
void fill(const NdArray& a, const Scalar& value);

}  // namespace ops
}  // namespace quarry::local
