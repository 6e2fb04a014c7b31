// Random words of generators that run through a sequence, for distributions to be made of. Philox needs none of this:
// its numbers are functions of their index (local/program/ufunc.def).
// Part of the engine: the same contract (queued on context.stream, thread-safe for different streams).
#pragma once

#include <cstdint>

#include "quarry/local/memory/exec_context.h"
#include "quarry/local/program/bit_generator.h"

namespace quarry::local {

constexpr bool is_quasi_random(BitGenerator::Kind kind) { return kind >= BitGenerator::Kind::sobol32; }
constexpr bool is_scrambled(BitGenerator::Kind kind) {
  return kind == BitGenerator::Kind::scrambled_sobol32 || kind == BitGenerator::Kind::scrambled_sobol64;
}
// Bytes of a word.
constexpr int64_t word_size(BitGenerator::Kind kind) {
  return kind == BitGenerator::Kind::sobol64 || kind == BitGenerator::Kind::scrambled_sobol64 ? 8 : 4;
}

class RandomWords {
 public:
  virtual ~RandomWords() = default;
  // Throws what fill() would throw for such a generator: NotSupported where the device does not have it.
  virtual void check(const BitGenerator& bits) = 0;
  // The `count` words from bits.offset on; whole points. Generators of a library keep device memory of their own; ones
  // that cannot skip words (mt19937, mtgp32) make and drop those before the offset unless they just made them.
  virtual void fill(const BitGenerator& bits, void* words, int64_t count, const ExecContext& context) = 0;
};

}  // namespace quarry::local
