#include "quarry/io/hdf5/parse/index_parts.h"

namespace quarry::io::hdf5 {
namespace {

constexpr int64_t kKeptBytes = int64_t{16} << 20;

std::optional<ArrayOrder> order_of(const IndexPlace& place) {
  using Index = LayoutMessage::Index;
  const Index index = place.layout.index;
  if (index == Index::btree || index == Index::btree2) return std::nullopt;
  return ArrayOrder(place.data.limits, place.layout.chunk, /*unlimited=*/index == Index::extensible_array ? 1 : 0);
}

}  // namespace

IndexParts::IndexParts(IndexPlace place, std::function<const ByteSource&()> file)
    : place_(std::move(place)),
      grid_(chunk_grid(place_.data.shape, place_.layout.chunk)),
      order_(order_of(place_)),
      file_(std::move(file)) {}

std::optional<ChunkEntry> IndexParts::find(int64_t number) {
  return part((order_ ? order_->position(place_in(grid_, number)) : number) / place_.part_chunks)->find(number);
}

IndexParts::Part IndexParts::part(int64_t part) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = found_.find(part); it != found_.end()) {
      kept_.splice(kept_.begin(), kept_, it->second);
      return it->second->second;
    }
  }
  // Two threads may read one part: neither waits for the other's file.
  Part read = read_part(part);
  const std::lock_guard lock(mutex_);
  if (!found_.contains(part)) {
    kept_.emplace_front(part, read);
    found_.emplace(part, kept_.begin());
    kept_bytes_ += static_cast<int64_t>(sizeof(ChunkIndex)) + read->memory_bytes();
    while (kept_bytes_ > kKeptBytes && kept_.size() > 1) {
      const auto& [number, oldest] = kept_.back();
      kept_bytes_ -= static_cast<int64_t>(sizeof(ChunkIndex)) + oldest->memory_bytes();
      found_.erase(number);
      kept_.pop_back();
    }
  }
  return read;
}

IndexParts::Part IndexParts::read_part(int64_t part) const {
  ChunkIndex::Maker maker(place_.data.shape, place_.layout.chunk);
  const ByteSource& file = file_();
  ChunkCollector out(file, place_.layout, place_.data, {part * place_.part_chunks, (part + 1) * place_.part_chunks},
                     [&](const ChunkEntry& entry) { maker.add(entry); });
  read_entries(file, place_, out);
  return std::make_shared<const ChunkIndex>(maker.take());
}

void IndexParts::for_each(const ChunkCollector::Use& use) const {
  const ByteSource& file = file_();
  ChunkCollector out(file, place_.layout, place_.data, {}, use);
  read_entries(file, place_, out);
}

void put_place(const IndexPlace& place, ByteWriter& out) {
  const auto& [format, layout, data, part_chunks] = place;
  out.put(format);
  out.put(layout.index);
  out.put(layout.address);
  out.put_dims(layout.chunk);
  out.put(layout.unfiltered_edges);
  out.put_dims(data.shape);
  out.put_dims(data.limits);
  out.put(data.chunk_bytes);
  out.put(data.filtered);
  out.put(part_chunks);
}

IndexPlace get_place(ByteReader& in) {
  IndexPlace place;
  auto& [format, layout, data, part_chunks] = place;
  format = in.get<FileFormat>();
  layout.kind = LayoutMessage::Kind::chunked;
  layout.index = in.get<LayoutMessage::Index>();
  layout.address = in.get<int64_t>();
  layout.chunk = in.get_dims();
  layout.unfiltered_edges = in.get<bool>();
  data.shape = in.get_dims();
  data.limits = in.get_dims();
  data.chunk_bytes = in.get<int64_t>();
  data.filtered = in.get<bool>();
  part_chunks = in.get<int64_t>();
  return place;
}

}  // namespace quarry::io::hdf5
