#pragma once

#include "local/program/bit_generators.h"

namespace quarry::local {

// Sobol's points. The other generators are a GPU's.
RandomWords& cpu_random_words();

namespace cpu {

constexpr int64_t kSobolDimensions = 1111;

}  // namespace cpu
}  // namespace quarry::local
