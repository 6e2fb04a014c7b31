#include "quarry/local/cpu/sliding.h"

namespace quarry::local::cpu {

// Defined by local/cpu/loops/sliding.inl, once per level.
#define QUARRY_LEVEL_ROW(name)           \
  namespace name {                       \
  SlidingLoop sliding_loop(DType dtype); \
  }
#include "quarry/local/cpu/levels.def"

SlidingLoop sliding_loop(Level level, DType dtype) {
  switch (level) {
#define QUARRY_LEVEL_ROW(name) \
  case Level::name:            \
    return name::sliding_loop(dtype);
#include "quarry/local/cpu/levels.def"
  }
  __builtin_unreachable();
}

}  // namespace quarry::local::cpu
