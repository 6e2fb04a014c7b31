#include "quarry/io/zarr/codecs.h"

#include <fmt/format.h>
#include <lz4.h>

#include <array>
#include <cstring>
#include <optional>

#include "quarry/io/codecs/streams.h"
#include "quarry/local/base/error.h"

namespace quarry::io::zarr {
namespace {

using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

[[noreturn]] void fail(const char* what) { throw local::IoError(what); }

// numcodecs puts the length before the block.
std::optional<size_t> decode_lz4(In in, Out out) {
  constexpr size_t kHead = 4;
  if (in.size() < kHead) fail("it is too short for LZ4");
  const int bytes =
      LZ4_decompress_safe(reinterpret_cast<const char*>(in.data() + kHead), reinterpret_cast<char*>(out.data()),
                          static_cast<int>(in.size() - kHead), static_cast<int>(out.size()));
  if (bytes < 0) fail("it is no LZ4 data");
  return static_cast<size_t>(bytes);
}

// CRC-32C, Castagnoli's polynomial, reflected, a byte at a time.
uint32_t crc32c(In in) {
  constexpr uint32_t kPolynomial = 0x82f63b78;
  static const auto table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < out.size(); ++i) {
      out[i] = i;
      for (int bit = 0; bit < 8; ++bit) out[i] = out[i] >> 1 ^ ((out[i] & 1) != 0 ? kPolynomial : 0);
    }
    return out;
  }();
  uint32_t crc = ~uint32_t{0};
  for (const std::byte byte : in) crc = crc >> 8 ^ table[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

// The bytes before the checksum.
In check_crc32c(In in) {
  constexpr size_t kBytes = 4;
  if (in.size() < kBytes) fail("it is too short for a checksum");
  uint32_t stored = 0;
  for (size_t i = kBytes; i-- > 0;) stored = stored << 8 | static_cast<uint32_t>(in[in.size() - kBytes + i]);
  const In data = in.first(in.size() - kBytes);
  if (crc32c(data) != stored) fail("its checksum (crc32c) is another");
  return data;
}

}  // namespace

int64_t most_stored_bytes(int64_t chunk_bytes) {
  constexpr int64_t kShare = 8, kMore = 64 << 10;
  return chunk_bytes + chunk_bytes / kShare + kMore;
}

void decode(std::span<const Codec> codecs, In stored, Out out, Out work) {
  const size_t half = work.size() / 2;
  size_t turn = 0;
  for (size_t i = codecs.size(); i-- > 0;) {
    if (codecs[i] == Codec::crc32c) {
      stored = check_crc32c(stored);
      continue;
    }
    const Out to = work.subspan(turn * half, half);
    turn = 1 - turn;
    std::optional<size_t> bytes;
    switch (codecs[i]) {
      case Codec::zlib:
        bytes = decode_zlib(stored, to);
        break;
      case Codec::gzip:
        bytes = decode_gzip(stored, to);
        break;
      case Codec::zstd:
        bytes = decode_zstd(stored, to);
        break;
      case Codec::lz4:
        bytes = decode_lz4(stored, to);
        break;
      case Codec::blosc:
        bytes = decode_blosc(stored, to);
        break;
      case Codec::crc32c:
        break;
    }
    if (!bytes) throw local::IoError(fmt::format("it decodes to more than {} bytes", out.size()));
    stored = to.first(*bytes);
  }
  if (stored.size() != out.size())
    throw local::IoError(fmt::format("it has {} bytes instead of {}", stored.size(), out.size()));
  std::memcpy(out.data(), stored.data(), out.size());
}

}  // namespace quarry::io::zarr
