// The triangle of a symmetric matrix that functions read.
#pragma once

#include <cstdint>

namespace quarry::local {

// Of a symmetric (Hermitian) matrix.
enum class Triangle : uint8_t { lower, upper };

}  // namespace quarry::local
