// The lazy logical array. A handle of something immutable: building never computes; compute, persist, store and to_host
// run (collectively: every rank calls them). An assignment to elements makes the handle name a new array; other handles
// keep the old one.
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/chunked/grid/grid.h"
#include "quarry/io/filter.h"
#include "quarry/local/ndarray/methods.h"
#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/program/op.h"

namespace quarry::expr {
struct Node;  // chunked/expr/node.h
}

namespace quarry {

using local::DType;
using local::NdArray;
using local::Scalar;
using local::Slice;

class Array;
class Elements;
class IndexTerm;
class Operand;  // chunked/api/operand.h
class View;

namespace detail {

// What may stand between the brackets of x(...): positions, slices, arrays of positions or of bools, and lists of such
// arrays, as nonzero() gives.
template <class T>
concept ArrayTerms = std::is_base_of_v<std::vector<Array>, T>;
template <class T>
concept ChunkedIndexLike = local::detail::BasicTerm<T> || ArrayTerms<T> || std::is_constructible_v<IndexTerm, const T&>;

}  // namespace detail

// Methods: local/ndarray/methods.h. They are lazy.
class Array : public local::ArrayMethods<Array, Array> {
 public:
  Array() = default;
  Array(const Array&) = default;
  Array(Array&&) noexcept = default;
  ~Array() = default;
  // Only what has a name is assigned to: x.T() = y would write nothing.
  Array& operator=(const Array&) & = default;
  Array& operator=(Array&&) & noexcept = default;
  explicit Array(std::shared_ptr<const expr::Node> node) : node_(std::move(node)) {}
  // Numbers in nested braces, {{1, 2}, {3, 4.5}}, as one chunk.
  Array(std::initializer_list<local::ArrayLiteral> list) : Array(from_local(NdArray(list))) {}
  // A small local array, the same on every rank, as one chunk.
  static Array from_local(const NdArray& array);

  const Dims& shape() const;
  int64_t shape(int64_t axis) const { return shape()[local::detail::normalize_axis(axis, ndim())]; }
  int ndim() const { return shape().size(); }
  int64_t size() const { return local::detail::element_count(shape()); }
  DType dtype() const;
  int64_t nbytes() const { return size() * local::itemsize(dtype()); }
  const Grid& chunks() const;
  const std::shared_ptr<const expr::Node>& node() const { return node_; }

  // Lazy views; see NumPy. Errors as local::resolve_index.
  Array operator[](std::span<const local::IndexItem> index) const&;
  View operator[](std::span<const local::IndexItem> index) &;
  Array operator[](std::initializer_list<local::IndexItem> index) const&;
  View operator[](std::initializer_list<local::IndexItem> index) &;
  // x(0, _), x(slice(1, -1), newaxis), x(rows, 2), x(mask); with one term also x[3], x[mask]. With arrays and masks
  // they are index() (selection.h), collective and blocking. Of a variable a View or Elements, which can be assigned
  // to: x(mask) = 0., x(_, 0) += y.
  template <detail::ChunkedIndexLike... Terms>
  requires(sizeof...(Terms) > 0) auto operator()(const Terms&... terms) const&;
  template <detail::ChunkedIndexLike... Terms>
  requires(sizeof...(Terms) > 0) auto operator()(const Terms&... terms) &;
  template <detail::ChunkedIndexLike Term>
  auto operator[](const Term& term) const& {
    return (*this)(term);
  }
  template <detail::ChunkedIndexLike Term>
  auto operator[](const Term& term) & {
    return (*this)(term);
  }
  Array T() const;
  Array transpose(std::span<const int64_t> axes = {}) const;
  template <std::integral... Each>
  requires(sizeof...(Each) > 0) Array transpose(Each... axes)
  const {
    const int64_t order[] = {static_cast<int64_t>(axes)...};
    return transpose(std::span<const int64_t>(order));
  }
  Array reshape(const Dims& shape) const;
  template <std::integral... Extents>
  requires(sizeof...(Extents) > 0) Array reshape(Extents... extents)
  const { return reshape(Dims{static_cast<int64_t>(extents)...}); }
  Array astype(DType dtype) const;
  Array rechunk(const Dims& chunk) const;  // -1: the whole axis
  Array rechunk(const Grid& grid) const;

  // The functions of these names (sorting.h).
  Array argsort(std::optional<int64_t> axis = -1, std::optional<std::string_view> kind = std::nullopt) const;
  Array argpartition(const local::Ints& kth, std::optional<int64_t> axis = -1) const;
  Array topk(int64_t k, int64_t axis = -1) const;
  Array argtopk(int64_t k, int64_t axis = -1) const;

  // Blocking, collective. The value on every rank, in host memory that is the caller's: the budget holds it only until
  // it is complete. Throws BudgetError, before anything runs, where it does not fit the memory budget of every rank (on
  // GPUs: device and host budget together); to_hdf5() writes arrays of any size.
  NdArray to_host() const;
  // Computes and keeps the chunks with their owners, in memory or spilled.
  Array persist() const;
  Array compute() const { return persist(); }
  // Computes the array and writes it as a new file with that object. Collective, blocking.
  void to_hdf5(const std::string& file, const std::string& object) const;
  // The value of a one-element array, on every rank: double m = x.mean(). Blocking, collective. Throws InvalidArgument
  // for any other size.
  template <class T>
  T item() const {
    return to_host().item<T>();
  }
  template <local::detail::Literal T>
  operator T() const {
    return item<T>();
  }

