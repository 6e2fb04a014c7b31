// Collectives on device buffers by NCCL, for library programs that hold device memory of their own beside chunked
// arrays; these move their chunks by fetches (docs/adr/0042). NCCL lives in a library of its own (libquarry_nccl),
// loaded when the first object is made, so that a job without GPUs never touches it. NCCL moves bytes where results are
// the same on any number of ranks; all_reduce() sums in an order of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "quarry/comm/communicator.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/device/device.h"

namespace quarry::comm {

// Collectives of one group of ranks, each with its own GPU. Calls are queued on `stream` and return at once; all ranks
// make the same calls in the same order, one thread at a time. After a CommError, or after abort(), every call throws;
// make a new object to go on.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  // The root's bytes to everyone, in place.
  virtual void broadcast(void* data, int64_t bytes, int root, local::DeviceStream& stream) = 0;
  // Rank r's bytes to all + r * bytes_each on everyone; `mine` may be that place.
  virtual void all_gather(const void* mine, int64_t bytes_each, void* all, local::DeviceStream& stream) = 0;
  // In place, element by element, the same bits on every rank; which bits depends on the number of ranks and the
  // version of NCCL. Throws NotSupported for bool, 16-bit integers and complex
  // numbers.
  virtual void all_reduce(void* data, int64_t count, local::DType dtype, ReduceOp op, local::DeviceStream& stream) = 0;
  // send_bytes[r] bytes to each rank r, one segment after the other in `send`, and receive_bytes[r] bytes from it, one
  // behind the other in `receive`; what a rank sends and what the other receives must agree. Any size may be 0.
  virtual void all_to_all(const void* send, std::span<const int64_t> send_bytes, void* receive,
                          std::span<const int64_t> receive_bytes, local::DeviceStream& stream) = 0;
  // Throws CommError when an operation queued before failed or a peer is gone. Does not block.
  virtual void check() = 0;
  // Gives up what is under way, from any thread, so that the stream can be synchronised.
  virtual void abort() noexcept = 0;
};

// Why NCCL cannot serve the ranks of `communicator`, the same on every rank; empty where it can. Collective, blocking.
std::string device_collectives_obstacle(Communicator& communicator, local::Device device);

// Collective, blocking: NCCL over the ranks of `communicator`, each of which names its own device. Null on every rank
// where NCCL cannot serve: a rank's device is no CUDA device, two ranks share a GPU, or a rank lacks libquarry_nccl.
// Throws CommError on every rank where NCCL itself fails.
std::unique_ptr<DeviceCollectives> make_device_collectives(Communicator& communicator, local::Device device);

}  // namespace quarry::comm
