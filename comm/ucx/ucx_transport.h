// The transport over UCX (ucp): active messages carry control frames, tagged messages data.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "quarry/comm/transport.h"

namespace quarry::comm::ucx {

class UcxTransport : public Transport {
 public:
  // How other processes reach this one; they get it by MPI.
  virtual std::string address() const = 0;
  // That of a rank, which stays where it is, and whether it shares this one's node; before anything is sent. Asked for
  // when this rank first sends to that one.
  virtual void set_addresses(std::function<std::string(int rank)> address_of,
                             std::function<bool(int rank)> is_on_node) = 0;
};

// To be called before MPI starts. UCX learns of freed memory by rewriting the code of mmap() and its kin in place,
// which would end the process if another thread were in there. Here it does so before MPI starts threads, and while
// those of other libraries sleep.
void install_memory_hooks();

// Null, with the reason, where UCX is not built in or cannot start here.
std::unique_ptr<UcxTransport> make_ucx_transport(int rank, int size, std::string& reason);

}  // namespace quarry::comm::ucx
