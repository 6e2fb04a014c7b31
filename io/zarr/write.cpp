// Writing Zarr folders.
//
// Chunks are files, which every rank writes below NAME.partial as it makes them. There is no metadata before the
// commit, so that what a killed run leaves is no Zarr folder. The commit first gives NAME.partial what stays of NAME,
// by links, then the metadata of new arrays and groups, that of the root last, and then puts it in NAME's place
// (docs/adr/0029). A run that goes on with a NAME.partial finds chunks in their files.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "quarry/io/byte_file.h"
#include "quarry/io/npy/header.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/folder.h"
#include "quarry/io/storage/inflate.h"
#include "quarry/io/storage/objects.h"
#include "quarry/io/storage/pieces.h"
#include "quarry/io/storage/runs.h"
#include "quarry/io/storage/strided.h"
#include "quarry/io/storage/trace.h"
#include "quarry/io/zarr/codecs.h"
#include "quarry/io/zarr/format.h"
#include "quarry/io/zarr/metadata.h"
#include "quarry/io/zarr/nodes.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::io::zarr {
namespace {

namespace fs = std::filesystem;
using local::Dims;

constexpr int kUsualVersion = 2;
constexpr int64_t kUsualChunkBytes = 8 << 20;              // files of less are many, of more are slow to read a part of
constexpr int64_t kLargestChunk = (int64_t{1} << 31) - 1;  // as codecs have it

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// A new file, though there is one of that name: that may be another folder's too.
void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  ::unlink(path.c_str());
  const ByteFile file(path.string(), ByteFile::Mode::create);
  file.write_at(0, bytes);
}

// --- one array ---

class ZarrWriter final : public Writer {
 public:
  // `folder`: of the array while it is written, which exists; `name`: the output as the user named it.
  ZarrWriter(OutputSpec spec, int version, std::string folder, std::string name)
      : spec_(std::move(spec)),
        version_(version),
        folder_(std::move(folder)),
        name_(std::move(name)),
        codecs_(codecs_of(spec_, version)),
        keys_(usual_keys(version)),
        item_(local::itemsize(spec_.dtype)),
        block_(spec_.chunks.value_or(Dims{})),
        block_bytes_(local::element_count(block_) * item_) {}

  const OutputSpec& spec() const override { return spec_; }
  const Format& format() const override { return zarr::format(); }
  std::string layout() const override {
    ByteWriter out;
    serialize_array(spec_, out);
    out.put<int32_t>(version_);
    out.put_string(folder_);
    out.put_string(name_);
    return out.take();
  }

  void write(const local::Region& region, const void* from) override {
    if (!codecs_.empty()) throw local::InvalidArgument(fmt::format("'{}' is filtered: encode it", spec_.object));
    const AscendingRegion ascending(region, spec_.shape);
    if (ascending.empty()) return;
    QUARRY_CHECK(ascending.unit_steps() && !ascending.flipped());
    const int64_t bytes = region.elements() * item_;
    const TraceCall traced("write", "write", spec_.object, region.start, bytes, "chunk files");
    PartCursor cursor(ascending, spec_.shape, block_);
    for (Part part; cursor.next(part);) {
      const auto put = [&](const ByteFile& file) {
        // The whole chunk, what is beyond the array's edge too; others may be writing other parts of it.
        if (file.size() != block_bytes_) file.resize(block_bytes_);
        Runs runs(file);
        add_part(runs, part, /*offset=*/0, block_, region.count, item_, static_cast<const std::byte*>(from));
        runs.flush();
      };
      in_chunk(coordinates(part.number), put);
    }
    bytes_written_ += bytes;
  }

  int64_t encode_scratch_bytes() const override {
    return codecs_.empty() ? 0 : zarr::encode_scratch_bytes(codecs_, block_bytes_);
  }
  using Writer::encode;
  std::span<const std::byte> encode(const Dims& /*chunk*/, const void* from, const Dims& strides, const Dims& count,
                                    std::span<std::byte> scratch) const override {
    QUARRY_CHECK(count.size() == block_.size() && std::ssize(scratch) >= encode_scratch_bytes());
    for (int d = 0; d < count.size(); ++d) QUARRY_CHECK(count[d] >= 0 && count[d] <= block_[d]);
    if (count != block_) std::memset(scratch.data(), 0, static_cast<size_t>(block_bytes_));
    copy_box(count, item_, static_cast<const std::byte*>(from), strides, scratch.data(),
             local::contiguous_strides(block_, item_));
    return zarr::encode(codecs_, block_bytes_, scratch);
  }

