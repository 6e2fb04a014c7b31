// Arrays of .npy files and of members of .npz files.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "quarry/io/npy/format.h"
#include "quarry/io/npy/header.h"
#include "quarry/io/npy/zip.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/inflate.h"
#include "quarry/io/storage/objects.h"
#include "quarry/io/storage/strided.h"
#include "quarry/io/storage/trace.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"

namespace quarry::io::npy {
namespace {

using local::Dims;

// --- what an array is, and where ---

struct Stored {
  DatasetInfo info;
  StridedPlace place;
  int64_t file_bytes = 0;
  std::optional<Deflated> deflated;  // then `place` counts in its data
  std::vector<InflatePoint> points;
};

std::string to_layout(const Stored& stored) {
  const DatasetInfo& info = stored.info;
  ByteWriter out;
  out.put_string(info.file);
  out.put_string(info.object);
  out.put_dims(info.shape);
  out.put(info.dtype);
  out.put(info.swapped);
  out.put(info.stored_bytes);
  const auto units = info.attributes.find("units");
  out.put_string(units == info.attributes.end() ? "" : std::get<std::string>(units->second));
  const auto missing = info.attributes.find("_FillValue");
  out.put(missing != info.attributes.end());
  if (missing != info.attributes.end()) out.put(std::get<int64_t>(missing->second));
  out.put(stored.place.offset);
  out.put_dims(stored.place.spans);
  out.put(stored.file_bytes);
  out.put(stored.deflated.has_value());
  if (!stored.deflated) return out.take();
  out.put_dims(*info.chunks);
  out.put(*stored.deflated);
  out.put<int64_t>(std::ssize(stored.points));
  for (const InflatePoint& point : stored.points) {
    out.put(point.at);
    out.put(point.stored);
    out.put(point.bits);
    out.put_string(point.window);
  }
  return out.take();
}

void describe_place(Stored& stored) {
  DatasetInfo& info = stored.info;
  info.direct = true;
  info.layout = "contiguous";
  stored.place.shape = info.shape;
  stored.place.item = local::itemsize(info.dtype);
  stored.place.bools = info.dtype == local::DType::bool_;
  if (stored.deflated) info.filters = {{Filter::Kind::other, 0, "deflate"}};
}

Stored from_layout(const std::string& bytes) {
  ByteReader in(bytes);
  Stored stored;
  DatasetInfo& info = stored.info;
  info.file = in.get_string();
  info.object = in.get_string();
  info.shape = in.get_dims();
  info.dtype = in.get<local::DType>();
  info.swapped = in.get<bool>();
  info.stored_bytes = in.get<int64_t>();
  const std::string units = in.get_string();
  if (!units.empty()) info.attributes["units"] = units;
  if (in.get<bool>()) info.attributes["_FillValue"] = in.get<int64_t>();
  stored.place.offset = in.get<int64_t>();
  stored.place.spans = in.get_dims();
  stored.file_bytes = in.get<int64_t>();
  if (in.get<bool>()) {
    info.chunks = in.get_dims();
    stored.deflated = in.get<Deflated>();
    stored.points.resize(static_cast<size_t>(in.get<int64_t>()));
    for (InflatePoint& point : stored.points) {
      point.at = in.get<int64_t>();
      point.stored = in.get<int64_t>();
      point.bits = in.get<int32_t>();
      point.window = in.get_string();
    }
  }
  describe_place(stored);
  return stored;
}

class NpyDataset final : public Dataset {
 public:
  NpyDataset(const Format& format, Stored stored)
      : format_(format),
        stored_(std::move(stored)),
        reader_(source(), stored_.place, fmt::format("{}' in '{}", stored_.info.object, stored_.info.file)) {}

