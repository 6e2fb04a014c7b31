// The wire over UCX (ucp): active messages carry control frames, tagged messages data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/wire.h"

namespace quarry::comm::ucx {

class UcxWire : public Wire {
 public:
  // How other processes reach this one; they get it by MPI.
  virtual std::string address() const = 0;
  virtual void set_addresses(std::vector<std::string> addresses) = 0;  // of all ranks, before anything is sent
};

// Null, with the reason, where UCX is not built in or cannot start here.
std::unique_ptr<UcxWire> make_ucx_wire(int rank, int size, std::string& reason);

}  // namespace quarry::comm::ucx