  bool places_chunks() const override { return !codecs_.empty(); }
  PlacedChunk place(const Dims& chunk, int64_t /*offset*/, std::span<const std::byte> bytes) override {
    const TraceCall traced("write", "write", spec_.object, chunk, std::ssize(bytes), "encoded");
    in_chunk(chunk, [&](const ByteFile& file) {
      if (file.size() > 0) file.resize(0);  // one that comes again
      file.write_at(0, bytes);
    });
    bytes_written_ += std::ssize(bytes);
    return {dot(chunk, local::contiguous_strides(grid(), 1)), 0, std::ssize(bytes)};
  }

  uint32_t checksum_written(const local::Region& region) const override {
    const AscendingRegion ascending(region, spec_.shape);
    QUARRY_CHECK(ascending.unit_steps() && !ascending.flipped());
    std::vector<std::byte> bytes(static_cast<size_t>(region.elements() * item_)), part_bytes;
    std::vector<std::byte> scratch(static_cast<size_t>(StridedReader::scratch_bytes()));
    const Dims strides = local::contiguous_strides(region.count, item_);
    const StridedPlace place{0, block_, local::contiguous_strides(block_, item_), item_};
    PartCursor cursor(ascending, spec_.shape, block_);
    for (Part part; cursor.next(part);) {
      part_bytes.resize(static_cast<size_t>(local::element_count(part.count) * item_));
      StridedReader(written_chunk(coordinates(part.number), block_bytes_), place, spec_.object)
          .read(local::Region::box(part.first, part.count), part_bytes.data(), scratch);
      copy_box(part.count, item_, part_bytes.data(), local::contiguous_strides(part.count, item_),
               bytes.data() + dot(part.at, strides), strides);
    }
    return checksum(0, bytes);
  }
  uint32_t checksum_written(const PlacedChunk& placed) const override {
    std::vector<std::byte> bytes(static_cast<size_t>(placed.bytes));
    written_chunk(coordinates(placed.number), placed.bytes)->read_at(0, bytes);
    return checksum(0, bytes);
  }

  void sync() const override {
    try {
      sync_file_system(folder_);
    } catch (const local::IoError& error) {
      throw local::IoError(fmt::format("writing '{}' to '{}': {}", spec_.object, name_, error.what()));
    }
  }
  int64_t bytes_written() const override { return bytes_written_; }

 private:
  Dims grid() const {
    Dims out = block_;
    for (int d = 0; d < out.size(); ++d) out[d] = spec_.shape[d] / block_[d] + (spec_.shape[d] % block_[d] != 0);
    return out;
  }
  Dims coordinates(int64_t number) const {
    const Dims extents = grid();
    Dims at = extents;
    for (int d = at.size() - 1; d >= 0; --d) {
      at[d] = number % extents[d];
      number /= extents[d];
    }
    return at;
  }

  // Throws IoError where there is no file of the chunk, or it has not so many bytes.
  std::shared_ptr<const ByteFile> written_chunk(const Dims& chunk, int64_t bytes) const {
    auto file = std::make_shared<const ByteFile>(folder_ + "/" + keys_.of(chunk), ByteFile::Mode::read);
    if (file->size() != bytes)
      throw local::IoError(fmt::format("'{}' has {} bytes, not {}", file->path(), file->size(), bytes));
    return file;
  }
  // Calls `use` with the file of a chunk, made where there is none.
  template <class Use>
  void in_chunk(const Dims& chunk, Use&& use) const {
    const std::string key = keys_.of(chunk);
    try {
      make_folders(key);
      use(ByteFile(folder_ + "/" + key, ByteFile::Mode::create));
    } catch (const local::IoError& error) {
      throw local::IoError(fmt::format("writing '{}' to '{}': {}", spec_.object, name_, error.what()));
    }
  }
  // Those below the array's own, which is not made again once the output has been discarded.
  void make_folders(const std::string& key) const {
    for (size_t end = key.find('/'); end != std::string::npos; end = key.find('/', end + 1)) {
      const std::string path = folder_ + "/" + key.substr(0, end);
      if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
        throw local::IoError(fmt::format("cannot make '{}': {}", path, system_reason(errno)));
    }
  }

  const OutputSpec spec_;
  const int version_;
  const std::string folder_, name_;
  const std::vector<Codec> codecs_;
  const ChunkKeys keys_;
  const int64_t item_;
  const Dims block_;
  const int64_t block_bytes_;
  std::atomic<int64_t> bytes_written_{0};
};

// --- the folder ---

