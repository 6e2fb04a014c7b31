// An index that is too large for every process to hold: parts of it are read from the file when chunks are looked for,
// so that each process reads those of its own work (docs/adr/0045).
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "quarry/io/hdf5/parse/chunk_collector.h"

namespace quarry::io::hdf5 {

class IndexParts {
 public:
  // `file`: gives the file, from any thread, and may throw IoError; it must outlive this.
  explicit IndexParts(IndexPlace place, std::function<const ByteSource&()> file = {});

  const IndexPlace& place() const { return place_; }
  // Both as ChunkIndex's, and thread-safe.
  std::optional<ChunkEntry> find(int64_t number);
  void for_each(const ChunkCollector::Use& use) const;

 private:
  using Part = std::shared_ptr<const ChunkIndex>;

  Part part(int64_t position);
  Part read_part(int64_t part) const;

  const IndexPlace place_;
  const local::Dims grid_;
  const std::optional<ArrayOrder> order_;  // of arrays
  const std::function<const ByteSource&()> file_;
  std::mutex mutex_;
  // The last ones that were used, up to a number of bytes.
  std::list<std::pair<int64_t, Part>> kept_;
  std::unordered_map<int64_t, std::list<std::pair<int64_t, Part>>::iterator> found_;
  int64_t kept_bytes_ = 0;
};

void put_place(const IndexPlace& place, ByteWriter& out);
IndexPlace get_place(ByteReader& in);

}  // namespace quarry::io::hdf5
