// The control messages between the services of a run, as plain bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quarry/chunked/exec/service.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

enum class MessageKind : uint32_t {
  request,        // send these segments of a hyperslab
  eager,          // send this hyperslab, which fits into the answer
  eager_data,     // its bytes
  declined,       // of this fetch nothing more will come
  failed,         // the sender's run failed, with the error
  lease,          // hold the block where it lies in device memory, for a copy from device to device
  device,         // send the whole hyperslab, which is one run, from there by one message
  rdma_ready,     // it lies there, until `rdma_done`
  not_on_device,  // lease, device: it does not: ask for segments
  rdma_done,      // the copy is done
  steal_request,  // for a chunk of this stage to compute (balance.h)
  steal_reply,    // that chunk, or none
};

// What the bytes of an eager hyperslab are at most: an active message's 4 KiB, less what stands before them.
inline constexpr int64_t kMostEager = 4000;

struct Request {
  uint32_t fetch = 0;  // the consumer's number for it
  BlockKey key;
  Hyperslab hyperslab;
  int64_t first_segment = 0, segments = 0;  // segments of the agreed size of the packed hyperslab
  int64_t offset = 0;                       // rdma_ready: where the block lies in its owner's slab; handed: chunks left
};

struct Message {
  MessageKind kind = MessageKind::request;
  uint64_t epoch = 0;
  Request request;  // request, eager, lease, device; of it only `fetch` (rdma_ready: and `offset`): the others but
                    // failed; of it `fetch` (a number that the answer repeats), `key` and `offset`: ask, handed
  std::span<const std::byte> data;  // eager_data; in the bytes that were decoded
  local::ErrorRecord error;         // failed; long messages are cut
};

std::vector<std::byte> encode(const Message& message);
// Throws CommError on what no rank of the same program sends.
Message decode(std::span<const std::byte> bytes);

// The tag of a fetch's data.
inline uint64_t data_tag(uint64_t epoch, uint32_t fetch) { return epoch << 32 | fetch; }

}  // namespace quarry::exec
