#include "quarry/local/cpu/offsets.h"

#include "quarry/local/cpu/level.h"

namespace quarry::local::cpu {

// Defined by local/cpu/loops/offsets.inl, once per level.
namespace v2 {
OffsetLoop offset_loop(IndexMode mode);
}
namespace v3 {
OffsetLoop offset_loop(IndexMode mode);
}
namespace v4 {
OffsetLoop offset_loop(IndexMode mode);
}

OffsetLoop offset_loop(Level level, IndexMode mode) {
  return of_level(level, &v2::offset_loop, &v3::offset_loop, &v4::offset_loop)(mode);
}

}  // namespace quarry::local::cpu
