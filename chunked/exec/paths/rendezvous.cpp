// Any hyperslab to host memory: the client posts a receive for every segment where it belongs and then asks for all of
// them at once; the server packs one after the other into a buffer and sends it.
#include "quarry/chunked/exec/paths/segment_path.h"

namespace quarry::exec {
namespace {

class RendezvousClient final : public PathClient {
 public:
  RendezvousClient(FetchClient& client, const PathRow& /*row*/) : client_(client) {}

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

}  // namespace

std::unique_ptr<Path> make_rendezvous(const PathRow& row, comm::Communicator& communicator, local::Device /*device*/) {
  return std::make_unique<SegmentPath<RendezvousClient>>(row, communicator);
}

}  // namespace quarry::exec
