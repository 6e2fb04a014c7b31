#include "quarry/io/hdf5/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "quarry/io/codecs/shuffle.h"
#include "quarry/io/hdf5/codecs/codec.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"

namespace quarry::io::hdf5 {
namespace {

using Step = FilterKind::Step;

constexpr int64_t kChecksumBytes = 4;
constexpr int64_t kAlignment = 64;

bool skipped(uint32_t mask, size_t i) { return i < 32 && (mask >> i & 1u) != 0; }
Step step_of(const Filter& filter) { return find_kind(filter.kind)->step; }

// Of a chunk that filters before `end` were applied to, none of which compresses.
int64_t bytes_before(const std::vector<Filter>& filters, uint32_t mask, size_t end, int64_t chunk_bytes) {
  for (size_t i = 0; i < end; ++i)
    if (!skipped(mask, i) && step_of(filters[i]) == Step::check) chunk_bytes += kChecksumBytes;
  return chunk_bytes;
}

// What shuffle works on.
size_t shuffled_item(const Filter& filter, int64_t itemsize) {
  return filter.values.empty() || filter.values[0] == 0 ? static_cast<size_t>(itemsize) : filter.values[0];
}

// Files written by HDF5 before 1.6.3 on little-endian machines hold each half of the checksum byte-swapped.
uint32_t swapped_halves(uint32_t sum) { return ((sum & 0x00ff00ffu) << 8) | ((sum >> 8) & 0x00ff00ffu); }

std::span<const std::byte> without_checksum(std::span<const std::byte> bytes) {
  uint32_t expected;
  if (bytes.size() < sizeof expected) throw local::IoError("its checksum is missing");
  const auto content = bytes.first(bytes.size() - sizeof expected);
  std::memcpy(&expected, content.data() + content.size(), sizeof expected);
  const uint32_t actual = fletcher32(content);
  if (actual != expected && swapped_halves(actual) != expected)
    throw local::IoError(fmt::format("its Fletcher-32 checksum is {:08x}, the file says {:08x}", actual, expected));
  return content;
}

}  // namespace

uint32_t fletcher32(std::span<const std::byte> bytes) {
  // Sums modulo 65535, folded; 360 words can be added before the second sum overflows 32 bits.
  constexpr size_t kWords = 360;
  uint32_t sum1 = 0, sum2 = 0;
  const std::byte* at = bytes.data();
  size_t words = bytes.size() / 2;
  while (words > 0) {
    const size_t n = std::min(words, kWords);
    words -= n;
    for (size_t i = 0; i < n; ++i, at += 2) {
      sum1 += (std::to_integer<uint32_t>(at[0]) << 8) | std::to_integer<uint32_t>(at[1]);
      sum2 += sum1;
    }
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  }
  if (bytes.size() % 2) {
    sum1 += std::to_integer<uint32_t>(*at) << 8;
    sum2 += sum1;
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  }
  sum1 = (sum1 & 0xffff) + (sum1 >> 16);
  sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  return (sum2 << 16) | sum1;
}

bool directly_decodable(const std::vector<Filter>& filters) {
  bool compressed = false;
  for (const Filter& filter : filters) {
    const FilterKind* const kind = find_kind(filter.kind);
    if (!kind || (compressed && kind->step != Step::check)) return false;
    compressed = compressed || kind->step == Step::compress;
  }
  return true;
}

std::optional<StreamFilters> stream_filters(const std::vector<Filter>& filters, int64_t itemsize) {
  constexpr std::pair<Filter::Kind, local::StreamFormat> kFormats[] = {
      {Filter::Kind::deflate, local::StreamFormat::zlib},
      {Filter::Kind::zstd, local::StreamFormat::zstd},
  };
  int64_t shuffled = 1;
  std::optional<local::StreamFormat> format;
  for (const Filter& filter : filters) {
    const auto* const found = std::ranges::find(kFormats, filter.kind, [](const auto& entry) { return entry.first; });
    if (filter.kind == Filter::Kind::shuffle && !format && shuffled == 1) {
      shuffled = static_cast<int64_t>(shuffled_item(filter, itemsize));
    } else if (found != std::end(kFormats) && !format) {
      format = found->second;
    } else if (filter.kind != Filter::Kind::fletcher32 || !format) {
      return std::nullopt;
    }
  }
  return format ? std::optional<StreamFilters>({*format, shuffled}) : std::nullopt;
}

std::span<const std::byte> without_checksums(const std::vector<Filter>& filters, std::span<const std::byte> stored) {
  for (const Filter& filter : filters)
    if (step_of(filter) == Step::check) stored = without_checksum(stored);
  return stored;
}

// Steps but the last go from one buffer to another; so does the last one where a checksum is below it.
int64_t decode_scratch_bytes(const std::vector<Filter>& filters, int64_t chunk_bytes) {
  const auto checks = [](const Filter& filter) { return step_of(filter) == Step::check; };
  const auto steps = std::count_if(filters.begin(), filters.end(), std::not_fn(checks));
  if (steps == 0) return 0;
  const auto buffers = std::min<int64_t>(checks(filters.front()) ? steps : steps - 1, 2);
  return buffers * local::align_up(bytes_before(filters, 0, filters.size(), chunk_bytes), kAlignment);
}

void decode_chunk(const std::vector<Filter>& filters, uint32_t mask, int64_t itemsize,
                  std::span<const std::byte> stored, std::span<std::byte> out, std::span<std::byte> scratch) {
  const auto chunk_bytes = static_cast<int64_t>(out.size());
  const auto room =
      static_cast<size_t>(local::align_up(bytes_before(filters, 0, filters.size(), chunk_bytes), kAlignment));
  std::span<const std::byte> now = stored;
  size_t used = 0;  // steps that went to scratch
  for (size_t i = filters.size(); i-- > 0;) {
    if (skipped(mask, i)) continue;
    const Filter& filter = filters[i];
    if (step_of(filter) == Step::check) {
      now = without_checksum(now);
      continue;
    }
    const int64_t bytes = bytes_before(filters, mask, i, chunk_bytes);
    bool last = true;
    for (size_t before = 0; before < i; ++before) last = last && skipped(mask, before);
    const std::span<std::byte> to = last ? out : scratch.subspan(used++ % 2 * room).first(static_cast<size_t>(bytes));
    if (filter.kind == Filter::Kind::shuffle) {
      if (now.size() != to.size())
        throw local::IoError(fmt::format("it decodes to {} bytes instead of {}", now.size(), to.size()));
      unshuffle(now.data(), to.data(), now.size(), shuffled_item(filter, itemsize));
      now = to;
    } else {
      const auto made = find_codec(filter.kind)->decode(filter.values, now, to);
      if (!made) throw local::IoError(fmt::format("it decodes to more than its {} bytes", to.size()));
      now = to.first(*made);
    }
  }
  if (now.size() != out.size())
    throw local::IoError(fmt::format("it decodes to {} bytes instead of {}", now.size(), out.size()));
  if (now.data() != out.data()) std::memcpy(out.data(), now.data(), out.size());
}

namespace {

std::vector<uint32_t> values_of(const Filter& filter, const Codec& codec, int64_t itemsize, size_t chunk_bytes) {
  return filter.values.empty() ? codec.values(filter, itemsize, static_cast<int64_t>(chunk_bytes)) : filter.values;
}

const Codec& encoder_of(const Filter& filter) {
  const Codec* const codec = find_codec(filter.kind);
  if (!codec || !codec->encode) throw local::NotSupported(fmt::format("filter {} cannot be written", filter.name));
  return *codec;
}

}  // namespace

int64_t encode_scratch_bytes(const std::vector<Filter>& filters, int64_t itemsize, int64_t chunk_bytes) {
  auto bytes = static_cast<size_t>(chunk_bytes);
  for (const Filter& filter : filters) {
    if (filter.kind == Filter::Kind::fletcher32) {
      bytes += kChecksumBytes;
    } else if (filter.kind != Filter::Kind::shuffle) {
      const Codec& codec = encoder_of(filter);
      bytes = codec.most_bytes(values_of(filter, codec, itemsize, bytes), bytes);
    }
  }
  return 2 * static_cast<int64_t>(bytes);
}

std::span<const std::byte> encode_chunk(const std::vector<Filter>& filters, int64_t itemsize, int64_t chunk_bytes,
                                        std::span<std::byte> scratch) {
  // Filters take turns between the halves.
  const size_t half = scratch.size() / 2;
  std::span<std::byte> now = scratch.first(static_cast<size_t>(chunk_bytes));
  std::span<std::byte> other = scratch.last(half);
  const auto turn = [&](size_t bytes) {
    now = other.first(bytes);
    other = now.data() == scratch.data() ? scratch.last(half) : scratch.first(half);
  };
  for (const Filter& filter : filters) {
    if (filter.kind == Filter::Kind::shuffle) {
      const size_t item = shuffled_item(filter, itemsize);
      if (item == 1) continue;
      shuffle(now.data(), other.data(), now.size(), item);
      turn(now.size());
    } else if (filter.kind == Filter::Kind::fletcher32) {
      const uint32_t sum = fletcher32(now);
      QUARRY_CHECK(now.size() + sizeof sum <= half);
      std::memcpy(now.data() + now.size(), &sum, sizeof sum);
      now = {now.data(), now.size() + sizeof sum};
    } else {
      const Codec& codec = encoder_of(filter);
      turn(codec.encode(values_of(filter, codec, itemsize, now.size()), now, other));
    }
  }
  return now;
}

}  // namespace quarry::io::hdf5
