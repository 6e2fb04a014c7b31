#include "quarry/chunked/exec/saved_output.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "quarry/io/format.h"
#include "quarry/io/saved_calls.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

SavedOutput::SavedOutput(comm::Communicator& communicator, std::string file, std::vector<Item> items,
                         io::OutputFile* output, bool resumed)
    : communicator_(communicator), file_(std::move(file)), items_(std::move(items)), done_(items_.size()) {
  const io::WrittenParts parts = parts_of_all(resumed);
  generation_ = parts.generation;
  find_done(parts);
  for (const io::WrittenChunk& chunk : parts.chunks)
    if (output && !items_[chunk.item].writer->format().has_chunk_files())
      output->add_placed(chunk.item, std::span(&chunk.placed, 1));
  comm::alone(communicator_, [&] {
    journal_.emplace(file_, generation_, communicator_.rank(), [this] { items_.front().writer->sync(); });
  });
}

// Rank 0 reads the journals; all ranks compare what they say with the file.
io::WrittenParts SavedOutput::parts_of_all(bool resumed) {
  std::string all;
  comm::on_rank_0(communicator_, {"store"},
                  [&] { all = resumed ? io::read_job_journals(file_) : io::no_job_journals(file_); });
  io::WrittenParts parts = io::written_parts(communicator_.broadcast_string(all, /*root=*/0));
  drop_damaged(parts.chunks, [](const io::Writer& writer, const io::WrittenChunk& chunk) {
    return writer.checksum_written(chunk.placed);
  });
  drop_damaged(parts.boxes,
               [](const io::Writer& writer, const io::WrittenBox& box) { return writer.checksum_written(box.box); });
  return parts;
}

// Ranks share the reading.
void SavedOutput::drop_damaged(auto& parts, const auto& checksum) const {
  const auto ranks = static_cast<size_t>(communicator_.size());
  std::vector<int64_t> bad(parts.size(), 0);
  for (const auto& part : parts) QUARRY_CHECK(part.item < items_.size());
  comm::alone(communicator_, [&] {
    for (auto i = static_cast<size_t>(communicator_.rank()); i < parts.size(); i += ranks) {
      const auto& part = parts[i];
      try {
        bad[i] = checksum(*items_[part.item].writer, part) != part.sum;
      } catch (const local::IoError&) {  // it is not there
        bad[i] = 1;
      }
    }
  });
  communicator_.all_reduce(bad, comm::ReduceOp::max);
  size_t kept = 0;
  for (size_t i = 0; i < parts.size(); ++i)
    if (bad[i] == 0) parts[kept++] = parts[i];
  parts.resize(kept);
}

// A chunk of the computation is done where all chunks of the file in it are, or where one generation has written all of
// it: parts of different ones may overlap.
void SavedOutput::find_done(const io::WrittenParts& parts) {
  std::vector<std::vector<bool>> done;
  std::vector<std::vector<int64_t>> placed(items_.size());
  for (const Item& item : items_) done.emplace_back(static_cast<size_t>(item.grid.count()), false);
  std::map<std::array<int64_t, 3>, int64_t> elements;  // by item, generation and chunk
  for (const io::WrittenBox& written : parts.boxes) {
    const Grid& grid = items_[written.item].grid;
    Dims at = written.box.start;
    for (int d = 0; d < at.size(); ++d) at[d] = grid.axis(d).find(at[d]);
    const int64_t chunk = grid.flat(at);
    int64_t& sum = elements[{written.item, written.generation, chunk}];
    sum += written.box.elements();
    if (sum >= grid.chunk_elements(chunk)) done[written.item][static_cast<size_t>(chunk)] = true;
  }
  for (const io::WrittenChunk& chunk : parts.chunks) placed[chunk.item].push_back(chunk.placed.number);
  for (size_t item = 0; item < items_.size(); ++item) {
    find_placed(items_[item], std::move(placed[item]), done[item]);
    if (std::ranges::find(done[item], true) != done[item].end())
      done_[item] = std::make_shared<const std::vector<bool>>(std::move(done[item]));
  }
}

// `numbers`: of the file's chunks that are there.
void SavedOutput::find_placed(const Item& item, std::vector<int64_t> numbers, std::vector<bool>& done) {
  if (numbers.empty()) return;
  std::ranges::sort(numbers);
  const io::OutputSpec& spec = item.writer->spec();
  const Grid in_file = Grid::regular(spec.shape, *spec.chunks);
  for (int64_t chunk = 0; chunk < item.grid.count(); ++chunk) {
    const Region box = item.grid.chunk(chunk);
    if (box.elements() == 0) continue;
    const Grid inside = Grid::regular(box.count, *spec.chunks);
    bool all = true;
    for (int64_t i = 0; i < inside.count() && all; ++i) {
      Dims at = inside.coordinates(i);
      for (int d = 0; d < at.size(); ++d) at[d] += box.start[d] / (*spec.chunks)[d];
      all = std::ranges::binary_search(numbers, in_file.flat(at));
    }
    done[static_cast<size_t>(chunk)] = all;
  }
}

void SavedOutput::note(size_t item, const io::PlacedChunk& placed, std::span<const std::byte> bytes) {
  journal_->add(io::WrittenChunk{static_cast<uint32_t>(item), io::crc32(bytes), placed});
}

void SavedOutput::note(size_t item, const Region& box, std::span<const std::byte> bytes) {
  journal_->add(io::WrittenBox{static_cast<uint32_t>(item), io::crc32(bytes), generation_, box});
}

void SavedOutput::flush() { journal_->flush(); }

void SavedOutput::complete() {
  journal_->complete();
  journal_.reset();
  if (communicator_.rank() != 0) return;
  io::remove_saved_job(file_);
  io::remove_saved_calls(file_);
}

}  // namespace quarry::exec
