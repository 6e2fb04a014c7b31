#include "quarry/comm/ipc/peer_memory.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>

#include "quarry/local/memory/pages.h"

namespace quarry::comm {
namespace {

constexpr const char* kNoDevice = "no device";
constexpr const char* kItself = "the rank itself";
constexpr const char* kAnotherHost = "another host";
// That this device does not reach a rank for such a reason is no failure.
bool is_out_of_reach(const std::string& obstacle) {
  return obstacle == kNoDevice || obstacle == kItself || obstacle == kAnotherHost;
}

// What a rank tells the others: its device, or why it has none to read from.
struct Offer {
  std::string uuid, obstacle;

  std::string pack() const { return uuid + '\n' + obstacle; }
  static Offer unpack(const std::string& text) {
    const size_t end = text.find('\n');
    return {text.substr(0, end), text.substr(end + 1)};
  }
};

Offer make_offer(local::Device device, PathUse use) {
  Offer offer;
  try {
    if (device.kind == local::DeviceKind::cpu) {
      offer.obstacle = kNoDevice;
    } else if (use == PathUse::off) {
      offer.obstacle = "copies between devices are turned off";
    } else if (local::memory_sharing(device.kind) == nullptr) {
      offer.obstacle = "memory of this kind of device is not shared";
    } else {
      offer.uuid = local::backend(device.kind).identity(device.index).uuid;
    }
  } catch (const local::Error& error) {
    offer.obstacle = error.what();
  }
  return offer;
}

// A piece of device memory that others may open.
class Probe {
 public:
  explicit Probe(local::Device device)
      : device_(device), bytes_(device.kind == local::DeviceKind::cuda ? kCudaBytes : local::kPageBytes) {
    if (device.kind != local::DeviceKind::cpu) data_ = local::backend(device.kind).allocate_slab(device.index, bytes_);
  }
  ~Probe() {
    if (data_ != nullptr) local::backend(device_.kind).free_slab(device_.index, data_, bytes_);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  std::string handle() const {
    return data_ == nullptr ? "" : local::memory_sharing(device_.kind)->export_slab(device_.index, data_, bytes_);
  }

 private:
  static constexpr int64_t kCudaBytes = int64_t{2} << 20;  // what the driver cuts no further
  const local::Device device_;
  const int64_t bytes_;
  void* data_ = nullptr;
};

}  // namespace

std::string PeerMemory::probe(Communicator& communicator) {
  constexpr char kHandle = 'h', kError = 'e';
  std::unique_ptr<Probe> mine;
  std::string offered(1, kHandle);
  try {
    mine = std::make_unique<Probe>(device_);
    offered += mine->handle();
  } catch (const local::Error& error) {
    offered = kError + std::string(error.what());
  }
  const std::vector<std::string> all = communicator.all_gather_strings(offered);
  std::string failure;
  for (int r = 0; r < communicator.size(); ++r) {
    Peer& peer = peers_[static_cast<size_t>(r)];
    const std::string& offer = all[static_cast<size_t>(r)];
    if (peer.reached) {
      try {
        if (offer[0] == kError) throw local::DeviceError(offer.substr(1));
        local::MemorySharing* const sharing = local::memory_sharing(device_.kind);
        sharing->close(device_.index, sharing->open(device_.index, offer.substr(1)));
        continue;
      } catch (const local::Error& error) {
        peer.obstacle = error.what();
        peer.reached = false;
      }
    }
    if (!is_out_of_reach(peer.obstacle) && failure.empty()) {
      failure =
          fmt::format("rank {} cannot copy from the device of rank {}: {}", communicator.rank(), r, peer.obstacle);
    }
  }
  communicator.barrier();  // nobody frees what another one has open
  return failure;
}

std::unique_ptr<PeerMemory> PeerMemory::connect(Communicator& communicator, local::Device device, PathUse use) {
  const int rank = communicator.rank();
  std::unique_ptr<PeerMemory> memory(new PeerMemory(device, communicator.size()));
  const std::vector<std::string> offers = communicator.all_gather_strings(make_offer(device, use).pack());
  for (int r = 0; r < communicator.size(); ++r) {
    Peer& peer = memory->peers_[static_cast<size_t>(r)];
    const Offer offer = Offer::unpack(offers[static_cast<size_t>(r)]);
    peer.uuid = offer.uuid;
    if (r == rank) {
      peer.obstacle = kItself;
    } else if (device.kind == local::DeviceKind::cpu) {
      peer.obstacle = kNoDevice;
    } else if (!offer.obstacle.empty()) {
      peer.obstacle = offer.obstacle;
    } else if (communicator.node_of(r) != communicator.node_of(rank)) {
      peer.obstacle = kAnotherHost;
    } else {
      peer.reached = true;
    }
  }
  // The uses are the same on all ranks, or agree() says so.
  std::exception_ptr failure;
  agree(communicator, failure, {"Runtime: peer_copies", static_cast<uint64_t>(use)});
  if (use != PathUse::required) return memory;
  if (const std::string text = memory->probe(communicator); !text.empty()) {
    failure = std::make_exception_ptr(local::CommError(text));
  }
  agree(communicator, failure, {"Runtime: peer_copies", static_cast<uint64_t>(use)});
  return memory;
}

PeerMemory::~PeerMemory() {
  for (const auto& [of, mapped] : open_) local::memory_sharing(device_.kind)->close(device_.index, mapped);
}

std::string PeerMemory::obstacle(int rank) const {
  const std::lock_guard lock(mutex_);
  return peers_[static_cast<size_t>(rank)].obstacle;
}

std::string PeerMemory::link(int rank) const {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<size_t>(rank)];
  if (peer.link.empty()) peer.link = local::memory_sharing(device_.kind)->link(device_.index, peer.uuid);
  return peer.link;
}

std::string PeerMemory::export_to(int rank, int64_t segment, void* data, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Own& own = own_[segment];
  if (own.handle.empty()) {
    try {
      own.handle = local::memory_sharing(device_.kind)->export_slab(device_.index, data, bytes);
    } catch (...) {
      own_.erase(segment);
      throw;
    }
  }
  own.readers.insert(rank);
  return own.handle;
}

std::vector<int> PeerMemory::readers(int64_t segment) const {
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(segment);
  if (found == own_.end()) return {};
  return {found->second.readers.begin(), found->second.readers.end()};
}

bool PeerMemory::end_reading(int rank, int64_t segment) {
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(segment);
  if (found == own_.end()) return true;
  found->second.readers.erase(rank);
  if (!found->second.readers.empty()) return false;
  own_.erase(found);
  return true;
}

const std::byte* PeerMemory::open(int rank, int64_t segment, int64_t bytes, const std::string& handle) {
  const std::lock_guard lock(mutex_);
  const auto [place, added] = open_.try_emplace({rank, segment}, nullptr);
  if (added) {
    try {
      place->second = local::memory_sharing(device_.kind)->open(device_.index, handle);
    } catch (const local::Error& error) {
      open_.erase(place);
      Peer& peer = peers_[static_cast<size_t>(rank)];
      peer.obstacle = fmt::format("{} bytes of its memory cannot be opened: {}", bytes, error.what());
      peer.reached = false;
      throw local::DeviceError(fmt::format("rank {}: {}", rank, peer.obstacle));
    }
  }
  return static_cast<const std::byte*>(place->second);
}

void PeerMemory::close(int rank, int64_t segment) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find({rank, segment});
  if (found == open_.end()) return;
  local::memory_sharing(device_.kind)->close(device_.index, found->second);
  open_.erase(found);
}

int64_t PeerMemory::open_segments() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(open_.size());
}

}  // namespace quarry::comm
