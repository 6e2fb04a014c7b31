#pragma once

#include "quarry/local/program/bit_generators.h"

namespace quarry::local {

// Sobol's points. The other generators are a GPU's.
RandomWords& cpu_random_words();

}  // namespace quarry::local
