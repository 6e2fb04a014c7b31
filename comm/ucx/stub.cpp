// Built in place of ucx_transport.cpp with QUARRY_UCX=OFF.
#include "quarry/comm/ucx/ucx_transport.h"

namespace quarry::comm::ucx {

void install_memory_hooks() {}

std::unique_ptr<UcxTransport> make_ucx_transport(int /*rank*/, int /*size*/, std::string& reason) {
  reason = "this build has no UCX (QUARRY_UCX=OFF)";
  return nullptr;
}

}  // namespace quarry::comm::ucx
