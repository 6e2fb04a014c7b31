#include "quarry/chunked/exec/encoded_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "quarry/io/byte_file.h"
#include "quarry/io/format.h"
#include "quarry/io/partial.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

using local::Dims;

// Encoded chunks of this rank in a file beside the output.
class EncodedChunks::Spool {
 public:
  explicit Spool(std::string path) : partial_(std::move(path)) {}
  ~Spool() {
    if (file_) std::fclose(file_);
  }
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  void append(const Dims& chunk, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    if (!file_) file_ = std::fopen(partial_.path().c_str(), "wb");  // over what a killed run left
    std::vector<int64_t> record{static_cast<int64_t>(bytes.size())};
    record.insert(record.end(), chunk.begin(), chunk.end());
    if (!file_ || std::fwrite(record.data(), sizeof(int64_t), record.size(), file_) != record.size() ||
        std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
      throw local::IoError(fmt::format("cannot write '{}': {}", partial_.path(), io::system_reason(errno)));
    }
  }
  void flush() {
    if (file_ && std::fflush(file_) != 0)
      throw local::IoError(fmt::format("cannot write '{}': {}", partial_.path(), io::system_reason(errno)));
  }

 private:
  io::Partial partial_;
  std::mutex mutex_;
  std::FILE* file_ = nullptr;
};

EncodedChunks::EncodedChunks(comm::Communicator& communicator, io::OutputFile* output, const std::string& file,
                             std::vector<std::shared_ptr<io::Writer>> writers, Note note)
    : communicator_(communicator),
      output_(output),
      file_(file),
      writers_(std::move(writers)),
      note_(std::move(note)),
      placed_(writers_.size()) {
  for (size_t i = 0; i < writers_.size(); ++i) {
    const bool spools = writers_[i]->encode_scratch_bytes() > 0 && !writers_[i]->places_chunks();
    spools_.push_back(spools ? std::make_unique<Spool>(spool_path(i, communicator.rank())) : nullptr);
  }
  // The same on all ranks.
  const auto needs_room = [](const auto& writer) {
    return writer->places_chunks() && !writer->format().has_chunk_files();
  };
  if (std::ranges::any_of(writers_, needs_room))
    extents_.emplace(communicator, [this](int64_t bytes) { return output_->reserve(bytes); });
}

EncodedChunks::~EncodedChunks() = default;

std::string EncodedChunks::spool_path(size_t item, int rank) const {
  return fmt::format("{}.partial.{}.{}", file_, item, rank);
}

void EncodedChunks::put(size_t item, const Dims& chunk, std::span<const std::byte> bytes) {
  io::Writer& writer = *writers_[item];
  if (writer.places_chunks() && writer.format().has_chunk_files()) {
    writer.place(chunk, /*offset=*/0, bytes);
    return;
  }
  if (writer.places_chunks()) {
    const io::PlacedChunk placed = writer.place(chunk, extents_->take(std::ssize(bytes)), bytes);
    if (note_) note_(item, placed, bytes);
    const std::lock_guard lock(mutex_);
    placed_[item].push_back(placed);
    return;
  }
  if (!output_) return spools_[item]->append(chunk, bytes);
  const std::lock_guard lock(mutex_);
  output_->write_encoded(item, chunk, bytes);
}

void EncodedChunks::flush() {
  for (const auto& spool : spools_)
    if (spool) spool->flush();
}

void EncodedChunks::hand_over() {
  for (size_t item = 0; item < writers_.size(); ++item) {
    if (writers_[item]->format().has_chunk_files()) continue;
    if (!writers_[item]->places_chunks()) {
      for (int rank = 1; output_ && spools_[item] && rank < communicator_.size(); ++rank) store_spool(item, rank);
      continue;
    }
    const std::vector<io::PlacedChunk> mine = std::exchange(placed_[item], {});
    const auto bytes = std::as_bytes(std::span(mine));
    std::vector<comm::Communicator::Parcel> parcels;
    if (!mine.empty()) parcels.push_back({/*rank=*/0, {bytes.begin(), bytes.end()}});
    std::vector<io::PlacedChunk> every;
    for (const auto& [rank, came] : communicator_.exchange(parcels)) {
      const size_t known = every.size();
      every.resize(known + came.size() / sizeof(io::PlacedChunk));
      std::memcpy(every.data() + known, came.data(), came.size());
    }
    if (output_) output_->add_placed(item, every);
  }
}

// Rank 0 reads another rank's spool.
void EncodedChunks::store_spool(size_t item, int rank) {
  const std::string path = spool_path(item, rank);
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (!file) return;  // that rank had no chunk
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> closer(file, std::fclose);
  std::vector<int64_t> record(static_cast<size_t>(writers_[item]->spec().shape.size()) + 1);
  std::vector<std::byte> bytes;
  while (std::fread(record.data(), sizeof(int64_t), record.size(), file) == record.size()) {
    bytes.resize(static_cast<size_t>(record[0]));
    if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size())
      throw local::IoError(fmt::format("'{}' is incomplete", path));
    output_->write_encoded(item, Dims(record.begin() + 1, record.end()), bytes);
  }
}

}  // namespace quarry::exec
