// The GPU engine's family of local/program/products.h.
#pragma once

#include "quarry/local/cuda/compiler.h"
#include "quarry/local/program/products.h"

namespace quarry::local::cuda {

Products& cuda_products();

// The kernels of integer products, for tests that compile them.
ModuleSource integer_product_source();

}  // namespace quarry::local::cuda
