// The control messages between the services of a run, as plain bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/exec/service.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

enum class MessageKind : uint16_t {
  fetch,          // send these segments of a hyperslab, by the path that the message names
  data,           // all bytes of an eager fetch
  reply,          // the path's word to the client, with an offset
  not_on_device,  // the block is not where the path needs it: take another one
  done,           // the path's word to the server: the client has the bytes
  unreached,      // the same: the client cannot reach them, and asks anew by another path
  recall,         // close this segment of the sender's device memory
  recalled,       // it is closed
  declined,       // of this fetch nothing more will come
  failed,         // the sender's run failed, with the error
  steal_request,  // for a chunk of this stage to compute (stealing.h)
  steal_reply,    // that chunk, or none
};

// What the bytes of an eager hyperslab are at most: an active message's 4 KiB, less what stands before them.
inline constexpr int64_t kMostEager = 4000;

struct Request {
  uint32_t fetch = 0;  // the client's number for it
  BlockKey key;
  Hyperslab hyperslab;
  int64_t first_segment = 0, segments = 0;  // segments of the agreed size of the packed hyperslab
  int64_t offset = 0;                       // reply: of the block in its segment; steal_reply: chunks left
};

// A piece of device memory of the sender of a reply, or of who recalls it.
struct MemorySegment {
  int64_t number = -1;
  int64_t bytes = 0;   // reply
  std::string handle;  // reply: of MemorySharing
};

struct Message {
  MessageKind kind = MessageKind::fetch;
  uint16_t path = 0;  // fetch: its row in paths.def
  uint64_t epoch = 0;
  Request request;  // fetch; of it only `fetch` and `offset`: data (no offset), reply, not_on_device, done, unreached,
                    // declined; of it `fetch` (a number that the answer repeats), `key` and `offset`: steal_request,
                    // steal_reply
  MemorySegment segment;            // reply, recall, recalled
  std::span<const std::byte> data;  // data; in the bytes that were decoded
  local::ErrorRecord error;         // failed; long messages are cut
};

std::vector<std::byte> encode(const Message& message);
// Throws CommError on what no rank of the same program sends.
Message decode(std::span<const std::byte> bytes);

// The tag of a fetch's data.
inline uint64_t data_tag(uint64_t epoch, uint32_t fetch) { return epoch << 32 | fetch; }

}  // namespace quarry::exec
