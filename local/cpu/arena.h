// The one oneTBB arena that all parallel CPU work shares.
#pragma once

#include <cstdint>
#include <functional>

namespace quarry::local::cpu {

int arena_threads();
// Calls body(unit, slot) for every unit in [0, units), on up to `slots` threads at once (1: in the calling thread, in
// order); each running call has a slot of its own in [0, slots). Throws what a body threw.
void for_each_unit(int64_t units, int slots, const std::function<void(int64_t unit, int slot)>& body);

}  // namespace quarry::local::cpu
