// The generators of random bits, by their numbers.
#pragma once

#include <cstdint>

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
// "XORWOW", "ScrambledSobol32".
const char* name(BitGenerator::Kind kind);

}  // namespace quarry::local
