#include "quarry/io/hdf5/read/hdf5_dataset.h"

#include <fmt/format.h>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/filters.h"
#include "quarry/io/hdf5/parse/chunk_collector.h"
#include "quarry/io/storage/trace.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/sizes.h"

namespace quarry::io::hdf5 {
namespace {

using local::Dims;

// Pieces stay in a core's L2 cache between the read and the computation.
constexpr int64_t kPieceBytes = 256 << 10;
// Pieces that the library reads: its calls cost microseconds.
constexpr int64_t kLibraryPieceBytes = 1 << 20;
// Gaps up to this are read along: copying them costs no more than another system call, and the disk reads whole pages.
constexpr int64_t kGapBytes = 4096;
// Chunks up to this are read whole even where a region needs less of them.
constexpr int64_t kSmallChunkBytes = 16 << 10;
// Shorter runs are copied from scratch instead of scattered by the system.
constexpr int64_t kShortestRun = 256;
constexpr size_t kMaxGroup = 512;  // chunks read at once
constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return local::align_up(bytes, kAlignment); }

Dims scaled(const Dims& spans, const Dims& step) {
  Dims out = spans;
  for (int d = 0; d < out.size(); ++d) out[d] *= step[d];
  return out;
}

// Whether an entry goes into one read with neighbours that begin and end there.
bool is_near(const ChunkEntry& entry, int64_t begin, int64_t end, std::span<std::byte> buffer) {
  return entry.address >= end && entry.address - end <= kGapBytes &&
         entry.address + entry.bytes - begin <= static_cast<int64_t>(buffer.size());
}

// Bytes of a block of a valid data set; blocks of a library-only one are not used.
int64_t block_size(const Dims& block, int array_axes, int64_t record) {
  int64_t bytes = record;
  for (int d = 0; d < block.size() - array_axes; ++d)
    if (__builtin_mul_overflow(bytes, block[d], &bytes)) return INT64_MAX;
  return bytes;
}

// Bytes between neighbours in a block of records, of which the last axes are arrays inside.
Dims record_spans(const Dims& block, int array_axes, int64_t item, int64_t record) {
  Dims spans = Dims::filled(block.size());
  int64_t span = item;
  for (int d = block.size() - 1; d >= 0; --d) {
    if (d == block.size() - array_axes - 1) span = record;
    spans[d] = span;
    if (__builtin_mul_overflow(span, block[d], &span)) span = INT64_MAX;  // of what only the library reads
  }
  return spans;
}

// Reverses an axis of a C-contiguous array in place.
void reverse_axis(std::byte* data, const Dims& count, int64_t item, int axis) {
  int64_t outer = 1, inner = item;
  for (int d = 0; d < axis; ++d) outer *= count[d];
  for (int d = axis + 1; d < count.size(); ++d) inner *= count[d];
  for (int64_t o = 0; o < outer; ++o) {
    std::byte* const base = data + o * count[axis] * inner;
    for (int64_t low = 0, high = count[axis] - 1; low < high; ++low, --high)
      std::swap_ranges(base + low * inner, base + (low + 1) * inner, base + high * inner);
  }
}

}  // namespace

Hdf5Dataset::Hdf5Dataset(StoredDataset stored)
    : stored_([&] {
        stored.storage.index.read_from([this]() -> const ByteSource& { return file(); });
        return std::move(stored);
      }()),
      item_(local::itemsize(stored_.info.dtype)),
      bools_(stored_.info.dtype == local::DType::bool_),
      block_(stored_.info.chunks ? *stored_.info.chunks : stored_.info.shape),
      record_(stored_.storage.record_bytes),
      spans_(record_spans(block_, stored_.storage.array_axes, item_, record_)),
      block_bytes_(block_size(block_, stored_.storage.array_axes, record_)),
      no_spans_(Dims::filled(block_.size(), 0)),
      how_(stored_.storage.kind == Storage::Kind::library ? "library: " + stored_.info.library_reason : "direct") {
  if (stored_.storage.kind == Storage::Kind::library) library_ = std::make_unique<LibraryReader>(stored_);
  streams_ = make_streams();
  if (stored_.storage.kind != Storage::Kind::contiguous && stored_.storage.kind != Storage::Kind::chunked) return;
  // Now, so that the file stays the one that was described when another takes its name. What is wrong with it is said
  // when it is read: not every rank reads every file.
  try {
    file();
  } catch (const local::IoError& error) {
    local::log(local::LogLevel::debug, error.what());
  }
}

