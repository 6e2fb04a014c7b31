// How much of float32 the products of its matrices keep, on request.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "quarry/local/base/error.h"

namespace quarry::local {

// For products of float32 matrices on a GPU, whose tensor cores are fast on fewer bits. Products of other dtypes, those
// with a vector, which reading bounds, and all on the CPU are exact whatever is asked for, as JAX's are.
//   exact   float32 throughout
//   tf32    operands of 11 significant bits: each term is off by at most 2^-9 of itself
//   bf16x3  operands as sums of two bfloat16 of 8 bits each, three products of these: each term is off by at most 2^-16
//           of itself. Infinite and NaN elements give what they give in float32.
// Sums are float32 in all of them, in an order that depends on shapes and strides only.
enum class Precision : uint8_t { exact, tf32, bf16x3 };

inline constexpr std::array<std::string_view, 3> kPrecisionNames = {"exact", "tf32", "bf16x3"};
constexpr std::string_view name(Precision precision) { return kPrecisionNames[static_cast<size_t>(precision)]; }
// Throws InvalidArgument with the names there are.
inline Precision parse_precision(std::string_view text) {
  for (const Precision precision : {Precision::exact, Precision::tf32, Precision::bf16x3})
    if (name(precision) == text) return precision;
  throw InvalidArgument("precision must be 'exact', 'tf32' or 'bf16x3', not '" + std::string(text) + "'");
}

}  // namespace quarry::local