  const DatasetInfo& info() const override { return stored_.info; }
  const Format& format() const override { return format_; }
  std::string layout() const override { return to_layout(stored_); }
  int64_t read_scratch_bytes(const local::Region&) const override { return StridedReader::scratch_bytes(); }
  int64_t visit_scratch_bytes(const local::Region&) const override { return StridedReader::scratch_bytes(); }
  void read(const local::Region& region, void* to, std::span<std::byte> scratch) const override {
    const TraceCall traced("read", "read", info().object, region.start, bytes_of(region), detail());
    reader_.read(region, to, scratch);
  }
  void visit(const local::Region& region, std::span<std::byte> scratch,
             const std::function<void(const Piece&)>& consume) const override {
    const TraceCall traced("read", "visit", info().object, region.start, bytes_of(region), detail());
    reader_.visit(region, scratch, consume);
  }
  int64_t bytes_read() const override { return reader_.bytes_read(); }

 private:
  std::shared_ptr<const ByteSource> source() const {
    auto file = std::make_shared<const LazyFile>(stored_.info.file, stored_.file_bytes);
    if (!stored_.deflated) return file;
    return std::make_shared<const InflatedSource>(std::move(file), *stored_.deflated, stored_.points,
                                                  fmt::format("{}' in '{}", stored_.info.object, stored_.info.file));
  }
  int64_t bytes_of(const local::Region& region) const { return region.elements() * stored_.place.item; }
  const char* detail() const { return stored_.deflated ? "deflated" : "direct"; }

  const Format& format_;
  const Stored stored_;
  const StridedReader reader_;
};

// --- fields ---

// Distances between neighbours along the axes of the records, and then along those of the field.
Dims spans_of(const Header& header, const Field& field) {
  Dims spans = header.shape;
  int64_t span = header.record_bytes;
  const int ndim = spans.size();
  for (int i = 0; i < ndim; ++i) {
    const int d = header.fortran_order ? i : ndim - 1 - i;
    spans[d] = span;
    span *= std::max<int64_t>(header.shape[d], 1);
  }
  for (const int64_t inner : local::contiguous_strides(field.subarray, field.bytes)) spans.push_back(inner);
  return spans;
}

// `prefix`: what stands before the fields' paths.
Stored describe(const std::string& file, const std::string& prefix, const Header& header, const Field& field) {
  Stored stored;
  stored.info.file = file;
  stored.info.object = prefix + field.path;
  if (stored.info.object.empty()) stored.info.object = "/";
  stored.info.shape = header.shape;
  for (const int64_t extent : field.subarray) stored.info.shape.push_back(extent);
  stored.info.dtype = field.dtype;
  stored.info.swapped = field.swapped;
  stored.info.attributes = field.attributes;
  stored.info.stored_bytes = local::element_count(stored.info.shape) * field.bytes;
  stored.place.offset = header.data_offset + field.offset;
  stored.place.spans = spans_of(header, field);
  describe_place(stored);
  return stored;
}

// Paths of fields begin with that of their member.
void check_paths(const std::string& prefix, const Header& header) {
  constexpr int64_t kMostBytes = 16 << 20;
  if (std::ssize(prefix) * std::ssize(header.fields) > kMostBytes)
    throw local::IoError(fmt::format("'{}' is damaged: the names of its fields are too long", local::excerpt(prefix)));
}

// Adds the array, or a group of the fields of its records.
void list_fields(const std::string& file, const std::string& prefix, const Header& header,
                 std::vector<ObjectInfo>& out) {
  check_paths(prefix, header);
  const bool is_record = header.fields.size() != 1 || !header.fields[0].path.empty();
  if (is_record) out.push_back({prefix.empty() ? "/" : prefix, true, std::nullopt, "records"});
  for (const Field& field : header.fields) {
    std::string path = prefix + field.path;
    if (path.empty()) path = "/";
    if (field.problem.empty())
      out.push_back({path, false, describe(file, prefix, header, field).info, ""});
    else
      out.push_back({path, false, std::nullopt, field.problem + " cannot be read"});
  }
}

// The field of the path behind the prefix. Throws as Dataset::open().
const Field& chosen_field(const Header& header, const std::string& path, const std::string& file,
                          const std::string& object) {
  check_paths(object.substr(0, object.size() - path.size()), header);
  std::vector<std::string> names;
  for (const Field& field : header.fields) {
    if (field.path == path) {
      if (field.problem.empty()) return field;
      throw local::TypeError(
          fmt::format("'{}' in '{}' is of {}, for which quarry has no dtype", object, file, field.problem));
    }
    names.push_back(object == "/" || path.empty() ? field.path
                                                  : object.substr(0, object.size() - path.size()) + field.path);
  }
  if (!path.empty()) throw_no_object(file, object, names);
  std::string text;
  for (const Field& field : header.fields)
    text += (text.empty() ? "" : ", ") + (object == "/" ? "" : object) + field.path;
  throw local::InvalidArgument(
      fmt::format("'{}' in '{}' is an array of records: choose one of its fields {}", object, file, text));
}

// --- .npy ---

Header npy_header(const std::string& file, int64_t& file_bytes) {
  const auto bytes = ByteFile::shared(file);
  file_bytes = bytes->size();
  return read_header(*bytes, 0, file_bytes, file);
}

// Those at or below an object.
std::vector<ObjectInfo> below(std::vector<ObjectInfo> all, const std::string& file, const std::string& object) {
  const std::string path = normalized_object(object);
  if (path == "/") return all;
  std::vector<ObjectInfo> out;
  std::vector<std::string> names;
  for (ObjectInfo& entry : all) {
    names.push_back(entry.path);
    if (entry.path == path || entry.path.starts_with(path + "/")) out.push_back(std::move(entry));
  }
  if (out.empty()) throw_no_object(file, path, names);
  return out;
}

// --- .npz ---

// "/x" for the member "x.npy", as numpy.load() calls it x.
std::string member_path(const std::string& name) {
  constexpr std::string_view kExtension = ".npy";
  return normalized_object(name.ends_with(kExtension) ? name.substr(0, name.size() - kExtension.size()) : name);
}

class Archive {
 public:
  explicit Archive(const std::string& file)
      : name_(file), file_(ByteFile::shared(file)), directory_(read_zip(*file_, file)) {
    // The last member of a name counts, as in Python's zipfile.
    for (const ZipMember& member : directory_.members) paths_[member_path(member.name)] = &member;
  }

