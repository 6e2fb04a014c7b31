// Scrambled points of Sobol's sequence: cuRAND has one scramble, whose constants are its own; these are the CPU's
// points for every seed, over cuRAND's direction numbers in as many dimensions as it has.
#pragma once

#include <cstdint>
#include <vector>

#include "quarry/local/cuda/compiler.h"
#include "quarry/local/program/bit_generators.h"

namespace quarry::local::cuda {

// What RandomWords::fill() says, for scrambled kinds.
void fill_scrambled(const BitGenerator& bits, void* words, int64_t count, const ExecContext& context);

// Per dimension the scrambled direction numbers, those of the lowest bit of a position first, and what is added: words
// of the kind's size. Needs no GPU.
std::vector<char> scrambled_directions(const BitGenerator& bits);
// The kernel, for the tests that compile and run it; a block writes kSobolTile points of a dimension.
ModuleSource sobol_source(int64_t word_size);
constexpr int64_t kSobolTile = 8192;

}  // namespace quarry::local::cuda
