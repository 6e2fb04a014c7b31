#include "quarry/chunked/exec/encoded_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "quarry/chunked/grid/grid.h"
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
    const io::PlacedChunk placed = writer.place(chunk, /*offset=*/0, bytes);
    if (note_) note_(item, placed, bytes);
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

// The chunks of an index, in ranges of whole nodes, one for each rank.
struct EncodedChunks::IndexRange {
  int64_t chunks, node_chunks;
  int rank, ranks;

  int64_t nodes() const { return (chunks - 1) / node_chunks + 1; }
  int64_t begin_of(int r) const { return std::min(nodes() * r / ranks * node_chunks, chunks); }
  int64_t begin() const { return begin_of(rank); }
  int64_t end() const { return begin_of(rank + 1); }
  int owner_of(int64_t chunk) const { return static_cast<int>(((chunk / node_chunks + 1) * ranks - 1) / nodes()); }
};

void EncodedChunks::hand_over() {
  constexpr int64_t kFewChunks = 4096;
  const int64_t end = extents_ ? end_of_placed() : 0;
  std::exception_ptr error;
  for (size_t item = 0; item < writers_.size(); ++item) {
    const io::Writer& writer = *writers_[item];
    if (writer.format().has_chunk_files()) continue;
    if (!writer.places_chunks()) {
      for (int rank = 1; output_ && spools_[item] && rank < communicator_.size(); ++rank) store_spool(item, rank);
      continue;
    }
    std::deque<io::PlacedChunk> placed = std::exchange(placed_[item], {});
    std::vector<io::PlacedChunk> mine;
    const IndexRange range{Grid::regular(writer.spec().shape, *writer.spec().chunks).count(),
                           writer.index_node_chunks(), communicator_.rank(), communicator_.size()};
    if (range.chunks > kFewChunks && range.node_chunks > 0) {
      mine = chunks_of_range(std::move(placed), range);
      std::array<int64_t, 1> whole{std::ssize(mine) == range.end() - range.begin()};
      communicator_.all_reduce(whole, comm::ReduceOp::min);
      if (whole[0] != 0) {
        const std::exception_ptr failure = write_index(item, range, mine, end);
        if (!error) error = failure;
        continue;
      }
    } else {
      mine.assign(placed.begin(), placed.end());
    }
    const std::vector<io::PlacedChunk> every = exchange({{/*rank=*/0, std::move(mine)}});
    if (output_) output_->add_placed(item, every);
  }
  if (error) std::rethrow_exception(error);
}

// On all ranks, of all data sets.
int64_t EncodedChunks::end_of_placed() const {
  std::array<int64_t, 1> end{0};
  for (const std::deque<io::PlacedChunk>& placed : placed_)
    for (const io::PlacedChunk& chunk : placed) end[0] = std::max(end[0], chunk.offset + chunk.bytes);
  communicator_.all_reduce(end, comm::ReduceOp::max);
  return end[0];
}

std::vector<io::PlacedChunk> EncodedChunks::chunks_of_range(std::deque<io::PlacedChunk> mine,
                                                            const IndexRange& range) const {
  // In rounds: what is on its way at a time takes little memory.
  constexpr size_t kRound = size_t{1} << 17;
  std::array<int64_t, 1> rounds{static_cast<int64_t>((mine.size() + kRound - 1) / kRound)};
  communicator_.all_reduce(rounds, comm::ReduceOp::max);
  std::vector<io::PlacedChunk> own(static_cast<size_t>(range.end() - range.begin()), {.number = -1});
  for (int64_t round = 0; round < rounds[0]; ++round) {
    std::map<int, std::vector<io::PlacedChunk>> parts;
    for (size_t i = 0; i < kRound && !mine.empty(); ++i) {
      parts[range.owner_of(mine.front().number)].push_back(mine.front());
      mine.pop_front();
    }
    for (const io::PlacedChunk& chunk : exchange(parts)) own[static_cast<size_t>(chunk.number - range.begin())] = chunk;
  }
  std::erase_if(own, [](const io::PlacedChunk& chunk) { return chunk.number < 0; });
  return own;
}

std::exception_ptr EncodedChunks::write_index(size_t item, const IndexRange& range,
                                              const std::vector<io::PlacedChunk>& own, int64_t end) {
  // A node ends with what is said of the chunk behind it, which may be another rank's.
  const int64_t bytes = own.empty() ? 0 : own.front().bytes;
  std::vector<int64_t> first_bytes(static_cast<size_t>(range.ranks));
  communicator_.all_gather(&bytes, sizeof bytes, first_bytes.data());
  std::optional<io::PlacedChunk> next;
  for (int rank = range.rank + 1; rank < range.ranks && !next; ++rank)
    if (range.begin_of(rank) < range.begin_of(rank + 1))
      next = {range.end(), 0, first_bytes[static_cast<size_t>(rank)]};

  int64_t at = output_ ? output_->reserve_index(item, end) : 0;
  communicator_.broadcast(&at, sizeof at, /*root=*/0);
  std::exception_ptr error;
  std::vector<io::PlacedChunk> nodes;
  try {
    nodes = writers_[item]->write_index(at, own, next ? &*next : nullptr);
  } catch (...) {
    error = std::current_exception();
  }
  nodes = exchange({{/*rank=*/0, std::move(nodes)}});
  std::array<int64_t, 1> failed{error ? 1 : 0};
  communicator_.all_reduce(failed, comm::ReduceOp::max);
  if (failed[0] != 0 || !output_) return error;
  try {
    output_->finish_index(item, std::move(nodes));
  } catch (...) {
    error = std::current_exception();
  }
  return error;
}

std::vector<io::PlacedChunk> EncodedChunks::exchange(const std::map<int, std::vector<io::PlacedChunk>>& parts) const {
  std::vector<comm::Communicator::Parcel> parcels;
  for (const auto& [rank, chunks] : parts) {
    const auto bytes = std::as_bytes(std::span(chunks));
    if (!bytes.empty()) parcels.push_back({rank, {bytes.begin(), bytes.end()}});
  }
  std::vector<io::PlacedChunk> came;
  for (const auto& [rank, bytes] : communicator_.exchange(parcels)) {
    const size_t known = came.size();
    came.resize(known + bytes.size() / sizeof(io::PlacedChunk));
    std::memcpy(came.data() + known, bytes.data(), bytes.size());
  }
  return came;
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
