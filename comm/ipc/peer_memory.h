// The device memory of the other ranks of a host, as this rank's device reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quarry/comm/communicator.h"
#include "quarry/local/device/sharing.h"

namespace quarry::comm {

// Which pairs of ranks copy from device to device; the others send messages through pinned memory.
enum class PeerCopies : uint8_t {
  automatic,  // those of one host whose devices reach each other
  off,
  required,  // the same, and a pair of one host that cannot is an error
};
PeerCopies parse_peer_copies(const std::string& text);  // "auto" or empty, "off", "on"; throws InvalidArgument

// Which pairs of ranks whose devices do not reach each other send messages from device memory to device memory.
enum class DeviceMessages : uint8_t {
  automatic,  // where the transport moves CUDA memory
  off,
  required,  // the same, of emulated devices too, and a transport that does not is an error
};
DeviceMessages parse_device_messages(const std::string& text);  // "auto" or empty, "off", "on"; throws InvalidArgument

// Every rank exports its slab once; every other rank of the host opens it once and keeps it open.
class PeerMemory {
 public:
  struct Peer {
    const std::byte* base = nullptr;  // of its slab; null where this rank's device does not reach it
    int64_t bytes = 0;
    std::string how;        // "NVLink", …; or why it is not reached
    bool messages = false;  // not reached; the transport moves the memory of both devices
  };

  // Collective, blocking. `slab`: of Backend::allocate_slab() on `device`; null where the rank has none. Throws
  // CommError on every rank where copies are required and a pair of a host has none, and where messages are required
  // and the transport moves no memory of these devices.
  static std::unique_ptr<PeerMemory> connect(Communicator& communicator, local::Device device, void* slab,
                                             int64_t bytes, PeerCopies copies,
                                             DeviceMessages messages = DeviceMessages::automatic);
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
