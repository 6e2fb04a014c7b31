// Products, polynomials, signal and numerical functions: the chapter of local/ops/functions/math.def.
#pragma once

#include "local/ops/einsum.h"
#include "local/ops/numerical.h"
#include "local/ops/polynomials.h"
#include "local/ops/products.h"
