// Random words of generators that run through a sequence, for distributions to be made of. Philox needs none of this:
// its numbers are functions of their index (local/program/ufunc.def).
// Part of the engine: the same contract (queued on context.stream, thread-safe for different streams).
#pragma once

#include <cstdint>

#include "quarry/local/program/engine.h"

namespace quarry::local {

// What numbers are made from.
struct BitGenerator {
  enum class Kind : uint8_t {
    philox,
    // Pseudo-random, 32-bit words; of a GPU's library.
    xorwow,
    mrg32k3a,
    mt19937,
    mtgp32,
    // Quasi-random: points of the unit cube whose coordinates are words. All first coordinates come first, then all
    // second ones, and so on.
    sobol32,
    scrambled_sobol32,
    sobol64,
    scrambled_sobol64,
  };
  // cuRAND's orderings of a pseudo-random sequence: how its threads share it.
  enum class Ordering : uint8_t { standard, best, seeded, legacy, dynamic };

  Kind kind = Kind::philox;
  uint64_t seed = 0;
  // Of the next draw. Philox: its stream; pseudo-random: words; quasi-random: points.
  uint64_t offset = 0;
  int64_t dimensions = 1;  // of points
  Ordering ordering = Ordering::standard;
};

constexpr bool is_quasi_random(BitGenerator::Kind kind) { return kind >= BitGenerator::Kind::sobol32; }
constexpr bool is_scrambled(BitGenerator::Kind kind) {
  return kind == BitGenerator::Kind::scrambled_sobol32 || kind == BitGenerator::Kind::scrambled_sobol64;
}
// Bytes of a word.
constexpr int64_t word_size(BitGenerator::Kind kind) {
  return kind == BitGenerator::Kind::sobol64 || kind == BitGenerator::Kind::scrambled_sobol64 ? 8 : 4;
}
// "XORWOW", "ScrambledSobol32".
const char* name(BitGenerator::Kind kind);

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
