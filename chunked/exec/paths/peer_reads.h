// Copies of hyperslabs out of other ranks' device memory by this rank's device. When every rank reads from every other
// one, what limits is the owner that most of them read at a moment: so owners take turns, and each rank begins with
// another one. Hyperslabs of long runs go by the copy engines, on a stream for each owner; few are queued there at a
// time, since an engine takes them in the order in which they come. Hyperslabs of short runs go by kernels, each of
// which takes several hyperslabs from all owners in turn. No call waits for the device, and poll() alone finds out that
// a read is over: a callback of the device's for each would take longer than most reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "quarry/chunked/exec/hyperslab.h"
#include "quarry/local/device/device.h"

namespace quarry::exec {

// Of one thread but for is_reading().
class PeerReads {
 public:
  PeerReads(local::Device device, int rank, int ranks);
  // Waits for what has been queued.
  ~PeerReads();

  // Reads the hyperslab of a C-contiguous block in `owner`'s memory, which this device reaches, packed into `to`.
  // Throws InvalidArgument if the hyperslab does not lie inside the block.
  void add(uint32_t fetch, int owner, const Hyperslab& hyperslab, const void* block, void* to);
  // Tells of every read that is over, with an error if it failed; true if there was one. Starts others.
  using Over = std::function<void(uint32_t fetch, const std::exception_ptr& error)>;
  bool poll(const Over& over);
  bool holds(uint32_t fetch) const;                   // added and not over
  bool is_reading() const { return under_way_ > 0; }  // poll() will have something to find

 private:
  struct Waiting {
    uint32_t fetch;
    local::BoxCopy copy;
  };
  struct Queued {
    std::vector<uint32_t> fetches;
    std::unique_ptr<local::DeviceEvent> done;
    int64_t engine_bytes;
  };
  using Waitings = std::vector<std::deque<Waiting>>;  // of each owner
  struct Line {                                       // work in the order of one stream
    std::unique_ptr<local::DeviceStream> stream;
    std::deque<Queued> queued;
  };

  void start_engines();
  void start_batches();
  bool start_batch(Line& line);
  std::vector<uint32_t> take_batch(std::vector<local::BoxCopy>& copies);
  std::optional<size_t> next_owner(const Waitings& waiting);
  void finish_queueing(Line& line, std::vector<uint32_t> fetches, int64_t engine_bytes);
  Line& open_line(size_t index);

  const local::Device device_;
  std::atomic<int64_t> under_way_{0};
  std::vector<Line> lines_;  // of each owner, and then those of kernels
  size_t next_line_ = 0, next_owner_;
  int64_t engine_bytes_ = 0;  // under way by copy engines
  Waitings for_engines_, for_kernels_;
  std::vector<std::unique_ptr<local::DeviceEvent>> free_events_;
};

}  // namespace quarry::exec
