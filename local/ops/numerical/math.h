// Products, polynomials, signal and numerical functions: the chapter of local/ops/functions/math.def.
#pragma once

#include "quarry/local/ops/numerical/numerical.h"
#include "quarry/local/ops/numerical/polynomials.h"
#include "quarry/local/ops/products/einsum.h"
#include "quarry/local/ops/products/products.h"
