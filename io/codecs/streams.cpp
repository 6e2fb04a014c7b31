#include "quarry/io/codecs/streams.h"

#include <blosc.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "quarry/local/base/error.h"

namespace quarry::io {
namespace {

using Bytes = std::span<const std::byte>;
using Out = std::span<std::byte>;

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

libdeflate_decompressor* inflater() {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeBy<libdeflate_free_decompressor>> instance(
      libdeflate_alloc_decompressor());
  if (!instance) no_memory("decompression");
  return instance.get();
}

// libdeflate's fastest level whose chunks are within five per cent of what zlib, which other programs write files with,
// makes of random walks at the level of that number; of shuffled ones they are smaller.
libdeflate_compressor* deflater(int zlib_level) {
  static constexpr int kLevels[] = {0, 1, 1, 1, 1, 4, 5, 6, 8, 9};
  constexpr int kHighest = static_cast<int>(std::size(kLevels)) - 1;
  using Instance = std::unique_ptr<libdeflate_compressor, FreeBy<libdeflate_free_compressor>>;
  thread_local std::array<Instance, std::size(kLevels)> instances;
  const int level = kLevels[std::clamp(zlib_level, 0, kHighest)];
  auto& instance = instances[static_cast<size_t>(level)];
  if (!instance) instance.reset(libdeflate_alloc_compressor(level));
  if (!instance) no_memory("compression");
  return instance.get();
}

std::optional<size_t> inflated(libdeflate_result status, size_t bytes, std::string_view codec) {
  switch (status) {
    case LIBDEFLATE_SUCCESS:
      return bytes;
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      return std::nullopt;
    case LIBDEFLATE_BAD_DATA:
    case LIBDEFLATE_SHORT_OUTPUT:
      break;
  }
  throw_damaged_stream(codec);
}

}  // namespace

void throw_damaged_stream(std::string_view codec) {
  throw local::IoError(fmt::format("its {} stream is damaged", codec));
}

// ---- zlib and gzip ----

std::optional<size_t> decode_zlib(Bytes stored, Out out) {
  size_t bytes = 0;
  const libdeflate_result status =
      libdeflate_zlib_decompress(inflater(), stored.data(), stored.size(), out.data(), out.size(), &bytes);
  return inflated(status, bytes, "deflate");
}

std::optional<size_t> decode_gzip(Bytes stored, Out out) {
  size_t bytes = 0;
  const libdeflate_result status =
      libdeflate_gzip_decompress(inflater(), stored.data(), stored.size(), out.data(), out.size(), &bytes);
  return inflated(status, bytes, "gzip");
}

size_t most_zlib_bytes(int level, size_t bytes) { return libdeflate_zlib_compress_bound(deflater(level), bytes); }

size_t encode_zlib(int level, Bytes chunk, Out out) {
  const size_t bytes = libdeflate_zlib_compress(deflater(level), chunk.data(), chunk.size(), out.data(), out.size());
  QUARRY_CHECK(bytes > 0);
  return bytes;
}

size_t most_gzip_bytes(int level, size_t bytes) { return libdeflate_gzip_compress_bound(deflater(level), bytes); }

size_t encode_gzip(int level, Bytes chunk, Out out) {
  const size_t bytes = libdeflate_gzip_compress(deflater(level), chunk.data(), chunk.size(), out.data(), out.size());
  QUARRY_CHECK(bytes > 0);
  return bytes;
}

// ---- Zstandard: one frame ----

std::optional<uint64_t> zstd_bytes(Bytes stored) {
  const unsigned long long bytes = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (bytes == ZSTD_CONTENTSIZE_UNKNOWN || bytes == ZSTD_CONTENTSIZE_ERROR) return std::nullopt;
  return bytes;
}

std::optional<size_t> decode_zstd(Bytes stored, Out out) {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeBy<ZSTD_freeDCtx>> context(ZSTD_createDCtx());
  if (!context) no_memory("decompression");
  const size_t bytes = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), stored.data(), stored.size());
  if (!ZSTD_isError(bytes)) return bytes;
  if (const auto stated = zstd_bytes(stored); stated && *stated > out.size()) return std::nullopt;
  throw_damaged_stream("zstd");
}

size_t most_zstd_bytes(size_t bytes) { return ZSTD_compressBound(bytes); }

size_t encode_zstd(int level, Bytes chunk, Out out) {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeBy<ZSTD_freeCCtx>> context(ZSTD_createCCtx());
  if (!context) no_memory("compression");
  const size_t bytes = ZSTD_compressCCtx(context.get(), out.data(), out.size(), chunk.data(), chunk.size(), level);
  if (ZSTD_isError(bytes)) no_memory("compression");
  return bytes;
}

// ---- Blosc: its own container ----

static_assert(BloscSettings{}.shuffle == BLOSC_SHUFFLE && BloscSettings{}.compressor == BLOSC_LZ4);

std::optional<uint64_t> blosc_bytes(Bytes stored) {
  size_t bytes = 0;
  if (blosc_cbuffer_validate(stored.data(), stored.size(), &bytes) < 0) return std::nullopt;
  return bytes;
}

std::optional<size_t> decode_blosc(Bytes stored, Out out) {
  const std::optional<uint64_t> bytes = blosc_bytes(stored);
  if (!bytes) throw_damaged_stream("blosc");
  if (*bytes > out.size()) return std::nullopt;
  const int made = blosc_decompress_ctx(stored.data(), out.data(), out.size(), /*numinternalthreads=*/1);
  if (made < 0 || static_cast<uint64_t>(made) != *bytes) throw_damaged_stream("blosc");
  return *bytes;
}

size_t most_blosc_bytes(size_t bytes) { return bytes + BLOSC_MAX_OVERHEAD; }

size_t encode_blosc(const BloscSettings& settings, Bytes chunk, Out out) {
  const char* compressor = nullptr;
  if (blosc_compcode_to_compname(settings.compressor, &compressor) < 0)
    throw local::NotSupported("this Blosc library lacks the compressor that the data set names");
  // A file that is changed may have any.
  if (settings.level < 0 || settings.level > 9 || settings.shuffle < 0 || settings.shuffle > 2)
    throw local::NotSupported("the data set's parameters of Blosc are none that it takes");
  if (chunk.size() > BLOSC_MAX_BUFFERSIZE) throw local::NotSupported("blosc takes chunks of less than 2 GiB");
  // Blosc divides by what a block of elements of no bytes, or larger than the chunk, would have.
  const size_t element = settings.element > chunk.size() ? 1 : std::max<size_t>(settings.element, 1);
  const int bytes = blosc_compress_ctx(settings.level, settings.shuffle, element, chunk.size(), chunk.data(),
                                       out.data(), out.size(), compressor, /*blocksize=*/0, /*numinternalthreads=*/1);
  QUARRY_CHECK(bytes > 0);
  return static_cast<size_t>(bytes);
}

}  // namespace quarry::io
