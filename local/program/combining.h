// Combining the states of reductions where more is known about them than combine_program() takes for granted.
#pragma once

#include <cstdint>

#include "local/program/program.h"

namespace quarry::local {

// About the states a and b of argmin and argmax; the others combine in one way.
enum class StatesKnown : uint8_t {
  nothing,       // either may be of no elements; positions are in any order
  in_order,      // positions of a lie before those of b, and b is of elements
  in_order_all,  // and so is a
};

// combine_program() for such states: the same states result, of fewer operations.
Program combine_program(Reduction reduction, DType accumulate, StatesKnown known);

}  // namespace quarry::local
