// Quicksort and quickselect of unsigned keys in 512-bit registers, for processors of x86-64-v4.
#pragma once

#include <cstdint>

#include "quarry/local/cpu/loops.h"

namespace quarry::local::cpu {

// Whether the functions below may be called.
#if defined(__x86_64__)
inline bool has_vector_sort() { return cpu_level() == Level::v4; }
#else
constexpr bool has_vector_sort() { return false; }
#endif

// What becomes of a key at its final place: itself; the element of a signed integer or of a float (sorting_keys.h); the
// lower half alone.
enum class Decoding : uint8_t { none, signed_integer, floating, low_half };

// `to` gets the keys of sorting_keys.h by which elements of that decoding are in order (`from` may be `to`). Returns
// the bits in which they differ.
uint32_t vector_encode(const uint32_t* from, uint32_t* to, int64_t n, Decoding kind);
uint64_t vector_encode(const uint64_t* from, uint64_t* to, int64_t n, Decoding kind);
// Records with an element's rank in the upper and its number in the lower half.
void vector_records(const uint32_t* from, uint64_t* records, int64_t n, Decoding kind);
// The ranks; returns the bits in which they differ.
uint64_t vector_ranks(const uint64_t* from, uint64_t* ranks, int64_t n, Decoding kind);
// Replaces the ranks by their bits from `shift` on, above `index_bits` bits with their numbers.
void vector_pack(uint64_t* ranks, int64_t n, int shift, int index_bits);

// Sorts keys[0, n) in place, not stably. With `kth` (`count` of them, ascending) only so far that the positions
// kth[i] - first are right. No memory but the stack.
void vector_sort(uint32_t* keys, int64_t n, Decoding decoding, const int64_t* kth = nullptr, int64_t count = 0,
                 int64_t first = 0);
void vector_sort(uint64_t* keys, int64_t n, Decoding decoding, const int64_t* kth = nullptr, int64_t count = 0,
                 int64_t first = 0);

}  // namespace quarry::local::cpu
