// The local ndarray: dtype, shape, strides and offset over a reference-counted buffer on one device.
#pragma once

#include <concepts>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "quarry/local/base/dtype.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/shape.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/ndarray/literal.h"
#include "quarry/local/ndarray/methods.h"

namespace quarry::local {

class Arg;  // local/ops/arguments.h
class View;
namespace detail {
class Buffer;  // local/memory/buffer.h
}

// One entry of a basic index. Slice as Python's: absent bounds mean "all the way".
struct Slice {
  std::optional<int64_t> start, stop, step;
};
struct NewAxis {};
struct Ellipsis {};
using IndexItem = std::variant<int64_t, Slice, NewAxis, Ellipsis>;
inline constexpr NewAxis newaxis{};
inline constexpr Ellipsis ellipsis{};

namespace detail {

inline constexpr Slice full_slice{};

// A basic index applied to a shape, for arrays of every kind: per axis of the result, the source axis (-1: newaxis),
// start, count and step; and the fixed position of each integer-indexed source axis. Throws IndexError naming index,
// axis and size.
struct BasicIndex {
  struct Axis {
    int source = -1;
    int64_t start = 0, count = 1, step = 1;
  };
  std::vector<Axis> axes;                         // of the result
  std::vector<std::pair<int, int64_t>> integers;  // (source axis, position)
  Dims shape() const;
};
BasicIndex resolve_index(std::span<const IndexItem> index, const Dims& shape);

// Throws InvalidArgument ("cannot reshape array of size 3 into shape (2, 2)").
void check_element_count(int64_t count, const Dims& shape);

// Why an array is not to be written to.
enum class ReadOnly : uint8_t { no, broadcast, diagonal, window, imported, requested };

// What stands between the brackets of x[...] and x(...): a position, a slice, an array of positions or of bools.
template <class T>
concept BasicTerm = (std::is_integral_v<T> && !std::is_same_v<T, bool>) || std::is_same_v<T, Slice> ||
                    std::is_same_v<T, NewAxis> || std::is_same_v<T, Ellipsis>;
template <BasicTerm T>
IndexItem index_item(const T& term) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<int64_t>(term);
  else
    return term;
}
template <class T>
concept IndexLike = BasicTerm<T> || std::is_same_v<T, bool> || std::is_convertible_v<const T&, NdArray> ||
    std::is_same_v<T, std::vector<int64_t>> || std::is_base_of_v<std::vector<NdArray>, T>;

}  // namespace detail

// Handle semantics as NumPy's: copying shares the data. Eager calls run in current_context() of the calling thread.
class NdArray : public NdArrayMethods<NdArray> {
 public:
  // 0-d float64 without data, to be assigned to: every use of its elements throws InvalidArgument.
  NdArray() = default;
  // Uninitialised, C order. Throws InvalidArgument for negative extents and more bytes than 64 bits count, OutOfMemory.
  NdArray(const Dims& shape, DType dtype, const ExecContext& context = current_context());
  // A view of a buffer, with the first element at its byte `offset_bytes`. Not checked.
  NdArray(std::shared_ptr<detail::Buffer> buffer, DType dtype, const Dims& shape, const Dims& strides_bytes,
          int64_t offset_bytes);
  // Numbers in nested braces, {{1, 2}, {3, 4.5}}, on the current device. Blocks. Throws InvalidArgument where lists of
  // one depth differ in length.
  NdArray(std::initializer_list<ArrayLiteral> list);

  DType dtype() const { return dtype_; }
  const Dims& shape() const { return shape_; }
  int64_t shape(int64_t axis) const { return shape_[detail::normalize_axis(axis, ndim())]; }  // throws IndexError
  const Dims& strides() const { return strides_; }                                            // bytes
  int ndim() const { return shape_.size(); }
  int64_t size() const { return detail::element_count(shape_); }
  int64_t itemsize() const { return local::itemsize(dtype_); }
  int64_t nbytes() const { return size() * itemsize(); }
  Device device() const;
  const std::shared_ptr<detail::Buffer>& buffer() const { return buffer_; }
  int64_t offset() const { return offset_; }  // bytes
  bool is_contiguous() const;                 // C order, no gaps
  void* raw() const;  // address of the first element, on the array's device; only to be read from if !writeable()
  // The same address. Throws TypeError unless T is the array's dtype, InvalidArgument where the array is read-only and
  // T is not const.
  template <class T>
  T* data() const {
    check_type(dtype_of_v<std::remove_const_t<T>>);
    if constexpr (!std::is_const_v<T>) check_writable();
    return static_cast<T*>(raw());
  }

