// Fourier transforms of lines without gaps, by FFTW.
#pragma once

#include <complex>
#include <memory>

#include "quarry/local/program/transforms.h"

namespace quarry::local::cpu {

// exp(2 pi i k / n) for k in [0, n), rounded once.
std::complex<double> unit_root(int64_t k, int64_t n);

// Neighbouring lines: distances in bytes, multiples of kLineAlignment, as are the addresses.
inline constexpr int64_t kLineAlignment = 16;
struct Lines {
  char* data;
  int64_t distance;
};

// The transform of one length. Thread-safe.
class LinePlan {
 public:
  virtual ~LinePlan() = default;
  // The distance of lines that execute() likes best.
  virtual int64_t input_distance() const = 0;
  virtual int64_t output_distance() const = 0;
  virtual int64_t scratch_bytes(int threads) const { return threads * 0; }
  virtual int64_t table_bytes() const = 0;  // that the plan holds
  // Whether execute() leaves its input as it is.
  virtual bool keeps_input() const = 0;
  // With up to `threads` threads of the arena for a line, where it is long; they do not change the result.
  virtual void execute(const Lines& in, const Lines& out, int64_t lines, char* scratch, int threads) const = 0;
};

// Kept for later calls, up to a bound. Thread-safe. `inverse` is that of Transform.
std::shared_ptr<const LinePlan> line_plan(TransformKind kind, DType dtype, bool inverse, int64_t length);

struct PlanCacheUse {
  int64_t plans = 0, made = 0;  // now; ever
};
PlanCacheUse line_plan_cache_use();

}  // namespace quarry::local::cpu
