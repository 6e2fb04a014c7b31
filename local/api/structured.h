// Systems of equations of which more is known, and products with triangles: ql::linalg::solve(a, b, {.assume =
// ql::linalg::Assumed::positive_definite}), ql::linalg::trmm(a, b). See local/ops/linalg/structured.h.
#pragma once

#include "quarry/local/ops/linalg/structured.h"

namespace quarry::local::linalg {

using ops::Assumed;
using ops::hemm;
using ops::herk;
using ops::solve;
using ops::symm;
using ops::syrk;
using ops::SystemOptions;
using ops::trmm;

}  // namespace quarry::local::linalg
