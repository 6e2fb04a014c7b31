// Shared by the loop parts of one level. QUARRY_LEVEL is the level's namespace.
#include <cstring>
#include <type_traits>

#include "quarry/local/cpu/loops.h"
#include "quarry/local/program/device_math.h"

namespace quarry::local::cpu::QUARRY_LEVEL {

void register_integers(Loops& loops);
void register_floats(Loops& loops);
void register_complex(Loops& loops);
void register_casts(Loops& loops);
void register_random(Loops& loops);
void register_sums(Loops& loops);
void register_folds(Loops& loops);
void register_extremes(Loops& loops);

namespace {

// Asks for memory that a loop comes to soon: what processors fetch on their own ends with each page of 4 KiB.
constexpr int64_t kAhead = 1024;  // bytes
template <int lines>
inline void fetch_lines(const void* p) {
  constexpr int64_t kLine = 64;
#pragma GCC unroll 8
  for (int k = 0; k < lines; ++k) __builtin_prefetch(static_cast<const char*>(p) + k * kLine);
}
inline void fetch_ahead(const void* p) {
  fetch_lines<4>(static_cast<const char*>(p) + kAhead);
}  // by a loop of 256 bytes

}  // namespace
}  // namespace quarry::local::cpu::QUARRY_LEVEL
