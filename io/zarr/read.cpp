// Reading Zarr folders: each chunk is a file.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "quarry/io/byte_file.h"
#include "quarry/io/chunk_cache.h"
#include "quarry/io/encoded_chunks.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/objects.h"
#include "quarry/io/storage/pieces.h"
#include "quarry/io/storage/trace.h"
#include "quarry/io/zarr/codecs.h"
#include "quarry/io/zarr/format.h"
#include "quarry/io/zarr/metadata.h"
#include "quarry/io/zarr/nodes.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"

namespace quarry::io::zarr {
namespace {

namespace fs = std::filesystem;
using local::Dims;

constexpr int64_t kPieceBytes = 256 << 10;
constexpr int kDeepest = 32;  // groups in each other

// What the files of an array say.
struct Source {
  std::string file, object;
  int32_t version = 2;
  std::string json, attributes;  // of .zarray and .zattrs, or of zarr.json and none
};

Source read_source(const std::string& file, const std::string& object, Node node) {
  const fs::path folder = folder_of(file, object);
  if (node == Node::array3) return {file, object, 3, read_text(folder / "zarr.json"), ""};
  const fs::path beside = folder / ".zattrs";
  return {file, object, 2, read_text(folder / ".zarray"), is_file(beside) ? read_text(beside) : ""};
}

Metadata parse(const Source& source) {
  const fs::path path = folder_of(source.file, source.object) / (source.version == 2 ? ".zarray" : "zarr.json");
  Metadata out = parse_metadata(source.json, source.attributes, source.version, path.string());
  out.info.file = source.file;
  out.info.object = source.object;
  return out;
}

class ZarrDataset final : public Dataset {
 public:
  ZarrDataset(Metadata metadata, Source source)
      : metadata_(std::move(metadata)),
        source_(std::move(source)),
        item_(local::itemsize(metadata_.info.dtype)),
        block_(*metadata_.info.chunks),
        block_bytes_(local::element_count(block_) * item_),
        spans_(spans_of(block_, item_, metadata_.fortran_order)),
        folder_(folder_of(metadata_.info.file, metadata_.info.object).string()),
        streams_(make_streams()) {}

  const DatasetInfo& info() const override { return metadata_.info; }
  const Format& format() const override { return zarr::format(); }
  std::string layout() const override {
    ByteWriter out;
    out.put_string(source_.file);
    out.put_string(source_.object);
    out.put(source_.version);
    out.put_string(source_.json);
    out.put_string(source_.attributes);
    return out.take();
  }
  int64_t read_scratch_bytes(const local::Region& region) const override { return visit_scratch_bytes(region); }
  // The chunk, what is stored of it, and two steps of decoding.
  int64_t visit_scratch_bytes(const local::Region&) const override {
    return local::align_up(block_bytes_, 64) + 3 * most_stored_bytes(block_bytes_);
  }

  void read(const local::Region& region, void* to, std::span<std::byte> scratch) const override {
    const Dims strides = local::contiguous_strides(region.count, item_);
    visit(region, scratch, [&](const Piece& piece) { copy_piece(piece, item_, static_cast<std::byte*>(to), strides); });
  }

  void visit(const local::Region& region, std::span<std::byte> scratch,
             const std::function<void(const Piece&)>& consume) const override {
    const AscendingRegion ascending(region, metadata_.info.shape);
    if (ascending.empty()) return;
    QUARRY_CHECK(static_cast<int64_t>(scratch.size()) >= visit_scratch_bytes(region));
    const TraceCall traced("read", "visit", info().object, region.start, region.elements() * item_, "chunk files");
    PartCursor cursor(ascending, metadata_.info.shape, block_);
    const Dims nowhere = Dims::filled(block_.size(), 0);
    Dims span = spans_;
    for (int d = 0; d < span.size(); ++d) span[d] *= ascending.step[d];
    Piece piece;
    const std::shared_ptr<CachedChunks> kept = kept_.get();
    for (Part part; cursor.next(part);) {
      using State = CachedChunks::Hold::State;
      CachedChunks::Hold hold;
      if (kept) {
        const CachedChunks::Box box = taken_box(ascending, part, metadata_.info.shape, block_, kept->reads().overlap);
        if (kept->wants(part.number, box)) hold = kept->take(part.number, box, /*wait=*/true);
      }
      const std::byte* block = hold.data();
      if (hold.state() != State::ready) {
        block = load(part.number, hold.state() == State::open ? hold.data() : scratch.data(), scratch, kept.get());
        if (block && hold.state() == State::open) hold.publish();
      }
      const std::byte* base = block ? block : metadata_.fill.data();
      for (int d = 0; block && d < span.size(); ++d) base += part.first[d] * spans_[d];
      cut_pieces(part.count, span, item_, /*dense_from=*/0, std::max(kPieceBytes, item_),
                 [&](const Dims& index, const Dims& count, const Dims&) {
                   const std::byte* from = base;
                   for (int d = 0; block && d < span.size(); ++d) from += index[d] * span[d];
                   place_piece(ascending, part.at, index, count, from, block ? span : nowhere, piece);
                   consume(piece);
                 });
    }
  }
  int64_t bytes_read() const override { return bytes_read_; }
  int64_t decoded_chunk_bytes() const override { return block_bytes_; }
  void keep_chunks(const std::shared_ptr<CachedChunks>& chunks) override { kept_.attach(chunks); }
  bool goes_through_again() const override { return kept_.go_through_again(); }
  const EncodedChunks* encoded_chunks() const override { return streams_.get(); }

