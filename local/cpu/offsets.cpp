#include "local/cpu/offsets.h"

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
  switch (level) {
    case Level::v2:
      return v2::offset_loop(mode);
    case Level::v3:
      return v3::offset_loop(mode);
    case Level::v4:
      return v4::offset_loop(mode);
  }
  return v2::offset_loop(mode);
}

}  // namespace quarry::local::cpu