  const std::vector<ZipMember>& members() const { return directory_.members; }
  int64_t bytes() const { return file_->size(); }

  // The member's array, without reading more than its header.
  struct Opened {
    Header header;
    std::optional<Deflated> deflated;
  };
  Opened open(const ZipMember& member) const {
    const std::string name = fmt::format("{}' in '{}", member.name, name_);
    if (member.encrypted) throw local::NotSupported(fmt::format("'{}' is encrypted", name));
    if (member.method != ZipMember::kStored && member.method != ZipMember::kDeflated) {
      throw local::NotSupported(
          fmt::format("'{}' is compressed by method {} of ZIP, and quarry reads what is stored (0) or deflated (8)",
                      name, member.method));
    }
    Opened out;
    const int64_t offset = member_offset(*file_, directory_, member, name_);
    if (member.method == ZipMember::kStored) {
      out.header = read_header(*file_, offset, offset + member.stored_bytes, name);
      return out;
    }
    out.deflated = {offset, member.stored_bytes, member.bytes, member.crc32};
    const InflatedSource source(file_, *out.deflated, {}, name);
    out.header = read_header(source, 0, member.bytes, name);
    return out;
  }

  const ZipMember* find(const std::string& path) const {
    const auto found = paths_.find(path);
    return found == paths_.end() ? nullptr : found->second;
  }

  Stored stored(const ZipMember& member, const std::string& object) const {
    Opened opened = open(member);
    const std::string prefix = member_path(member.name);
    const Field& field = chosen_field(opened.header, object.substr(prefix.size()), name_, object);
    Stored out = describe(name_, prefix, opened.header, field);
    out.file_bytes = bytes();
    if (!opened.deflated) return out;
    add_deflated(out, opened);
    out.points = index_deflated(*file_, *out.deflated, fmt::format("{}' in '{}", object, name_));
    return out;
  }

