// The directory of a ZIP file (.npz), with and without the ZIP64 extension. PKWARE APPNOTE.TXT 6.3.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quarry/io/byte_file.h"

namespace quarry::io::npy {

struct ZipMember {
  std::string name;
  int method = 0;  // 0 stored, 8 deflated
  bool encrypted = false;
  uint32_t crc32 = 0;
  int64_t stored_bytes = 0, bytes = 0;
  int64_t header_offset = 0;

  static constexpr int kStored = 0, kDeflated = 8;
};

struct ZipDirectory {
  std::vector<ZipMember> members;  // in the file's order
  int64_t offset = 0;              // of the directory: behind all members
};

// Reads the directory without believing it: what it names lies in the file. Throws IoError.
ZipDirectory read_zip(const ByteSource& file, const std::string& name);
// Where the member's bytes begin, by its own header. Throws IoError.
int64_t member_offset(const ByteSource& file, const ZipDirectory& directory, const ZipMember& member,
                      const std::string& name);

// What stands before a member's bytes, with room for sizes of 64 bits where `bytes` may need them; the same length
// whatever sizes and checksum are.
std::string zip_local_header(const ZipMember& member, bool is_large);
// The directory and its end, at `offset`.
std::string zip_directory(const std::vector<ZipMember>& members, int64_t offset);

}  // namespace quarry::io::npy
