// The HDF5 library behind one lock: every call of it in quarry is made while a LibraryLock lives. Handles close
// themselves, failures become exceptions that carry the library's own reason.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

#include "quarry/local/base/error.h"

namespace quarry::io::hdf5 {

// Holds the process-wide mutex and keeps the library from printing errors; may be nested within a thread.
class LibraryLock {
 public:
  LibraryLock();
  ~LibraryLock();
  LibraryLock(const LibraryLock&) = delete;
  LibraryLock& operator=(const LibraryLock&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

// An owned HDF5 identifier of any kind.
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
    }
    return *this;
  }
  ~Handle() { reset(); }
  hid_t get() const { return id_; }
  operator hid_t() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  // Closes; false where the library says that it failed (a flush that finds the disk full, for a file).
  bool reset() noexcept;

 private:
  hid_t id_ = H5I_INVALID_HID;
};

// The innermost reason on this thread's error stack, made short; clears the stack.
std::string library_error();

// Throws IoError "<context>: <library's reason>".
[[noreturn]] void throw_library_error(const std::string& context);

// The id owned, or IoError where the call failed.
Handle check_handle(hid_t id, const std::string& context);
template <class T>
T check_call(T status, const std::string& context) {
  if (status < 0) throw_library_error(context);
  return status;
}

// Opens a file for the library's own reading or writing, without file locks. Throws InvalidArgument where there is no
// such file, IoError where it is no HDF5 file or is damaged.
Handle open_file(const std::string& path, unsigned flags);
// File access properties that open_file() and file creation share.
Handle file_access();

}  // namespace quarry::io::hdf5