  // Shape, dtype and chunks: "Array(shape=(4096, 64), dtype=float64, chunks=(1024, 64))". Computes nothing.
  std::string repr() const;
  const Array& value() const { return *this; }  // the methods' array

 private:
  std::shared_ptr<const expr::Node> node_;
};

// One entry of a general index: an integer, a slice, newaxis, ellipsis, an array of integers or a mask. A bool is a
// mask of no axes.
class IndexTerm {
 public:
  using Variant = std::variant<int64_t, Slice, local::NewAxis, local::Ellipsis, Array>;
  template <local::detail::BasicTerm T>
  IndexTerm(const T& term) {
    if constexpr (std::is_integral_v<T>)
      value_ = static_cast<int64_t>(term);
    else
      value_ = term;
  }
  IndexTerm(const Array& array) : value_(array) {}
  IndexTerm(const NdArray& array) : value_(Array::from_local(array)) {}
  IndexTerm(const std::vector<int64_t>& positions) : IndexTerm(local::from_vector(positions)) {}
  IndexTerm(const Elements& elements);
  template <std::same_as<bool> T>
  IndexTerm(T truth) : IndexTerm(local::from_vector<bool>({truth}, {})) {}
  const Variant& value() const { return value_; }

 private:
  Variant value_;
};
// x[index] and x with x[index] = value (selection.h, assignment.h).
Array index(const Array& x, std::span<const IndexTerm> terms);
Array assigned(const Array& x, std::span<const IndexTerm> terms, const Operand& value);

namespace detail {

Array updated(const Array& x, std::span<const IndexTerm> terms, local::detail::Op op, const Operand& value);

}  // namespace detail

// What a basic index of a variable gives: an array, and a place for values in the expression that makes it.
//   x[0] = y;             // x names a new array; y broadcasts and is cast
//   Array row = x[0];     // names the elements as they are; row = y names another array
class View : public Array {
 public:
  View(Array elements, Array& array, std::span<const local::IndexItem> index)
      : Array(std::move(elements)), array_(&array), index_(index.begin(), index.end()) {}
  View(const View&) = default;
  View(View&&) noexcept = default;
  ~View() = default;
  // Lazy. Throw as assigned() and updated() (assignment.h); then the variable is as before.
  void operator=(const Operand& value) &&;
  void operator=(const View& value) &&;
  void operator=(const Elements& value) &&;
#define QUARRY_OPERATOR(symbol, name) void operator symbol##=(const Operand& value)&&;
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_OPERATOR

 private:
  std::vector<IndexTerm> terms() const;
  Array* array_;
  std::vector<local::IndexItem> index_;
};

// What an index with arrays or masks of a variable gives: elements that are read when an array is wanted. Where they
// are used more than once, a name saves reading again: Array y = x[mask].
class Elements : public local::ArrayMethods<Elements, Array> {
 public:
  Elements(Array& array, std::vector<IndexTerm> index) : array_(&array), index_(std::move(index)) {}
  Elements(const Elements&) = delete;
  ~Elements() = default;
  Array value() const { return index(*array_, index_); }  // collective, blocking
  operator Array() const { return value(); }
  // Of repeated positions the last value counts, and += adds once. Throw as assigned() and updated() (assignment.h);
  // then the variable is as before.
  void operator=(const Operand& value) &&;
  void operator=(const View& value) &&;
  void operator=(const Elements& value) &&;
#define QUARRY_OPERATOR(symbol, name) void operator symbol##=(const Operand& value)&&;
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_OPERATOR

  // Of the array that is read.
  DType dtype() const { return array_->dtype(); }
  Dims shape() const { return value().shape(); }
  int ndim() const { return value().ndim(); }
  int64_t size() const { return value().size(); }
  Grid chunks() const { return value().chunks(); }
  Array T() const { return value().T(); }
  Array reshape(const Dims& shape) const { return value().reshape(shape); }
  Array astype(DType dtype) const { return value().astype(dtype); }
  Array rechunk(const Dims& chunk) const { return value().rechunk(chunk); }
  Array persist() const { return value().persist(); }
  NdArray to_host() const { return value().to_host(); }
  template <class T>
  T item() const {
    return value().template item<T>();
  }