std::string Hdf5Dataset::layout() const {
  ByteWriter out;
  hdf5::serialize(stored_, out);
  return out.take();
}

const ByteFile& Hdf5Dataset::file() const {
  const std::lock_guard lock(file_mutex_);
  if (!file_) {
    auto opened = ByteFile::shared(data_file(stored_));
    if (opened->size() < stored_.storage.file_bytes) {
      throw local::IoError(fmt::format("'{}' has {} bytes, {} when it was first opened", data_file(stored_),
                                       opened->size(), stored_.storage.file_bytes));
    }
    file_ = std::move(opened);
  }
  return *file_;
}

int64_t Hdf5Dataset::piece_bytes() const {
  if (!library_) return kPieceBytes;
  // A filtered chunk is decoded as a whole by every read that touches it.
  return filtered() ? std::max(kLibraryPieceBytes, block_bytes_) : kLibraryPieceBytes;
}

int64_t Hdf5Dataset::scratch_bytes() const {
  if (stored_.storage.kind == Storage::Kind::memory) return 0;
  const int64_t slack = kAlignment;  // the caller's bytes may begin anywhere
  if (library_ || !filtered()) return slack + aligned(piece_bytes());
  return slack + aligned(std::max(kPieceBytes, stored_.storage.index.largest())) + aligned(block_bytes_) +
         aligned(decode_scratch_bytes(stored_.info.filters, block_bytes_));
}

int64_t Hdf5Dataset::read_scratch_bytes(const local::Region&) const { return library_ ? 0 : scratch_bytes(); }
int64_t Hdf5Dataset::visit_scratch_bytes(const local::Region&) const { return scratch_bytes(); }

Hdf5Dataset::Buffers Hdf5Dataset::split(std::span<std::byte> scratch) const {
  Buffers out;
  if (stored_.storage.kind == Storage::Kind::memory) return out;
  QUARRY_CHECK(static_cast<int64_t>(scratch.size()) >= scratch_bytes());
  const auto address = reinterpret_cast<uintptr_t>(scratch.data());
  scratch = scratch.subspan((kAlignment - address % kAlignment) % kAlignment);
  const auto take = [&](int64_t bytes) {
    const auto head = scratch.first(static_cast<size_t>(bytes));
    scratch = scratch.subspan(static_cast<size_t>(aligned(bytes)));
    return head;
  };
  if (library_ || !filtered()) {
    out.stored = take(piece_bytes());
    return out;
  }
  out.stored = take(std::max(kPieceBytes, stored_.storage.index.largest()));
  out.block = take(block_bytes_);
  out.unshuffle = take(decode_scratch_bytes(stored_.info.filters, block_bytes_));
  return out;
}

void Hdf5Dataset::load(int64_t offset, std::span<std::byte> to) const {
  try {
    file().read_at(offset, to);
  } catch (const local::IoError& error) {
    throw local::IoError(fmt::format("'{}': {}", stored_.info.object, error.what()));
  }
  bytes_read_.fetch_add(static_cast<int64_t>(to.size()), std::memory_order_relaxed);
  if (!filtered() && dense()) fix_elements(stored_, to);
}

void Hdf5Dataset::decode(const ChunkEntry& entry, const std::byte* bytes, std::span<std::byte> to,
                         std::span<std::byte> scratch) const {
  try {
    decode_chunk(stored_.info.filters, entry.mask, record_, {bytes, entry.bytes}, to, scratch);
  } catch (const local::IoError& error) {
    refuse_chunk(entry.number, error.what());
  }
  if (dense()) fix_elements(stored_, to);
}

