// Messages over a socket between this process and the program quarry-hdf5: a kind, a length, and so many bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace quarry::io::hdf5 {

// What the library is asked for.
enum class LibraryCall : uint8_t {
  get_shape,       // of a virtual data set without limit
  read,            // a box of elements, into shared memory
  close,           // a data set that was read
  get_axis_names,  // by dimension scales
  create,          // data sets in a file that is there
  store_chunk,     // an encoded chunk in shared memory
  finish,          // with the files in which chunks were stored
  change,          // data sets, by what a journal holds
};

enum class LibraryReply : uint8_t {
  done,      // with what was asked for
  failed,    // with an ErrorRecord
  underway,  // nothing yet, but it goes on
};

// File descriptors of the program: the socket, and the memory that both share. That is in two halves, of at most so
// many bytes, so that one is filled while the other is emptied. Its argument is the version of who starts it.
constexpr int kLibrarySocket = 3, kLibraryMemory = 4;
constexpr int64_t kLibraryHalf = int64_t{16} << 20;

// False where the other side is gone.
bool send_message(int socket, uint8_t kind, std::string_view bytes);

enum class Receipt : uint8_t { message, gone, late };
// Waits until `deadline` at most.
Receipt receive_message(int socket, std::chrono::steady_clock::time_point deadline, uint8_t& kind, std::string& bytes);

}  // namespace quarry::io::hdf5
