// Deflated data of a file as a source that is read anywhere: an index remembers what the decoder knows at a few places,
// so that reading begins at the nearest one (Mark Adler, zran, in zlib's examples).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/io/byte_file.h"

namespace quarry::io {

// Where a raw deflate stream lies.
struct Deflated {
  int64_t offset = 0;        // in the file
  int64_t stored_bytes = 0;  // there
  int64_t bytes = 0;         // of the data
  uint32_t crc32 = 0;        // of the data
};

// The beginning of a deflate block.
struct InflatePoint {
  int64_t at = 0;      // bytes of data before it
  int64_t stored = 0;  // whole bytes of the stream before it
  int32_t bits = 0;    // bits of the byte before that which belong to it
  std::string window;  // the last bytes of data before it
};

// Reads the whole stream once: its points, at least a mebibyte and as much as keeps the index in 32 MiB apart. Throws
// IoError where the stream is damaged, ends early, is longer than it should be or has another checksum.
std::vector<InflatePoint> index_deflated(const ByteSource& file, const Deflated& stream, const std::string& name);

class InflateDecoder;  // in inflate.cpp

// Thread-safe. Goes on where an earlier read ended where it can, so that data that is read in order is decoded once.
class InflatedSource final : public ByteSource {
 public:
  // Without points only the beginning is near. `name`: what errors call it.
  InflatedSource(std::shared_ptr<const ByteSource> file, Deflated stream, std::vector<InflatePoint> points,
                 std::string name);
  ~InflatedSource() override;
  int64_t size() const override { return stream_.bytes; }
  void read_at(int64_t offset, std::span<std::byte> to) const override;

 private:
  std::unique_ptr<InflateDecoder> decoder_near(int64_t offset) const;

  const std::shared_ptr<const ByteSource> file_;
  const Deflated stream_;
  const std::vector<InflatePoint> points_;
  const std::string name_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<InflateDecoder>> idle_;
};

// One part of a deflate stream that parts of it that were made apart from each other follow: it ends at a byte and not
// the stream. deflate_end() ends it.
std::string deflate_part(std::span<const std::byte> bytes, int level);
std::string_view deflate_end();
// The CRC-32 of bytes behind others of which `crc` is that (0 of none), and of two sequences one after the other.
uint32_t checksum(uint32_t crc, std::span<const std::byte> bytes);
uint32_t checksum_of_both(uint32_t first, uint32_t second, int64_t second_bytes);

}  // namespace quarry::io