void Hdf5Dataset::refuse_chunk(int64_t number, const char* reason) const {
  Dims at = place_in(stored_.storage.index.grid(), number);
  for (int d = 0; d < at.size(); ++d) at[d] *= block_[d];
  throw local::IoError(fmt::format("'{}' in '{}': damaged chunk at {}: {}", stored_.info.object, stored_.info.file,
                                   local::to_string(at), reason));
}

std::optional<ChunkEntry> Hdf5Dataset::find(int64_t number) const {
  try {
    return stored_.storage.index.find(number);
  } catch (const local::IoError& error) {
    throw local::IoError(fmt::format("'{}' in '{}': {}", stored_.info.object, stored_.info.file, error.what()));
  }
}

int64_t Hdf5Dataset::block_offset(int64_t number) const {
  if (stored_.storage.kind == Storage::Kind::contiguous) return stored_.storage.offset;
  const std::optional<ChunkEntry> entry = find(number);
  return entry ? entry->address : kNoAddress;
}

template <class Whole, class F>
void Hdf5Dataset::for_each_block(const AscendingRegion& region, std::span<std::byte> buffer, Whole&& whole,
                                 F&& f) const {
  PartCursor cursor(region, stored_.info.shape, block_);
  std::vector<std::pair<Part, ChunkEntry>> group;
  Part part;
  bool more = cursor.next(part);
  while (more) {
    std::optional<ChunkEntry> entry = find(part.number);
    if (!entry || !whole(part)) {
      f(part, entry ? &*entry : nullptr, nullptr);
      more = cursor.next(part);
      continue;
    }
    group.clear();
    const int64_t begin = entry->address;
    int64_t end = begin;
    do {
      group.emplace_back(part, *entry);
      end = entry->address + entry->bytes;
      more = cursor.next(part);
      entry = more ? find(part.number) : std::nullopt;
    } while (entry && is_near(*entry, begin, end, buffer) && group.size() < kMaxGroup && whole(part));
    load(begin, buffer.first(static_cast<size_t>(end - begin)));
    for (const auto& [member, stored] : group) f(member, &stored, buffer.data() + (stored.address - begin));
  }
}

template <class Place, class F>
void Hdf5Dataset::for_each_decoded(const AscendingRegion& region, const Buffers& buffers, Place&& place, F&& f) const {
  using Hold = CachedChunks::Hold;
  struct Member {
    Part part;
    ChunkEntry entry;
    Hold hold;
  };
  const std::shared_ptr<CachedChunks> kept = kept_.get();
  PartCursor cursor(region, stored_.info.shape, block_);
  std::vector<Member> group;
  Part part;
  bool more = true;
  std::optional<ChunkEntry> entry;
  Hold hold;
  const auto next = [&] {
    more = cursor.next(part);
    entry = more ? find(part.number) : std::nullopt;
    hold = {};
  };
  const auto take = [&](bool wait) {
    if (!kept) return;
    const CachedChunks::Box box = taken_box(region, part, stored_.info.shape, block_, kept->reads().overlap);
    hold = kept->wants(part.number, box) ? kept->take(part.number, box, wait) : Hold();
  };
  next();
  while (more) {
    if (!entry) {
      f(part, nullptr);
      next();
      continue;
    }
    if (hold.state() != Hold::State::ready) take(/*wait=*/true);
    if (hold.state() == Hold::State::ready) {
      f(part, hold.data());
      next();
      continue;
    }
    group.clear();
    const int64_t begin = entry->address;
    do {
      group.push_back({part, *entry, std::move(hold)});
      next();
      if (!entry || group.size() == kMaxGroup) break;
      const ChunkEntry& last = group.back().entry;
      if (!is_near(*entry, begin, last.address + last.bytes, buffers.stored)) break;
      take(/*wait=*/false);
    } while (hold.state() != Hold::State::ready && hold.state() != Hold::State::busy);
    const ChunkEntry& last = group.back().entry;
    load(begin, buffers.stored.first(static_cast<size_t>(last.address + last.bytes - begin)));
    // First what others may be waiting for.
    for (Member& member : group) {
      if (kept) kept->note_read(member.entry.number, member.entry.bytes);
      if (member.hold.state() != Hold::State::open) continue;
      decode(member.entry, buffers.stored.data() + (member.entry.address - begin),
             {member.hold.data(), static_cast<size_t>(block_bytes_)}, buffers.unshuffle);
      member.hold.publish();
    }
    for (Member& member : group) {
      const std::byte* block = member.hold.data();
      if (!block) {
        std::byte* const wanted = place(member.part);
        const std::span<std::byte> to = wanted ? std::span(wanted, static_cast<size_t>(block_bytes_)) : buffers.block;
        decode(member.entry, buffers.stored.data() + (member.entry.address - begin), to, buffers.unshuffle);
        block = to.data();
      }
      f(member.part, block);
      member.hold = {};
    }
  }
}

