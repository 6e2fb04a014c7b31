#include "quarry/io/hdf5/codecs/codec.h"

#include <bzlib.h>
#include <fmt/format.h>
#include <libaec.h>
#include <liblzf/lzf.h>
#include <lz4.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "quarry/io/codecs/streams.h"
#include "quarry/local/base/error.h"

extern "C" {  // Debian 12's header does not say it
#include <szlib.h>
}

namespace quarry::io::hdf5 {
namespace {

using Values = Codec::Values;
using Bytes = Codec::Bytes;

[[noreturn]] void no_memory(const char* what) {
  throw local::OutOfMemory(fmt::format("the host has no memory left for {}", what));
}

uint32_t value_or(Values values, size_t at, uint32_t otherwise) { return at < values.size() ? values[at] : otherwise; }
std::optional<uint64_t> unknown_bytes(Values, Bytes) { return std::nullopt; }

// ---- deflate ----

std::vector<uint32_t> deflate_values(const Filter& filter, int64_t, int64_t) {
  return {static_cast<uint32_t>(std::clamp(filter.level, 0, 9))};
}

int deflate_level(Values values) { return static_cast<int>(std::min<uint32_t>(value_or(values, 0, 6), 9)); }

size_t most_deflate(Values values, size_t bytes) { return most_zlib_bytes(deflate_level(values), bytes); }

size_t encode_deflate(Values values, Bytes chunk, std::span<std::byte> out) {
  return encode_zlib(deflate_level(values), chunk, out);
}

// ---- LZ4: the chunk's bytes (8) and a block's (4), then every block behind its stored bytes (4) ----

constexpr size_t kLz4Head = 12;

std::optional<uint64_t> lz4_bytes(Values, Bytes stored) {
  if (stored.size() < kLz4Head) return std::nullopt;
  return big_endian(stored, 0, 8);
}

std::optional<size_t> decode_lz4(Values, Bytes stored, std::span<std::byte> out) {
  if (stored.size() < kLz4Head) throw_damaged_stream("lz4");
  const uint64_t bytes = big_endian(stored, 0, 8), block = big_endian(stored, 8, 4);
  if (bytes > out.size()) return std::nullopt;
  if (block == 0 || block > INT_MAX) throw_damaged_stream("lz4");
  size_t at = kLz4Head;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t now = std::min(block, bytes - done);
    if (stored.size() - at < 4) throw_damaged_stream("lz4");
    const uint64_t packed = big_endian(stored, at, 4);
    at += 4;
    if (packed > stored.size() - at || packed > INT_MAX) throw_damaged_stream("lz4");
    if (packed == now)  // stored as it is
      std::memcpy(out.data() + done, stored.data() + at, now);
    else if (LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data() + at),
                                 reinterpret_cast<char*>(out.data() + done), static_cast<int>(packed),
                                 static_cast<int>(now)) != static_cast<int>(now))
      throw_damaged_stream("lz4");
    at += packed;
    done += now;
  }
  return bytes;
}

std::vector<uint32_t> lz4_values(const Filter&, int64_t, int64_t) { return {}; }

void put_big_endian(std::span<std::byte> out, size_t at, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) out[at + i] = static_cast<std::byte>(value >> 8 * (width - 1 - i));
}

constexpr size_t kLz4Block = size_t{1} << 30;

size_t most_lz4(Values, size_t bytes) { return kLz4Head + 4 * (bytes / kLz4Block + 1) + bytes; }

size_t encode_lz4(Values, Bytes chunk, std::span<std::byte> out) {
  const size_t block = std::clamp<size_t>(chunk.size(), 1, kLz4Block);
  put_big_endian(out, 0, chunk.size(), 8);
  put_big_endian(out, 8, block, 4);
  size_t at = kLz4Head;
  for (size_t done = 0; done < chunk.size(); done += block) {
    const Bytes part = chunk.subspan(done, std::min(block, chunk.size() - done));
    // Nothing where it would not become smaller: then it is stored as it is.
    int packed =
        LZ4_compress_default(reinterpret_cast<const char*>(part.data()), reinterpret_cast<char*>(out.data() + at + 4),
                             static_cast<int>(part.size()), static_cast<int>(part.size() - 1));
    if (packed <= 0) {
      std::memcpy(out.data() + at + 4, part.data(), part.size());
      packed = static_cast<int>(part.size());
    }
    put_big_endian(out, at, static_cast<uint64_t>(packed), 4);
    at += 4 + static_cast<size_t>(packed);
  }
  return at;
}

// ---- Zstandard ----

std::vector<uint32_t> zstd_values(const Filter& filter, int64_t, int64_t) {
  const FilterKind& kind = *find_kind(Filter::Kind::zstd);
  return {static_cast<uint32_t>(std::clamp(filter.level, kind.least_level, kind.most_level))};
}

