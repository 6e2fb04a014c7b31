// NumPy's array manipulation: shape, axes, joining, splitting, tiling, rearranging, padding, diagonals.
//
// Names, parameters and defaults are NumPy 2's. A function that only rearranges axes, extents or strides returns a
// view; the others return new arrays in C order on the device of their arguments, made by one copy kernel per part.
// None waits for its result unless it says so. All throw IndexError for an axis out of range, InvalidArgument for
// shapes that do not fit and for arrays on different devices, TypeError for casts that are not allowed, OutOfMemory.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/local/ops/arguments.h"

namespace quarry::local {

// The nested lists of block(): an array, or a list of such.
class Blocks {
 public:
  Blocks(const NdArray& array) : array_(array) {}
  Blocks(std::initializer_list<Blocks> list) : list_(list), is_list_(true) {}
  Blocks(std::vector<Blocks> list) : list_(std::move(list)), is_list_(true) {}
  bool is_list() const { return is_list_; }
  const NdArray& array() const { return array_; }
  const std::vector<Blocks>& list() const { return list_; }

 private:
  NdArray array_;
  std::vector<Blocks> list_;
  bool is_list_ = false;
};

namespace ops {

// --- Shape -----------------------------------------------------------------------------------------------------------

// One extent may be -1. order 'F' reads and writes elements with the first index fastest, 'A' does so where the array
// lies that way in memory. A view where strides allow; `copy` true always copies, false throws InvalidArgument instead
// of copying.
NdArray reshape(const NdArray& a, const Ints& shape, std::string_view order = "C",
                std::optional<bool> copy = std::nullopt);
// One axis; 'K' takes the elements in the order in which they lie in memory. A view where strides allow.
NdArray ravel(const NdArray& a, std::string_view order = "C");
Dims shape(const NdArray& a);
int64_t ndim(const NdArray& a);
int64_t size(const NdArray& a, const Axes& axis = {});
NdArray expand_dims(const NdArray& a, const Ints& axis);
// Throws InvalidArgument where an axis given has not one element.
NdArray squeeze(const NdArray& a, const Axes& axis = {});
// One array, or a list of them, for one argument or several.
std::variant<NdArray, std::vector<NdArray>> atleast_1d(const std::vector<NdArray>& arys);
std::variant<NdArray, std::vector<NdArray>> atleast_2d(const std::vector<NdArray>& arys);
std::variant<NdArray, std::vector<NdArray>> atleast_3d(const std::vector<NdArray>& arys);

// --- Axes ------------------------------------------------------------------------------------------------------------

NdArray transpose(const NdArray& a, const Axes& axes = {});
NdArray matrix_transpose(const NdArray& x);  // the last two axes
NdArray moveaxis(const NdArray& a, const Ints& source, const Ints& destination);
NdArray rollaxis(const NdArray& a, int64_t axis, int64_t start = 0);
NdArray swapaxes(const NdArray& a, int64_t axis1, int64_t axis2);
// Views that run backwards along the axes given.
NdArray flip(const NdArray& m, const Axes& axis = {});
NdArray fliplr(const NdArray& m);
NdArray flipud(const NdArray& m);
NdArray rot90(const NdArray& m, int64_t k = 1, const Ints& axes = {0, 1});

// --- Broadcasting and windows ----------------------------------------------------------------------------------------

// Read-only views. broadcast_arrays() gives an array that has the shape already as it is.
NdArray broadcast_to(const NdArray& array, const Ints& shape, bool subok = false);
std::vector<NdArray> broadcast_arrays(const std::vector<NdArray>& args, bool subok = false);
Dims broadcast_shapes(const std::vector<Ints>& args);
struct Broadcast {
  Dims shape;
  int64_t size = 1, nd = 0, ndim = 0, numiter = 0;
  static constexpr const char* kFields[] = {"shape", "size", "nd", "ndim", "numiter"};
  auto tie() const { return std::tie(shape, size, nd, ndim, numiter); }
};
Broadcast broadcast(const std::vector<NdArray>& args);
// Every window of `window_shape` along `axis` (all axes by default), whose extents follow as new axes. A view,
// read-only unless `writeable`.
NdArray sliding_window_view(const NdArray& x, const Ints& window_shape, const Axes& axis = {}, bool subok = false,
                            bool writeable = false);
// A view with other extents and strides in bytes, read-only unless `writeable`. Throws InvalidArgument where an element
// would lie outside of the memory of x.
NdArray as_strided(const NdArray& x, const std::optional<Dims>& shape = std::nullopt,
                   const std::optional<Dims>& strides = std::nullopt, bool subok = false, bool writeable = true);

// --- Joining ---------------------------------------------------------------------------------------------------------

// No axis joins the arrays as ravel() gives them. The result's dtype is that of `out`, `dtype`, or what the arrays'
// dtypes promote to; `casting` must allow the conversion.
NdArray concatenate(const std::vector<NdArray>& arrays, std::optional<int64_t> axis = 0,
                    const std::optional<NdArray>& out = std::nullopt, std::optional<DType> dtype = std::nullopt,
                    std::string_view casting = "same_kind");
NdArray stack(const std::vector<NdArray>& arrays, int64_t axis = 0, const std::optional<NdArray>& out = std::nullopt,
              std::optional<DType> dtype = std::nullopt, std::string_view casting = "same_kind");
NdArray vstack(const std::vector<NdArray>& tup, std::optional<DType> dtype = std::nullopt,
               std::string_view casting = "same_kind");
NdArray hstack(const std::vector<NdArray>& tup, std::optional<DType> dtype = std::nullopt,
               std::string_view casting = "same_kind");
NdArray dstack(const std::vector<NdArray>& tup);
NdArray column_stack(const std::vector<NdArray>& tup);
// The innermost lists are joined along the last axis, the lists around them along the one before, and so on.
NdArray block(const Blocks& arrays);
// Without an axis both are raveled.
NdArray append(const NdArray& arr, const NdArray& values, std::optional<int64_t> axis = std::nullopt);

// --- Splitting -------------------------------------------------------------------------------------------------------

// Views: into that many equal parts, or before the positions given.
std::vector<NdArray> split(const NdArray& ary, const Ints& indices_or_sections, int64_t axis = 0);
std::vector<NdArray> array_split(const NdArray& ary, const Ints& indices_or_sections, int64_t axis = 0);
std::vector<NdArray> hsplit(const NdArray& ary, const Ints& indices_or_sections);
std::vector<NdArray> vsplit(const NdArray& ary, const Ints& indices_or_sections);
std::vector<NdArray> dsplit(const NdArray& ary, const Ints& indices_or_sections);
std::vector<NdArray> unstack(const NdArray& x, int64_t axis = 0);

// --- Repeating and rearranging ---------------------------------------------------------------------------------------

NdArray tile(const NdArray& A, const Ints& reps);
// Each element `repeats` times, one number for all or one for each position along the axis (blocks for their sum).
NdArray repeat(const NdArray& a, const std::variant<int64_t, NdArray>& repeats,
               std::optional<int64_t> axis = std::nullopt);
// Several shifts and axes are paired as by broadcasting; without an axis over the raveled array.
NdArray roll(const NdArray& a, const Ints& shift, const Axes& axis = {});
// The elements in C order, over and over, as many as `new_shape` has.
NdArray resize(const NdArray& a, const Ints& new_shape);
// Elements before and after by axis, of which the last entry counts; other axes get none.
using AxisWidths = std::vector<std::pair<int64_t, std::pair<int64_t, int64_t>>>;
// Changes one line of the padded array in place: a view of it along `axis`, and how many elements at its ends are
// padding (0 so far along this axis and later ones).
using PadFunction = std::function<void(const NdArray& line, std::pair<int64_t, int64_t> widths, int64_t axis)>;
// Modes constant, edge, linear_ramp, maximum, mean, median, minimum, reflect, symmetric, wrap, empty, or a function
// that is called with every line along axis 0, then along axis 1 and so on. `pad_width` as an array, `stat_length`,
// `constant_values` and `end_values` broadcast to (ndim, 2). Throws InvalidArgument for a keyword that the mode does
// not know and for negative widths, IndexError for an axis that does not exist, TypeError for widths that are no
// integers.
NdArray pad(const NdArray& array, const std::variant<AxisWidths, NdArray>& pad_width,
            const std::variant<std::string_view, PadFunction>& mode = "constant",
            const std::optional<NdArray>& stat_length = std::nullopt,
            const std::optional<NdArray>& constant_values = std::nullopt,
            const std::optional<NdArray>& end_values = std::nullopt,
            std::optional<std::string_view> reflect_type = std::nullopt);
// What insert() and delete_() take as a position: an int, a slice, or an array of ints or (delete_) of bools.
using Positions = std::variant<int64_t, Slice, NdArray>;
NdArray insert(const NdArray& arr, const Positions& obj, const NdArray& values,
               std::optional<int64_t> axis = std::nullopt);
NdArray delete_(const NdArray& arr, const Positions& obj, std::optional<int64_t> axis = std::nullopt);

// --- Diagonals and triangles -----------------------------------------------------------------------------------------

// A matrix with v on diagonal k, or a read-only view of that diagonal of a matrix.
NdArray diag(const NdArray& v, int64_t k = 0);
NdArray diagflat(const NdArray& v, int64_t k = 0);
// A read-only view (set_writeable() makes it one to write to); the diagonal is its last axis.
NdArray diagonal(const NdArray& a, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1);
NdArray trace(const NdArray& a, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1,
              std::optional<DType> dtype = std::nullopt, const std::optional<NdArray>& out = std::nullopt);
NdArray tri(int64_t N, std::optional<int64_t> M = std::nullopt, int64_t k = 0,
            std::optional<DType> dtype = std::nullopt);
NdArray tril(const NdArray& m, int64_t k = 0);
NdArray triu(const NdArray& m, int64_t k = 0);

// --- Copies and methods ----------------------------------------------------------------------------------------------

// `order` is that of the new array's memory.
NdArray copy(const NdArray& a, std::string_view order = "K", bool subok = false);
NdArray ascontiguousarray(const NdArray& a, std::optional<DType> dtype = std::nullopt);
NdArray asfortranarray(const NdArray& a, std::optional<DType> dtype = std::nullopt);
NdArray astype(const NdArray& x, DType dtype, bool copy = true, std::optional<Device> device = std::nullopt);

// The methods of arrays that differ from the functions of their names.
NdArray astype_method(const NdArray& a, DType dtype, std::string_view order = "K", std::string_view casting = "unsafe",
                      bool subok = true, bool copy = true);
NdArray copy_method(const NdArray& a, std::string_view order = "C");
NdArray flatten(const NdArray& a, std::string_view order = "C");
NdArray reshape_method(const NdArray& a, const std::vector<Ints>& shape, std::string_view order = "C",
                       std::optional<bool> copy = std::nullopt);
NdArray transpose_method(const NdArray& a, const std::vector<Axes>& axes);
// The same bytes as elements of another dtype. Where sizes differ the last axis must be contiguous and its bytes a
// multiple of the new size. Throws InvalidArgument.
NdArray view(const NdArray& a, std::optional<DType> dtype = std::nullopt);
// A view of the part of every element that a smaller dtype makes of its bytes from `offset` on, and an assignment to
// it. Throws InvalidArgument where the part reaches beyond the element.
NdArray getfield(const NdArray& a, DType dtype, int64_t offset = 0);
void setfield(const NdArray& a, const Arg& val, DType dtype, int64_t offset = 0);
// The array, or a copy of it on the device.
NdArray to_device(const NdArray& a, Device device);
// The bytes of every element (of each part of a complex one) in the other order.
NdArray byteswap(const NdArray& a, bool inplace = false);

}  // namespace ops
}  // namespace quarry::local
