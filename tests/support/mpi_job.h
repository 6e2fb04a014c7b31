// The job that an MPI test program runs in.
#pragma once

#include <string>

#include "quarry/comm/communicator.h"

namespace quarry::test {

// All ranks, made by mpi_main.cpp before the first test; of one rank where no launcher started the program.
comm::Communicator& job();

// A long test begins a part of itself, whose time is limited as that of a test is.
void going_on(const std::string& what);

}  // namespace quarry::test