  // NumPy's flags.writeable. Views have it from their array, copies are writeable. Not so are broadcast views, what
  // ops::diagonal() and sliding_window_view() give, and memory imported read-only.
  bool writeable() const { return read_only_ == detail::ReadOnly::no; }
  // Throws InvalidArgument for true where elements of the array share memory or the memory was imported read-only.
  void set_writeable(bool writeable);
  // Throws InvalidArgument with the reason where the array is read-only.
  void check_writable() const {
    if (read_only_ != detail::ReadOnly::no) throw_read_only();
  }
  // A view that is not to be written to.
  NdArray as_read_only(detail::ReadOnly reason = detail::ReadOnly::requested) const;

  // Before work that reads (writes) the array is queued on `stream`, as every function does: the stream waits for work
  // on other streams that comes first. Throws InvalidArgument for an array without data, for a stream of another
  // device, and where a read-only array would be written to.
  void begin_read(detail::DeviceStream* stream) const;
  void begin_write(detail::DeviceStream* stream) const;
  // The value of a one-element array on any device (blocks), in the second form converted as astype() does. Throws
  // InvalidArgument for any other size.
  Scalar item() const;
  template <class T>
  T item() const {
    if constexpr (detail::Literal<T>) {
      return item().as<T>();
    } else {  // 16-bit floats
      T value;
      item().store(dtype_of_v<T>, &value);
      return value;
    }
  }
  // double m = x.mean();   if (all(x > 0)) ...
  template <detail::Literal T>
  operator T() const {
    return item<T>();
  }

  // Views: they share the memory and cost nothing.

  // Other strides over the same memory, with the first element at byte `offset_bytes` of the buffer. Not checked.
  NdArray restrided(const Dims& shape, const Dims& strides_bytes, int64_t offset_bytes) const {
    return restrided(shape, strides_bytes, offset_bytes, dtype_);
  }
  NdArray restrided(const Dims& shape, const Dims& strides_bytes, int64_t offset_bytes, DType dtype) const;
  // Basic indexing: integers, slices, newaxis and ellipsis. Throws IndexError, InvalidArgument for a step of 0.
  View operator[](std::span<const IndexItem> index) const;
  View operator[](std::initializer_list<IndexItem> index) const;
  // x(0, _), x(slice(1, -1), newaxis), x(rows, 2), x(mask); with one term also x[0], x[mask]. A View where every term
  // is basic, else Elements (local/ops/indexing/elements.h). Both can be assigned to: x(mask) = 0., x(_, 0) += y.
  template <detail::IndexLike... Terms>
  requires(sizeof...(Terms) > 0) auto operator()(const Terms&... terms) const;
  template <detail::IndexLike Term>
  auto operator[](const Term& term) const;
  // The axes in that order, by default reversed. Throws IndexError for an axis, InvalidArgument for no permutation.
  NdArray transpose(std::span<const int64_t> axes = {}) const;
  template <std::integral... Each>
  requires(sizeof...(Each) > 0) NdArray transpose(Each... axes)
  const {
    const int64_t order[] = {static_cast<int64_t>(axes)...};
    return transpose(std::span<const int64_t>(order));
  }
  NdArray T() const { return transpose(); }
  // With strides of 0 along axes that repeat, read-only. Throws InvalidArgument.
  NdArray broadcast_to(const Dims& shape) const;
  // The elements in C order under another shape, of which one extent may be -1; a copy where strides do not allow a
  // view. Throws InvalidArgument for another number of elements.
  NdArray reshape(const Dims& shape) const;
  template <std::integral... Extents>
  requires(sizeof...(Extents) > 0) NdArray reshape(Extents... extents)
  const { return reshape(Dims{static_cast<int64_t>(extents)...}); }
  NdArray real() const;  // complex: a view of the real parts; else itself
  NdArray imag() const;  // complex: a view; else new zeros

