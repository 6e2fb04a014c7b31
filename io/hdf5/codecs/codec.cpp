#include "quarry/io/hdf5/codecs/codec.h"

#include <blosc.h>
#include <bzlib.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <liblzf/lzf.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "quarry/local/base/error.h"

extern "C" {  // Debian 12's header does not say it
#include <szlib.h>
}

namespace quarry::io::hdf5 {
namespace {

using Values = Codec::Values;
using Bytes = Codec::Bytes;

template <auto Free>
struct FreeBy {
  template <class T>
  void operator()(T* context) const {
    Free(context);
  }
};

[[noreturn]] void no_memory(const char* what) {
  throw local::OutOfMemory(fmt::format("the host has no memory left for {}", what));
}

uint32_t value_or(Values values, size_t at, uint32_t otherwise) { return at < values.size() ? values[at] : otherwise; }
std::optional<uint64_t> unknown_bytes(Values, Bytes) { return std::nullopt; }

// ---- deflate ----

libdeflate_decompressor* inflater() {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeBy<libdeflate_free_decompressor>> instance(
      libdeflate_alloc_decompressor());
  if (!instance) no_memory("decompression");
  return instance.get();
}

libdeflate_compressor* deflater(int level) {
  using Instance = std::unique_ptr<libdeflate_compressor, FreeBy<libdeflate_free_compressor>>;
  thread_local std::array<Instance, 13> instances;
  auto& instance = instances[static_cast<size_t>(level)];
  if (!instance) instance.reset(libdeflate_alloc_compressor(level));
  if (!instance) no_memory("compression");
  return instance.get();
}

std::optional<size_t> decode_deflate(Values, Bytes stored, std::span<std::byte> out) {
  size_t bytes = 0;
  switch (libdeflate_zlib_decompress(inflater(), stored.data(), stored.size(), out.data(), out.size(), &bytes)) {
    case LIBDEFLATE_SUCCESS:
      return bytes;
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      return std::nullopt;
    case LIBDEFLATE_BAD_DATA:
    case LIBDEFLATE_SHORT_OUTPUT:
      break;
  }
  damaged_stream("deflate");
}

std::vector<uint32_t> deflate_values(const Filter& filter, int64_t, int64_t) {
  return {static_cast<uint32_t>(std::clamp(filter.level, 0, 9))};
}

// libdeflate's fastest level whose chunks are within five per cent of what zlib, which other programs write files with,
// makes of random walks at the level of that number; of shuffled ones they are smaller.
libdeflate_compressor* deflater(Values values) {
  static constexpr int kLevels[] = {0, 1, 1, 1, 1, 4, 5, 6, 8, 9};
  return deflater(kLevels[std::min<size_t>(value_or(values, 0, 6), std::size(kLevels) - 1)]);
}

size_t most_deflate(Values values, size_t bytes) { return libdeflate_zlib_compress_bound(deflater(values), bytes); }

size_t encode_deflate(Values values, Bytes chunk, std::span<std::byte> out) {
  const size_t bytes = libdeflate_zlib_compress(deflater(values), chunk.data(), chunk.size(), out.data(), out.size());
  QUARRY_CHECK(bytes > 0);
  return bytes;
}

// ---- LZ4: the chunk's bytes (8) and a block's (4), then every block behind its stored bytes (4) ----

constexpr size_t kLz4Head = 12;

std::optional<uint64_t> lz4_bytes(Values, Bytes stored) {
  if (stored.size() < kLz4Head) return std::nullopt;
  return big_endian(stored, 0, 8);
}

std::optional<size_t> decode_lz4(Values, Bytes stored, std::span<std::byte> out) {
  if (stored.size() < kLz4Head) damaged_stream("lz4");
  const uint64_t bytes = big_endian(stored, 0, 8), block = big_endian(stored, 8, 4);
  if (bytes > out.size()) return std::nullopt;
  if (block == 0 || block > INT_MAX) damaged_stream("lz4");
  size_t at = kLz4Head;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t now = std::min(block, bytes - done);
    if (stored.size() - at < 4) damaged_stream("lz4");
    const uint64_t packed = big_endian(stored, at, 4);
    at += 4;
    if (packed > stored.size() - at || packed > INT_MAX) damaged_stream("lz4");
    if (packed == now)  // stored as it is
      std::memcpy(out.data() + done, stored.data() + at, now);
    else if (LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data() + at),
                                 reinterpret_cast<char*>(out.data() + done), static_cast<int>(packed),
                                 static_cast<int>(now)) != static_cast<int>(now))
      damaged_stream("lz4");
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

// ---- Zstandard: one frame ----

std::optional<uint64_t> zstd_bytes(Values, Bytes stored) {
  const unsigned long long bytes = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (bytes == ZSTD_CONTENTSIZE_UNKNOWN || bytes == ZSTD_CONTENTSIZE_ERROR) return std::nullopt;
  return bytes;
}

std::vector<uint32_t> zstd_values(const Filter& filter, int64_t, int64_t) {
  return {static_cast<uint32_t>(std::clamp(filter.level, 1, ZSTD_maxCLevel()))};
}

size_t most_zstd(Values, size_t bytes) { return ZSTD_compressBound(bytes); }

size_t encode_zstd(Values values, Bytes chunk, std::span<std::byte> out) {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeBy<ZSTD_freeCCtx>> context(ZSTD_createCCtx());
  if (!context) no_memory("compression");
  const size_t bytes = ZSTD_compressCCtx(context.get(), out.data(), out.size(), chunk.data(), chunk.size(),
                                         static_cast<int>(value_or(values, 0, ZSTD_CLEVEL_DEFAULT)));
  if (ZSTD_isError(bytes)) no_memory("compression");
  return bytes;
}

// ---- Blosc: its own container ----

std::optional<uint64_t> blosc_bytes(Values, Bytes stored) {
  size_t bytes = 0;
  if (blosc_cbuffer_validate(stored.data(), stored.size(), &bytes) < 0) return std::nullopt;
  return bytes;
}

std::optional<size_t> decode_blosc(Values values, Bytes stored, std::span<std::byte> out) {
  const std::optional<uint64_t> bytes = blosc_bytes(values, stored);
  if (!bytes) damaged_stream("blosc");
  if (*bytes > out.size()) return std::nullopt;
  const int made = blosc_decompress_ctx(stored.data(), out.data(), out.size(), /*numinternalthreads=*/1);
  if (made < 0 || static_cast<uint64_t>(made) != *bytes) damaged_stream("blosc");
  return *bytes;
}

// As the filter's own set-up has them: versions, element and chunk sizes, level, shuffle by bytes, compressor.
constexpr size_t kBloscElement = 2, kBloscLevel = 4, kBloscShuffle = 5, kBloscCompressor = 6;

std::vector<uint32_t> blosc_values(const Filter& filter, int64_t itemsize, int64_t chunk_bytes) {
  constexpr uint32_t kFilterVersion = 2;
  return {kFilterVersion,
          BLOSC_VERSION_FORMAT,
          static_cast<uint32_t>(itemsize),
          static_cast<uint32_t>(chunk_bytes),
          static_cast<uint32_t>(std::clamp(filter.level, 0, 9)),
          BLOSC_SHUFFLE,
          BLOSC_LZ4};
}

size_t most_blosc(Values, size_t bytes) { return bytes + BLOSC_MAX_OVERHEAD; }

size_t encode_blosc(Values values, Bytes chunk, std::span<std::byte> out) {
  const char* compressor = nullptr;
  if (blosc_compcode_to_compname(static_cast<int>(value_or(values, kBloscCompressor, BLOSC_LZ4)), &compressor) < 0)
    throw local::NotSupported("this Blosc library lacks the compressor that the data set names");
  if (chunk.size() > BLOSC_MAX_BUFFERSIZE) throw local::NotSupported("blosc takes chunks of less than 2 GiB");
  const int bytes = blosc_compress_ctx(static_cast<int>(value_or(values, kBloscLevel, 5)),
                                       static_cast<int>(value_or(values, kBloscShuffle, BLOSC_SHUFFLE)),
                                       value_or(values, kBloscElement, 1), chunk.size(), chunk.data(), out.data(),
                                       out.size(), compressor, /*blocksize=*/0, /*numinternalthreads=*/1);
  QUARRY_CHECK(bytes > 0);
  return static_cast<size_t>(bytes);
}

// ---- Others that are read ----

std::optional<uint64_t> lzf_bytes(Values values, Bytes) {
  constexpr size_t kChunkBytes = 2;
  if (values.size() <= kChunkBytes || values[kChunkBytes] == 0) return std::nullopt;
  return values[kChunkBytes];
}

std::optional<size_t> decode_lzf(Values, Bytes stored, std::span<std::byte> out) {
  if (stored.size() > UINT_MAX || out.size() > UINT_MAX) damaged_stream("lzf");
  errno = 0;
  const unsigned bytes = lzf_decompress(stored.data(), static_cast<unsigned>(stored.size()), out.data(),
                                        static_cast<unsigned>(out.size()));
  if (bytes > 0) return bytes;
  if (errno == E2BIG) return std::nullopt;
  damaged_stream("lzf");
}

std::optional<size_t> decode_bzip2(Values, Bytes stored, std::span<std::byte> out) {
  if (stored.size() > UINT_MAX || out.size() > UINT_MAX) damaged_stream("bzip2");
  auto bytes = static_cast<unsigned>(out.size());
  // The interface of C takes pointers to what it does not change.
  auto* const from = const_cast<char*>(reinterpret_cast<const char*>(stored.data()));
  const int status = BZ2_bzBuffToBuffDecompress(reinterpret_cast<char*>(out.data()), &bytes, from,
                                                static_cast<unsigned>(stored.size()), /*small=*/0, /*verbosity=*/0);
  if (status == BZ_OK) return bytes;
  if (status == BZ_OUTBUFF_FULL) return std::nullopt;
  if (status == BZ_MEM_ERROR) no_memory("decompression");
  damaged_stream("bzip2");
}

// The chunk's bytes (4, little-endian), then the stream.
constexpr size_t kSzipHead = 4;

std::optional<uint64_t> szip_bytes(Values, Bytes stored) {
  if (stored.size() < kSzipHead) return std::nullopt;
  uint32_t bytes = 0;
  std::memcpy(&bytes, stored.data(), sizeof bytes);
  return bytes;
}

std::optional<size_t> decode_szip(Values values, Bytes stored, std::span<std::byte> out) {
  constexpr size_t kMask = 0, kBlock = 1, kBits = 2, kLine = 3;
  const std::optional<uint64_t> bytes = szip_bytes(values, stored);
  if (!bytes || values.size() <= kLine) damaged_stream("szip");
  if (*bytes > out.size()) return std::nullopt;
  const uint32_t block = values[kBlock], bits = values[kBits], line = values[kLine];
  if (block == 0 || block > SZ_MAX_PIXELS_PER_BLOCK || bits == 0 || bits > 64 || line == 0 ||
      line > SZ_MAX_PIXELS_PER_SCANLINE)
    damaged_stream("szip");
  SZ_com_t parameters{};
  parameters.options_mask = static_cast<int>(values[kMask]);
  parameters.bits_per_pixel = static_cast<int>(bits);
  parameters.pixels_per_block = static_cast<int>(block);
  parameters.pixels_per_scanline = static_cast<int>(line);
  size_t made = *bytes;
  if (SZ_BufftoBuffDecompress(out.data(), &made, stored.data() + kSzipHead, stored.size() - kSzipHead, &parameters) !=
          SZ_OK ||
      made != *bytes)
    damaged_stream("szip");
  return made;
}

}  // namespace

