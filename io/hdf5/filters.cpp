#include "quarry/io/hdf5/filters.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "quarry/local/base/error.h"

namespace quarry::io::hdf5 {
namespace {

constexpr size_t kChecksumBytes = 4;

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};
struct FreeCompressor {
  void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
};

libdeflate_decompressor* decompressor() {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> instance(
      libdeflate_alloc_decompressor());
  if (!instance) throw local::OutOfMemory("the host has no memory left for decompression");
  return instance.get();
}

libdeflate_compressor* compressor(int level) {
  thread_local std::array<std::unique_ptr<libdeflate_compressor, FreeCompressor>, 13> instances;
  auto& instance = instances[static_cast<size_t>(std::clamp(level, 0, 12))];
  if (!instance) instance.reset(libdeflate_alloc_compressor(std::clamp(level, 0, 12)));
  if (!instance) throw local::OutOfMemory("the host has no memory left for compression");
  return instance.get();
}

// Files written by HDF5 before 1.6.3 on little-endian machines hold each half of the checksum byte-swapped.
uint32_t swapped_halves(uint32_t sum) { return ((sum & 0x00ff00ffu) << 8) | ((sum >> 8) & 0x00ff00ffu); }

const Filter* find(const std::vector<Filter>& filters, uint32_t mask, Filter::Kind kind) {
  for (size_t i = 0; i < filters.size(); ++i)
    if (filters[i].kind == kind && !(mask >> i & 1u)) return &filters[i];
  return nullptr;
}

}  // namespace

uint32_t fletcher32(std::span<const std::byte> bytes) {
  // Sums modulo 65535, folded; 360 words can be added before the second sum overflows 32 bits.
  constexpr size_t kWords = 360;
  uint32_t sum1 = 0, sum2 = 0;
  const std::byte* at = bytes.data();
  size_t words = bytes.size() / 2;
  while (words > 0) {
    const size_t n = std::min(words, kWords);
    words -= n;
    for (size_t i = 0; i < n; ++i, at += 2) {
      sum1 += (std::to_integer<uint32_t>(at[0]) << 8) | std::to_integer<uint32_t>(at[1]);
      sum2 += sum1;
    }
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  }
  if (bytes.size() % 2) {
    sum1 += std::to_integer<uint32_t>(*at) << 8;
    sum2 += sum1;
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  }
  sum1 = (sum1 & 0xffff) + (sum1 >> 16);
  sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  return (sum2 << 16) | sum1;
}

bool directly_decodable(const std::vector<Filter>& filters) {
  int last = -1;
  for (const Filter& filter : filters) {
    int rank = 0;
    switch (filter.kind) {
      case Filter::Kind::shuffle:
        rank = 0;
        break;
      case Filter::Kind::deflate:
        rank = 1;
        break;
      case Filter::Kind::fletcher32:
        rank = 2;
        break;
      case Filter::Kind::other:
        return false;
    }
    if (rank <= last) return false;
    last = rank;
  }
  return true;
}

int64_t decode_scratch_bytes(const std::vector<Filter>& filters, int64_t chunk_bytes) {
  const bool twice = find(filters, 0, Filter::Kind::shuffle) && find(filters, 0, Filter::Kind::deflate);
  return twice ? chunk_bytes : 0;
}

void decode_chunk(const std::vector<Filter>& filters, uint32_t mask, int64_t itemsize,
                  std::span<const std::byte> stored, std::span<std::byte> out, std::span<std::byte> scratch) {
  const bool shuffled = itemsize > 1 && find(filters, mask, Filter::Kind::shuffle);
  std::span<const std::byte> now = stored;
  if (find(filters, mask, Filter::Kind::fletcher32)) {
    if (now.size() < kChecksumBytes) throw local::IoError("its checksum is missing");
    uint32_t expected;
    std::memcpy(&expected, now.data() + now.size() - kChecksumBytes, sizeof expected);
    now = now.first(now.size() - kChecksumBytes);
    const uint32_t actual = fletcher32(now);
    if (actual != expected && swapped_halves(actual) != expected)
      throw local::IoError(fmt::format("its Fletcher-32 checksum is {:08x}, the file says {:08x}", actual, expected));
  }
  if (find(filters, mask, Filter::Kind::deflate)) {
    const std::span<std::byte> to = shuffled ? scratch.first(out.size()) : out;
    size_t got = 0;
    const libdeflate_result result =
        libdeflate_zlib_decompress(decompressor(), now.data(), now.size(), to.data(), to.size(), &got);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
      throw local::IoError(fmt::format("it inflates to more than its {} bytes", to.size()));
    if (result != LIBDEFLATE_SUCCESS) throw local::IoError("its deflate stream is damaged");
    now = to.first(got);
  }
  if (now.size() != out.size())
    throw local::IoError(fmt::format("it decodes to {} bytes instead of {}", now.size(), out.size()));
  if (shuffled)
    unshuffle(now.data(), out.data(), now.size(), static_cast<size_t>(itemsize));
  else if (now.data() != out.data())
    std::memcpy(out.data(), now.data(), out.size());
}

std::vector<std::byte> encode_chunk(const std::vector<Filter>& filters, int64_t itemsize,
                                    std::vector<std::byte> chunk) {
  for (const Filter& filter : filters) {
    switch (filter.kind) {
      case Filter::Kind::shuffle: {
        if (itemsize == 1) break;
        std::vector<std::byte> to(chunk.size());
        shuffle(chunk.data(), to.data(), chunk.size(), static_cast<size_t>(itemsize));
        chunk = std::move(to);
        break;
      }
      case Filter::Kind::deflate: {
        libdeflate_compressor* const c = compressor(filter.level);
        std::vector<std::byte> to(libdeflate_zlib_compress_bound(c, chunk.size()));
        const size_t bytes = libdeflate_zlib_compress(c, chunk.data(), chunk.size(), to.data(), to.size());
        QUARRY_CHECK(bytes > 0);
        to.resize(bytes);
        chunk = std::move(to);
        break;
      }
      case Filter::Kind::fletcher32: {
        const uint32_t sum = fletcher32(chunk);
        const size_t at = chunk.size();
        chunk.resize(at + sizeof sum);
        std::memcpy(chunk.data() + at, &sum, sizeof sum);
        break;
      }
      case Filter::Kind::other:
        throw local::NotSupported(fmt::format("filter {} cannot be written", filter.name));
    }
  }
  return chunk;
}

}  // namespace quarry::io::hdf5