  // Reading goes along the data from a point on: chunks of whole rows of its widest axis decode little twice.
  static void add_deflated(Stored& out, const Opened& opened) {
    constexpr int64_t kChunkBytes = 4 << 20;
    out.deflated = opened.deflated;
    out.info.stored_bytes = opened.deflated->stored_bytes;
    Dims chunks = out.info.shape;
    for (int64_t& extent : chunks) extent = std::max<int64_t>(extent, 1);
    if (!chunks.empty()) {
      const Dims& spans = out.place.spans;
      const auto widest = static_cast<int>(std::max_element(spans.begin(), spans.end()) - spans.begin());
      chunks[widest] = std::clamp<int64_t>(kChunkBytes / std::max<int64_t>(spans[widest], 1), 1, chunks[widest]);
    }
    out.info.chunks = chunks;
    describe_place(out);
  }

 private:
  const std::string& name_;
  const std::shared_ptr<const ByteFile> file_;
  const ZipDirectory directory_;
  std::map<std::string, const ZipMember*> paths_;
};

}  // namespace

std::shared_ptr<Dataset> open_npy(const std::string& file, const std::string& object) {
  int64_t bytes = 0;
  const Header header = npy_header(file, bytes);
  const std::string path = normalized_object(object);
  const Field& field = chosen_field(header, path == "/" ? "" : path, file, path);
  Stored stored = describe(file, "", header, field);
  stored.file_bytes = bytes;
  return std::make_shared<NpyDataset>(npy_format(), std::move(stored));
}

std::vector<ObjectInfo> list_npy(const std::string& file, const std::string& object) {
  int64_t bytes = 0;
  const Header header = npy_header(file, bytes);
  std::vector<ObjectInfo> out;
  list_fields(file, "", header, out);
  return below(std::move(out), file, object);
}

std::shared_ptr<Dataset> open_npz(const std::string& file, const std::string& object) {
  const Archive archive(file);
  const std::string path = normalized_object(object);
  // A field's path begins with its member's.
  for (size_t end = path.size(); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
    if (const ZipMember* const member = archive.find(path.substr(0, end)))
      return std::make_shared<NpyDataset>(npz_format(), archive.stored(*member, path));
  }
  std::vector<std::string> names;
  for (const ZipMember& member : archive.members()) names.push_back(member_path(member.name));
  if (path == "/") {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    throw local::InvalidArgument(
        fmt::format("'/' in '{}' is the archive: choose one of its arrays {}", file, text.empty() ? "(none)" : text));
  }
  throw_no_object(file, path, names);
}

std::vector<ObjectInfo> list_npz(const std::string& file, const std::string& object) {
  // Small members may inflate to headers of many fields.
  constexpr int64_t kMostFields = 100000, kMostBytes = 64 << 20;  // of paths
  const Archive archive(file);
  std::vector<ObjectInfo> out{{"/", true, std::nullopt, ""}};
  int64_t bytes = 0;
  for (const ZipMember& member : archive.members()) {
    const std::string path = member_path(member.name);
    if (std::ssize(out) > kMostFields || bytes > kMostBytes) {
      out.push_back({"/", true, std::nullopt, "too many fields: the other members are not listed"});
      break;
    }
    if (archive.find(path) != &member || member.name.ends_with('/')) continue;
    try {
      const Archive::Opened opened = archive.open(member);
      const size_t first = out.size();
      list_fields(file, path, opened.header, out);
      for (size_t i = first; i < out.size(); ++i) {
        bytes += std::ssize(out[i].path);
        if (!out[i].dataset || !opened.deflated) continue;
        out[i].dataset->filters = {{Filter::Kind::other, 0, "deflate"}};
        out[i].dataset->stored_bytes = opened.deflated->stored_bytes;
      }
    } catch (const local::Error& error) {
      out.push_back({path, false, std::nullopt, error.what()});
    }
  }
  return below(std::move(out), file, object);
}

std::shared_ptr<Dataset> dataset_of(const Format& format, const std::string& layout) {
  return std::make_shared<NpyDataset>(format, from_layout(layout));
}

}  // namespace quarry::io::npy