uint64_t big_endian(Bytes bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) value = value << 8 | std::to_integer<uint64_t>(bytes[at + i]);
  return value;
}

void damaged_stream(std::string_view codec) { throw local::IoError(fmt::format("its {} stream is damaged", codec)); }

std::optional<size_t> decode_zstd(Bytes stored, std::span<std::byte> out) {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeBy<ZSTD_freeDCtx>> context(ZSTD_createDCtx());
  if (!context) no_memory("decompression");
  const size_t bytes = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), stored.data(), stored.size());
  if (!ZSTD_isError(bytes)) return bytes;
  if (const auto stated = zstd_bytes({}, stored); stated && *stated > out.size()) return std::nullopt;
  damaged_stream("zstd");
}

std::span<const Codec> codecs() {
  using Kind = Filter::Kind;
  static constexpr Codec kCodecs[] = {
      {Kind::deflate, 1, 0, decode_deflate, unknown_bytes, deflate_values, most_deflate, encode_deflate},
      {Kind::szip, 4, 0, decode_szip, szip_bytes},
      {Kind::bzip2, 307, 0, decode_bzip2, unknown_bytes},
      {Kind::lzf, 32000, 0, decode_lzf, lzf_bytes},
      {Kind::blosc, 32001, kBloscLevel, decode_blosc, blosc_bytes, blosc_values, most_blosc, encode_blosc},
      {Kind::lz4, 32004, 0, decode_lz4, lz4_bytes, lz4_values, most_lz4, encode_lz4},
      {Kind::bitshuffle, 32008, 0, decode_bitshuffle, bitshuffle_bytes},
      {Kind::zstd, 32015, 0, [](Values, Bytes stored, std::span<std::byte> out) { return decode_zstd(stored, out); },
       zstd_bytes, zstd_values, most_zstd, encode_zstd},
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
