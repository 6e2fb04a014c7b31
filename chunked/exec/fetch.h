// A fetch of a hyperslab of another rank's block, as both sides keep it: the client, which asks, and the server, which
// owns the block.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "quarry/chunked/exec/hyperslab.h"
#include "quarry/chunked/exec/service.h"

namespace quarry::exec {

class Path;
class Paths;

// What the parts of a service share.
struct ServiceLink {
  comm::Communicator& communicator;
  scheduler::Executor& executor;
  uint64_t epoch = 0;
  const Paths& paths;
  int64_t segment_bytes = 0;  // of what is staged; the same on all ranks
  local::Device device;
  // This rank's own failure; from any thread.
  std::function<void(const std::exception_ptr&)> fail;

  int64_t segments_of(int64_t bytes) const { return (bytes + segment_bytes - 1) / segment_bytes; }
};

// The client's side.
struct Fetch {
  int owner = 0;
  uint32_t id = 0;
  BlockKey key;
  Hyperslab hyperslab;
  std::byte* to = nullptr;
  std::function<void(std::exception_ptr)> done;
  const Path* path = nullptr;
  int64_t bytes = 0, run_bytes = 0;  // packed; of one run
  int64_t segments = 0, arrived = 0;
  int64_t requested = 0;                                // staged: segments
  std::deque<std::unique_ptr<comm::Request>> receives;  // of segments arrived, arrived + 1, …
  std::exception_ptr error;
  int64_t begin_ns = 0;
};
using FetchPtr = std::shared_ptr<Fetch>;

// The server's side.
struct Get {
  int to = -1;  // this rank: `own` is set
  uint32_t fetch = 0;
  BlockKey key;
  scheduler::BlockId block = -1;
  std::shared_ptr<const std::byte> stolen;  // of a kStolen one, once it is ready
  std::unique_ptr<HyperslabRuns> runs;
  const Path* path = nullptr;  // of the first request
  int64_t segments_left = 0;
  bool ready = false;
  bool declined = false;
  bool leased = false;  // the block, in device memory
  struct Wanted {
    const Path* path;
    int64_t first, last;  // segments
  };
  std::deque<Wanted> wanted;  // not served yet
  void* own = nullptr;
  Hyperslab hyperslab;  // of an own fetch
  std::function<void(std::exception_ptr)> done;
};
using GetPtr = std::shared_ptr<Get>;

}  // namespace quarry::exec
