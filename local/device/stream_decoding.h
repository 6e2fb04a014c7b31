// Compressed streams that a device decodes, many at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quarry/local/device/device.h"

namespace quarry::local {

// Where a stream lies on the device, and where its decoded bytes go, which fill the room exactly: less than 4 GiB. All
// of the 4-byte words that hold bytes of the stream can be read.
struct EncodedStream {
  const std::byte* from = nullptr;
  int64_t bytes = 0;
  std::byte* to = nullptr;
  int64_t to_bytes = 0;
};

enum class StreamFormat : uint8_t {
  zlib,  // RFC 1950
  zstd,  // Zstandard frames, one after the other (RFC 8878)
};

enum class StreamStatus : int32_t {
  good,
  damaged,
  too_short,  // it ends before the room is full
  too_long,
  wrong_checksum,
  dictionary,  // it cannot be decoded without one
};

// Thread-safe for different streams of work.
class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  // Decodes a stream on the host, as a device in host memory does. Throws nothing.
  using OnHost = StreamStatus (*)(const EncodedStream& stream);
  // Queues the decoding of streams of a format, of which the descriptions lie on the device, and so do the statuses
  // that are written. What a damaged stream leaves in its room is unspecified; nothing else is read or written.
  virtual void decode(StreamFormat format, const EncodedStream* streams, int64_t count, StreamStatus* statuses,
                      OnHost on_host, detail::DeviceStream& stream) = 0;
};

// Null for a kind that decodes nothing. Throws DeviceError where the kind cannot be used.
StreamDecoder* stream_decoder(DeviceKind kind);

}  // namespace quarry::local