 private:
  // For devices.
  class Streams final : public EncodedChunks {
   public:
    Streams(const ZarrDataset& dataset, local::StreamFormat format, bool shuffled) : dataset_(dataset) {
      layout_ = {format, dataset.block_bytes_, most_stored_bytes(dataset.block_bytes_), shuffled};
    }
    const Layout& layout() const override { return layout_; }
    std::vector<Part> parts(const local::Region& region) const override {
      return parts_of(region, dataset_.metadata_.info.shape, dataset_.block_);
    }
    Stored read(int64_t number, std::span<std::byte> room) const override {
      const std::shared_ptr<CachedChunks> kept = dataset_.kept_.get();
      if (const auto stored = dataset_.load_stored(number, room, kept.get())) return {*stored, true};
      const std::span<std::byte> chunk = room.first(static_cast<size_t>(layout_.chunk_bytes));
      fill_chunk(chunk, dataset_.metadata_.fill);
      return {chunk, false};
    }
    void refuse(int64_t number, local::StreamStatus status) const override {
      dataset_.refuse_chunk(number, reason_of(layout_.format, status).c_str());
    }

   private:
    int64_t scratch_bytes() const override { return 0; }
    const ZarrDataset& dataset_;
    Layout layout_;
  };

  std::unique_ptr<EncodedChunks> make_streams() const {
    const auto& codecs = metadata_.codecs;
    if (metadata_.fortran_order || metadata_.info.dtype == local::DType::bool_ || codecs.empty()) return nullptr;
    const bool is_shuffled = codecs.front().kind == Codec::Kind::shuffle && codecs.front().element > 1;
    if (is_shuffled && static_cast<int64_t>(codecs.front().element) != item_) return nullptr;
    const size_t before = codecs.front().kind == Codec::Kind::shuffle ? 1 : 0;
    if (codecs.size() != before + 1) return nullptr;
    switch (codecs.back().kind) {
      case Codec::Kind::zlib:
        return std::make_unique<Streams>(*this, local::StreamFormat::zlib, is_shuffled);
      case Codec::Kind::zstd:
        return std::make_unique<Streams>(*this, local::StreamFormat::zstd, is_shuffled);
      default:
        return nullptr;
    }
  }

  static Dims spans_of(const Dims& block, int64_t item, bool fortran) {
    Dims out = local::contiguous_strides(block, item);
    if (!fortran) return out;
    for (int d = 0; d < block.size(); ++d) {
      out[d] = item;
      item *= block[d];
    }
    return out;
  }

  std::string key(int64_t number) const {
    const int ndim = block_.size();
    Dims at = Dims::filled(ndim, 0);
    for (int d = ndim - 1; d >= 0; --d) {
      const int64_t extent = metadata_.info.shape[d] / block_[d] + (metadata_.info.shape[d] % block_[d] != 0);
      at[d] = number % extent;
      number /= extent;
    }
    return metadata_.keys.of(at);
  }

  std::string path_of(int64_t number) const { return folder_ + "/" + key(number); }
  // Throws IoError.
  [[noreturn]] void refuse_chunk(int64_t number, const char* reason) const {
    throw local::IoError(fmt::format("'{}': damaged chunk '{}': {}", metadata_.info.object, path_of(number), reason));
  }

