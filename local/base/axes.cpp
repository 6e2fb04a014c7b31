#include "quarry/local/base/axes.h"

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::local {

uint32_t Axes::mask(int ndim) const {
  if (!axes_) return ndim == kMaxDims ? ~0u : (1u << ndim) - 1;
  uint32_t mask = 0;
  // As NumPy: a 0-d array has an axis 0 for a reduction along one axis.
  if (ndim == 0 && axes_->size() == 1 && (axes_->front() == 0 || axes_->front() == -1)) return 0;
  for (int64_t axis : *axes_) {
    const uint32_t bit = 1u << normalize_axis(axis, ndim);
    if (mask & bit) throw InvalidArgument("duplicate value in 'axis'");
    mask |= bit;
  }
  return mask;
}

}  // namespace quarry::local