// "/", "/g" of "/g/x".
std::vector<std::string> groups_above(const std::string& object) {
  std::vector<std::string> out;
  if (object == "/") return out;
  out.emplace_back("/");
  for (size_t end = object.find('/', 1); end != std::string::npos; end = object.find('/', end + 1))
    out.push_back(object.substr(0, end));
  return out;
}

void check_name(const std::string& object) {
  for (const fs::path& part : fs::path(object).relative_path())
    if (part.string().starts_with('.') || part == "zarr.json")
      throw local::InvalidArgument(
          fmt::format("cannot create '{}': '{}' is no name of a Zarr array or group", object, part.string()));
}

class ZarrOutput final : public OutputFile {
 public:
  ZarrOutput(std::string file, std::vector<OutputSpec> specs, bool overwrite)
      : file_(std::move(file)), specs_(std::move(specs)), overwrite_(overwrite) {
    for (OutputSpec& spec : specs_) {
      spec.object = normalized_object(spec.object);
      check_name(spec.object);
      zarr::prepare(spec);
    }
    check_paths(specs_);
    check_targets(fs::path(file_));
    choose_version();
    for (const OutputSpec& spec : specs_) {
      codecs_of(spec, version_);
      metadata_.push_back(spec.is_group ? MetadataFiles() : array_files(spec, version_));
      if (spec.text && version_ == 3)
        throw local::InvalidArgument(fmt::format(
            "cannot create '{}': a Zarr array of version 3 has no text; one of version 2 has", spec.object));
    }
    place_.emplace(file_, unfiltered_bytes(specs_));
    for (const OutputSpec& spec : specs_) writers_.push_back(spec.is_group ? nullptr : make(spec));
  }

  // Goes on with one that was kept.
  ZarrOutput(std::string file, ByteReader kept)
      : file_(std::move(file)), overwrite_(kept.get<bool>()), version_(kept.get<int32_t>()) {
    place_.emplace(file_, kept.get_string());
    for (auto left = kept.get<int64_t>(); left > 0; --left) {
      specs_.push_back(deserialize_array(kept));
      MetadataFiles& files = metadata_.emplace_back();
      for (auto count = kept.get<int64_t>(); count > 0; --count) {
        std::string name = kept.get_string();
        files.emplace_back(std::move(name), kept.get_string());
      }
    }
    remove_commit("");
    for (const OutputSpec& spec : specs_) writers_.push_back(make(spec));
  }

  std::string keep() override {
    for (const OutputSpec& spec : specs_)
      if (spec.text || spec.is_group)
        throw local::NotSupported(fmt::format("writing '{}' cannot be resumed: '{}' is no array", file_, spec.object));
    place_->keep();
    sync_file_system(place_->path());
    ByteWriter out;
    out.put(overwrite_);
    out.put<int32_t>(version_);
    out.put_string(place_->state());
    out.put<int64_t>(std::ssize(specs_));
    for (size_t i = 0; i < specs_.size(); ++i) {
      serialize_array(specs_[i], out);
      out.put<int64_t>(std::ssize(metadata_[i]));
      for (const auto& [name, content] : metadata_[i]) {
        out.put_string(name);
        out.put_string(content);
      }
    }
    return out.take();
  }

  std::shared_ptr<Writer> writer(size_t index) override { return writers_.at(index); }
  void write_encoded(size_t index, const Dims& chunk, std::span<const std::byte> bytes) override {
    writers_.at(index)->place(chunk, 0, bytes);
  }

  void commit() override {
    if (!place_->fresh()) {
      check_targets(place_->target());  // another program may have been there
      keep_others();
    }
    MetadataFiles of_root;
    std::map<std::string, std::map<std::string, Attribute>> groups{{"/", {}}};
    for (size_t i = 0; i < specs_.size(); ++i) {
      const OutputSpec& spec = specs_[i];
      for (const std::string& group : groups_above(spec.object)) groups[group];
      if (spec.is_group) {
        groups[spec.object] = spec.attributes;
        continue;
      }
      if (spec.object == "/")
        of_root = metadata_[i];
      else
        write_metadata(spec.object, metadata_[i]);
    }
    for (const auto& [group, attributes] : groups) {
      const MetadataFiles files = files_of_group(group, attributes);
      if (group == "/") {
        if (of_root.empty()) of_root = files;
        continue;
      }
      make_folder(folder_of(place_->path(), group));
      write_metadata(group, files);
    }
    sync_file_system(place_->path());  // what the root's metadata say is there
    write_metadata("/", of_root);
    place_->commit();
  }

