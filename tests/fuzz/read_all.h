// Everything that quarry reads of bytes that nobody has checked, in memory: a broken promise ends the process.
#pragma once

#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/hdf5/parse/metadata.h"
#include "quarry/io/hdf5/parse/object.h"
#include "quarry/io/hdf5/parse/virtual.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::test {

// Where what was read of a Memory goes, if somebody wants to know: whoever mends checksums.
inline std::vector<std::span<const std::byte>>* recorded_reads = nullptr;

// A file in memory that outlives it.
class Memory final : public io::ByteSource {
 public:
  explicit Memory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  int64_t size() const override { return std::ssize(bytes_); }
  void read_at(int64_t offset, std::span<std::byte> to) const override {
    QUARRY_CHECK(offset >= 0 && offset <= size() && std::ssize(to) <= size() - offset);
    if (recorded_reads) recorded_reads->push_back(bytes_.subspan(static_cast<size_t>(offset), to.size()));
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
  }

 private:
  const std::span<const std::byte> bytes_;
};

// An index that can be read whole is the same in parts. Whether it stayed in its file.
inline bool compare_parts(const io::ByteSource& file, const io::hdf5::IndexPlace& place) {
  constexpr int64_t kMostLookedFor = 4096;
  const io::hdf5::ChunkIndex whole = io::hdf5::read_chunk_index(file, place);
  io::hdf5::ChunkIndex parts = io::hdf5::read_chunk_index(file, place, /*most_bytes=*/0);
  parts.read_from([&]() -> const io::ByteSource& { return file; });
  QUARRY_CHECK(parts.count() == whole.count());
  QUARRY_CHECK(parts.stored_bytes() == whole.stored_bytes());
  QUARRY_CHECK(parts.largest() == whole.largest());
  const int64_t chunks = local::element_count(whole.grid());
  for (int64_t i = 0; i < std::min(chunks, kMostLookedFor); ++i) QUARRY_CHECK(parts.find(i) == whole.find(i));
  for (int64_t i = std::max(kMostLookedFor, chunks - kMostLookedFor); i < chunks; ++i)
    QUARRY_CHECK(parts.find(i) == whole.find(i));
  int64_t met = 0;
  parts.for_each([&](const io::hdf5::ChunkEntry& entry) { met += whole.find(entry.number) == entry; });
  QUARRY_CHECK(met == whole.count());
  return parts.is_in_file();
}

// All of a file's metadata: objects with their attributes, links, sources of virtual data sets, chunk indexes whole and
// in parts. How many objects were read, and how many things were refused.
inline std::pair<int, int> read_metadata(std::span<const std::byte> bytes) {
  constexpr size_t kMostObjects = 1000;
  constexpr int64_t kMostChunkBytes = UINT32_MAX;
  int read = 0, refused = 0;
  const auto attempt = [&](const auto& f) {
    try {
      f();
    } catch (const local::Error&) {
      ++refused;
    }
  };
  attempt([&] {
    const io::hdf5::Metadata file(std::make_shared<Memory>(bytes));
    std::set<int64_t> seen{file.root()};
    std::vector<int64_t> next{file.root()};
    while (!next.empty()) {
      const int64_t header = next.back();
      next.pop_back();
      attempt([&] {
        const io::hdf5::Object object = io::hdf5::read_object(file, header);
        ++read;
        refused += !object.attributes_reason.empty();
        if (object.kind == io::hdf5::Object::Kind::group)
          for (const io::hdf5::Link& link : io::hdf5::read_links(file, object))
            if (link.kind == io::hdf5::Link::Kind::hard && seen.size() < kMostObjects &&
                seen.insert(link.header).second)
              next.push_back(link.header);
        if (object.kind != io::hdf5::Object::Kind::dataset) return;
        const io::hdf5::LayoutMessage& layout = *object.layout;
        if (layout.kind == io::hdf5::LayoutMessage::Kind::virtual_) io::hdf5::read_virtual_sources(file, object);
        if (layout.kind != io::hdf5::LayoutMessage::Kind::chunked || !object.space->countable ||
            layout.chunk.size() != object.space->shape.size())
          return;
        int64_t chunk_bytes = object.type->bytes;
        for (const int64_t extent : layout.chunk)
          if (__builtin_mul_overflow(chunk_bytes, extent, &chunk_bytes) || chunk_bytes > kMostChunkBytes) return;
        compare_parts(
            file.bytes(),
            {file.format(), layout, {object.space->shape, object.space->limits, chunk_bytes, !object.filters.empty()}});
      });
    }
  });
  return {read, refused};
}

}  // namespace quarry::test
