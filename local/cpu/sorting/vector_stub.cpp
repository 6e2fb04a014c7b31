// For processors without 512-bit registers of x86-64: nothing calls these, since has_vector_sort() is false.
#include "quarry/local/base/error.h"
#include "quarry/local/cpu/sorting/vector.h"

namespace quarry::local::cpu {
namespace {

[[noreturn]] void absent() { throw InternalError("this processor has no vector sort"); }

}  // namespace

uint32_t vector_encode(const uint32_t*, uint32_t*, int64_t, Decoding) { absent(); }
uint64_t vector_encode(const uint64_t*, uint64_t*, int64_t, Decoding) { absent(); }
void vector_records(const uint32_t*, uint64_t*, int64_t, Decoding) { absent(); }
uint64_t vector_ranks(const uint64_t*, uint64_t*, int64_t, Decoding) { absent(); }
void vector_pack(uint64_t*, int64_t, int, int) { absent(); }
void vector_sort(uint32_t*, int64_t, Decoding, const int64_t*, int64_t, int64_t) { absent(); }
void vector_sort(uint64_t*, int64_t, Decoding, const int64_t*, int64_t, int64_t) { absent(); }

}  // namespace quarry::local::cpu
