// Bitshuffle (Masui et al. 2015, "A compression scheme for radio data in high performance computing"): in blocks of
// elements, bit b of byte j of all elements becomes row 8 j + b of the block. Blocks may then be compressed. Elements
// beyond the last eight are stored as they are.
#include <fmt/format.h>
#include <lz4.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <vector>

#include "quarry/io/codecs/streams.h"
#include "quarry/io/hdf5/codecs/codec.h"
#include "quarry/local/base/error.h"

namespace quarry::io::hdf5 {
namespace {

constexpr size_t kHead = 12;  // the chunk's bytes (8) and a block's (4)
constexpr size_t kGroup = 8;  // elements whose bits make whole bytes
enum : uint32_t { kPlain = 0, kLz4 = 2, kZstd = 3 };

struct Parameters {
  size_t itemsize = 1, block = 0;  // elements
  uint32_t compressor = kPlain;
};

Parameters parameters_of(Codec::Values values) {
  constexpr size_t kItem = 2, kBlock = 3, kCompressor = 4;
  constexpr size_t kBlockBytes = 8192, kLeastBlock = 128;
  constexpr uint32_t kMostItem = 1 << 20;
  Parameters out;
  if (values.size() <= kItem || values[kItem] == 0 || values[kItem] > kMostItem) throw_damaged_stream("bitshuffle");
  out.itemsize = values[kItem];
  out.block = values.size() > kBlock ? values[kBlock] : 0;
  if (out.block == 0) out.block = std::max(kBlockBytes / out.itemsize / kGroup * kGroup, kLeastBlock);
  if (out.block % kGroup != 0) throw_damaged_stream("bitshuffle");
  if (values.size() > kCompressor) out.compressor = values[kCompressor];
  if (out.compressor != kPlain && out.compressor != kLz4 && out.compressor != kZstd)
    throw local::IoError(fmt::format("its bitshuffle stream is compressed in unknown way {}", out.compressor));
  return out;
}

// The 8 x 8 bits of x, whose byte i is row i, transposed (Warren 2012, "Hacker's Delight", 7-3).
uint64_t transposed(uint64_t x) {
  uint64_t t = (x ^ x >> 7) & 0x00aa00aa00aa00aa;
  x ^= t ^ t << 7;
  t = (x ^ x >> 14) & 0x0000cccc0000cccc;
  x ^= t ^ t << 14;
  t = (x ^ x >> 28) & 0x00000000f0f0f0f0;
  return x ^ t ^ t << 28;
}

// A block of `count` elements, a multiple of eight.
void unshuffle_bits(const std::byte* from, std::byte* to, size_t count, size_t itemsize) {
  const size_t row = count / kGroup;
  for (size_t j = 0; j < itemsize; ++j) {
    const std::byte* const rows = from + 8 * j * row;
    for (size_t g = 0; g < row; ++g) {
      uint64_t bits = 0;
      for (size_t b = 0; b < 8; ++b) bits |= std::to_integer<uint64_t>(rows[b * row + g]) << 8 * b;
      bits = transposed(bits);
      std::byte* const elements = to + g * kGroup * itemsize + j;
      for (size_t e = 0; e < kGroup; ++e) elements[e * itemsize] = static_cast<std::byte>(bits >> 8 * e);
    }
  }
}

}  // namespace

std::optional<uint64_t> bitshuffle_bytes(Codec::Values values, Codec::Bytes stored) {
  if (parameters_of(values).compressor == kPlain) return stored.size();
  if (stored.size() < kHead) return std::nullopt;
  return big_endian(stored, 0, 8);
}

std::optional<size_t> decode_bitshuffle(Codec::Values values, Codec::Bytes stored, std::span<std::byte> out) {
  const auto [itemsize, usual_block, compressor] = parameters_of(values);
  const std::optional<uint64_t> bytes = bitshuffle_bytes(values, stored);
  if (!bytes) throw_damaged_stream("bitshuffle");
  if (*bytes > out.size()) return std::nullopt;
  if (*bytes % itemsize != 0) throw_damaged_stream("bitshuffle");
  size_t block = usual_block;
  size_t at = 0;
  if (compressor != kPlain) {
    const uint64_t block_bytes = big_endian(stored, 8, 4);
    if (block_bytes == 0 || block_bytes % (itemsize * kGroup) != 0) throw_damaged_stream("bitshuffle");
    block = block_bytes / itemsize;
    at = kHead;
  }
  const size_t elements = *bytes / itemsize, whole = elements / kGroup * kGroup;
  thread_local std::vector<std::byte> bits;
  if (compressor != kPlain) bits.resize(std::min(block, whole) * itemsize);
  for (size_t first = 0; first < whole; first += block) {
    const size_t count = std::min(block, whole - first), here = count * itemsize;
    const std::byte* from = stored.data() + at;
    size_t packed = here;
    if (compressor == kPlain) {
      if (stored.size() - at < here) throw_damaged_stream("bitshuffle");
    } else {
      if (stored.size() - at < 4) throw_damaged_stream("bitshuffle");
      packed = big_endian(stored, at, 4);
      at += 4;
      if (packed > stored.size() - at || packed > INT_MAX || here > INT_MAX) throw_damaged_stream("bitshuffle");
      const auto part = stored.subspan(at, packed);
      const std::optional<size_t> made =
          compressor == kZstd
              ? decode_zstd(part, std::span(bits).first(here))
              : static_cast<size_t>(std::max(LZ4_decompress_safe(reinterpret_cast<const char*>(part.data()),
                                                                 reinterpret_cast<char*>(bits.data()),
                                                                 static_cast<int>(packed), static_cast<int>(here)),
                                             0));
      if (made != here) throw_damaged_stream("bitshuffle");
      from = bits.data();
    }
    unshuffle_bits(from, out.data() + first * itemsize, count, itemsize);
    at += packed;
  }
  const size_t rest = (elements - whole) * itemsize;
  if (stored.size() - at < rest) throw_damaged_stream("bitshuffle");
  if (rest > 0) std::memcpy(out.data() + whole * itemsize, stored.data() + at, rest);
  return *bytes;
}

}  // namespace quarry::io::hdf5
