// Compressed streams of chunks, which are the same whatever format they stand in: zlib, gzip, Zstandard and Blosc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace quarry::io {

// Decoders undo a whole stream into `out` and give the number of bytes; nothing where they do not fit. Throw IoError
// where the stream is damaged.
std::optional<size_t> decode_zlib(std::span<const std::byte> stored, std::span<std::byte> out);
std::optional<size_t> decode_gzip(std::span<const std::byte> stored, std::span<std::byte> out);
std::optional<size_t> decode_zstd(std::span<const std::byte> stored, std::span<std::byte> out);
std::optional<size_t> decode_blosc(std::span<const std::byte> stored, std::span<std::byte> out);
// How many bytes that will be, where the stream says so. Not to be believed.
std::optional<uint64_t> zstd_bytes(std::span<const std::byte> stored);
std::optional<uint64_t> blosc_bytes(std::span<const std::byte> stored);

// Encoders write to `out`, which has the most bytes that a stream takes, and give the number of bytes. Levels 0 to 9
// of zlib and gzip make streams about as small as zlib's own of that number; Zstandard has 1 to 22.
size_t most_zlib_bytes(int level, size_t bytes);
size_t encode_zlib(int level, std::span<const std::byte> chunk, std::span<std::byte> out);
size_t most_gzip_bytes(int level, size_t bytes);
size_t encode_gzip(int level, std::span<const std::byte> chunk, std::span<std::byte> out);
size_t most_zstd_bytes(size_t bytes);
size_t encode_zstd(int level, std::span<const std::byte> chunk, std::span<std::byte> out);

// The numbers are Blosc's own. By default bytes are shuffled and LZ4 compresses.
struct BloscSettings {
  int level = 5;       // 0 to 9
  int shuffle = 1;     // 0 none, 1 bytes, 2 bits
  int compressor = 1;  // 0 BloscLZ, 1 LZ4, 2 LZ4HC, 3 Snappy, 4 zlib, 5 Zstandard
  size_t element = 1;  // bytes that are shuffled together
};
size_t most_blosc_bytes(size_t bytes);
// Throws NotSupported for chunks of 2 GiB, and for a compressor that the library lacks.
size_t encode_blosc(const BloscSettings& settings, std::span<const std::byte> chunk, std::span<std::byte> out);

// "its zlib stream is damaged".
[[noreturn]] void throw_damaged_stream(std::string_view codec);

}  // namespace quarry::io
