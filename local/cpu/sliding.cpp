#include "local/cpu/sliding.h"

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
  switch (level) {
    case Level::v2:
      return v2::sliding_loop(dtype);
    case Level::v3:
      return v3::sliding_loop(dtype);
    case Level::v4:
      return v4::sliding_loop(dtype);
  }
  return v2::sliding_loop(dtype);
}

}  // namespace quarry::local::cpu
