#include "quarry/io/encoded_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "quarry/io/codecs/streams.h"
#include "quarry/io/storage/pieces.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::io {

int64_t EncodedChunks::room_bytes() const {
  const int64_t bytes = std::max(layout().chunk_bytes, layout().stored_bytes);
  return local::align_up(bytes, local::kAllocationAlignment) + scratch_bytes();
}

std::vector<EncodedChunks::Part> parts_of(const local::Region& region, const local::Dims& shape,
                                          const local::Dims& chunk) {
  const AscendingRegion ascending(region, shape);
  PartCursor cursor(ascending, shape, chunk);
  std::vector<EncodedChunks::Part> parts;
  for (Part part; cursor.next(part);) parts.push_back({part.number, part.first, part.at, part.count});
  return parts;
}

void fill_chunk(std::span<std::byte> chunk, std::span<const std::byte> fill) {
  for (size_t at = 0; at < chunk.size(); at += fill.size()) std::memcpy(chunk.data() + at, fill.data(), fill.size());
}

namespace {

using local::StreamFormat;
using local::StreamStatus;

template <auto kDecode>
StreamStatus decode_on_host(const local::EncodedStream& stream) {
  try {
    const std::optional<size_t> made =
        kDecode({stream.from, static_cast<size_t>(stream.bytes)}, {stream.to, static_cast<size_t>(stream.to_bytes)});
    if (!made) return StreamStatus::too_long;
    return std::cmp_less(*made, stream.to_bytes) ? StreamStatus::too_short : StreamStatus::good;
  } catch (const local::IoError&) {
    return StreamStatus::damaged;
  }
}

struct Format {
  StreamFormat format;
  std::string_view name, checksum;
  local::StreamDecoder::OnHost on_host;
};
constexpr Format kFormats[] = {
    {StreamFormat::zlib, "zlib", "Adler-32", &decode_on_host<decode_zlib>},
    {StreamFormat::zstd, "zstd", "XXH64", &decode_on_host<decode_zstd>},
};
const Format& of(StreamFormat format) { return *std::ranges::find(kFormats, format, &Format::format); }

}  // namespace

local::StreamDecoder::OnHost decoder_on_host(StreamFormat format) { return of(format).on_host; }

std::string reason_of(StreamFormat format, StreamStatus status) {
  const auto& [_, name, checksum, on_host] = of(format);
  switch (status) {
    case StreamStatus::good:
      return fmt::format("nothing is wrong with its {} stream", name);
    case StreamStatus::damaged:
      break;
    case StreamStatus::too_short:
      return "it decodes to fewer bytes than a chunk has";
    case StreamStatus::too_long:
      return "it decodes to more bytes than a chunk has";
    case StreamStatus::wrong_checksum:
      return fmt::format("its {} stream is damaged: the {} checksum is another one", name, checksum);
    case StreamStatus::dictionary:
      return fmt::format("its {} stream needs a dictionary, which is not in the file", name);
  }
  return fmt::format("its {} stream is damaged", name);
}

}  // namespace quarry::io
