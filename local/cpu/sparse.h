#pragma once

#include "local/program/sparse.h"

namespace quarry::local {

SparseProducts& cpu_sparse();

}  // namespace quarry::local
