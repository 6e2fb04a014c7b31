// What the CPU's and a GPU's scrambled Sobol points have in common.
#pragma once

#include <cstdint>
#include <span>

namespace quarry::local {

constexpr int64_t kSobolDimensions = 1111;

// Scrambles the direction numbers (those of the lowest bit of a position first) of one dimension, counted from 0, and
// returns what is added to every point. T: uint32_t or uint64_t.
template <class T>
T scramble_directions(std::span<T, sizeof(T) * 8> directions, uint64_t seed, int64_t dimension);

}  // namespace quarry::local
