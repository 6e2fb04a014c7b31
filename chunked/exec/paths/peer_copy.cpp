// RDMA between devices of one host: the client's device reads the hyperslab where the block lies in the memory of the
// server's device (CUDA IPC). The server leases the block and replies with its offset in the slab that the client has
// open; the client's word that it is done ends the lease.
#include <fmt/format.h>

#include "quarry/chunked/exec/fetch_client.h"
#include "quarry/chunked/exec/fetch_server.h"
#include "quarry/chunked/exec/paths/path.h"
#include "quarry/chunked/exec/paths/peer_reads.h"
#include "quarry/comm/ipc/peer_memory.h"

namespace quarry::exec {
namespace {

class PeerCopyClient final : public PathClient {
 public:
  PeerCopyClient(FetchClient& client, const comm::PeerMemory& memory)
      : client_(client),
        memory_(memory),
        reads_(client.link().device, client.link().communicator.size(),
               [&communicator = client.link().communicator] { communicator.wake(); }) {}

  void start(const FetchPtr& fetch) override { client_.request(*fetch, /*first=*/0, /*count=*/1); }

  void reply(const FetchPtr& fetch, const Message& message) override {
    const comm::PeerMemory::Peer& peer = memory_.peer(fetch->owner);
    const int64_t offset = message.request.offset;
    if (offset < 0 || offset > peer.bytes - HyperslabRuns(fetch->hyperslab).block_bytes()) {
      throw local::CommError(fmt::format("rank {} leased a block outside its memory", fetch->owner));
    }
    reads_.add(fetch->id, fetch->owner, fetch->hyperslab, peer.base + offset, fetch->to);
  }

  bool poll() override {
    return reads_.poll([this](uint32_t id, const std::exception_ptr& error) {
      const FetchPtr fetch = client_.find(id);  // there until no copy is under way
      if (error) {
        client_.fail(fetch, error);
        return;
      }
      client_.count_arrived(*fetch, fetch->segments);
      client_.post(*fetch, MessageKind::done);
      client_.finish(fetch);
    });
  }
  bool holds(const Fetch& fetch) const override { return reads_.holds(fetch.id); }

 private:
  FetchClient& client_;
  const comm::PeerMemory& memory_;
  PeerReads reads_;
};

class PeerCopy final : public Path {
 public:
  PeerCopy(const PathRow& row, comm::Communicator& communicator, local::Device device)
      : Path(row), communicator_(communicator), device_(device) {}

  void connect(const PathSetup& setup) override {
    memory_ = comm::PeerMemory::connect(communicator_, device_, setup.slab, setup.slab_bytes, setup.use);
  }
  std::string obstacle(int owner) const override {
    if (!memory_) return "not connected";
    if (owner == communicator_.rank()) return "the rank itself";
    const comm::PeerMemory::Peer& peer = memory_->peer(owner);
    return peer.base != nullptr ? "" : peer.how;
  }
  std::string link(int owner) const override { return memory_->peer(owner).how; }
  bool fits(int64_t bytes, int64_t /*run_bytes*/) const override { return bytes > 0; }
  bool needs_block_on_device() const override { return true; }
  std::unique_ptr<PathClient> client(FetchClient& client) const override {
    return memory_ ? std::make_unique<PeerCopyClient>(client, *memory_) : nullptr;
  }

  bool serve(FetchServer& server, const GetPtr& get, int64_t /*segment*/) const override {
    const std::byte* const block = server.lease(get);
    if (block == nullptr) return true;
    Message message;
    message.kind = MessageKind::reply;
    message.request.offset = block - static_cast<const std::byte*>(server.link().executor.device_slab().first);
    server.reply(*get, message);
    return false;
  }

 private:
  comm::Communicator& communicator_;
  const local::Device device_;
  std::unique_ptr<comm::PeerMemory> memory_;
};

}  // namespace

std::unique_ptr<Path> make_peer_copy(const PathRow& row, comm::Communicator& communicator, local::Device device) {
  return std::make_unique<PeerCopy>(row, communicator, device);
}

}  // namespace quarry::exec
