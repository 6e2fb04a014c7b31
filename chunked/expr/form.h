// What a node is beside its arguments: for what compares expressions of other arrays.
#pragma once

#include <cstdint>
#include <span>

#include "quarry/chunked/expr/node.h"

namespace quarry::expr {

// A hash of kind, parameters, shape, dtype and chunks, equal on all ranks: arguments are left out, and which array it
// is of a persisted one.
uint64_t form_of(const Node& node);
// Of several words, in order.
uint64_t hash_of(std::span<const uint64_t> words);

}  // namespace quarry::expr
