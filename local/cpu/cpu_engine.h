// The CPU engine: programs by a tile interpreter over SIMD loops, matrix work by OpenBLAS and LAPACK.
#pragma once

#include "quarry/local/program/engine.h"

namespace quarry::local {

Engine& cpu_engine();

// Threads of the shared arena that calls with ExecContext::threads == 0 use; 0 means as many as the affinity mask
// allows, which is also the default. Not while work is running.
void set_cpu_threads(int threads);
int cpu_threads();

}  // namespace quarry::local
