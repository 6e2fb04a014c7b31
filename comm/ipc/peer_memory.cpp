#include "quarry/comm/ipc/peer_memory.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>

namespace quarry::comm {
namespace {

constexpr const char* kNoDevice = "no device";

// What a rank tells the others: its device, and the handle of its slab or why there is none.
struct Offer {
  int64_t bytes = 0;  // of the slab; 0: no handle
  std::string uuid, handle;

  std::string pack() const {
    std::string text(sizeof bytes, '\0');
    std::memcpy(text.data(), &bytes, sizeof bytes);
    return text + uuid + '\n' + handle;
  }
  static Offer unpack(const std::string& text) {
    Offer offer;
    std::memcpy(&offer.bytes, text.data(), sizeof offer.bytes);
    const size_t end = text.find('\n', sizeof offer.bytes);
    offer.uuid = text.substr(sizeof offer.bytes, end - sizeof offer.bytes);
    offer.handle = text.substr(end + 1);
    return offer;
  }
};

Offer make_offer(local::Device device, void* slab, int64_t bytes, PeerCopies copies) {
  Offer offer;
  if (device.kind == local::DeviceKind::cpu) {
    offer.handle = kNoDevice;
  } else if (copies == PeerCopies::off) {
    offer.handle = "copies between devices are turned off";
  } else if (slab == nullptr || bytes <= 0) {
    offer.handle = "no device memory";
  } else {
    try {
      offer.uuid = local::backend(device.kind).info(device.index).uuid;
      local::MemorySharing* const sharing = local::memory_sharing(device.kind);
      if (sharing == nullptr) throw local::DeviceError("memory of this kind of device is not shared");
      offer.handle = sharing->export_slab(device.index, slab, bytes);
      offer.bytes = bytes;
    } catch (const local::Error& error) {
      offer.handle = error.what();
    }
  }
  return offer;
}

}  // namespace

PeerCopies parse_peer_copies(const std::string& text) {
  if (text.empty() || text == "auto") return PeerCopies::automatic;
  if (text == "off") return PeerCopies::off;
  if (text == "on") return PeerCopies::required;
  throw local::InvalidArgument(fmt::format("peer copies: \"{}\": expected auto, on or off", text));
}

DeviceMessages parse_device_messages(const std::string& text) {
  if (text.empty() || text == "auto") return DeviceMessages::automatic;
  if (text == "off") return DeviceMessages::off;
  if (text == "on") return DeviceMessages::required;
  throw local::InvalidArgument(fmt::format("device messages: \"{}\": expected auto, on or off", text));
}

std::unique_ptr<PeerMemory> PeerMemory::connect(Communicator& communicator, local::Device device, void* slab,
                                                int64_t bytes, PeerCopies copies, DeviceMessages messages) {
  const int rank = communicator.rank();
  std::unique_ptr<PeerMemory> memory(new PeerMemory(device, rank));
  const std::vector<std::string> offers =
      communicator.all_gather_strings(make_offer(device, slab, bytes, copies).pack());
  std::exception_ptr failure;
  const bool moved = communicator.moves_memory_of(device.kind);
  if (messages == DeviceMessages::required && device.kind != local::DeviceKind::cpu && !moved) {
    failure = std::make_exception_ptr(local::CommError(
        fmt::format("transport {} does not move memory of {}", communicator.transport(), to_string(device))));
  }
  for (int r = 0; r < communicator.size(); ++r) {
    Peer& peer = memory->peers_.emplace_back();
    const Offer offer = Offer::unpack(offers[static_cast<size_t>(r)]);
    if (r == rank) {
      peer = {static_cast<const std::byte*>(slab), bytes, "itself"};
      continue;
    }
    if (device.kind == local::DeviceKind::cpu || offer.handle == kNoDevice) {
      peer.how = kNoDevice;  // on one side; nothing that could be asked for
      continue;
    }
    peer.messages = moved && (messages == DeviceMessages::required ||
                              (messages == DeviceMessages::automatic && device.kind == local::DeviceKind::cuda));
    if (communicator.node_of(r) != communicator.node_of(rank)) {
      peer.how = "another host";
      continue;
    }
    if (offer.bytes == 0) {
      peer.how = offer.handle;
    } else {
      try {
        local::MemorySharing* const sharing = local::memory_sharing(device.kind);
        if (sharing == nullptr) throw local::DeviceError("this rank has no such device");
        peer.base = static_cast<const std::byte*>(sharing->open(device.index, offer.handle));
        peer.bytes = offer.bytes;
        peer.how = sharing->link(device.index, offer.uuid);
        peer.messages = false;
      } catch (const local::Error& error) {
        peer.how = error.what();
      }
    }
    if (copies == PeerCopies::required && peer.base == nullptr && !failure) {
      failure = std::make_exception_ptr(
          local::CommError(fmt::format("rank {} cannot copy from the device of rank {}: {}", rank, r, peer.how)));
    }
  }
  agree(communicator, failure, static_cast<uint64_t>(copies) << 8 | static_cast<uint64_t>(messages));
  return memory;
}

PeerMemory::~PeerMemory() {
  for (size_t r = 0; r < peers_.size(); ++r) {
    if (static_cast<int>(r) == rank_ || peers_[r].base == nullptr) continue;
    local::memory_sharing(device_.kind)->close(device_.index, const_cast<std::byte*>(peers_[r].base));
  }
}

}  // namespace quarry::comm
