// Changing data sets of a file in place: elements of a box, or behind the end of an axis that can grow.
//
// The file is what it was until commit(). Chunks that it does not have yet lie behind its stated end, where ranks write
// them at once; encoded chunks are all such, and so is the index that then names them. Elements that replace others,
// and those behind the end of a data set which lie in a chunk that it has, wait in the journal (change_journal.h), and
// so does the metadata that names what is new. What quarry does not write itself the HDF5 library writes into a copy of
// the file, which takes its place (docs/adr/0006): other kinds of chunk indexes, foreign byte orders, managed free
// space, filters that are only read.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <utility>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/format.h"
#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/parse/chunk_collector.h"
#include "quarry/io/hdf5/parse/file.h"
#include "quarry/io/hdf5/parse/signature.h"
#include "quarry/io/hdf5/process/library_process.h"
#include "quarry/io/hdf5/write/change_journal.h"
#include "quarry/io/hdf5/write/change_writer.h"
#include "quarry/io/hdf5/write/create.h"
#include "quarry/io/hdf5/write/metadata.h"
#include "quarry/io/partial.h"
#include "quarry/io/storage/objects.h"
#include "quarry/io/storage/pieces.h"
#include "quarry/io/storage/replacement.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/sizes.h"

namespace quarry::io::hdf5 {
namespace {

using local::Dims;
using local::Region;

constexpr int64_t kAlignedBytes = 64 << 10, kPageBytes = 4096;  // as of new files
constexpr int64_t kMetadataAlignment = 8;

int64_t number_of(const Dims& chunk, const Dims& grid) { return dot(chunk, local::contiguous_strides(grid, 1)); }

// An open file that nobody else has open.
class LockedFile {
 public:
  LockedFile(const std::string& target, const std::string& name) {
    fd_ = ::open(target.c_str(), O_RDWR | O_CLOEXEC);
    if (fd_ < 0) throw local::IoError(fmt::format("cannot write '{}': {}", name, system_reason(errno)));
    if (lock_for_change(fd_)) return;
    ::close(fd_);
    throw local::IoError(fmt::format("cannot change '{}': another program has it open", name));
  }
  ~LockedFile() { ::close(fd_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

// One data set that is changed.
struct Item {
  ChangeSpec spec;
  ChangePlan plan;
  int64_t header = 0;               // of the object
  std::optional<NewIndex> index;    // to be made anew
  std::vector<PlacedChunk> chunks;  // those that it has, numbered as they will be, then the new ones
  std::vector<StoredFilter> filters;
  std::string by_library;  // why the library writes it; empty: it does not
};

class Hdf5Change final : public OutputFile {
 public:
  Hdf5Change(const std::string& file, std::vector<ChangeSpec> specs)
      : name_(file), target_(real_path(file).value_or(file)), locked_(target_, file) {
    bytes_.emplace(target_, ByteFile::Mode::write);
    find_end();
    for (ChangeSpec& spec : specs) add_item(std::move(spec));
    const bool by_library = std::ranges::any_of(items_, [](const Item& item) { return !item.by_library.empty(); });
    if (by_library) {
      for (Item& item : items_) leave_to_library(item);
    }
    place_waiting();
    for (Item& item : items_) writers_.push_back(std::make_shared<ChangeWriter>(item.plan));
  }

  ~Hdf5Change() override {
    if (committed_ || !extended_) return;
    try {
      bytes_->resize(old_end_);
    } catch (const local::IoError& error) {  // the next change does it
      local::log(local::LogLevel::warn, error.what());
    }
  }

  std::shared_ptr<Writer> writer(size_t index) override { return writers_.at(index); }

  void write_encoded(size_t /*index*/, const Dims& /*chunk*/, std::span<const std::byte> /*bytes*/) override {
    QUARRY_CHECK(false);  // they are placed
  }

  int64_t reserve(int64_t bytes) override { return end_.fetch_add(bytes); }

  void add_placed(size_t index, std::span<const PlacedChunk> chunks) override {
    const std::lock_guard lock(mutex_);
    std::vector<PlacedChunk>& all = items_.at(index).chunks;
    all.insert(all.end(), chunks.begin(), chunks.end());
  }

  void commit() override {
    if (!is_named(locked_.fd(), target_))
      throw local::IoError(fmt::format("'{}' was replaced while the change was computed; it stays as it is", name_));
    if (!items_.empty() && !items_[0].by_library.empty()) {
      commit_by_library();
    } else {
      commit_in_place();
    }
    committed_ = true;
  }

 private:
  [[noreturn]] void fail(const ChangeSpec& spec, const std::string& reason) const {
    throw local::InvalidArgument(fmt::format("cannot change '{}' in '{}': {}", spec.object, name_, reason));
  }
  [[noreturn]] void fail_unsupported(const ChangeSpec& spec, const std::string& reason) const {
    throw local::NotSupported(fmt::format("cannot change '{}' in '{}': {}", spec.object, name_, reason));
  }

  // What an interrupted change left behind the end that the superblock states goes.
  void find_end() {
    format_ = MetadataFile::open(target_)->metadata.format();
    old_end_ = stated_end(*bytes_, *format_);
    if (old_end_ < 0 || old_end_ > bytes_->size()) {
      format_.reset();
      return;
    }
    if (old_end_ < bytes_->size()) {
      bytes_->resize(old_end_);
      bytes_.emplace(target_, ByteFile::Mode::write);
    }
    end_ = old_end_;
  }

  void add_item(ChangeSpec spec) {
    Item item;
    spec.object = normalized_object(spec.object);
    for (const Item& other : items_)
      if (other.spec.object == spec.object) fail(spec, "it is changed twice at once");
    const StoredDataset before = describe_dataset(name_, spec.object);
    check(spec, before);
    const auto opened = MetadataFile::open(name_);
    const Found found = find_object(opened, spec.object);
    QUARRY_CHECK(found.state == Found::State::found && found.object.space && found.object.layout);
    check_limits(spec, *found.object.space);
    item.header = found.object.header;
    item.filters = found.object.filters;
    ChangePlan& plan = item.plan;
    plan.before = before;
    plan.after = before;
    plan.name = name_;
    if (spec.append) plan.after.info.shape[*spec.append] += spec.region.count[*spec.append];
    item.spec = std::move(spec);
    item.by_library = plan_item(item, *found.file, found.object);
    items_.push_back(std::move(item));
  }

  void check(const ChangeSpec& spec, const StoredDataset& stored) const {
    const DatasetInfo& info = stored.info;
    if (!stored.storage.file.empty())
      fail(spec, fmt::format("it is in another file, '{}', which is to be named then", stored.storage.file));
    if (!stored.storage.fields.empty()) fail_unsupported(spec, "fields of compounds are only read");
    if (stored.storage.array_axes > 0) fail_unsupported(spec, "arrays inside of elements are only read");
    if (info.layout == "virtual" || info.layout == "external")
      fail_unsupported(spec, "its elements are in other files, which are to be changed then");
    if (info.shape != spec.shape)
      fail(spec,
           fmt::format("its shape was {} and is {} now", local::to_string(spec.shape), local::to_string(info.shape)));
    if (info.dtype != spec.dtype)
      fail(spec, fmt::format("it is of dtype {}, not {}", local::name(info.dtype), local::name(spec.dtype)));
    const Region& region = spec.region;
    QUARRY_CHECK(region.ndim() == info.shape.size() && region.contiguous_steps());
    for (int d = 0; d < region.ndim(); ++d) {
      const bool grows = spec.append == d;
      QUARRY_CHECK(region.start[d] >= 0 && region.count[d] >= 0);
      const bool fits = grows ? region.start[d] == info.shape[d]
                              : region.start[d] + region.count[d] <= info.shape[d] &&
                                    (!spec.append || region.count[d] == info.shape[d]);
      if (!fits)
        fail(spec, fmt::format("the box of shape {} at {} does not fit its shape {}", local::to_string(region.count),
                               local::to_string(region.start), local::to_string(info.shape)));
    }
  }

  void check_limits(const ChangeSpec& spec, const Dataspace& space) const {
    if (!spec.append) return;
    const int axis = *spec.append;
    const int64_t limit = space.limits[axis], extent = spec.shape[axis] + spec.region.count[axis];
    if (extent <= limit) return;
    const std::string how =
        "a data set that can is made by quarry's --append or --unlimited, or by h5py with maxshape None along that "
        "axis; h5repack does not make one";
    if (limit == spec.shape[axis]) fail(spec, fmt::format("it cannot grow along axis {}; {}", axis, how));
    fail(spec, fmt::format("along axis {} it can have at most {} elements, not {}; {}", axis, limit, extent, how));
  }

  // Returns why the library must write it; nothing where it need not.
  std::string plan_item(Item& item, const MetadataFile& opened, const Object& object) {
    const StoredDataset& before = item.plan.before;
    const DatasetInfo& info = before.info;
    if (!info.direct) return info.library_reason;
    if (info.swapped) return "a foreign byte order";
    if (before.storage.bits.precision > 0 || before.storage.bitfield) return "elements of a part of their bytes";
    switch (before.storage.kind) {
      case Storage::Kind::contiguous:
        if (before.storage.offset == kNoAddress && item.spec.region.elements() > 0) return "no room was allotted yet";
        item.plan.waiting = item.spec.region;
        return "";
      case Storage::Kind::chunked:
        return plan_chunks(item, opened, object);
      case Storage::Kind::memory:
        return "a compact layout";
      case Storage::Kind::library:
        break;
    }
    return "its layout";
  }

  std::string plan_chunks(Item& item, const MetadataFile& opened, const Object& object) {
    const DatasetInfo& info = item.plan.before.info;
    const bool filtered = !info.filters.empty();
    if (!filtered && !item.spec.append && has_all_chunks(item)) {
      item.plan.waiting = item.spec.region;
      return "";
    }
    if (!format_) return "how its file begins";
    for (const Filter& filter : info.filters)
      if (const FilterKind* const kind = find_kind(filter.kind); !kind || !kind->written)
        return fmt::format("filter {}", filter.name);
    if (object.layout->unfiltered_edges) return "chunks at the edges without filters";
    item.index = describe_index(opened.metadata, item.header);
    using Index = LayoutMessage::Index;
    const bool fixed = object.space->limits == object.space->shape && !item.spec.append && filtered;
    if (!item.index || (item.index->layout.index != Index::btree && !fixed)) return "the kind of its chunk index";
    bool masked = false;
    take_chunks(item, masked);
    if (masked) return "chunks without some of its filters";
    item.plan.encodes = filtered;
    ChunkIndex::Maker maker(item.plan.after.info.shape, *info.chunks);
    if (!filtered) {
      place_chunks(item);
      for (const PlacedChunk& chunk : item.chunks)
        maker.add({chunk.number, chunk.offset, static_cast<uint32_t>(chunk.bytes), 0});
    }
    item.plan.after.storage.index = maker.take();
    return "";
  }

  // Calls use(chunk) with the coordinates of all chunks that have elements of the region.
  static void for_each_touched(const Item& item, const auto& use) {
    const Region& region = item.spec.region;
    if (region.elements() == 0) return;
    const Dims& extents = *item.plan.before.info.chunks;
    Dims first = region.start, counts = region.start;
    for (int d = 0; d < first.size(); ++d) {
      first[d] = region.start[d] / extents[d];
      counts[d] = (region.start[d] + region.count[d] - 1) / extents[d] - first[d] + 1;
    }
    const int64_t count = local::element_count(counts);
    for (int64_t i = 0; i < count; ++i) {
      Dims chunk = place_in(counts, i);
      for (int d = 0; d < chunk.size(); ++d) chunk[d] += first[d];
      if (!use(chunk)) return;
    }
  }

  static bool has_all_chunks(const Item& item) {
    const ChunkIndex& index = item.plan.before.storage.index;
    bool all = true;
    for_each_touched(item, [&](const Dims& chunk) {
      all = index.find(number_of(chunk, index.grid())).has_value();
      return all;
    });
    return all;
  }

  // Those that it has, in the order of the numbers that they will have.
  static void take_chunks(Item& item, bool& masked) {
    const ChunkIndex& index = item.plan.before.storage.index;
    const Dims grid = chunk_grid(item.plan.after.info.shape, *item.plan.before.info.chunks);
    index.for_each([&](const ChunkEntry& entry) {
      masked = masked || entry.mask != 0;
      const int64_t number = number_of(place_in(index.grid(), entry.number), grid);
      item.chunks.push_back({number, entry.address, entry.bytes});
    });
  }

  // Chunks of their full size behind the end for elements that have none; elements of those that are there wait.
  void place_chunks(Item& item) {
    const DatasetInfo& info = item.plan.before.info;
    const ChunkIndex& index = item.plan.before.storage.index;
    const Dims grid = chunk_grid(item.plan.after.info.shape, *info.chunks);
    const int64_t chunk_bytes = local::element_count(*info.chunks) * local::itemsize(info.dtype);
    int64_t end = local::align_up(end_.load(), chunk_bytes >= kAlignedBytes ? kPageBytes : kMetadataAlignment);
    const size_t old_chunks = item.chunks.size();
    for_each_touched(item, [&](const Dims& chunk) {
      bool is_there = true;
      for (int d = 0; d < chunk.size(); ++d) is_there = is_there && chunk[d] < index.grid()[d];
      if (is_there && index.find(number_of(chunk, index.grid()))) return true;
      item.chunks.push_back({number_of(chunk, grid), end, chunk_bytes});
      end += chunk_bytes;
      return true;
    });
    if (item.chunks.size() > old_chunks) {
      check_room(locked_.fd(), name_, static_cast<double>(end - end_));
      extend(end);
    }
    for (size_t i = old_chunks; i < item.chunks.size(); ++i)
      fill(item, item.chunks[i], place_in(grid, item.chunks[i].number));
    item.plan.waiting = item.spec.region;
    if (!item.spec.append) return;
    const int axis = *item.spec.append;
    const int64_t extent = (*info.chunks)[axis], begin = item.spec.region.start[axis];
    item.plan.waiting->count[axis] = std::min(local::align_up(begin, extent) - begin, item.spec.region.count[axis]);
  }

  // What was never written reads as the fill value.
  void fill(const Item& item, const PlacedChunk& placed, const Dims& chunk) const {
    const std::vector<std::byte>& value = item.plan.before.storage.fill;
    if (std::ranges::all_of(value, [](std::byte b) { return b == std::byte{0}; })) return;
    const Dims& extents = *item.plan.before.info.chunks;
    const Region& region = item.spec.region;
    bool covered = true;
    for (int d = 0; d < chunk.size(); ++d) {
      const int64_t begin = chunk[d] * extents[d];
      covered = covered && region.start[d] <= begin && begin + extents[d] <= region.start[d] + region.count[d];
    }
    if (covered) return;
    std::vector<std::byte> bytes(static_cast<size_t>(placed.bytes));
    for (size_t at = 0; at < bytes.size(); at += value.size())
      std::ranges::copy(value, bytes.begin() + static_cast<std::ptrdiff_t>(at));
    bytes_->write_at(placed.offset, bytes);
  }

  void extend(int64_t end) {
    extended_ = true;
    bytes_->resize(end);
    end_ = end;
  }

  void leave_to_library(Item& item) {
    if (item.by_library.empty()) item.by_library = "another data set that is changed with it";
    for (const StoredFilter& filter : item.filters) {
      unsigned flags = 0;
      const bool is_known = H5Zget_filter_info(filter.id, &flags) >= 0;
      H5Eclear2(H5E_DEFAULT);
      if (!is_known || (flags & H5Z_FILTER_CONFIG_ENCODE_ENABLED) == 0)
        fail_unsupported(item.spec, fmt::format("filter {} is not written ({})", filter.id, item.by_library));
    }
    local::log(local::LogLevel::info,
               fmt::format("'{}' in '{}' is changed by the HDF5 library in a copy of the file: {}", item.spec.object,
                           name_, item.by_library));
    item.index.reset();
    item.chunks.clear();
    ChangePlan& plan = item.plan;
    plan.encodes = false;
    plan.waiting = item.spec.region;
    plan.after.storage = Storage();
    if (plan.after.info.chunks) plan.after.storage.index = {};
  }

  // Makes the journal, with room for what waits.
  void place_waiting() {
    journal_.emplace(changes_path(target_));
    const int fd = ::open(journal_->path().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) throw local::IoError(fmt::format("cannot write '{}': {}", journal_->path(), system_reason(errno)));
    ::close(fd);
    journal_end_ = kJournalPageBytes;
    for (Item& item : items_) {
      ChangePlan& plan = item.plan;
      plan.journal = journal_->path();
      if (plan.waiting && plan.waiting->elements() == 0 && item.by_library.empty()) plan.waiting.reset();
      if (!plan.waiting) continue;
      plan.waiting_at = journal_end_;
      journal_end_ +=
          local::align_up(plan.waiting->elements() * local::itemsize(plan.after.info.dtype), kJournalPageBytes);
    }
    check_room(locked_.fd(), name_, static_cast<double>(journal_end_));
    ByteFile(journal_->path(), ByteFile::Mode::write).resize(journal_end_);
  }

  void commit_in_place() {
    FileChange change;
    for (const Item& item : items_)
      if (item.plan.waiting) change.elements.push_back({item.plan.after, *item.plan.waiting, item.plan.waiting_at});
    if (format_) change.patches = write_metadata();
    if (change.elements.empty() && change.patches.empty()) return;
    bytes_->sync();
    write_change(journal_->path(), change, journal_end_);
    journal_->keep();  // from here on the change is completed, now or later
    committed_ = true;
    std::optional<Signature> signature = find_signature(*bytes_);
    QUARRY_CHECK(signature && signature->state == FileState::whole);
    signature->state = FileState::unfinished;
    put_signature(*bytes_, *signature);
    bytes_->sync();
    apply_change(target_, journal_->path(), change);
    ::unlink(journal_->path().c_str());
    sync_folder_of(target_);
  }

  // Behind the end; returns what is to change before it.
  std::vector<MetadataTarget::Patch> write_metadata() {
    MetadataTarget file(*bytes_, old_end_);
    int64_t end = end_;
    for (Item& item : items_) {
      if (item.index && item.spec.region.elements() > 0) {
        std::vector<PlacedChunk>& chunks = item.chunks;
        keep_last_of_each(chunks);  // those that were encoded anew
        end = index_chunks(file, *item.index, item.plan.after.info.shape, local::itemsize(item.plan.after.info.dtype),
                           chunks, local::align_up(end, kMetadataAlignment));
      }
      if (!item.spec.append || item.spec.region.count[*item.spec.append] == 0) continue;
      const int axis = *item.spec.append;
      if (!set_extent(file, *format_, item.header, item.spec.shape, axis, item.plan.after.info.shape[axis]))
        fail_unsupported(item.spec, "its shape is a message that several objects share");
    }
    if (end > old_end_) {
      extend(end);
      set_end(file, *format_, end);
    }
    return file.patches();
  }

  void commit_by_library() {
    Replacement copy(name_, static_cast<double>(journal_end_));
    std::vector<LibraryChange> changes;
    for (const Item& item : items_) {
      const ChangePlan& plan = item.plan;
      LibraryChange& change = changes.emplace_back();
      change.object = item.spec.object;
      change.appends = item.spec.append.has_value();
      change.shape = plan.after.info.shape;
      change.region = item.spec.region;
      change.bitfield = plan.before.storage.bitfield;
      change.elements = waiting_dataset(journal_->path(), plan.after, item.spec.region, plan.waiting_at);
    }
    ByteWriter request;
    request.put_string(copy.path());
    request.put_string(name_);
    serialize(changes, request);
    call_library(LibraryCall::change, request.take(), fmt::format("cannot write '{}'", name_));
    copy.commit();
  }

  const std::string name_, target_;
  const LockedFile locked_;
  std::optional<ByteFile> bytes_;
  std::optional<FileFormat> format_;  // none where quarry writes no metadata
  int64_t old_end_ = 0;               // that the superblock states
  std::atomic<int64_t> end_{0};       // of the room that is reserved
  bool extended_ = false, committed_ = false;
  std::vector<Item> items_;
  std::optional<Partial> journal_;
  int64_t journal_end_ = 0;
  std::mutex mutex_;
  std::vector<std::shared_ptr<ChangeWriter>> writers_;
};

}  // namespace

std::unique_ptr<OutputFile> change_output(const std::string& file, std::vector<ChangeSpec> specs) {
  return std::make_unique<Hdf5Change>(file, std::move(specs));
}

}  // namespace quarry::io::hdf5
