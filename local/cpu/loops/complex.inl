// Loops over complex numbers.
#include "quarry/local/cpu/loops/map.inl"

namespace quarry::local::cpu::QUARRY_LEVEL {

void register_complex(Loops& loops) {
#define QUARRY_OP(name, ...)                                         \
  register_row<row_##name, cx<float>, 'c'>(loops, DType::complex64); \
  register_row<row_##name, cx<double>, 'c'>(loops, DType::complex128);
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