void Hdf5Dataset::visit_memory(const AscendingRegion& region, const Part& part, const std::byte* block, Piece& piece,
                               const Consume& consume) const {
  // Missing blocks are cut like stored ones; all their elements are the one fill value.
  const Dims span = scaled(spans_, region.step);
  const std::byte* const base =
      block ? block + stored_.storage.field_offset + dot(part.first, spans_) : stored_.storage.fill.data();
  cut_pieces(part.count, span, item_, /*dense_from=*/0, kPieceBytes,
             [&](const Dims& index, const Dims& count, const Dims& strides) {
               place_piece(region, part.at, index, count, block ? base + dot(index, span) : base,
                           block ? strides : no_spans_, piece);
               consume(piece);
             });
}

void Hdf5Dataset::visit_stored(const AscendingRegion& region, const Part& part, int64_t offset,
                               std::span<std::byte> buffer, Piece& piece, const Consume& consume) const {
  const Dims span = scaled(spans_, region.step);
  const int64_t base = offset + stored_.storage.field_offset + dot(part.first, spans_);
  const int dense = dense_axes(part.count, span, item_, kGapBytes);
  cut_pieces(part.count, span, item_, dense, static_cast<int64_t>(buffer.size()),
             [&](const Dims& index, const Dims& count, const Dims& strides) {
               const int64_t from = base + dot(index, span);
               const auto bytes = static_cast<size_t>(covered_bytes(count, span, item_, dense));
               for_each_offset(count, span, strides, 0, dense, [&](int64_t in_file, int64_t in_memory) {
                 load(from + in_file, buffer.subspan(static_cast<size_t>(in_memory), bytes));
               });
               place_piece(region, part.at, index, count, buffer.data(), strides, piece);
               consume(piece);
             });
}

void Hdf5Dataset::visit_direct(const AscendingRegion& region, std::span<std::byte> scratch,
                               const Consume& consume) const {
  const Buffers buffers = split(scratch);
  Piece piece;
  switch (stored_.storage.kind) {
    case Storage::Kind::memory:
    case Storage::Kind::contiguous: {
      PartCursor cursor(region, stored_.info.shape, block_);
      Part part;
      if (!cursor.next(part)) return;
      if (stored_.storage.kind == Storage::Kind::memory)
        visit_memory(region, part, stored_.storage.data.data(), piece, consume);
      else if (stored_.storage.offset == kNoAddress)
        visit_memory(region, part, nullptr, piece, consume);
      else
        visit_stored(region, part, stored_.storage.offset, buffers.stored, piece, consume);
      return;
    }
    case Storage::Kind::chunked: {
      if (filtered()) {
        return for_each_decoded(
            region, buffers, [](const Part&) -> std::byte* { return nullptr; },
            [&](const Part& part, const std::byte* block) { visit_memory(region, part, block, piece, consume); });
      }
      const auto whole = [&](const Part& part) {
        if (block_bytes_ > kPieceBytes / 2) return false;
        return block_bytes_ <= kSmallChunkBytes || local::element_count(part.count) * item_ >= block_bytes_ / 2;
      };
      for_each_block(region, buffers.stored, whole,
                     [&](const Part& part, const ChunkEntry* entry, const std::byte* bytes) {
                       if (!entry) return visit_memory(region, part, nullptr, piece, consume);
                       if (!bytes) return visit_stored(region, part, entry->address, buffers.stored, piece, consume);
                       visit_memory(region, part, bytes, piece, consume);
                     });
      return;
    }
    case Storage::Kind::library:
      break;
  }
  QUARRY_CHECK(false);
}

