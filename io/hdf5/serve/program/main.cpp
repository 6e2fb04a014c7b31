#include "quarry/io/hdf5/serve/serve.h"

// OpenBLAS, which comes with the library, asks this before main() how many threads it starts.
extern "C" int openblas_num_threads_env() { return 1; }

int main(int argc, char** argv) { return quarry::io::hdf5::serve_library(argc, argv); }
