// How an HDF5 file begins, and how one does that is not complete.
#pragma once

#include <optional>

#include "quarry/io/byte_file.h"

namespace quarry::io::hdf5 {

// An output is unfinished until it is committed: its superblock begins with other bytes than the format's, so that no
// program takes it for a file.
enum class FileState { whole, unfinished };

struct Signature {
  FileState state = FileState::whole;
  int64_t at = 0;  // of the superblock: behind a user block of 512 bytes or a power of two times as many
};
// None where the file has neither. Throws IoError.
std::optional<Signature> find_signature(const ByteSource& file);
// The first bytes of a superblock in that state.
std::span<const std::byte> signature_bytes(FileState state);
// Writes the signature of that state.
void put_signature(const ByteFile& file, const Signature& signature);

}  // namespace quarry::io::hdf5
