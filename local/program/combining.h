// Combining the states of reductions where more is known about them than combine_program() takes for granted, and many
// states at once.
#pragma once

#include <cstdint>
#include <span>

#include "quarry/local/base/detail.h"
#include "quarry/local/program/program.h"

namespace quarry::local {

// About the states a and b of argmin and argmax; the others combine in one way.
enum class StatesKnown : uint8_t {
  nothing,       // either may be of no elements; positions are in any order
  in_order,      // positions of a lie before those of b, and b is of elements
  in_order_all,  // and so is a
};

// combine_program() for such states: the same states result, of fewer operations.
Program combine_program(Reduction reduction, DType accumulate, StatesKnown known);

enum class MergeOrder : uint8_t {
  chain,  // the first with the second, the result with the third and so on
  pairs,  // the first with the second, the third with the fourth and so on, then the results likewise; an odd last one
          // waits
};

// Merges `states` states of several reductions: inputs are the fields of all reductions of the first state, then those
// of the second, ...; outputs those of the merged state. The same bits as one combine_program() after the other.
Program combine_states_program(std::span<const ProgramReduction> reductions, int states, MergeOrder order);

}  // namespace quarry::local
