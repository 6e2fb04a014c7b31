// SciPy's special functions over axes: ql::special::softmax(x, 1). Those of elements, ql::special::erf(x), are in
// local/api/elementwise.h. See local/ops/special/special.h.
#pragma once

#include <utility>

#include "quarry/local/ops/special/special.h"

namespace quarry::local::special {

using ops::special::log_softmax;
using ops::special::logsumexp;
using ops::special::signed_logsumexp;
using ops::special::softmax;

}  // namespace quarry::local::special
