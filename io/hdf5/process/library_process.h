// The HDF5 library in a process of its own, the program quarry-hdf5, for files that others wrote: where the library
// crashes, never ends, or takes all memory, there is an error here and the next call finds another process.
//
// A process of quarry has one at most. The first call starts it, later ones use it again, and it ends with whoever
// started it. It is looked for where QUARRY_HDF5_PROGRAM says, else beside the library that this is in (libquarry_io),
// in the folder bin beside that folder, and beside the running program. QUARRY_HDF5_SECONDS and QUARRY_HDF5_MEMORY
// bound what it takes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "quarry/io/hdf5/process/messages.h"

namespace quarry::io::hdf5 {

// A conversation with it; others wait until it ends. Calls are answered in their order. Throws NotSupported where the
// program is not there.
class LibrarySession {
 public:
  explicit LibrarySession(std::string context = {});
  ~LibrarySession();  // waits for what was sent
  LibrarySession(const LibrarySession&) = delete;
  LibrarySession& operator=(const LibrarySession&) = delete;

  // Does not wait for the answer; not more than two calls at once.
  void send(LibraryCall call, std::string_view request);
  // The answer to the oldest call that has none. Throws what the library's side threw, and IoError where that crashed
  // or took too long; the latter have no name of a file.
  std::string receive();
  // Memory that both see; which: 0 or 1, of the same size, kLibraryHalf bytes or, under a file size limit, less.
  std::span<std::byte> half(int which) const;

 private:
  [[noreturn]] void give_up(const std::string& reason);
  std::string in_context(const std::string& reason) const;

  const std::string context_;
  int waiting_ = 0;
};

// One call alone. `context` begins what is said where the process itself failed, as "cannot write 'a.h5'".
std::string call_library(LibraryCall call, std::string_view request, const std::string& context = {});
// Has a data set closed, if there is a process. Does not throw.
void close_in_library(std::string_view request) noexcept;

}  // namespace quarry::io::hdf5
