// Positions along an axis to byte offsets.
#include "quarry/local/cpu/offsets.h"

namespace quarry::local::cpu::QUARRY_LEVEL {

OffsetLoop offset_loop(IndexMode mode);

namespace {

// Of a position that may be out of bounds: the product may overflow then.
inline int64_t byte_offset(int64_t at, int64_t stride) {
  return static_cast<int64_t>(static_cast<uint64_t>(at) * static_cast<uint64_t>(stride));
}

template <IndexMode mode>
bool make_offsets(int64_t* offsets, const int64_t* positions, int64_t n, int64_t extent, int64_t stride) {
  // Sizes of elements are powers of two: without a product, which older processors do not have for vectors.
  const auto all = [&](auto to_bytes) __attribute__((always_inline)) {
    uint64_t bad = 0;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = positions[i];
      if constexpr (mode == IndexMode::raise) {
        at += at < 0 ? extent : 0;
        bad |= at < 0 || at >= extent ? 1 : 0;
      } else if constexpr (mode == IndexMode::clip) {
        at = at < extent - 1 ? at : extent - 1;
        at = at > 0 ? at : 0;
      }
      offsets[i] = to_bytes(at);
    }
    return bad == 0;
  };
  switch (stride) {
    case 4:
      return all([](int64_t at) { return byte_offset(at, 4); });
    case 8:
      return all([](int64_t at) { return byte_offset(at, 8); });
    default:
      return all([&](int64_t at) { return byte_offset(at, stride); });
  }
}

}  // namespace

OffsetLoop offset_loop(IndexMode mode) {
  switch (mode) {
    case IndexMode::raise:
      return &make_offsets<IndexMode::raise>;
    case IndexMode::clip:
      return &make_offsets<IndexMode::clip>;
    case IndexMode::unchecked:
      return &make_offsets<IndexMode::unchecked>;
    case IndexMode::wrap:
      return nullptr;
  }
  return nullptr;
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
