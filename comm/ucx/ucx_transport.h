// The transport over UCX (ucp): active messages carry control frames, tagged messages data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quarry/comm/transport.h"

namespace quarry::comm::ucx {

class UcxTransport : public Transport {
 public:
  // How other processes reach this one; they get it by MPI.
  virtual std::string address() const = 0;
  // Of all ranks, and which of them share this one's node; before anything is sent.
  virtual void set_addresses(std::vector<std::string> addresses, std::vector<bool> on_node) = 0;
};

// To be called before MPI starts. UCX learns of freed memory by rewriting the code of mmap() and its kin in place,
// which would end the process if another thread were in there. Here it does so before MPI starts threads, and while
// those of other libraries sleep.
void install_memory_hooks();

// Null, with the reason, where UCX is not built in or cannot start here.
std::unique_ptr<UcxTransport> make_ucx_transport(int rank, int size, std::string& reason);

}  // namespace quarry::comm::ucx