size_t encode_zstd(Values values, Bytes chunk, std::span<std::byte> out) {
  constexpr uint32_t kDefault = 3;
  return io::encode_zstd(static_cast<int>(value_or(values, 0, kDefault)), chunk, out);
}

// ---- Blosc ----

// As the filter's own set-up has them: versions, element and chunk sizes, level, shuffle by bytes, compressor.
constexpr size_t kBloscElement = 2, kBloscLevel = 4, kBloscShuffle = 5, kBloscCompressor = 6;

std::vector<uint32_t> blosc_values(const Filter& filter, int64_t itemsize, int64_t chunk_bytes) {
  constexpr uint32_t kFilterVersion = 2, kBloscVersion = 2;  // of the filter, and of Blosc's container
  constexpr BloscSettings kDefault;
  return {kFilterVersion,
          kBloscVersion,
          static_cast<uint32_t>(itemsize),
          static_cast<uint32_t>(chunk_bytes),
          static_cast<uint32_t>(std::clamp(filter.level, 0, 9)),
          static_cast<uint32_t>(kDefault.shuffle),
          static_cast<uint32_t>(kDefault.compressor)};
}

size_t encode_blosc(Values values, Bytes chunk, std::span<std::byte> out) {
  BloscSettings settings;
  settings.level = static_cast<int>(value_or(values, kBloscLevel, static_cast<uint32_t>(settings.level)));
  settings.shuffle = static_cast<int>(value_or(values, kBloscShuffle, static_cast<uint32_t>(settings.shuffle)));
  settings.compressor =
      static_cast<int>(value_or(values, kBloscCompressor, static_cast<uint32_t>(settings.compressor)));
  settings.element = value_or(values, kBloscElement, 1);
  return io::encode_blosc(settings, chunk, out);
}

// ---- Others that are read ----

std::optional<uint64_t> lzf_bytes(Values values, Bytes) {
  constexpr size_t kChunkBytes = 2;
  if (values.size() <= kChunkBytes || values[kChunkBytes] == 0) return std::nullopt;
  return values[kChunkBytes];
}

std::optional<size_t> decode_lzf(Values, Bytes stored, std::span<std::byte> out) {
  if (stored.size() > UINT_MAX || out.size() > UINT_MAX) throw_damaged_stream("lzf");
  errno = 0;
  const unsigned bytes = lzf_decompress(stored.data(), static_cast<unsigned>(stored.size()), out.data(),
                                        static_cast<unsigned>(out.size()));
  if (bytes > 0) return bytes;
  if (errno == E2BIG) return std::nullopt;
  throw_damaged_stream("lzf");
}

std::optional<size_t> decode_bzip2(Values, Bytes stored, std::span<std::byte> out) {
  if (stored.size() > UINT_MAX || out.size() > UINT_MAX) throw_damaged_stream("bzip2");
  auto bytes = static_cast<unsigned>(out.size());
  // The interface of C takes pointers to what it does not change.
  auto* const from = const_cast<char*>(reinterpret_cast<const char*>(stored.data()));
  const int status = BZ2_bzBuffToBuffDecompress(reinterpret_cast<char*>(out.data()), &bytes, from,
                                                static_cast<unsigned>(stored.size()), /*small=*/0, /*verbosity=*/0);
  if (status == BZ_OK) return bytes;
  if (status == BZ_OUTBUFF_FULL) return std::nullopt;
  if (status == BZ_MEM_ERROR) no_memory("decompression");
  throw_damaged_stream("bzip2");
}

// The chunk's bytes (4, little-endian), then the stream.
constexpr size_t kSzipHead = 4;

std::optional<uint64_t> szip_bytes(Values, Bytes stored) {
  if (stored.size() < kSzipHead) return std::nullopt;
  uint32_t bytes = 0;
  std::memcpy(&bytes, stored.data(), sizeof bytes);
  return bytes;
}

