// What the paths share that take any hyperslab in segments, as messages of host memory.
#pragma once

#include <memory>
#include <string>

#include "quarry/chunked/exec/fetch_client.h"
#include "quarry/chunked/exec/fetch_server.h"
#include "quarry/chunked/exec/paths/path.h"

namespace quarry::exec {

// `Client` is made of a FetchClient and the path's row.
template <class Client>
class SegmentPath final : public Path {
 public:
  SegmentPath(const PathRow& row, comm::Communicator& communicator) : Path(row), communicator_(communicator) {}

  std::string link(int /*owner*/) const override { return communicator_.transport(); }
  bool fits(int64_t /*bytes*/, int64_t /*run_bytes*/) const override { return true; }
  std::unique_ptr<PathClient> client(FetchClient& client) const override {
    return std::make_unique<Client>(client, row());
  }
  bool serve(FetchServer& server, const GetPtr& get, int64_t segment) const override {
    return server.send_segment(get, segment);
  }

 private:
  comm::Communicator& communicator_;
};

}  // namespace quarry::exec
