// Owners of vendors' handles.
#pragma once

#include <utility>

namespace quarry::local {

// Sole owner of a vendor library's handle: a pointer-like T whose null value means "none". Destroy{}(handle) must not
// throw.
template <class T, class Destroy>
class unique_handle {
 public:
  unique_handle() = default;
  explicit unique_handle(T handle) noexcept : handle_(handle) {}
  unique_handle(unique_handle&& other) noexcept : handle_(std::exchange(other.handle_, T{})) {}
  unique_handle& operator=(unique_handle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, T{});
    }
    return *this;
  }
  ~unique_handle() { reset(); }

  T get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != T{}; }
  T release() noexcept { return std::exchange(handle_, T{}); }
  void reset() noexcept {
    if (handle_ != T{}) Destroy{}(handle_);
    handle_ = T{};
  }
  // Where a vendor's create call writes the new handle.
  T* out() noexcept {
    reset();
    return &handle_;
  }

 private:
  T handle_{};
};

}  // namespace quarry::local