  // Copies, and writes into this array. They are queued on the context, or, where it is for another device, on the
  // default one of the array's, and not waited for.

  NdArray copy(const ExecContext& context = current_context()) const;  // C order
  // A copy in C order, converted as NumPy's astype does (casting "unsafe").
  NdArray astype(DType dtype, const ExecContext& context = current_context()) const;
  // A copy there, or itself if already there. Blocks.
  NdArray to(Device device) const;
  // self[...] = value, which may be on another device and share memory with this array. Throws InvalidArgument where it
  // does not broadcast, TypeError where it does not cast by same_kind.
  void assign(const NdArray& value, const ExecContext& context = current_context()) const;
  // Throws InvalidArgument for an integer literal that does not fit.
  void fill(const Scalar& value, const ExecContext& context = current_context()) const;

  // As NumPy's str() and repr() with default print options.
  std::string to_string() const;
  std::string repr() const;

  const NdArray& value() const { return *this; }  // the methods' array

 private:
  void check_type(DType expected) const;
  [[noreturn]] void throw_read_only() const;
  detail::Buffer& checked_buffer() const;
  std::shared_ptr<detail::Buffer> buffer_;
  DType dtype_ = DType::float64;
  detail::ReadOnly read_only_ = detail::ReadOnly::no;
  Dims shape_;
  Dims strides_;
  int64_t offset_ = 0;
};

// What a basic index gives: an array that shares the memory, and that takes values in the expression which makes it.
//   x[0] = y;               // writes into x; y broadcasts and is cast by same_kind
//   NdArray row = x[0];     // names the memory; row = y would name another array, as in NumPy
class View : public NdArray {
 public:
  explicit View(NdArray array) : NdArray(std::move(array)) {}
  View(const View&) = default;
  View(View&&) = default;
  ~View() = default;
  // Throw InvalidArgument where the value does not broadcast, TypeError where it does not cast by same_kind.
  const View& operator=(const Arg& value) const&&;
  const View& operator=(const View& value) const&&;
};

inline View NdArray::operator[](std::initializer_list<IndexItem> index) const {
  return (*this)[std::span<const IndexItem>(index.begin(), index.size())];
}

// As str() prints it: std::cout << x.
std::ostream& operator<<(std::ostream& out, const NdArray& array);

// A NumPy scalar's str(): "1.5", "1e+16", "(1+2j)", "True".
std::string to_string(const Scalar& value);

namespace detail {

// to_string() and repr() of an array of `shape` with more than 1000 elements, given its corners alone: of every axis
// longer than 6 the first and the last 3 positions.
std::string summary_string(const NdArray& corners, const Dims& shape);
std::string summary_repr(const NdArray& corners, const Dims& shape);

}  // namespace detail

// An array on the current device from host data (blocks).
NdArray from_bytes(const void* data, DType dtype, const Dims& shape);  // C order, copied
// Throws InvalidArgument unless the shape has as many elements as there are values.
template <class T>
NdArray from_vector(const std::vector<T>& values, const Dims& shape) {
  detail::check_element_count(static_cast<int64_t>(values.size()), shape);
  if constexpr (std::is_same_v<T, bool>) {  // a vector of bits
    const auto bytes = std::make_unique<bool[]>(values.size());
    std::copy(values.begin(), values.end(), bytes.get());
    return from_bytes(bytes.get(), DType::bool_, shape);
  } else {
    return from_bytes(values.data(), dtype_of_v<T>, shape);
  }
}
template <class T>
NdArray from_vector(const std::vector<T>& values) {
  return from_vector(values, Dims{static_cast<int64_t>(values.size())});
}
// The values in C order, in host memory. Throws TypeError unless T is the array's dtype.
template <class T>
std::vector<T> to_vector(const NdArray& array) {
  const NdArray host = array.to(kCpu);
  const NdArray packed = host.is_contiguous() ? host : host.copy(default_context(kCpu));
  const T* first = packed.data<const T>();
  return std::vector<T>(first, first + packed.size());
}

}  // namespace quarry::local
