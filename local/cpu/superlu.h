// SuperLU's direct factorisation. One thread; memory is the system's, not the pool's.
#pragma once

#include <memory>

#include "quarry/local/base/detail.h"
#include "quarry/local/program/sparse_factors.h"

namespace quarry::local::cpu {

// As SparseProducts::factorise().
std::unique_ptr<LuFactors> factorise(const LuMatrix& a, const LuOptions& options);

}  // namespace quarry::local::cpu
