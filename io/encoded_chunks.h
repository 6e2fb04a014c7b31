// Chunks of a data set as they are stored, where they are compressed streams: for devices that decode them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quarry/local/base/shape.h"
#include "quarry/local/device/stream_decoding.h"

namespace quarry::io {

// Of one data set. Thread-safe.
class EncodedChunks {
 public:
  virtual ~EncodedChunks() = default;

  struct Layout {
    local::StreamFormat format = local::StreamFormat::zlib;
    int64_t chunk_bytes = 0;   // decoded
    int64_t stored_bytes = 0;  // of the largest one as it is stored
    bool shuffled = false;  // a decoded stream holds the first bytes of all elements, then the second ones, and so on
  };
  virtual const Layout& layout() const = 0;

  // What a region, of steps of 1, needs of a chunk: `count` elements from `first` on, in the chunk, which are those
  // from `at` on in the region.
  struct Part {
    int64_t number = 0;  // of the chunk, in C order of the grid
    local::Dims first, at, count;
  };
  // Of all chunks that the region touches, in C order.
  virtual std::vector<Part> parts(const local::Region& region) const = 0;

  // A chunk that was brought to the host: its stream; or, where it is stored otherwise or was never written, its
  // elements, not shuffled.
  struct Stored {
    std::span<const std::byte> bytes;
    bool is_stream = false;
  };
  // Reads a chunk into `room` of room_bytes(). Checksums over what is stored are
  // checked. Throws IoError.
  virtual Stored read(int64_t number, std::span<std::byte> room) const = 0;
  int64_t room_bytes() const;
  // Throws IoError, which names file, data set and chunk, for a stream that is not good.
  [[noreturn]] virtual void refuse(int64_t number, local::StreamStatus status) const = 0;

 protected:
  // That read() works in, at the end of its room, where a chunk is not one stream.
  virtual int64_t scratch_bytes() const = 0;
};

// What parts() gives of a data set of that shape, in chunks of so many elements.
std::vector<EncodedChunks::Part> parts_of(const local::Region& region, const local::Dims& shape,
                                          const local::Dims& chunk);
// Makes every element the one in `fill`.
void fill_chunk(std::span<std::byte> chunk, std::span<const std::byte> fill);

// "its zlib stream is damaged" and the like.
std::string reason_of(local::StreamFormat format, local::StreamStatus status);

// Decodes streams as a device does; for emulated ones.
local::StreamDecoder::OnHost decoder_on_host(local::StreamFormat format);

}  // namespace quarry::io
