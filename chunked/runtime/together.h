// Steps that fail on every rank if they fail on one.
#pragma once

#include <exception>

#include "quarry/comm/communicator.h"

namespace quarry {

// Runs `part` of a call on this rank; if it throws on any rank, every rank throws the lowest one's error.
template <class Part>
void together(comm::Communicator& communicator, const comm::Call& call, Part part) {
  std::exception_ptr error;
  try {
    part();
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, call);
}

}  // namespace quarry
