#include "quarry/io/zarr/codecs.h"

#include <fmt/format.h>
#include <lz4.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "quarry/io/codecs/shuffle.h"
#include "quarry/io/codecs/streams.h"
#include "quarry/local/base/error.h"

namespace quarry::io::zarr {
namespace {

using In = std::span<const std::byte>;
using Out = std::span<std::byte>;
using Kind = Codec::Kind;

[[noreturn]] void fail(const char* what) { throw local::IoError(what); }

// numcodecs puts the length before the block, lowest byte first.
constexpr size_t kLz4Head = 4;

std::optional<size_t> decode_lz4(In in, Out out) {
  if (in.size() < kLz4Head) fail("it is too short for LZ4");
  const int bytes =
      LZ4_decompress_safe(reinterpret_cast<const char*>(in.data() + kLz4Head), reinterpret_cast<char*>(out.data()),
                          static_cast<int>(in.size() - kLz4Head), static_cast<int>(out.size()));
  if (bytes < 0) fail("it is no LZ4 data");
  return static_cast<size_t>(bytes);
}

size_t encode_lz4(In in, Out out) {
  for (size_t i = 0; i < kLz4Head; ++i) out[i] = static_cast<std::byte>(in.size() >> 8 * i);
  const int bytes =
      LZ4_compress_default(reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data() + kLz4Head),
                           static_cast<int>(in.size()), static_cast<int>(out.size() - kLz4Head));
  QUARRY_CHECK(bytes > 0);
  return kLz4Head + static_cast<size_t>(bytes);
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

std::optional<size_t> decode_step(const Codec& codec, In stored, Out to) {
  switch (codec.kind) {
    case Kind::zlib:
      return decode_zlib(stored, to);
    case Kind::gzip:
      return decode_gzip(stored, to);
    case Kind::zstd:
      return decode_zstd(stored, to);
    case Kind::lz4:
      return decode_lz4(stored, to);
    case Kind::blosc:
      return decode_blosc(stored, to);
    case Kind::shuffle:
      if (stored.size() > to.size()) return std::nullopt;
      unshuffle(stored.data(), to.data(), stored.size(), codec.element);
      return stored.size();
    case Kind::crc32c:
      break;
  }
  QUARRY_CHECK(false);
}

size_t most_bytes(const Codec& codec, size_t bytes) {
  switch (codec.kind) {
    case Kind::zlib:
      return most_zlib_bytes(codec.level, bytes);
    case Kind::gzip:
      return most_gzip_bytes(codec.level, bytes);
    case Kind::zstd:
      return most_zstd_bytes(bytes);
    case Kind::lz4:
      return kLz4Head + static_cast<size_t>(LZ4_compressBound(static_cast<int>(bytes)));
    case Kind::blosc:
      return most_blosc_bytes(bytes);
    case Kind::shuffle:
      return bytes;
    case Kind::crc32c:
      break;
  }
  QUARRY_CHECK(false);
}

size_t encode_step(const Codec& codec, In now, Out to) {
  switch (codec.kind) {
    case Kind::zlib:
      return encode_zlib(codec.level, now, to);
    case Kind::gzip:
      return encode_gzip(codec.level, now, to);
    case Kind::zstd:
      return encode_zstd(codec.level, now, to);
    case Kind::lz4:
      return encode_lz4(now, to);
    case Kind::blosc: {
      BloscSettings settings;
      settings.level = codec.level;
      settings.element = codec.element;
      return encode_blosc(settings, now, to);
    }
    case Kind::shuffle:
      shuffle(now.data(), to.data(), now.size(), codec.element);
      return now.size();
    case Kind::crc32c:
      break;
  }
  QUARRY_CHECK(false);
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
    if (codecs[i].kind == Kind::crc32c) {
      stored = check_crc32c(stored);
      continue;
    }
    const Out to = work.subspan(turn * half, half);
    turn = 1 - turn;
    const std::optional<size_t> bytes = decode_step(codecs[i], stored, to);
    if (!bytes) throw local::IoError(fmt::format("it decodes to more than {} bytes", out.size()));
    stored = to.first(*bytes);
  }
  if (stored.size() != out.size())
    throw local::IoError(fmt::format("it has {} bytes instead of {}", stored.size(), out.size()));
  std::memcpy(out.data(), stored.data(), out.size());
}

int64_t encode_scratch_bytes(std::span<const Codec> codecs, int64_t chunk_bytes) {
  auto bytes = static_cast<size_t>(chunk_bytes), most = bytes;
  for (const Codec& codec : codecs) most = std::max(most, bytes = most_bytes(codec, bytes));
  return 2 * static_cast<int64_t>(most);
}

In encode(std::span<const Codec> codecs, int64_t chunk_bytes, Out scratch) {
  // Steps take turns between the halves.
  Out now = scratch.first(static_cast<size_t>(chunk_bytes)), other = scratch.last(scratch.size() / 2);
  for (const Codec& codec : codecs) {
    now = other.first(encode_step(codec, now, other));
    other = now.data() == scratch.data() ? scratch.last(scratch.size() / 2) : scratch.first(scratch.size() / 2);
  }
  return now;
}

}  // namespace quarry::io::zarr
