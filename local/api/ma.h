// Masked arrays: numpy.ma as quarry::local::ma. See local/ops/masked/masked_array.h and local/ops/masked/functions.inl.
//
//   const ql::ma::MaskedArray x = ql::ma::masked_less(data, 0);
//   x.mean(0).filled(-1);
//   y[0] = ql::ma::masked;
#pragma once

#include "quarry/local/ops/masked/masked.h"
