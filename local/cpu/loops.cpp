#include "quarry/local/cpu/loops.h"

#include <algorithm>

#include "quarry/local/base/options.h"
#include "quarry/local/cpu/row_loops.h"

namespace quarry::local::cpu {

// Defined by the parts in local/cpu/loops, once per level.
#define QUARRY_LEVEL_ROW(level)         \
  namespace level {                     \
  void register_integers(Loops& loops); \
  void register_floats(Loops& loops);   \
  void register_complex(Loops& loops);  \
  void register_casts(Loops& loops);    \
  void register_random(Loops& loops);   \
  void register_sums(Loops& loops);     \
  void register_folds(Loops& loops);    \
  void register_extremes(Loops& loops); \
  const Loops& loops() {                \
    static const Loops table = [] {     \
      Loops loops{};                    \
      register_integers(loops);         \
      register_complex(loops);          \
      register_floats(loops);           \
      register_casts(loops);            \
      register_random(loops);           \
      register_sums(loops);             \
      register_folds(loops);            \
      register_extremes(loops);         \
      register_row_loops(loops);        \
      return loops;                     \
    }();                                \
    return table;                       \
  }                                     \
  }
#include "quarry/local/cpu/levels.def"

namespace {

#if defined(__x86_64__)
Level best_level() {
  // What GCC's -march=x86-64-v3 and -v4 may use, by their least common members.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? Level::v4 : v3 ? Level::v3 : Level::v2;
}
#else
Level best_level() { return kLevels[0]; }
#endif

Level detect() {
  const Level best = best_level();
  const OptionValue wanted(Option::cpu_level);
  wanted.check();
#define QUARRY_LEVEL_ROW(name) \
  if (wanted.text() == #name) return std::min(Level::name, best);
#include "quarry/local/cpu/levels.def"
  return best;
}

}  // namespace

Level cpu_level() {
  static const Level level = detect();
  return level;
}

const Loops& loops(Level level) {
  switch (level) {
#define QUARRY_LEVEL_ROW(name) \
  case Level::name:            \
    return name::loops();
#include "quarry/local/cpu/levels.def"
  }
  __builtin_unreachable();
}

}  // namespace quarry::local::cpu