 private:
  // Before anything is made.
  void check_targets(const fs::path& folder) const {
    std::error_code none;
    if (!fs::is_directory(folder, none)) return;  // a file is refused by who makes the folder
    if (node_of(folder) == Node::none)
      throw local::InvalidArgument(fmt::format("'{}' is a folder that is no Zarr group; it is not replaced", file_));
    for (const OutputSpec& spec : specs_) {
      for (const std::string& group : groups_above(spec.object)) {
        if (!is_array(node_of(folder_of(folder, group)))) continue;
        throw local::InvalidArgument(
            fmt::format("cannot create '{}' in '{}': '{}' is no group", spec.object, file_, group));
      }
      const fs::path target = folder_of(folder, spec.object);
      const Node node = node_of(target);
      if (spec.is_group && is_array(node))
        throw local::InvalidArgument(fmt::format("cannot create '{}' in '{}': it is no group", spec.object, file_));
      if (spec.is_group) continue;
      if (is_group(node) || (node == Node::none && fs::exists(target, none)))
        throw local::InvalidArgument(fmt::format("'{}' in '{}' is a group; it is not replaced", spec.object, file_));
      if (is_array(node) && !overwrite_)
        throw local::InvalidArgument(
            fmt::format("'{}' exists in '{}'; it is replaced only with overwrite", spec.object, file_));
    }
  }

  // That of the folder that is there.
  void choose_version() {
    int wanted = 0;
    for (const OutputSpec& spec : specs_) wanted = std::max(wanted, spec.version);
    const Node root = node_of(file_);
    const int there = root == Node::none ? 0 : root == Node::group2 || root == Node::array2 ? 2 : 3;
    if (wanted != 0 && there != 0 && wanted != there)
      throw local::InvalidArgument(
          fmt::format("'{}' is of Zarr's version {}, and arrays of version {} do not go there", file_, there, wanted));
    version_ = wanted != 0 ? wanted : there != 0 ? there : kUsualVersion;
  }

  std::shared_ptr<ZarrWriter> make(const OutputSpec& spec) const {
    const fs::path folder = folder_of(place_->path(), spec.object);
    make_folder(folder);
    if (spec.text) {
      write_file(folder / "0", as_bytes(npy::text_element(spec.text->value, spec.text->is_bytes)));
      return nullptr;
    }
    return std::make_shared<ZarrWriter>(spec, version_, folder.string(), file_);
  }

  void make_folder(const fs::path& path) const {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) throw local::IoError(fmt::format("cannot write '{}': {}", file_, system_reason(error.value())));
  }

  static bool is_metadata(const std::string& name) {
    return name == ".zgroup" || name == ".zarray" || name == ".zattrs" || name == "zarr.json" || name == ".zmetadata";
  }

  // All but what is replaced, and the metadata of the root, which says that the folder is whole. Copies of all metadata
  // in one file would be out of date.
  void keep_others() const {
    const std::string& target = place_->target();
    std::set<std::string> replaced;
    for (const OutputSpec& spec : specs_)
      if (!spec.is_group) replaced.insert(spec.object);
    if (replaced.contains("/")) return;
    std::error_code error;
    for (fs::recursive_directory_iterator at(target, error), end; !error && at != end; at.increment(error)) {
      const std::string path = at->path().string().substr(target.size());
      if (at->is_directory(error) && !at->is_symlink(error)) {
        if (replaced.contains(path))
          at.disable_recursion_pending();
        else
          make_folder(place_->path() + path);
      } else if (at.depth() > 0 || !is_metadata(path.substr(1))) {
        place_->keep_file(path.substr(1));
      }
    }
    if (error) throw local::IoError(fmt::format("cannot read '{}': {}", file_, system_reason(error.value())));
  }

  // Of a run that was killed within its commit, at `place` below NAME.partial ("" or "/g"): all but the chunks of the
  // arrays that are written. What stays of NAME may have changed since.
  void remove_commit(const std::string& place) const {
    const auto leads_to_array = [&](const std::string& path) {
      return std::ranges::any_of(
          specs_, [&](const OutputSpec& spec) { return spec.object == path || spec.object.starts_with(path + "/"); });
    };
    const bool is_array = std::ranges::any_of(
        specs_, [&](const OutputSpec& spec) { return spec.object == (place.empty() ? "/" : place); });
    std::vector<fs::path> removed;
    std::error_code error;
    for (fs::directory_iterator at(place_->path() + place, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string(), path = place + "/" + name;
      if (is_array ? is_metadata(name) : !FolderReplacement::is_lock(path.substr(1)) && !leads_to_array(path))
        removed.push_back(at->path());
      else if (!is_array && leads_to_array(path))
        remove_commit(path);
    }
    for (const fs::path& path : removed)
      if (!error) fs::remove_all(path, error);
    if (error) throw local::IoError(fmt::format("cannot write '{}': {}", file_, system_reason(error.value())));
  }

  MetadataFiles files_of_group(const std::string& group, const std::map<std::string, Attribute>& attributes) const {
    const fs::path folder = folder_of(place_->target(), group);
    if (place_->fresh() || !is_group(node_of(folder))) return group_files(attributes, version_);
    MetadataFiles there;
    for (const char* const name : {".zattrs", ".zgroup", "zarr.json"})
      if (is_file(folder / name)) there.emplace_back(name, read_text(folder / name));
    return changed_group(there, attributes, overwrite_, folder.string());
  }

  void write_metadata(const std::string& object, const MetadataFiles& files) const {
    const fs::path folder = folder_of(place_->path(), object);
    try {
      for (const auto& [name, content] : files) write_file(folder / name, as_bytes(content));
    } catch (const local::IoError& error) {
      throw local::IoError(fmt::format("writing '{}' to '{}': {}", object, file_, error.what()));
    }
  }

  const std::string file_;
  std::vector<OutputSpec> specs_;
  const bool overwrite_;
  int version_ = kUsualVersion;
  std::vector<MetadataFiles> metadata_;  // of each array
  std::optional<FolderReplacement> place_;
  std::vector<std::shared_ptr<ZarrWriter>> writers_;  // null of a text or group
};

}  // namespace

