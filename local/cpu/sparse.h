// The CPU engine's family of local/program/sparse.h.
#pragma once

#include "quarry/local/program/sparse.h"

namespace quarry::local {

SparseProducts& cpu_sparse();
// What its transpose() takes with that many threads.
int64_t cpu_transpose_scratch_bytes(const SparseTranspose& task, int threads);

}  // namespace quarry::local
