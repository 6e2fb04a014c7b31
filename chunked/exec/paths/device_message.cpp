// A long run to device memory: one message from the server's device memory to the client's, by a transport that moves
// such memory itself.
#include <fmt/format.h>

#include <vector>

#include "quarry/chunked/exec/fetch_client.h"
#include "quarry/chunked/exec/fetch_server.h"
#include "quarry/chunked/exec/paths/path.h"
#include "quarry/local/base/trace.h"

namespace quarry::exec {
namespace {

constexpr int64_t kLeastBytes = int64_t{64} << 10;

class DeviceMessageClient final : public PathClient {
 public:
  explicit DeviceMessageClient(FetchClient& client) : client_(client) {}

  void start(const FetchPtr& fetch) override {
    const ServiceLink& link = client_.link();
    client_.expect(*fetch, link.communicator.receive_device(link.device.kind, fetch->to, fetch->bytes, fetch->owner,
                                                            data_tag(link.epoch, fetch->id)));
    fetch->segments = 1;
    client_.request(*fetch, /*first=*/0, /*count=*/1);
  }

 private:
  FetchClient& client_;
};

class DeviceMessage final : public Path {
 public:
  DeviceMessage(const PathRow& row, comm::Communicator& communicator, local::Device device)
      : Path(row), communicator_(communicator), device_(device) {
    obstacles_.assign(static_cast<size_t>(communicator.size()), "not connected");
  }

  void connect(const PathSetup& setup) override {
    std::exception_ptr failure;
    const bool moves = communicator_.moves_memory_of(device_.kind);
    if (setup.use == comm::PathUse::required && device_.kind != local::DeviceKind::cpu && !moves) {
      failure = std::make_exception_ptr(local::CommError(cannot_move()));
    }
    for (size_t owner = 0; owner < obstacles_.size(); ++owner) obstacles_[owner] = find_obstacle(setup, owner, moves);
    comm::agree(communicator_, failure, {"Runtime: device_messages", static_cast<uint64_t>(setup.use)});
  }
  std::string obstacle(int owner) const override { return obstacles_[static_cast<size_t>(owner)]; }
  std::string link(int /*owner*/) const override { return communicator_.transport(); }
  bool fits(int64_t bytes, int64_t run_bytes) const override { return bytes >= kLeastBytes && bytes == run_bytes; }
  std::string limits() const override { return fmt::format("single runs of at least {} KiB", kLeastBytes >> 10); }
  bool needs_block_on_device() const override { return true; }
  std::unique_ptr<PathClient> client(FetchClient& client) const override {
    return std::make_unique<DeviceMessageClient>(client);
  }

  bool serve(FetchServer& server, const GetPtr& get, int64_t /*segment*/) const override {
    const std::byte* const block = server.lease(get);
    if (block == nullptr) return true;
    // The transport may need the device to be this thread's current one.
    server.make_device_current();
    const ServiceLink& link = server.link();
    const int64_t bytes = get->runs->bytes();
    local::TraceScope trace(fmt::format("send ({}, {})[{}] from device memory to rank {}", get->key.stage,
                                        get->key.part, get->key.chunk, get->to),
                            "comm", bytes);
    server.add_sending({link.communicator.send_device(link.device.kind, block + get->runs->begin(), bytes, get->to,
                                                      data_tag(link.epoch, get->fetch)),
                        /*buffer=*/-1, get},
                       bytes);
    return false;
  }

 private:
  std::string cannot_move() const {
    return fmt::format("transport {} does not move memory of {}", communicator_.transport(), to_string(device_));
  }
  std::string find_obstacle(const PathSetup& setup, size_t owner, bool moves) const {
    if (static_cast<int>(owner) == communicator_.rank()) return "the rank itself";
    if (device_.kind == local::DeviceKind::cpu || setup.kinds[owner] == local::DeviceKind::cpu) return "no device";
    if (setup.use == comm::PathUse::off) return "messages of device memory are turned off";
    if (!moves) return cannot_move();
    if (setup.use == comm::PathUse::automatic && device_.kind != local::DeviceKind::cuda) {
      return "only when asked for on devices that are not CUDA's";
    }
    return {};
  }

  comm::Communicator& communicator_;
  const local::Device device_;
  std::vector<std::string> obstacles_;  // by owner
};

}  // namespace

std::unique_ptr<Path> make_device_message(const PathRow& row, comm::Communicator& communicator, local::Device device) {
  return std::make_unique<DeviceMessage>(row, communicator, device);
}

}  // namespace quarry::exec
