#include "quarry/io/hdf5/parse/checksum.h"

#include <bit>
#include <cstring>

namespace quarry::io::hdf5 {
namespace {

constexpr size_t kBlock = 12;

struct State {
  uint32_t a, b, c;

  void add(std::span<const std::byte> bytes) {
    std::byte padded[kBlock] = {};
    std::memcpy(padded, bytes.data(), bytes.size());
    uint32_t words[3];  // little-endian, as this machine's
    std::memcpy(words, padded, sizeof words);
    a += words[0], b += words[1], c += words[2];
  }
  void mix() {
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
  }
  void finish() {
    c ^= b, c -= std::rotl(b, 14);
    a ^= c, a -= std::rotl(c, 11);
    b ^= a, b -= std::rotl(a, 25);
    c ^= b, c -= std::rotl(b, 16);
    a ^= c, a -= std::rotl(c, 4);
    b ^= a, b -= std::rotl(a, 14);
    c ^= b, c -= std::rotl(b, 24);
  }
};

}  // namespace

uint32_t metadata_checksum(std::span<const std::byte> bytes) {
  const uint32_t start = 0xdeadbeef + static_cast<uint32_t>(bytes.size());
  State state{start, start, start};
  if (bytes.empty()) return state.c;
  for (; bytes.size() > kBlock; bytes = bytes.subspan(kBlock)) {
    state.add(bytes.first(kBlock));
    state.mix();
  }
  state.add(bytes);
  state.finish();
  return state.c;
}

}  // namespace quarry::io::hdf5
