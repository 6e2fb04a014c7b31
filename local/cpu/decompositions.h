// Decompositions by LAPACK. Stacks are spread over the arena's threads, each call with one OpenBLAS thread.
#pragma once

#include "quarry/local/program/decompositions.h"

namespace quarry::local {

Decompositions& cpu_decompositions();

}  // namespace quarry::local
