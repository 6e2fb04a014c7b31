#include <cstdio>
#include <cstdlib>

#include "quarry/apps/quarry/tool.h"

// OpenBLAS asks this before main() how many threads of its own it starts, each with a buffer of 128 MiB that it asks
// for again and again until it gets one. The program's calls never use them (local/cpu/blas_threads.h).
extern "C" int openblas_num_threads_env() { return 1; }

int main(int argc, char** argv) {
  const int status = quarry::apps::run_tool(argc, argv);
  if (status == 0) return 0;
  // After a failed write the HDF5 library still holds files that it cannot close, and crashes where it tries at exit.
  std::fflush(nullptr);
  std::_Exit(status);
}
