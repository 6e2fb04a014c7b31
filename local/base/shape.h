// Shapes, strides and hyperslabs: small vectors of 64-bit integers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
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
  // What is inside is copied whole, whatever the size: a plan makes millions of these.
  Dims(const Dims& other) : size_(other.size_), inline_(other.inline_) {
    if (other.heap_) copy_from_heap(other);
  }
  Dims(Dims&& other) noexcept
      : size_(std::exchange(other.size_, 0)), inline_(other.inline_), heap_(std::move(other.heap_)) {}
  Dims& operator=(const Dims& other) {
    if (heap_ || other.heap_) {
      if (this != &other) copy_from_heap(other);
    } else {
      size_ = other.size_;
      inline_ = other.inline_;
    }
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    const int size = std::exchange(other.size_, 0);
    size_ = size;
    inline_ = other.inline_;
    heap_ = std::move(other.heap_);
    return *this;
  }
  ~Dims() = default;

  int size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  int64_t* data() noexcept { return heap_ ? heap_.get() : inline_.data(); }
  const int64_t* data() const noexcept { return heap_ ? heap_.get() : inline_.data(); }
  int64_t* begin() noexcept { return data(); }
  int64_t* end() noexcept { return data() + size_; }
  const int64_t* begin() const noexcept { return data(); }
  const int64_t* end() const noexcept { return data() + size_; }
  int64_t& operator[](int i) noexcept { return data()[i]; }
  int64_t operator[](int i) const noexcept { return data()[i]; }
  int64_t& back() noexcept { return data()[size_ - 1]; }
  int64_t back() const noexcept { return data()[size_ - 1]; }
  // Throws InvalidArgument above kMaxDims.
  void resize(int size, int64_t value = 0) {
    if (size < 0 || size > kInline || heap_) return resize_in_heap(size, value);
    for (int i = size_; i < size; ++i) inline_[static_cast<size_t>(i)] = value;
    size_ = size;
  }
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
  void resize_in_heap(int size, int64_t value);
  // Where one of both has memory of its own.
  void copy_from_heap(const Dims& other) { assign(other.begin(), other.end()); }

  int size_ = 0;
  std::array<int64_t, kInline> inline_{};
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