// Lines of pixels come out padded to whole blocks. Pixels of 32 and 64 bits are coded as bytes: all first ones, then
// all second ones, and so on. libaec's own function of the kind reads memory that it never wrote where a stream is too
// short.
std::optional<size_t> decode_szip(Values values, Bytes stored, std::span<std::byte> out) {
  constexpr size_t kMask = 0, kBlock = 1, kBits = 2, kLine = 3;
  const std::optional<uint64_t> bytes = szip_bytes(values, stored);
  if (!bytes || values.size() <= kLine) throw_damaged_stream("szip");
  if (*bytes > out.size()) return std::nullopt;
  const uint32_t block = values[kBlock], bits = values[kBits], line = values[kLine];
  // Of an odd number of pixels libaec writes one behind its block.
  if (block == 0 || block % 2 != 0 || block > SZ_MAX_PIXELS_PER_BLOCK || bits == 0 || bits > 64 || line == 0 ||
      line > SZ_MAX_PIXELS_PER_SCANLINE)
    throw_damaged_stream("szip");
  const bool in_bytes = bits == 32 || bits == 64;
  const size_t width = in_bytes ? bits / CHAR_BIT : 1, elements = *bytes / width;
  if (*bytes % width != 0) throw_damaged_stream("szip");

  aec_stream stream{};
  stream.bits_per_sample = in_bytes ? CHAR_BIT : bits;
  stream.block_size = block;
  stream.rsi = (line + block - 1) / block;
  stream.flags = (values[kMask] & SZ_MSB_OPTION_MASK ? AEC_DATA_MSB : 0) |
                 (values[kMask] & SZ_NN_OPTION_MASK ? AEC_DATA_PREPROCESS : 0);
  stream.next_in = reinterpret_cast<const unsigned char*>(stored.data() + kSzipHead);
  stream.avail_in = stored.size() - kSzipHead;
  const int begun = aec_decode_init(&stream);
  if (begun == AEC_MEM_ERROR) no_memory("decompression");
  if (begun != AEC_OK) throw_damaged_stream("szip");
  const std::unique_ptr<aec_stream, int (*)(aec_stream*)> end(&stream, aec_decode_end);

  constexpr size_t kMostPixelBytes = 4;
  std::array<unsigned char, (SZ_MAX_PIXELS_PER_SCANLINE + SZ_MAX_PIXELS_PER_BLOCK) * kMostPixelBytes> padded;
  const size_t pixel = stream.bits_per_sample > 16 ? 4 : stream.bits_per_sample > 8 ? 2 : 1;
  size_t element = 0, byte = 0;  // that come next, of in_bytes
  for (size_t at = 0; at < *bytes;) {
    const size_t wanted = std::min<size_t>(line * pixel, *bytes - at);
    stream.next_out = padded.data();
    stream.avail_out = size_t{stream.rsi} * block * pixel;
    if (aec_decode(&stream, AEC_FLUSH) != AEC_OK || stream.next_out < padded.data() + wanted)
      throw_damaged_stream("szip");
    if (in_bytes) {
      for (size_t i = 0; i < wanted; ++i) {
        out[element * width + byte] = std::byte{padded[i]};
        if (++element == elements) element = 0, ++byte;
      }
    } else {
      std::memcpy(out.data() + at, padded.data(), wanted);
    }
    at += wanted;
  }
  return *bytes;
}

}  // namespace

uint64_t big_endian(Bytes bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) value = value << 8 | std::to_integer<uint64_t>(bytes[at + i]);
  return value;
}

namespace {

// Streams that say themselves all that there is to know.
template <std::optional<size_t> (*Decode)(Bytes, std::span<std::byte>)>
std::optional<size_t> decode(Values, Bytes stored, std::span<std::byte> out) {
  return Decode(stored, out);
}
template <std::optional<uint64_t> (*Stated)(Bytes)>
std::optional<uint64_t> stated(Values, Bytes stored) {
  return Stated(stored);
}
template <size_t (*Most)(size_t)>
size_t most(Values, size_t bytes) {
  return Most(bytes);
}

}  // namespace

std::span<const Codec> codecs() {
  using Kind = Filter::Kind;
  static constexpr Codec kCodecs[] = {
      {Kind::deflate, 1, 0, decode<decode_zlib>, unknown_bytes, deflate_values, most_deflate, encode_deflate},
      {Kind::szip, 4, 0, decode_szip, szip_bytes},
      {Kind::bzip2, 307, 0, decode_bzip2, unknown_bytes},
      {Kind::lzf, 32000, 0, decode_lzf, lzf_bytes},
      {Kind::blosc, 32001, kBloscLevel, decode<decode_blosc>, stated<blosc_bytes>, blosc_values, most<most_blosc_bytes>,
       encode_blosc},
      {Kind::lz4, 32004, 0, decode_lz4, lz4_bytes, lz4_values, most_lz4, encode_lz4},
      {Kind::bitshuffle, 32008, 0, decode_bitshuffle, bitshuffle_bytes},
      {Kind::zstd, 32015, 0, decode<decode_zstd>, stated<zstd_bytes>, zstd_values, most<most_zstd_bytes>, encode_zstd},
  };
  return kCodecs;
}

const Codec* find_codec(Filter::Kind kind) {
  for (const Codec& codec : codecs())
    if (codec.kind == kind) return &codec;
  return nullptr;
}

const Codec* find_codec_by_id(int id) {
  for (const Codec& codec : codecs())
    if (codec.id == id) return &codec;
  return nullptr;
}

}  // namespace quarry::io::hdf5
