#include "quarry/io/storage/strided.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::io {
namespace {

using local::Dims;

// Pieces stay in a core's L2 cache between the read and the computation.
constexpr int64_t kPieceBytes = 256 << 10;
// Gaps up to this are read along: copying them costs no more than another system call, and the disk reads whole pages.
constexpr int64_t kGapBytes = 4096;
// Runs from here on are read to where they are wanted, shorter ones copied out of a piece.
constexpr int64_t kLongRun = 16 << 10;

Dims permuted(const Dims& values, const Dims& order) {
  Dims out = values;
  for (int k = 0; k < order.size(); ++k) out[k] = values[static_cast<int>(order[k])];
  return out;
}

Dims unpermuted(const Dims& values, const Dims& order) {
  Dims out = values;
  for (int k = 0; k < order.size(); ++k) out[static_cast<int>(order[k])] = values[k];
  return out;
}

// The axes behind the first `outer` ones are one run of `bytes` in the file (`block` elements along each axis) and in
// memory (`count` elements).
struct Run {
  int outer;
  int64_t bytes;
};
Run run_of(const Dims& count, const Dims& block, int64_t item) {
  Run run{count.size(), item};
  while (run.outer > 0) {
    --run.outer;
    run.bytes *= count[run.outer];
    if (count[run.outer] != block[run.outer]) break;
  }
  return run;
}

}  // namespace

LazyFile::LazyFile(std::string path, int64_t bytes) : path_(std::move(path)), bytes_(bytes) {
  // Now, so that the file stays the one that was described when another takes its name. What is wrong with it is said
  // when it is read.
  try {
    file_ = ByteFile::shared(path_);
  } catch (const local::IoError&) {
  }
}

void LazyFile::read_at(int64_t offset, std::span<std::byte> to) const {
  std::shared_ptr<const ByteFile> file;
  {
    const std::lock_guard lock(mutex_);
    if (!file_) file_ = ByteFile::shared(path_);
    file = file_;
  }
  if (file->size() < bytes_) {
    throw local::IoError(fmt::format("'{}' has {} bytes, {} when it was first opened", path_, file->size(), bytes_));
  }
  file->read_at(offset, to);
}

StridedReader::StridedReader(std::shared_ptr<const ByteSource> source, StridedPlace place, std::string object)
    : source_(std::move(source)),
      place_(std::move(place)),
      object_(std::move(object)),
      order_(Dims::filled(place_.shape.size(), 0)) {
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
    return place_.spans[static_cast<int>(a)] > place_.spans[static_cast<int>(b)];
  });
}

int64_t StridedReader::scratch_bytes() { return kPieceBytes; }

void StridedReader::load(int64_t offset, std::span<std::byte> to) const {
  try {
    source_->read_at(offset, to);
  } catch (const local::IoError& error) {
    throw local::IoError(fmt::format("'{}': {}", object_, error.what()));
  }
  bytes_read_.fetch_add(static_cast<int64_t>(to.size()), std::memory_order_relaxed);
  if (place_.bools) normalize_bools(to.data(), static_cast<int64_t>(to.size()));
}

void StridedReader::visit(const local::Region& region, std::span<std::byte> scratch,
                          const std::function<void(const Dataset::Piece&)>& consume) const {
  const AscendingRegion ascending(region, place_.shape);
  if (ascending.empty()) return;
  QUARRY_CHECK(static_cast<int64_t>(scratch.size()) >= scratch_bytes());
  Dims span = place_.spans;
  for (int d = 0; d < span.size(); ++d) span[d] *= ascending.step[d];
  span = permuted(span, order_);
  const Dims extent = permuted(ascending.count, order_);
  const int64_t base = place_.offset + dot(ascending.low, place_.spans);
  const int dense = dense_axes(extent, span, place_.item, kGapBytes);
  const Dims nowhere = Dims::filled(extent.size(), 0);
  Dataset::Piece piece;
  cut_pieces(extent, span, place_.item, dense, static_cast<int64_t>(scratch.size()),
             [&](const Dims& index, const Dims& count, const Dims& strides) {
               const int64_t from = base + dot(index, span);
               const auto bytes = static_cast<size_t>(covered_bytes(count, span, place_.item, dense));
               for_each_offset(count, span, strides, 0, dense, [&](int64_t in_file, int64_t in_memory) {
                 load(from + in_file, scratch.subspan(static_cast<size_t>(in_memory), bytes));
               });
               place_piece(ascending, nowhere, unpermuted(index, order_), unpermuted(count, order_), scratch.data(),
                           unpermuted(strides, order_), piece);
               consume(piece);
             });
}

// Whether the region was read in runs that are long both in the file and in memory.
bool StridedReader::read_runs(const AscendingRegion& region, std::byte* to) const {
  if (!region.unit_steps() || region.flipped()) return false;
  if (place_.spans != local::contiguous_strides(place_.shape, place_.item)) return false;
  const Run run = run_of(region.count, place_.shape, place_.item);
  if (run.bytes < kLongRun && run.outer > 0) return false;
  const Dims strides = local::contiguous_strides(region.count, place_.item);
  const int64_t base = place_.offset + dot(region.low, place_.spans);
  for_each_offset(region.count, place_.spans, strides, 0, run.outer, [&](int64_t in_file, int64_t in_memory) {
    load(base + in_file, {to + in_memory, static_cast<size_t>(run.bytes)});
  });
  return true;
}

void StridedReader::read(const local::Region& region, void* to, std::span<std::byte> scratch) const {
  const AscendingRegion ascending(region, place_.shape);
  if (ascending.empty() || read_runs(ascending, static_cast<std::byte*>(to))) return;
  const Dims strides = local::contiguous_strides(region.count, place_.item);
  visit(region, scratch,
        [&](const Dataset::Piece& piece) { copy_piece(piece, place_.item, static_cast<std::byte*>(to), strides); });
}

void write_box(const ByteFile& file, int64_t offset, const Dims& shape, int64_t item, const local::Region& region,
               const std::byte* from) {
  const AscendingRegion ascending(region, shape);
  if (ascending.empty()) return;
  QUARRY_CHECK(ascending.unit_steps() && !ascending.flipped());
  const Dims spans = local::contiguous_strides(shape, item), strides = local::contiguous_strides(region.count, item);
  const Run run = run_of(region.count, shape, item);
  Runs runs(file);
  for_each_offset(region.count, spans, strides, 0, run.outer, [&](int64_t in_file, int64_t in_memory) {
    runs.add(offset + dot(region.start, spans) + in_file, from + in_memory, run.bytes);
  });
  runs.flush();
}

void add_part(Runs& runs, const Part& part, int64_t offset, const Dims& block, const Dims& count, int64_t item,
              const std::byte* from) {
  const Dims spans = local::contiguous_strides(block, item), strides = local::contiguous_strides(count, item);
  int outer = part.count.size();
  int64_t run = item;
  while (outer > 0) {
    --outer;
    run *= part.count[outer];
    if (part.count[outer] != block[outer] || part.count[outer] != count[outer]) break;
  }
  const std::byte* const source = from + dot(part.at, strides);
  for_each_offset(part.count, spans, strides, 0, outer, [&](int64_t in_file, int64_t in_memory) {
    runs.add(offset + dot(part.first, spans) + in_file, source + in_memory, run);
  });
}

}  // namespace quarry::io
