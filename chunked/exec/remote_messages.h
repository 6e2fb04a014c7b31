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
  request,    // send these pieces of a box
  fetch,      // send this box, which fits into the answer
  fetched,    // its bytes
  declined,   // of this pull nothing more will come
  failed,     // the sender's run failed, with the error
  lease,      // hold the block where it lies in device memory, for a copy from device to device
  direct,     // send the whole box, which is one run, from there by one message
  leased,     // it lies there, until `returned`
  elsewhere,  // lease, direct: it does not: ask for pieces
  returned,   // the copy is done
  ask,        // for a chunk of this stage to compute (balance.h)
  handed,     // that chunk, or none
};

// What the bytes of a fetched box are at most: an active message's 4 KiB, less what stands before them.
inline constexpr int64_t kMostFetched = 4000;

struct Request {
  uint32_t pull = 0;  // the consumer's number for it
  BlockKey key;
  BlockBox box;
  int64_t first_piece = 0, pieces = 0;  // pieces of the agreed size of the packed box
  int64_t offset = 0;                   // leased: where the block lies in its owner's slab; handed: chunks left
};

struct Message {
  MessageKind kind = MessageKind::request;
  uint64_t epoch = 0;
  Request request;  // request, fetch, lease, direct; of it only `pull` (leased: and `offset`): the others but failed;
                    // of it `pull` (a number that the answer repeats), `key` and `offset`: ask, handed
  std::span<const std::byte> data;  // fetched; in the bytes that were decoded
  local::ErrorRecord error;         // failed; long messages are cut
};

std::vector<std::byte> encode(const Message& message);
// Throws CommError on what no rank of the same program sends.
Message decode(std::span<const std::byte> bytes);

// The tag of a pull's data.
inline uint64_t data_tag(uint64_t epoch, uint32_t pull) { return epoch << 32 | pull; }

}  // namespace quarry::exec
