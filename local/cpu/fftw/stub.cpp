// A build without FFTW.
#include "quarry/local/cpu/short_plan.h"

namespace quarry::local::cpu {

std::shared_ptr<const LinePlan> short_plan(TransformKind kind, DType dtype, bool inverse, int64_t length) {
  return plain_plan(kind, dtype, inverse, length);
}

}  // namespace quarry::local::cpu
