// Transforms of lines that stay in the cache, of lengths without large prime factors: what line_plan() is made of.
#pragma once

#include "quarry/local/base/sizes.h"
#include "quarry/local/cpu/line_plan.h"

namespace quarry::local::cpu {

// Elements of a line before and after a transform of n points.
inline int64_t input_count(TransformKind kind, int64_t n) {
  return kind == TransformKind::half_to_real ? n / 2 + 1 : n;
}
inline int64_t output_count(TransformKind kind, int64_t n) {
  return kind == TransformKind::real_to_half ? n / 2 + 1 : n;
}

inline int64_t aligned(int64_t bytes) { return align_up(bytes, kLineAlignment); }
// Lines that begin in different sets of the cache, unless they are short.
inline int64_t spread(int64_t bytes) {
  constexpr int64_t kCacheLine = 64, kPage = 4096;
  return bytes < kPage ? aligned(bytes) : (bytes + kCacheLine - 1) / kCacheLine * kCacheLine + kCacheLine;
}

// By FFTW; in a build without it, plain_plan().
std::shared_ptr<const LinePlan> short_plan(TransformKind kind, DType dtype, bool inverse, int64_t length);
// Code of our own: slower.
std::shared_ptr<const LinePlan> plain_plan(TransformKind kind, DType dtype, bool inverse, int64_t length);

}  // namespace quarry::local::cpu
