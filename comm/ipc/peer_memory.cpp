#include "quarry/comm/ipc/peer_memory.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>

namespace quarry::comm {
namespace {

constexpr const char* kNoDevice = "no device";

// What a rank tells the others: its device, and the handle of its slab or why there is none.
struct Export {
  int64_t bytes = 0;  // of the slab; 0: no handle
  std::string uuid, handle;

  std::string pack() const {
    std::string text(sizeof bytes, '\0');
    std::memcpy(text.data(), &bytes, sizeof bytes);
    return text + uuid + '\n' + handle;
  }
  static Export unpack(const std::string& text) {
    Export exported;
    std::memcpy(&exported.bytes, text.data(), sizeof exported.bytes);
    const size_t end = text.find('\n', sizeof exported.bytes);
    exported.uuid = text.substr(sizeof exported.bytes, end - sizeof exported.bytes);
    exported.handle = text.substr(end + 1);
    return exported;
  }
};

Export make_export(local::Device device, void* slab, int64_t bytes, PathUse use) {
  Export exported;
  if (device.kind == local::DeviceKind::cpu) {
    exported.handle = kNoDevice;
  } else if (use == PathUse::off) {
    exported.handle = "copies between devices are turned off";
  } else if (slab == nullptr || bytes <= 0) {
    exported.handle = "no device memory";
  } else {
    try {
      exported.uuid = local::backend(device.kind).info(device.index).uuid;
      local::MemorySharing* const sharing = local::memory_sharing(device.kind);
      if (sharing == nullptr) throw local::DeviceError("memory of this kind of device is not shared");
      exported.handle = sharing->export_slab(device.index, slab, bytes);
      exported.bytes = bytes;
    } catch (const local::Error& error) {
      exported.handle = error.what();
    }
  }
  return exported;
}

}  // namespace

std::unique_ptr<PeerMemory> PeerMemory::connect(Communicator& communicator, local::Device device, void* slab,
                                                int64_t bytes, PathUse use) {
  const int rank = communicator.rank();
  std::unique_ptr<PeerMemory> memory(new PeerMemory(device, rank));
  const std::vector<std::string> exports =
      communicator.all_gather_strings(make_export(device, slab, bytes, use).pack());
  std::exception_ptr failure;
  for (int r = 0; r < communicator.size(); ++r) {
    Peer& peer = memory->peers_.emplace_back();
    const Export exported = Export::unpack(exports[static_cast<size_t>(r)]);
    if (r == rank) {
      peer = {static_cast<const std::byte*>(slab), bytes, "itself"};
      continue;
    }
    if (device.kind == local::DeviceKind::cpu || exported.handle == kNoDevice) {
      peer.how = kNoDevice;  // on one side; nothing that could be asked for
      continue;
    }
    if (communicator.node_of(r) != communicator.node_of(rank)) {
      peer.how = "another host";
      continue;
    }
    if (exported.bytes == 0) {
      peer.how = exported.handle;
    } else {
      try {
        local::MemorySharing* const sharing = local::memory_sharing(device.kind);
        if (sharing == nullptr) throw local::DeviceError("this rank has no such device");
        peer.base = static_cast<const std::byte*>(sharing->open(device.index, exported.handle));
        peer.bytes = exported.bytes;
        peer.how = sharing->link(device.index, exported.uuid);
      } catch (const local::Error& error) {
        peer.how = error.what();
      }
    }
    if (use == PathUse::required && peer.base == nullptr && !failure) {
      failure = std::make_exception_ptr(
          local::CommError(fmt::format("rank {} cannot copy from the device of rank {}: {}", rank, r, peer.how)));
    }
  }
  agree(communicator, failure, {"Runtime: peer_copies", static_cast<uint64_t>(use)});
  return memory;
}

PeerMemory::~PeerMemory() {
  for (size_t r = 0; r < peers_.size(); ++r) {
    if (static_cast<int>(r) == rank_ || peers_[r].base == nullptr) continue;
    local::memory_sharing(device_.kind)->close(device_.index, const_cast<std::byte*>(peers_[r].base));
  }
}

}  // namespace quarry::comm
