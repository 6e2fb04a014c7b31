// Any hyperslab to host memory: the client posts a receive for every segment where it belongs and then asks for all of
// them at once; the server packs one after the other into a buffer and sends it.
#include "quarry/chunked/exec/fetch_client.h"
#include "quarry/chunked/exec/fetch_server.h"
#include "quarry/chunked/exec/paths/path.h"

namespace quarry::exec {
namespace {

class RendezvousClient final : public PathClient {
 public:
  explicit RendezvousClient(FetchClient& client) : client_(client) {}

  void start(const FetchPtr& fetch) override {
    for (int64_t segment = 0; segment < fetch->segments; ++segment) {
      client_.expect(*fetch,
                     client_.receive_segment(*fetch, segment, fetch->to + segment * client_.link().segment_bytes));
    }
    client_.request(*fetch, 0, fetch->segments);
  }

 private:
  FetchClient& client_;
};

class Rendezvous final : public Path {
 public:
  Rendezvous(const PathRow& row, comm::Communicator& communicator) : Path(row), communicator_(communicator) {}

  std::string link(int /*owner*/) const override { return communicator_.transport(); }
  bool fits(int64_t /*bytes*/, int64_t /*run_bytes*/) const override { return true; }
  std::unique_ptr<PathClient> client(FetchClient& client) const override {
    return std::make_unique<RendezvousClient>(client);
  }
  bool serve(FetchServer& server, const GetPtr& get, int64_t segment) const override {
    return server.send_segment(get, segment);
  }

 private:
  comm::Communicator& communicator_;
};

}  // namespace

std::unique_ptr<Path> make_rendezvous(const PathRow& row, comm::Communicator& communicator, local::Device /*device*/) {
  return std::make_unique<Rendezvous>(row, communicator);
}

}  // namespace quarry::exec
