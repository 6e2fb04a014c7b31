// Loops over bool and integers.
#include "quarry/local/cpu/loops/map.inl"

namespace quarry::local::cpu::QUARRY_LEVEL {
namespace {

template <class T, char kind>
void register_type(Loops& loops, DType dtype) {
#define QUARRY_OP(name, ...) register_row<row_##name, T, kind>(loops, dtype);
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
}

template <class Row>
void register_mixed(Loops& loops) {
  if constexpr (Row::rule == OpRule::comparison) {
    loops.mixed[static_cast<int>(Row::op)][0] = map_loop<Row, int64_t, int64_t, uint64_t, uint64_t>;
    loops.mixed[static_cast<int>(Row::op)][1] = map_loop<Row, int64_t, uint64_t, int64_t, int64_t>;
  }
}

}  // namespace

void register_integers(Loops& loops) {
  register_type<bool, 'b'>(loops, DType::bool_);
  register_type<int8_t, 'i'>(loops, DType::int8);
  register_type<int16_t, 'i'>(loops, DType::int16);
  register_type<int32_t, 'i'>(loops, DType::int32);
  register_type<int64_t, 'i'>(loops, DType::int64);
  register_type<uint8_t, 'i'>(loops, DType::uint8);
  register_type<uint16_t, 'i'>(loops, DType::uint16);
  register_type<uint32_t, 'i'>(loops, DType::uint32);
  register_type<uint64_t, 'i'>(loops, DType::uint64);
#define QUARRY_OP(name, ...) register_mixed<row_##name>(loops);
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
