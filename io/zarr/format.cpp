#include "quarry/io/zarr/format.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "quarry/io/byte_file.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/objects.h"
#include "quarry/io/storage/pieces.h"
#include "quarry/io/storage/trace.h"
#include "quarry/io/zarr/codecs.h"
#include "quarry/io/zarr/metadata.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"

namespace quarry::io::zarr {
namespace {

namespace fs = std::filesystem;
using local::Dims;

constexpr int64_t kPieceBytes = 256 << 10;
constexpr int64_t kLongestMetadata = 4 << 20;
constexpr int kDeepest = 32;  // groups in each other

// Which kind of node a folder is, by the files of version 2 and 3.
enum class Node : uint8_t { none, array2, array3, group };

bool is_file(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none);
}

std::string read_text(const fs::path& path) {
  const ByteFile file(path.string(), ByteFile::Mode::read);
  if (file.size() > kLongestMetadata)
    throw local::IoError(fmt::format("'{}' is damaged: {} bytes are too many", path.string(), file.size()));
  std::string text(static_cast<size_t>(file.size()), '\0');
  if (!text.empty()) file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

Node node_of(const fs::path& folder) {
  if (is_file(folder / ".zarray")) return Node::array2;
  if (is_file(folder / "zarr.json")) {
    // A text search is enough to tell them apart: what is not an array is found out when it is parsed.
    const std::string text = read_text(folder / "zarr.json");
    return text.find("\"chunk_grid\"") != std::string::npos ? Node::array3 : Node::group;
  }
  return is_file(folder / ".zgroup") ? Node::group : Node::none;
}

// The folder of an object. Throws InvalidArgument for a path that leaves the file.
fs::path folder_of(const std::string& file, const std::string& object) {
  fs::path out(file);
  for (const fs::path& part : fs::path(object).relative_path()) {
    if (part == ".." || part == ".") throw local::InvalidArgument(fmt::format("no object '{}' in '{}'", object, file));
    out /= part;
  }
  return out;
}

Metadata read_metadata(const std::string& file, const std::string& object, Node node, std::string* json = nullptr) {
  const fs::path path = folder_of(file, object) / (node == Node::array2 ? ".zarray" : "zarr.json");
  const std::string text = read_text(path);
  Metadata out = parse_metadata(text, node == Node::array2 ? 2 : 3, path.string());
  out.info.file = file;
  out.info.object = object;
  if (json) *json = text;
  return out;
}

class ZarrDataset final : public Dataset {
 public:
  ZarrDataset(Metadata metadata, std::string json, int version)
      : metadata_(std::move(metadata)),
        json_(std::move(json)),
        version_(version),
        item_(local::itemsize(metadata_.info.dtype)),
        block_(*metadata_.info.chunks),
        block_bytes_(local::element_count(block_) * item_),
        spans_(spans_of(block_, item_, metadata_.fortran_order)),
        folder_(folder_of(metadata_.info.file, metadata_.info.object).string()) {}

  const DatasetInfo& info() const override { return metadata_.info; }
  const Format& format() const override { return zarr::format(); }
  std::string layout() const override {
    ByteWriter out;
    out.put_string(metadata_.info.file);
    out.put_string(metadata_.info.object);
    out.put<int32_t>(version_);
    out.put_string(json_);
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
    for (Part part; cursor.next(part);) {
      const std::byte* const block = load(part.number, scratch);
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

 private:
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
    std::string out = metadata_.prefix;
    for (const int64_t coordinate : at) {
      if (!out.empty()) out.push_back(metadata_.separator);
      out += std::to_string(coordinate);
    }
    return out.empty() ? "0" : out;
  }

  // The chunk decoded at the beginning of the scratch; null where it was never written.
  const std::byte* load(int64_t number, std::span<std::byte> scratch) const {
    const std::string path = folder_ + "/" + key(number);
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 && errno == ENOENT) return nullptr;
    try {
      const ByteFile file(path, ByteFile::Mode::read);
      const int64_t most = most_stored_bytes(block_bytes_);
      if (file.size() > most)
        throw local::IoError(fmt::format("it has {} bytes, of a chunk of {}", file.size(), block_bytes_));
      const auto block = scratch.first(static_cast<size_t>(block_bytes_));
      auto rest = scratch.subspan(static_cast<size_t>(local::align_up(block_bytes_, 64)));
      const auto stored = rest.first(static_cast<size_t>(file.size()));
      file.read_at(0, stored);
      bytes_read_.fetch_add(file.size(), std::memory_order_relaxed);
      decode(metadata_.codecs, stored, block, rest.subspan(static_cast<size_t>(most), static_cast<size_t>(2 * most)));
      if (metadata_.info.dtype == local::DType::bool_) normalize_bools(block.data(), block_bytes_);
      return block.data();
    } catch (const local::IoError& error) {
      throw local::IoError(fmt::format("'{}': damaged chunk '{}': {}", metadata_.info.object, path, error.what()));
    }
  }

  const Metadata metadata_;
  const std::string json_;
  const int version_;
  const int64_t item_;
  const Dims block_;
  const int64_t block_bytes_;
  const Dims spans_;
  const std::string folder_;
  mutable std::atomic<int64_t> bytes_read_{0};
};

void list_below(const std::string& file, const std::string& object, int depth, std::vector<ObjectInfo>& out) {
  const fs::path folder = folder_of(file, object);
  const Node node = node_of(folder);
  if (node == Node::array2 || node == Node::array3) {
    try {
      out.push_back({object, false, read_metadata(file, object, node).info, ""});
    } catch (const local::Error& error) {
      out.push_back({object, false, std::nullopt, error.what()});
    }
    return;
  }
  if (node == Node::none && depth > 0) return;
  out.push_back({object, true, std::nullopt, ""});
  if (depth == kDeepest) return;
  std::vector<std::string> names;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none))
    if (entry.is_directory(none)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  for (const std::string& name : names) list_below(file, (object == "/" ? "" : object) + "/" + name, depth + 1, out);
}

class ZarrFormat final : public Format {
 public:
  std::string_view name() const override { return "Zarr"; }
  std::span<const std::string_view> extensions() const override {
    static constexpr std::string_view kExtensions[] = {".zarr"};
    return kExtensions;
  }
  bool recognises(const ByteSource& /*file*/) const override { return false; }
  bool recognises_folder(const std::string& path) const override {
    return is_file(path + "/zarr.json") || is_file(path + "/.zgroup") || is_file(path + "/.zarray");
  }
  std::shared_ptr<Dataset> open(const std::string& file, const std::string& object) const override {
    const std::string path = normalized_object(object);
    const Node node = node_of(folder_of(file, path));
    if (node == Node::array2 || node == Node::array3) {
      std::string json;
      Metadata metadata = read_metadata(file, path, node, &json);
      return std::make_shared<ZarrDataset>(std::move(metadata), std::move(json), node == Node::array2 ? 2 : 3);
    }
    if (node == Node::group) throw local::InvalidArgument(fmt::format("'{}' in '{}' is a group", path, file));
    std::vector<std::string> names;
    for (const ObjectInfo& entry : list(file, "/")) names.push_back(entry.path);
    throw_no_object(file, path, names);
  }
  std::vector<ObjectInfo> list(const std::string& file, const std::string& object) const override {
    const std::string path = normalized_object(object);
    std::error_code none;
    if (!fs::is_directory(folder_of(file, path), none)) throw_no_object(file, path, {});
    std::vector<ObjectInfo> out;
    list_below(file, path, 0, out);
    return out;
  }
  std::shared_ptr<Dataset> dataset(const std::string& layout) const override {
    ByteReader in(layout);
    const std::string file = in.get_string(), object = in.get_string();
    const auto version = in.get<int32_t>();
    std::string json = in.get_string();
    Metadata metadata = parse_metadata(json, version, file);
    metadata.info.file = file;
    metadata.info.object = object;
    return std::make_shared<ZarrDataset>(std::move(metadata), std::move(json), version);
  }
  std::unique_ptr<OutputFile> create(const std::string& file, std::vector<OutputSpec> /*specs*/,
                                     bool /*overwrite*/) const override {
    throw local::NotSupported(fmt::format("'{}': Zarr arrays are read, not written", file));
  }
  std::shared_ptr<Writer> writer(const std::string& /*layout*/) const override {
    throw local::NotSupported("Zarr arrays are read, not written");
  }
};

}  // namespace

const Format& format() {
  static const auto* const format = new ZarrFormat;  // leaked: data sets with static lifetime may come here late
  return *format;
}

}  // namespace quarry::io::zarr
