// The device memory of the other ranks of a host, as this rank's device reads it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/comm/communicator.h"
#include "quarry/comm/path_use.h"
#include "quarry/local/device/sharing.h"

namespace quarry::comm {

// A rank's device memory is in segments, which have numbers. The owner exports a segment when another rank is first to
// read from it; that one opens it then and keeps it open until it is told to close it, or to the end. Opening costs
// time in proportion to its bytes. Thread-safe.
class PeerMemory {
 public:
  // Which ranks may be reached: those of this host with a device of the same kind. Opens nothing unless copies are
  // required: then every rank opens a small piece of memory of every other one of its host, and all throw CommError
  // where one cannot. Collective, blocking.
  static std::unique_ptr<PeerMemory> connect(Communicator& communicator, local::Device device, PathUse use);
  // Closes what is open. Segments may be freed when every rank has come past this.
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Opens a small piece of memory of every rank that seems to be reached. Why one of them is not after all; empty where
  // all are. Collective, blocking.
  std::string probe(Communicator& communicator);

  // Why this rank's device does not reach that of `rank`; empty where nothing is known against it.
  std::string obstacle(int rank) const;
  bool is_reached(int rank) const { return peers_[static_cast<size_t>(rank)].reached; }
  // What connects the two: "NVLink", …
  std::string link(int rank) const;

  // --- of this rank's own memory ---

  // The handle of a segment of Backend::allocate_slab(), for `rank`, which is counted among its readers. Throws
  // DeviceError where it cannot be shared.
  std::string export_to(int rank, int64_t segment, void* data, int64_t bytes);
  // The ranks that may have it open.
  std::vector<int> readers(int64_t segment) const;
  // That one has closed it; true if it was the last one.
  bool end_reading(int rank, int64_t segment);

  // --- of other ranks' memory ---

  // Where their segment begins. Throws DeviceError where it cannot be opened; the rank is not reached any more then.
  const std::byte* open(int rank, int64_t segment, int64_t bytes, const std::string& handle);
  // No work may use it any more.
  void close(int rank, int64_t segment);
  int64_t open_segments() const;

 private:
  struct Peer {
    std::atomic<bool> reached{false};
    std::string obstacle;  // where it is not
    std::string uuid;      // of its device
    std::string link;      // once it was asked for
  };
  PeerMemory(local::Device device, int ranks) : device_(device), peers_(static_cast<size_t>(ranks)) {}

  const local::Device device_;
  mutable std::mutex mutex_;
  mutable std::vector<Peer> peers_;
  std::map<std::pair<int, int64_t>, void*> open_;  // (rank, segment)
  struct Own {
    std::string handle;
    std::set<int> readers;
  };
  std::map<int64_t, Own> own_;
};

}  // namespace quarry::comm
