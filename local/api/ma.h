// Masked arrays: numpy.ma as quarry::local::ma. See local/ops/masked/masked_array.h and local/ops/masked/functions.inl.
//
//   ql::ma::MaskedArray positive = ql::ma::masked_less(x, 0);
//   positive.mean(0).filled(-1);
//   positive[0] = ql::ma::masked;
#pragma once

#include "quarry/local/ops/masked/masked.h"
