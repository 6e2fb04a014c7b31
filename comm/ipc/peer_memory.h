// The device memory of the other ranks of a host, as this rank's device reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quarry/comm/communicator.h"
#include "quarry/comm/path_use.h"
#include "quarry/local/device/sharing.h"

namespace quarry::comm {

// Every rank exports its slab once; every other rank of the host opens it once and keeps it open.
class PeerMemory {
 public:
  struct Peer {
    const std::byte* base = nullptr;  // of its slab; null where this rank's device does not reach it
    int64_t bytes = 0;
    std::string how;  // "NVLink", …; or why it is not reached
  };

  // Collective, blocking. `slab`: of Backend::allocate_slab() on `device`; null where the rank has none. Throws
  // CommError on every rank where copies are required and a pair of a host has none.
  static std::unique_ptr<PeerMemory> connect(Communicator& communicator, local::Device device, void* slab,
                                             int64_t bytes, PathUse use);
  // Closes what is open. The slabs may be freed when every rank has come past this (a barrier).
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  const Peer& peer(int rank) const { return peers_.at(static_cast<size_t>(rank)); }
  const std::vector<Peer>& peers() const { return peers_; }

 private:
  PeerMemory(local::Device device, int rank) : device_(device), rank_(rank) {}
  const local::Device device_;
  const int rank_;
  std::vector<Peer> peers_;
};

}  // namespace quarry::comm
