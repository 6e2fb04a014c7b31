// Draws from generators of sequences (local/program/bit_generators.h): words in memory, and what is made of them.
// Private to local/ops.
#pragma once

#include "quarry/local/ops/random/recipe.h"

namespace quarry::local {

// The next words of the recipe's generator. Throws NotSupported where there are none on the device, or where a quasi-
// random generator has given the recipe words before; InvalidArgument for parts of points.
class Words {
 public:
  explicit Words(Recipe& recipe) : recipe_(recipe), bits_(recipe.generator_.bit_generator()) {}

  Term uniform();
  Term open_uniform();
  Term normal();  // by the inverse of the distribution function
  Term bits();

 private:
  // Of each element the next word; two 32-bit ones of a pseudo-random generator are a uint64.
  Term take(DType dtype);
  // The highest `digits` bits of a word as a number below 2^digits, of the dtype.
  static Term highest(Term word, int digits, DType dtype);
  Term open_uniform(DType dtype);
  DType word_type(DType of) const;

  Recipe& recipe_;
  const BitGenerator bits_;
};

}  // namespace quarry::local
