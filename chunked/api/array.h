// The lazy logical array. An immutable handle: building never computes; compute, persist, store and to_host run
// (collectively: every rank calls them).
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/grid/grid.h"
#include "quarry/io/filter.h"
#include "quarry/local/ndarray/methods.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::expr {
struct Node;  // chunked/expr/node.h
}

namespace quarry {

using local::DType;
using local::NdArray;
using local::Scalar;
using local::Slice;

// Methods: local/ndarray/methods.h. They are lazy.
class Array : public local::ArrayMethods<Array, Array> {
 public:
  Array() = default;
  explicit Array(std::shared_ptr<const expr::Node> node) : node_(std::move(node)) {}
  // Numbers in nested braces, {{1, 2}, {3, 4.5}}, as one chunk.
  Array(std::initializer_list<local::ArrayLiteral> list) : Array(from_local(NdArray(list))) {}
  // A small local array, the same on every rank, as one chunk.
  static Array from_local(const NdArray& array);

  const Dims& shape() const;
  int64_t shape(int64_t axis) const { return shape()[local::normalize_axis(axis, ndim())]; }
  int ndim() const { return shape().size(); }
  int64_t size() const { return local::element_count(shape()); }
  DType dtype() const;
  int64_t nbytes() const { return size() * local::itemsize(dtype()); }
  const Grid& chunks() const;
  const std::shared_ptr<const expr::Node>& node() const { return node_; }

  // Lazy views; see NumPy. Errors as local::resolve_index.
  Array operator[](std::span<const local::IndexItem> index) const;
  Array operator[](std::initializer_list<local::IndexItem> index) const {
    return (*this)[std::span<const local::IndexItem>(index.begin(), index.size())];
  }
  // x(0, _), x(slice(1, -1), newaxis), x[3]: integers, slices, newaxis and ellipsis.
  template <local::BasicTerm... Terms>
  requires(sizeof...(Terms) > 0) Array operator()(const Terms&... terms) const {
    const local::IndexItem items[] = {local::index_item(terms)...};
    return (*this)[std::span<const local::IndexItem>(items)];
  }
  template <local::BasicTerm Term>
  Array operator[](const Term& term) const {
    return (*this)(term);
  }
  // x[mask] and x[positions]: boolean_index() and take() along axis 0 (selection.h). Collective, blocking.
  Array operator[](const Array& index) const;
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

  // Blocking, collective. The value on every rank, in host memory.
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
  template <local::Literal T>
  operator T() const {
    return item<T>();
  }

  // Shape, dtype and chunks: "Array(shape=(4096, 64), dtype=float64, chunks=(1024, 64))". Computes nothing.
  std::string repr() const;
  const Array& value() const { return *this; }  // the methods' array

 private:
  std::shared_ptr<const expr::Node> node_;
};

// As repr(): std::cout << x.
std::ostream& operator<<(std::ostream& out, const Array& array);

// Several arrays in one plan: shared parts run once. Collective.
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
};
// Computes the arrays in one plan and writes them; the file changes only when all succeeded. Collective, blocking.
void store(const std::string& file, const std::vector<StoreItem>& items, const StoreOptions& options = {});

// store() of one array.
void to_hdf5(const std::string& file, const std::string& object, const Array& array, const StoreOptions& options = {});

// A lazy array over a data set of an HDF5 file. Collective: rank 0 reads the metadata. Throws as io::Dataset::open.
Array open_hdf5(const std::string& file, const std::string& object);

// Many files as one lazy array: the data sets `object` of all files whose names match the pattern (as a shell's: *, ?,
// [a-z]), in the order of their names, one after the other along the axis. Collective: each rank opens a part of the
// files. Throws as the other one, InvalidArgument where no file matches or one's shape does not continue the first
// one's, and IndexError for an axis that they do not have.
Array open_hdf5(const std::string& pattern, const std::string& object, int64_t axis);

}  // namespace quarry
