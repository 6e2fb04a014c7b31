// The job that an MPI test program runs in.
#pragma once

#include "quarry/comm/communicator.h"

namespace quarry::test {

// All ranks, made by mpi_main.cpp before the first test; of one rank where no launcher started the program.
comm::Communicator& job();

}  // namespace quarry::test
