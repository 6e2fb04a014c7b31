#include "quarry/local/cpu/sliding.h"

#include "quarry/local/cpu/level.h"

namespace quarry::local::cpu {

// Defined by local/cpu/loops/sliding.inl, once per level.
namespace v2 {
SlidingLoop sliding_loop(DType dtype);
}
namespace v3 {
SlidingLoop sliding_loop(DType dtype);
}
namespace v4 {
SlidingLoop sliding_loop(DType dtype);
}

SlidingLoop sliding_loop(Level level, DType dtype) {
  return of_level(level, &v2::sliding_loop, &v3::sliding_loop, &v4::sliding_loop)(dtype);
}

}  // namespace quarry::local::cpu
