// The other side of io/hdf5/process: the program quarry-hdf5.
#pragma once

namespace quarry::io::hdf5 {

// Answers calls until who started it ends. Returns an exit status.
int serve_library(int argc, char** argv);

}  // namespace quarry::io::hdf5