void Hdf5Dataset::visit_library(const AscendingRegion& region, std::span<std::byte> scratch,
                                const Consume& consume) const {
  const std::span<std::byte> buffer = split(scratch).stored;
  PartCursor cursor(region, stored_.info.shape, block_);
  Piece piece;
  for (Part part; cursor.next(part);)
    cut_pieces(part.count, no_spans_, item_, /*dense_from=*/part.count.size(), static_cast<int64_t>(buffer.size()),
               [&](const Dims& index, const Dims& count, const Dims& strides) {
                 AscendingRegion box(region);
                 for (int d = 0; d < count.size(); ++d)
                   box.low[d] = region.low[d] + (part.at[d] + index[d]) * region.step[d];
                 box.count = count;
                 box.flip = no_spans_;
                 read_library(box, buffer.data());
                 place_piece(region, part.at, index, count, buffer.data(), strides, piece);
                 consume(piece);
               });
}

void Hdf5Dataset::read_library(const AscendingRegion& region, std::byte* to) const {
  const int64_t bytes = local::element_count(region.count) * item_;
  try {
    library_->read(region, to);
  } catch (const local::NotSupported& error) {
    throw local::NotSupported(fmt::format("'{}' in '{}': {}", stored_.info.object, stored_.info.file, error.what()));
  } catch (const local::Error& error) {
    throw local::IoError(fmt::format("'{}' in '{}': {}", stored_.info.object, stored_.info.file, error.what()));
  }
  bytes_read_.fetch_add(bytes, std::memory_order_relaxed);
  if (bools_) normalize_bools(to, bytes);
  for (int d = 0; d < region.count.size(); ++d)
    if (region.flip[d]) reverse_axis(to, region.count, item_, d);
}

// Collects runs that follow each other in the file, small gaps between them included, into scattered reads.
class Hdf5Dataset::Rows {
 public:
  Rows(const Hdf5Dataset& dataset, std::span<std::byte> junk) : dataset_(dataset), junk_(junk) {}

  void add(int64_t offset, std::byte* to, int64_t bytes) {
    const int64_t gap = count_ == 0 ? 0 : offset - end_;
    if (gap < 0 || gap > static_cast<int64_t>(junk_.size()) || count_ + 2 > kBuffers) flush();
    if (count_ == 0) {
      begin_ = end_ = offset;
    } else if (gap > 0) {
      put(junk_.data(), gap);
    }
    put(to, bytes);
  }

  void flush() {
    if (count_ == 0) return;
    try {
      dataset_.file().read_at(begin_, std::span(buffers_, count_));
    } catch (const local::IoError& error) {
      throw local::IoError(fmt::format("'{}': {}", dataset_.info().object, error.what()));
    }
    dataset_.bytes_read_.fetch_add(end_ - begin_, std::memory_order_relaxed);
    count_ = 0;
  }

 private:
  static constexpr size_t kBuffers = 1024;  // IOV_MAX on Linux

  void put(std::byte* to, int64_t bytes) {
    end_ += bytes;
    if (count_ > 0) {
      iovec& last = buffers_[count_ - 1];
      if (to != junk_.data() && static_cast<std::byte*>(last.iov_base) + last.iov_len == to) {
        last.iov_len += static_cast<size_t>(bytes);
        return;
      }
    }
    buffers_[count_++] = {to, static_cast<size_t>(bytes)};
  }

