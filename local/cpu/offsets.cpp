#include "quarry/local/cpu/offsets.h"

namespace quarry::local::cpu {

// Defined by local/cpu/loops/offsets.inl, once per level.
#define QUARRY_LEVEL_ROW(name)            \
  namespace name {                        \
  OffsetLoop offset_loop(IndexMode mode); \
  }
#include "quarry/local/cpu/levels.def"

OffsetLoop offset_loop(Level level, IndexMode mode) {
  switch (level) {
#define QUARRY_LEVEL_ROW(name) \
  case Level::name:            \
    return name::offset_loop(mode);
#include "quarry/local/cpu/levels.def"
  }
  __builtin_unreachable();
}

}  // namespace quarry::local::cpu
