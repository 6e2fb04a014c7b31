// The CPU engine's family of local/program/sparse.h.
#pragma once

#include "local/program/sparse.h"

namespace quarry::local {

SparseProducts& cpu_sparse();

}  // namespace quarry::local
