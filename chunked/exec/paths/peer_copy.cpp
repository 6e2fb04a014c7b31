// RDMA between devices of one host: the client's device reads the hyperslab where the block lies in the memory of the
// server's device (CUDA IPC). The server leases the block and replies with the segment of its memory that the block
// lies in, the segment's handle, which the client opens when it first sees it, and the block's offset there; the
// client's word that it is done ends the lease. A client that cannot open the segment takes another path to that owner,
// now and later.
//
// A segment may go back to the device before the end, when memory is needed in longer pieces. Nothing lies in it then,
// so nobody reads from it. Its owner sends a recall to every rank that got its handle, each closes it and says so, and
// the last answer frees the segment. Ranks answer as long as their run lasts, which is as long as the owner's.
#include <fmt/format.h>

#include "quarry/chunked/exec/fetch_client.h"
#include "quarry/chunked/exec/fetch_server.h"
#include "quarry/chunked/exec/paths/path.h"
#include "quarry/chunked/exec/paths/peer_reads.h"
#include "quarry/comm/ipc/peer_memory.h"
#include "quarry/local/base/log.h"

namespace quarry::exec {
namespace {

class PeerCopyClient final : public PathClient {
 public:
  PeerCopyClient(FetchClient& client, comm::PeerMemory& memory)
      : client_(client),
        memory_(memory),
        reads_(client.link().device, client.link().communicator.rank(), client.link().communicator.size()) {}

  void start(const FetchPtr& fetch) override { client_.request(*fetch, /*first=*/0, /*count=*/1); }

  void reply(const FetchPtr& fetch, const Message& message) override {
    const int64_t offset = message.request.offset;
    if (offset < 0 || offset > message.segment.bytes - HyperslabRuns(fetch->hyperslab).block_bytes()) {
      throw local::CommError(fmt::format("rank {} leased a block outside its memory", fetch->owner));
    }
    const std::byte* base = nullptr;
    try {
      base = memory_.open(fetch->owner, message.segment.number, message.segment.bytes, message.segment.handle);
    } catch (const local::DeviceError& error) {
      local::log(local::LogLevel::info, fmt::format("{}; its blocks take another path", error.what()));
      client_.post(*fetch, MessageKind::unreached);
      client_.fall_back(fetch->owner, fetch->id);
      return;
    }
    reads_.add(fetch->id, fetch->owner, fetch->hyperslab, base + offset, fetch->to);
  }

  bool poll() override {
    return reads_.poll([this](uint32_t id, const std::exception_ptr& error) {
      const FetchPtr fetch = client_.find(id);  // there until no copy is under way
      if (error) {
        client_.fail(fetch, error);
        return;
      }
      client_.count_arrived(*fetch, fetch->segments);
      try {
        client_.post(*fetch, MessageKind::done);
      } catch (const local::Error&) {  // the owner is lost; the copies that wait behind this one are to begin and end
        client_.link().fail(std::current_exception());
      }
      client_.finish(fetch);
    });
  }
  bool holds(const Fetch& fetch) const override { return reads_.holds(fetch.id); }
  bool must_be_polled() const override { return reads_.is_reading(); }

 private:
  FetchClient& client_;
  comm::PeerMemory& memory_;
  PeerReads reads_;
};

class PeerCopy final : public Path {
 public:
  PeerCopy(const PathRow& row, comm::Communicator& communicator, local::Device device)
      : Path(row), communicator_(communicator), device_(device) {}

  void connect(const PathSetup& setup) override {
    memory_ = comm::PeerMemory::connect(communicator_, device_, setup.use);
  }
  void probe() const override {
    if (memory_) static_cast<void>(memory_->probe(communicator_));
  }
  std::string obstacle(int owner) const override { return memory_ ? memory_->obstacle(owner) : "not connected"; }
  bool reaches(int owner) const override { return memory_ && memory_->is_reached(owner); }
  std::string link(int owner) const override { return memory_->link(owner); }
  bool fits(int64_t bytes, int64_t /*run_bytes*/) const override { return bytes > 0; }
  bool needs_block_on_device() const override { return true; }
  bool serves_in_any_thread() const override { return true; }
  std::unique_ptr<PathClient> client(FetchClient& client) const override {
    return memory_ ? std::make_unique<PeerCopyClient>(client, *memory_) : nullptr;
  }

  bool serve(FetchServer& server, const GetPtr& get, int64_t /*segment*/) const override {
    const std::byte* const block = server.lease(get);
    if (block == nullptr) return true;
    const scheduler::SharedSegment segment = server.link().executor.share_segment(block);
    Message message;
    try {
      message.segment = {segment.number, segment.bytes,
                         memory_->export_to(get->to, segment.number, segment.data, segment.bytes)};
    } catch (const local::DeviceError& error) {
      local::log(local::LogLevel::debug, fmt::format("a block takes another path: {}", error.what()));
      server.take_back(get);
      return true;
    }
    message.kind = MessageKind::reply;
    message.request.offset = block - static_cast<const std::byte*>(segment.data);
    server.reply(*get, message);
    return false;
  }

  void recall(const ServiceLink& link, int64_t segment) const override {
    Message message;
    message.kind = MessageKind::recall;
    message.path = static_cast<uint16_t>(number());
    message.epoch = link.epoch;
    message.segment.number = segment;
    const std::vector<int> readers = memory_ ? memory_->readers(segment) : std::vector<int>();
    for (const int rank : readers) link.communicator.post(rank, encode(message));
    if (readers.empty()) link.executor.end_sharing(segment);
  }

  void handle_recall(const ServiceLink& link, int from, const Message& recalled) const override {
    if (!memory_) throw local::CommError(fmt::format("rank {} recalls memory that it did not share", from));
    Message message = recalled;
    if (recalled.kind == MessageKind::recall) {
      memory_->close(from, recalled.segment.number);
      message.kind = MessageKind::recalled;
      link.communicator.post(from, encode(message));
    } else if (memory_->end_reading(from, recalled.segment.number)) {
      link.executor.end_sharing(recalled.segment.number);
    }
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
