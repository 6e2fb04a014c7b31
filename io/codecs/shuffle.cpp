// Byte shuffling, sixteen elements at a time: the items of a block are read as 16-byte vectors and transposed by rounds
// of byte interleaving, each round being one perfect shuffle of the block.
#include "quarry/io/codecs/shuffle.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace quarry::io {
namespace {

// A file may say that an item has 4 GiB: of no items no byte is looked at.
void unshuffle_plain(const std::byte* from, std::byte* to, size_t begin, size_t elements, size_t itemsize) {
  if (begin == elements) return;
  for (size_t b = 0; b < itemsize; ++b)
    for (size_t e = begin; e < elements; ++e) to[e * itemsize + b] = from[b * elements + e];
}

void shuffle_plain(const std::byte* from, std::byte* to, size_t begin, size_t elements, size_t itemsize) {
  if (begin == elements) return;
  for (size_t b = 0; b < itemsize; ++b)
    for (size_t e = begin; e < elements; ++e) to[b * elements + e] = from[e * itemsize + b];
}

#if defined(__SSE2__)
// One perfect shuffle of the N * 16 bytes in v: the first and the second half interleaved byte by byte. Its order is
// log2(16 N), so log2(N) rounds turn N planes of 16 bytes into 16 items of N bytes and four more give the planes back.
template <int N>
void interleave(__m128i* v) {
  __m128i t[N];
  for (int i = 0; i < N / 2; ++i) {
    t[2 * i] = _mm_unpacklo_epi8(v[i], v[i + N / 2]);
    t[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + N / 2]);
  }
  for (int i = 0; i < N; ++i) v[i] = t[i];
}

template <int N>
size_t unshuffle_blocks(const std::byte* from, std::byte* to, size_t elements) {
  size_t e = 0;
  for (; e + 16 <= elements; e += 16) {
    __m128i v[N];
    for (int b = 0; b < N; ++b)
      v[b] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + static_cast<size_t>(b) * elements + e));
    for (int round = 1; round < N; round *= 2) interleave<N>(v);
    for (int b = 0; b < N; ++b) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + e * N) + b, v[b]);
  }
  return e;
}

template <int N>
size_t shuffle_blocks(const std::byte* from, std::byte* to, size_t elements) {
  size_t e = 0;
  for (; e + 16 <= elements; e += 16) {
    __m128i v[N];
    for (int b = 0; b < N; ++b) v[b] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + e * N) + b);
    for (int round = 0; round < 4; ++round) interleave<N>(v);
    for (int b = 0; b < N; ++b)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + static_cast<size_t>(b) * elements + e), v[b]);
  }
  return e;
}
#else
template <int N>
size_t unshuffle_blocks(const std::byte*, std::byte*, size_t) {
  return 0;
}
template <int N>
size_t shuffle_blocks(const std::byte*, std::byte*, size_t) {
  return 0;
}
#endif

}  // namespace

void unshuffle(const std::byte* from, std::byte* to, size_t bytes, size_t itemsize) {
  const size_t elements = bytes / itemsize, whole = elements * itemsize;
  size_t done = 0;
  if (itemsize == 2) done = unshuffle_blocks<2>(from, to, elements);
  if (itemsize == 4) done = unshuffle_blocks<4>(from, to, elements);
  if (itemsize == 8) done = unshuffle_blocks<8>(from, to, elements);
  if (itemsize == 16) done = unshuffle_blocks<16>(from, to, elements);
  unshuffle_plain(from, to, done, elements, itemsize);
  std::memcpy(to + whole, from + whole, bytes - whole);
}

void shuffle(const std::byte* from, std::byte* to, size_t bytes, size_t itemsize) {
  const size_t elements = bytes / itemsize, whole = elements * itemsize;
  size_t done = 0;
  if (itemsize == 2) done = shuffle_blocks<2>(from, to, elements);
  if (itemsize == 4) done = shuffle_blocks<4>(from, to, elements);
  if (itemsize == 8) done = shuffle_blocks<8>(from, to, elements);
  if (itemsize == 16) done = shuffle_blocks<16>(from, to, elements);
  shuffle_plain(from, to, done, elements, itemsize);
  std::memcpy(to + whole, from + whole, bytes - whole);
}

}  // namespace quarry::io
