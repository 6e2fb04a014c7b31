// Decompositions by LAPACK. Stacks are spread over the arena's threads, each call with one OpenBLAS thread.
#pragma once

#include "quarry/local/program/decompositions.h"

namespace quarry::local {

class CpuDecompositions : public Decompositions {
 public:
  // The most scratch that run() takes, in one piece.
  virtual int64_t scratch_bytes(const Decomposition& task) = 0;
};
CpuDecompositions& cpu_decompositions();

}  // namespace quarry::local
