// A small hyperslab to host memory: the server's answer holds it all.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "quarry/chunked/exec/fetch_client.h"
#include "quarry/chunked/exec/fetch_server.h"
#include "quarry/chunked/exec/paths/path.h"

namespace quarry::exec {
namespace {

class EagerClient final : public PathClient {
 public:
  explicit EagerClient(FetchClient& client) : client_(client) {}
  // The data comes to FetchClient::receive_data().
  void start(const FetchPtr& fetch) override { client_.request(*fetch, /*first=*/0, /*count=*/1); }

 private:
  FetchClient& client_;
};

class Eager final : public Path {
 public:
  Eager(const PathRow& row, comm::Communicator& communicator) : Path(row), communicator_(communicator) {}

  std::string link(int /*owner*/) const override { return communicator_.transport(); }
  bool fits(int64_t bytes, int64_t /*run_bytes*/) const override { return bytes > 0 && bytes <= kMostEager; }
  std::string limits() const override { return fmt::format("at most {} bytes", kMostEager); }
  std::unique_ptr<PathClient> client(FetchClient& client) const override {
    return std::make_unique<EagerClient>(client);
  }

  // Where the block lies in host memory.
  bool serve_at_once(FetchServer& server, const GetPtr& get) const override {
    if (server.is_declining()) return false;
    std::array<std::byte, kMostEager> data;
    const int64_t bytes = get->runs->bytes();
    const auto copy = [&](const void* from) {
      get->runs->read(0, bytes, data.data(), {}, [from](int64_t offset, int64_t count, void* to) {
        std::memcpy(to, static_cast<const std::byte*>(from) + offset, static_cast<size_t>(count));
      });
    };
    if (!server.visit(*get, copy)) return false;
    answer(server, get, std::span(data).first(static_cast<size_t>(bytes)));
    return true;
  }

  bool serve(FetchServer& server, const GetPtr& get, int64_t /*segment*/) const override {
    std::vector<std::byte> data(static_cast<size_t>(get->runs->bytes()));
    server.read(*get, 0, get->runs->bytes(), data.data());
    answer(server, get, data);
    return false;
  }

 private:
  static void answer(FetchServer& server, const GetPtr& get, std::span<const std::byte> data) {
    Message message;
    message.kind = MessageKind::data;
    message.data = data;
    server.reply(*get, std::move(message));
    server.count_sent(static_cast<int64_t>(data.size()));
    server.finish(get);
  }

  comm::Communicator& communicator_;
};

}  // namespace

std::unique_ptr<Path> make_eager(const PathRow& row, comm::Communicator& communicator, local::Device /*device*/) {
  return std::make_unique<Eager>(row, communicator);
}

}  // namespace quarry::exec