  const Hdf5Dataset& dataset_;
  const std::span<std::byte> junk_;
  iovec buffers_[kBuffers];
  size_t count_ = 0;
  int64_t begin_ = 0, end_ = 0;
};

void Hdf5Dataset::read_rows(const AscendingRegion& region, std::byte* to, std::span<std::byte> scratch) const {
  const std::span<std::byte> buffer = split(scratch).stored;
  const Dims strides = local::contiguous_strides(region.count, item_);
  Rows rows(*this, buffer.first(kGapBytes));
  // Neighbours along the last axis whose runs are parts of the same rows of the destination. They are read in bands of
  // rows, so that a band of the destination is complete while it is in the cache.
  struct Neighbour {
    int64_t base;  // in the file, of the part's first element
    std::byte* place;
    int64_t run;
  };
  std::vector<Neighbour> neighbours;
  Part first;  // of them
  int first_outer = 0;
  const auto read_neighbours = [&] {
    constexpr int64_t kBandBytes = 128 << 10;
    constexpr size_t kMaxBand = 128;
    if (neighbours.empty()) return;
    int64_t row_bytes = 0;
    for (const Neighbour& n : neighbours) row_bytes += n.run;
    const size_t band = neighbours.size() == 1
                            ? kMaxBand
                            : static_cast<size_t>(std::clamp<int64_t>(kBandBytes / row_bytes, 8, kMaxBand));
    int64_t in_file[kMaxBand], in_memory[kMaxBand];
    size_t count = 0;
    const auto read_band = [&] {
      for (const Neighbour& n : neighbours)
        for (size_t i = 0; i < count; ++i) rows.add(n.base + in_file[i], n.place + in_memory[i], n.run);
      count = 0;
    };
    for_each_offset(first.count, spans_, strides, 0, first_outer, [&](int64_t file_offset, int64_t memory_offset) {
      in_file[count] = file_offset;
      in_memory[count] = memory_offset;
      if (++count == band) read_band();
    });
    read_band();
    neighbours.clear();
  };
  PartCursor cursor(region, stored_.info.shape, block_);
  Piece piece;
  for (Part part; cursor.next(part);) {
    std::byte* const place = to + dot(part.at, strides);
    const int64_t offset = block_offset(part.number);
    if (offset == kNoAddress) {
      copy_box(part.count, item_, stored_.storage.fill.data(), no_spans_, place, strides);
      continue;
    }
    // A run is contiguous in the file and in memory.
    int outer = part.count.size();
    int64_t run = item_;
    while (outer > 0) {
      --outer;
      run *= part.count[outer];
      if (part.count[outer] != block_[outer] || part.count[outer] != region.count[outer]) break;
    }
    if (run < kShortestRun && run != item_ * local::element_count(part.count)) {
      read_neighbours();
      rows.flush();  // `buffer` is about to be used
      visit_stored(region, part, offset, buffer, piece, [&](const Piece& p) { copy_piece(p, item_, to, strides); });
      continue;
    }
    const bool joins = !neighbours.empty() && outer == first_outer && outer == part.count.size() - 1 &&
                       std::equal(part.at.begin(), part.at.end() - 1, first.at.begin());
    if (!joins || neighbours.size() >= kMaxGroup) {
      read_neighbours();
      first = part;
      first_outer = outer;
    }
    neighbours.push_back({offset + dot(part.first, spans_), place, run});
  }
  read_neighbours();
  rows.flush();
  if (bools_) normalize_bools(to, local::element_count(region.count));
}

