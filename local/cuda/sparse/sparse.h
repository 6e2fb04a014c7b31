// The GPU engine's family of local/program/sparse.h.
#pragma once

#include "quarry/local/program/sparse.h"

namespace quarry::local::cuda {

SparseProducts& cuda_sparse();

}  // namespace quarry::local::cuda
