#include "quarry/io/zlib_chunks.h"

#include <algorithm>

#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::io {

int64_t ZlibChunks::room_bytes() const {
  const int64_t bytes = std::max(layout().chunk_bytes, layout().stored_bytes);
  return local::align_up(bytes, local::kAllocationAlignment) + scratch_bytes();
}

const char* reason_of(local::StreamStatus status) {
  switch (status) {
    case local::StreamStatus::good:
      return "nothing is wrong with its zlib stream";
    case local::StreamStatus::damaged:
      return "its zlib stream is damaged";
    case local::StreamStatus::too_short:
      return "it decodes to fewer bytes than a chunk has";
    case local::StreamStatus::too_long:
      return "it decodes to more bytes than a chunk has";
    case local::StreamStatus::wrong_checksum:
      return "its zlib stream is damaged: the Adler-32 checksum is another one";
    case local::StreamStatus::dictionary:
      return "its stream needs a dictionary";
  }
  return "its zlib stream is damaged";
}

}  // namespace quarry::io