void prepare(OutputSpec& spec) {
  const auto fail = [&](const std::string& reason) {
    throw local::InvalidArgument(fmt::format("cannot create '{}': {}", spec.object, reason));
  };
  if (spec.version != 0 && spec.version != 2 && spec.version != 3)
    fail(fmt::format("Zarr has the versions 2 and 3, not {}", spec.version));
  if (spec.text || spec.is_group) {
    spec.shape = {};
    spec.dtype = local::DType::uint8;
  }
  for (const int64_t extent : spec.shape)
    if (extent < 0) fail(fmt::format("the shape {} has a negative extent", local::to_string(spec.shape)));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(local::element_count(spec.shape), local::itemsize(spec.dtype), &bytes))
    fail(fmt::format("the shape {} is more bytes than 64 bits count", local::to_string(spec.shape)));
  if (spec.shape.empty()) {
    spec.chunks.reset();
    spec.filters.clear();
    return;
  }
  codecs_of(spec, spec.version == 0 ? kUsualVersion : spec.version);  // names a filter that there is not
  if (!spec.chunks) spec.chunks = usual_chunks(spec.shape, spec.dtype, kUsualChunkBytes);
  if (spec.chunks->size() != spec.shape.size())
    fail(
        fmt::format("chunks {} do not fit the shape {}", local::to_string(*spec.chunks), local::to_string(spec.shape)));
  int64_t chunk_bytes = local::itemsize(spec.dtype);
  for (int d = 0; d < spec.shape.size(); ++d) {
    int64_t& extent = (*spec.chunks)[d];
    if (extent <= 0) fail(fmt::format("chunks {} are not positive", local::to_string(*spec.chunks)));
    extent = std::min(extent, std::max<int64_t>(spec.shape[d], 1));
    if (__builtin_mul_overflow(chunk_bytes, extent, &chunk_bytes) || chunk_bytes > kLargestChunk)
      fail(fmt::format("chunks {} of {} have 2 GiB or more", local::to_string(*spec.chunks), local::name(spec.dtype)));
  }
}

std::unique_ptr<OutputFile> create_output(const std::string& file, std::vector<OutputSpec> specs, bool overwrite) {
  return std::make_unique<ZarrOutput>(file, std::move(specs), overwrite);
}

std::unique_ptr<OutputFile> resume_output(const std::string& file, const std::string& kept) {
  return std::make_unique<ZarrOutput>(file, ByteReader(kept));
}

std::shared_ptr<Writer> writer_of(const std::string& layout) {
  ByteReader in(layout);
  OutputSpec spec = deserialize_array(in);
  const auto version = in.get<int32_t>();
  std::string folder = in.get_string(), name = in.get_string();
  return std::make_shared<ZarrWriter>(std::move(spec), version, std::move(folder), std::move(name));
}

}  // namespace quarry::io::zarr
