#include "quarry/local/program/sparse.h"

#include "quarry/local/base/error.h"
#include "quarry/local/program/sparse_factors.h"

namespace quarry::local {

std::unique_ptr<LuFactors> SparseProducts::factorise(const LuMatrix& /*a*/, const LuOptions& /*options*/) {
  throw NotSupported("a direct factorisation of a sparse matrix runs on the CPU only");
}

}  // namespace quarry::local