void Hdf5Dataset::read_filtered(const AscendingRegion& region, std::byte* to, std::span<std::byte> scratch) const {
  const Buffers buffers = split(scratch);
  const Dims strides = local::contiguous_strides(region.count, item_);
  // Whether a whole chunk lies in one run of the destination.
  bool chunks_are_runs = region.unit_steps() && dense();
  bool outermost = true;
  for (int d = 0; d < block_.size(); ++d) {
    if (!outermost && region.count[d] != block_[d]) chunks_are_runs = false;
    outermost = outermost && block_[d] == 1;
  }
  for_each_decoded(
      region, buffers,
      [&](const Part& part) -> std::byte* {
        return chunks_are_runs && part.count == block_ ? to + dot(part.at, strides) : nullptr;
      },
      [&](const Part& part, const std::byte* block) {
        std::byte* const place = to + dot(part.at, strides);
        if (block == place) return;
        if (!block) return copy_box(part.count, item_, stored_.storage.fill.data(), no_spans_, place, strides);
        copy_box(part.count, item_, block + stored_.storage.field_offset + dot(part.first, spans_),
                 scaled(spans_, region.step), place, strides);
      });
}

void Hdf5Dataset::read(const local::Region& region, void* to, std::span<std::byte> scratch) const {
  const AscendingRegion ascending(region, stored_.info.shape);
  if (ascending.empty()) return;
  const TraceCall traced("read", "read", stored_.info.object, region.start, region.elements() * item_, how_.c_str());
  auto* const out = static_cast<std::byte*>(to);
  const bool whole_bytes = dense() && stored_.storage.bits.precision == 0;
  const bool plain = ascending.unit_steps() && !ascending.flipped() && whole_bytes;
  if (library_) {
    read_library(ascending, out);
  } else if (plain && !filtered() && stored_.storage.kind != Storage::Kind::memory) {
    read_rows(ascending, out, scratch);
  } else if (filtered() && !ascending.flipped()) {
    read_filtered(ascending, out, scratch);
  } else {
    const Dims strides = local::contiguous_strides(region.count, item_);
    visit_direct(ascending, scratch, [&](const Piece& piece) { copy_piece(piece, item_, out, strides); });
  }
}

void Hdf5Dataset::visit(const local::Region& region, std::span<std::byte> scratch,
                        const std::function<void(const Piece&)>& consume) const {
  const AscendingRegion ascending(region, stored_.info.shape);
  if (ascending.empty()) return;
  const TraceCall traced("read", "visit", stored_.info.object, region.start, region.elements() * item_, how_.c_str());
  if (library_)
    visit_library(ascending, scratch, consume);
  else
    visit_direct(ascending, scratch, consume);
}

std::shared_ptr<Dataset> open_dataset(const std::string& file, const std::string& object) {
  StoredDataset stored = describe_dataset(file, object, kMostIndexBytes);
  if (!stored.unreadable.empty())
    throw local::NotSupported(fmt::format("'{}' in '{}': {}", stored.info.object, file, stored.unreadable));
  return std::make_shared<Hdf5Dataset>(std::move(stored));
}

bool for_each_stored_chunk(const Dataset& dataset, const std::function<bool(const local::Region&)>& use) {
  const StoredDataset& stored = static_cast<const Hdf5Dataset&>(dataset).stored();
  if (stored.storage.kind == Storage::Kind::contiguous && stored.storage.offset == kNoAddress) return true;
  if (stored.storage.kind != Storage::Kind::chunked) return false;
  const Dims &shape = stored.info.shape, &chunk = *stored.info.chunks, &grid = stored.storage.index.grid();
  bool more = true;
  stored.storage.index.for_each([&](const ChunkEntry& entry) {
    local::Region region = local::Region::whole(shape);
    const Dims at = place_in(grid, entry.number);
    for (int d = 0; d < shape.size(); ++d) {
      region.start[d] = at[d] * chunk[d];
      region.count[d] = std::min(chunk[d], shape[d] - region.start[d]);
    }
    more = more && use(region);
  });
  return true;
}

std::shared_ptr<Dataset> dataset_of(const std::string& layout) {
  ByteReader in(layout);
  return dataset_of(deserialize(in));
}
std::shared_ptr<Dataset> dataset_of(StoredDataset stored) { return std::make_shared<Hdf5Dataset>(std::move(stored)); }

}  // namespace quarry::io::hdf5