 private:
  Array* array_;
  std::vector<IndexTerm> index_;
};

inline IndexTerm::IndexTerm(const Elements& elements) : value_(elements.value()) {}

namespace detail {

template <class T>
void append_terms(std::vector<IndexTerm>& index, const T& term) {
  if constexpr (ArrayTerms<T>)
    index.insert(index.end(), term.begin(), term.end());
  else
    index.emplace_back(term);
}
template <class... Terms>
std::vector<IndexTerm> index_terms(const Terms&... terms) {
  std::vector<IndexTerm> index;
  (append_terms(index, terms), ...);
  return index;
}

}  // namespace detail

inline Array Array::operator[](std::initializer_list<local::IndexItem> index) const& {
  return (*this)[std::span<const local::IndexItem>(index.begin(), index.size())];
}
inline View Array::operator[](std::span<const local::IndexItem> index) & {
  return {std::as_const(*this)[index], *this, index};
}
inline View Array::operator[](std::initializer_list<local::IndexItem> index) & {
  return (*this)[std::span<const local::IndexItem>(index.begin(), index.size())];
}
template <detail::ChunkedIndexLike... Terms>
requires(sizeof...(Terms) > 0) auto Array::operator()(const Terms&... terms) const& {
  if constexpr ((local::detail::BasicTerm<Terms> && ...)) {
    const local::IndexItem items[] = {local::detail::index_item(terms)...};
    return (*this)[std::span<const local::IndexItem>(items)];
  } else {
    return index(*this, detail::index_terms(terms...));
  }
}
template <detail::ChunkedIndexLike... Terms>
requires(sizeof...(Terms) > 0) auto Array::operator()(const Terms&... terms) & {
  if constexpr ((local::detail::BasicTerm<Terms> && ...)) {
    const local::IndexItem items[] = {local::detail::index_item(terms)...};
    return (*this)[std::span<const local::IndexItem>(items)];
  } else {
    return Elements(*this, detail::index_terms(terms...));
  }
}

// As repr(): std::cout << x.
std::ostream& operator<<(std::ostream& out, const Array& array);

// Several arrays in one plan: shared parts run once. Collective. to_host() throws BudgetError where the values together
// do not fit the memory budget.
std::vector<NdArray> to_host(std::span<const Array> arrays);
std::vector<Array> persist(std::span<const Array> arrays);

struct StoreItem {
  std::string path;  // object in the file
  Array array;
};
struct StoreOptions {
  bool overwrite = false;
  std::optional<Dims> chunks = {};  // of the file; default: contiguous unless filtered
  std::vector<io::Filter> filters = {};
  int version = 0;  // Zarr: 2 or 3; 0: that of the folder that is there, else 2
  // The output is kept where the run ends before it is complete: FILE.partial and, beside it, what is done and on the
  // device. The next store() of the same arrays with this option, on any number of ranks, goes on with it and makes
  // only what is missing; the result has the same bits. Throws InvalidArgument where what is kept is of other inputs,
  // chunks or expressions, NotSupported for formats other than HDF5, Zarr and .npy.
  bool resume = false;
  // HDF5: axes that can grow later, from the end where negative. They need chunks, which are chosen where none are
  // given.
  std::vector<int> unlimited = {};
  // HDF5: names of the axes, one for each of an array that has so many. A data set of one axis and that name beside the
  // array, there already or stored with it, becomes its scale of coordinates, else an empty scale is made.
  std::vector<std::string> dims = {};
  // HDF5: the array becomes elements [n, n + m) along this axis of the data set that is there, whose extent along it is
  // n, and m the array's; made, unlimited along it, where there is none. Throws InvalidArgument where other extents or
  // the dtype differ, or the data set cannot grow along the axis.
  std::optional<int> append = {};
  // HDF5: the array becomes the elements at this index of the data set that is there: integers, slices of step 1, and
  // an ellipsis. Throws InvalidArgument where its shape or dtype is another, IndexError where the index passes the
  // data set's end.
  std::optional<std::vector<local::IndexItem>> region = {};
};
// Computes the arrays in one plan and writes them; the file changes only when all succeeded. Collective, blocking.
// With `append` or `region` the file itself is changed, without a copy where its layout allows that: no other program
// may have it open meanwhile (IoError), and a change that is interrupted is completed when quarry next opens the file.
// An array that was opened before then has the new elements.
void store(const std::string& file, const std::vector<StoreItem>& items, const StoreOptions& options = {});

// store() of one array.
void to_hdf5(const std::string& file, const std::string& object, const Array& array, const StoreOptions& options = {});

// How data sets are taken.
struct OpenOptions {
  // By netCDF's (CF) conventions: stored numbers are scaled by the attributes scale_factor and add_offset, and missing
  // ones (_FillValue, missing_value, valid_min, valid_max, valid_range) are NaN, as ma::unpacked() says.
  bool decode = false;
};
// A lazy array over a data set of an HDF5 file. Collective: rank 0 reads the metadata. Throws as io::Dataset::open.
Array open_hdf5(const std::string& file, const std::string& object, const OpenOptions& options = {});

// Many files as one lazy array: the data sets `object` of all files whose names match the pattern (as a shell's: *, ?,
// [a-z]), in the order of their names, one after the other along the axis. Collective: each rank opens a part of the
// files. Throws as the other one, InvalidArgument where no file matches or one's shape does not continue the first
// one's, and IndexError for an axis that they do not have.
Array open_hdf5(const std::string& pattern, const std::string& object, int64_t axis, const OpenOptions& options = {});

}  // namespace quarry
