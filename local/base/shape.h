// Shapes, strides and hyperslabs: small vectors of 64-bit integers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace quarry::local {

inline constexpr int kMaxDims = 32;

// A sequence of at most kMaxDims int64 values; up to six of them are stored inside the object.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) { assign(values.begin(), values.end()); }
  // `size` times the value. There is no constructor for it, which Dims{3} and Dims(3) would tell apart silently.
  static Dims filled(int size, int64_t value = 0) {
    Dims result;
    result.resize(size, value);
    return result;
  }
  template <std::input_iterator It>
  Dims(It first, It last) {
    assign(first, last);
  }
  explicit Dims(std::span<const int64_t> values) { assign(values.begin(), values.end()); }
  explicit Dims(const std::vector<int64_t>& values) { assign(values.begin(), values.end()); }
  Dims(const Dims& other) { assign(other.begin(), other.end()); }
  Dims(Dims&& other) noexcept : size_(other.size_), heap_(std::move(other.heap_)) {
    std::copy(other.inline_, other.inline_ + kInline, inline_);
    other.size_ = 0;
  }
  Dims& operator=(const Dims& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    size_ = other.size_;
    heap_ = std::move(other.heap_);
    std::copy(other.inline_, other.inline_ + kInline, inline_);
    if (this != &other) other.size_ = 0;
    return *this;
  }
  ~Dims() = default;

  int size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  int64_t* data() noexcept { return heap_ ? heap_.get() : inline_; }
  const int64_t* data() const noexcept { return heap_ ? heap_.get() : inline_; }
  int64_t* begin() noexcept { return data(); }
  int64_t* end() noexcept { return data() + size_; }
  const int64_t* begin() const noexcept { return data(); }
  const int64_t* end() const noexcept { return data() + size_; }
  int64_t& operator[](int i) noexcept { return data()[i]; }
  int64_t operator[](int i) const noexcept { return data()[i]; }
  int64_t& back() noexcept { return data()[size_ - 1]; }
  int64_t back() const noexcept { return data()[size_ - 1]; }
  void resize(int size, int64_t value = 0);  // throws InvalidArgument above kMaxDims
  void push_back(int64_t value) {
    resize(size_ + 1);
    data()[size_ - 1] = value;
  }
  void insert(int position, int64_t value);
  void erase(int position);
  operator std::span<const int64_t>() const noexcept { return {data(), static_cast<size_t>(size_)}; }
  friend bool operator==(const Dims& a, const Dims& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  static constexpr int kInline = 6;
  template <class It>
  void assign(It first, It last) {
    resize(static_cast<int>(std::distance(first, last)));
    std::copy(first, last, data());
  }
  int size_ = 0;
  int64_t inline_[kInline] = {};
  std::unique_ptr<int64_t[]> heap_;  // capacity kMaxDims, set once size exceeds kInline
};

namespace detail {

// Product of the extents (1 for 0-d); throws InvalidArgument if it does not fit int64.
int64_t element_count(const Dims& shape);
// C-order strides in bytes for elements of `itemsize` bytes.
Dims contiguous_strides(const Dims& shape, int64_t itemsize);
// An axis in [-ndim, ndim) as one in [0, ndim); throws IndexError naming axis and ndim.
int normalize_axis(int64_t axis, int ndim);
// "(3,4)" as NumPy's C code writes shapes in messages.
std::string compact_shape(const Dims& shape);

}  // namespace detail

// NumPy's broadcast of two or more shapes; throws InvalidArgument that names all shapes.
Dims broadcast_shapes(std::span<const Dims> shapes);
Dims broadcast_shapes(const Dims& a, const Dims& b);
// "(3, 4)" as Python prints a tuple.
std::string to_string(const Dims& dims);

// A strided box of an array: element i along axis d is start[d] + i * step[d], i in [0, count[d]). step may be
// negative.
struct Region {
  Dims start;
  Dims count;
  Dims step;

  static Region whole(const Dims& shape);
  static Region box(const Dims& start, const Dims& count);  // step 1
  int ndim() const { return count.size(); }
  int64_t elements() const { return detail::element_count(count); }
  bool contiguous_steps() const;  // every step is 1
  friend bool operator==(const Region&, const Region&) = default;
};

}  // namespace quarry::local