  // What is stored of a chunk, at the beginning of the room; nothing where it was never written.
  std::optional<std::span<std::byte>> load_stored(int64_t number, std::span<std::byte> room, CachedChunks* kept) const {
    const std::string path = path_of(number);
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 && errno == ENOENT) return std::nullopt;
    try {
      const ByteFile file(path, ByteFile::Mode::read);
      if (file.size() > most_stored_bytes(block_bytes_))
        throw local::IoError(fmt::format("it has {} bytes, of a chunk of {}", file.size(), block_bytes_));
      const auto stored = room.first(static_cast<size_t>(file.size()));
      file.read_at(0, stored);
      bytes_read_.fetch_add(file.size(), std::memory_order_relaxed);
      if (kept) kept->note_read(number, file.size());
      return stored;
    } catch (const local::IoError& error) {
      refuse_chunk(number, error.what());
    }
  }

  // The chunk decoded at `to`, which may be the beginning of the scratch; null where it was never written.
  const std::byte* load(int64_t number, std::byte* to, std::span<std::byte> scratch, CachedChunks* kept) const {
    const auto most = static_cast<size_t>(most_stored_bytes(block_bytes_));
    const auto rest = scratch.subspan(static_cast<size_t>(local::align_up(block_bytes_, 64)));
    const auto stored = load_stored(number, rest.first(most), kept);
    if (!stored) return nullptr;
    const std::span block(to, static_cast<size_t>(block_bytes_));
    try {
      decode(metadata_.codecs, *stored, block, rest.subspan(most, 2 * most));
    } catch (const local::IoError& error) {
      refuse_chunk(number, error.what());
    }
    if (metadata_.info.dtype == local::DType::bool_) normalize_bools(block.data(), block_bytes_);
    return block.data();
  }

  const Metadata metadata_;
  const Source source_;
  const int64_t item_;
  const Dims block_;
  const int64_t block_bytes_;
  const Dims spans_;
  const std::string folder_;
  const std::unique_ptr<EncodedChunks> streams_;
  mutable std::atomic<int64_t> bytes_read_{0};
  AttachedChunks kept_;
};

std::map<std::string, Attribute> attributes_of_group(const fs::path& folder, Node node) {
  const fs::path path = folder / (node == Node::group3 ? "zarr.json" : ".zattrs");
  if (!is_file(path)) return {};
  return parse_group_attributes(read_text(path), node == Node::group3 ? 3 : 2, path.string());
}

void list_below(const std::string& file, const std::string& object, int depth, std::vector<ObjectInfo>& out) {
  const fs::path folder = folder_of(file, object);
  const Node node = node_of(folder);
  if (is_array(node)) {
    try {
      out.push_back({object, false, parse(read_source(file, object, node)).info, ""});
    } catch (const local::Error& error) {
      out.push_back({object, false, std::nullopt, error.what()});
    }
    return;
  }
  if (node == Node::none && depth > 0) return;
  ObjectInfo group{object, true, std::nullopt, ""};
  try {
    group.attributes = attributes_of_group(folder, node);
  } catch (const local::Error& error) {
    out.push_back({object, false, std::nullopt, fmt::format("an attribute is left out: {}", error.what())});
  }
  out.push_back(std::move(group));
  if (depth == kDeepest) return;
  std::vector<std::string> names;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none))
    if (entry.is_directory(none)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  for (const std::string& name : names) list_below(file, (object == "/" ? "" : object) + "/" + name, depth + 1, out);
}

}  // namespace

std::shared_ptr<Dataset> open_dataset(const std::string& file, const std::string& object) {
  const std::string path = normalized_object(object);
  const Node node = node_of(folder_of(file, path));
  if (is_array(node)) {
    Source source = read_source(file, path, node);
    return std::make_shared<ZarrDataset>(parse(source), std::move(source));
  }
  if (node != Node::none) throw local::InvalidArgument(fmt::format("'{}' in '{}' is a group", path, file));
  std::vector<std::string> names;
  for (const ObjectInfo& entry : list_objects(file, "/")) names.push_back(entry.path);
  throw_no_object(file, path, names);
}

std::vector<ObjectInfo> list_objects(const std::string& file, const std::string& object) {
  const std::string path = normalized_object(object);
  std::error_code none;
  if (!fs::is_directory(folder_of(file, path), none)) throw_no_object(file, path, {});
  std::vector<ObjectInfo> out;
  list_below(file, path, 0, out);
  return out;
}

std::shared_ptr<Dataset> dataset_of(const std::string& layout) {
  ByteReader in(layout);
  Source source;
  source.file = in.get_string();
  source.object = in.get_string();
  source.version = in.get<int32_t>();
  source.json = in.get_string();
  source.attributes = in.get_string();
  return std::make_shared<ZarrDataset>(parse(source), std::move(source));
}

}  // namespace quarry::io::zarr
