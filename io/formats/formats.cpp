// The list of formats, and what goes through it: opening, listing and creating files.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <mutex>

#include "quarry/io/csv/format.h"
#include "quarry/io/format.h"
#include "quarry/io/hdf5/format.h"
#include "quarry/io/npy/format.h"
#include "quarry/io/partial.h"
#include "quarry/io/zarr/format.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::io {
namespace {

// A row per format.
using Make = const Format& (*)();
constexpr Make kFormats[] = {
    hdf5::format, npy::npy_format, npy::npz_format, csv::format, zarr::format,
};

class Registry {
 public:
  static Registry& instance() {
    static auto* const registry = new Registry;  // leaked: data sets with static lifetime may come here late
    return *registry;
  }

  std::vector<const Format*> all() const {
    const std::lock_guard lock(mutex_);
    return formats_;
  }

  void add(const Format& format) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::any_of(formats_, [&](const Format* known) { return known->name() == format.name(); }))
      throw local::InvalidArgument(fmt::format("there is a file format {} already", format.name()));
    formats_.push_back(&format);
  }

 private:
  Registry() {
    for (const Make make : kFormats) formats_.push_back(&make());
  }

  mutable std::mutex mutex_;
  std::vector<const Format*> formats_;
};

// "HDF5 (.h5, .hdf5), text (.txt)".
std::string names_of_formats() {
  std::string text;
  for (const Format* format : formats()) {
    text += fmt::format("{}{}", text.empty() ? "" : "; ", format->name());
    std::string extensions;
    for (const std::string_view extension : format->extensions())
      extensions += fmt::format("{}{}", extensions.empty() ? "" : ", ", extension);
    if (!extensions.empty()) text += fmt::format(" ({})", extensions);
  }
  return text;
}

std::string without_slashes(std::string file) {
  while (file.size() > 1 && file.ends_with('/')) file.pop_back();
  return file;
}

const Format* format_of_extension(const std::string& name) {
  const std::string file = without_slashes(name);
  std::string extension = std::filesystem::path(file).extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Format* format : formats())
    if (std::ranges::find(format->extensions(), extension) != format->extensions().end()) return format;
  return nullptr;
}

const Format* recognising(const std::string& file) {
  if (std::error_code none; std::filesystem::is_directory(file, none)) {
    for (const Format* format : formats())
      if (format->recognises_folder(file)) return format;
    return nullptr;
  }
  const ByteFile bytes(file, ByteFile::Mode::read);
  for (const Format* format : formats())
    if (format->recognises(bytes)) return format;
  return nullptr;
}

// What travels between ranks: the format's name, and what the format made of the object.
std::string tagged(std::string_view format, const std::string& layout) { return fmt::format("{}\n{}", format, layout); }

// The format and the rest of what tagged() made.
std::pair<const Format*, std::string> untagged(const std::string& bytes) {
  const size_t end = bytes.find('\n');
  if (end != std::string::npos) {
    const std::string_view name(bytes.data(), end);
    for (const Format* format : formats())
      if (format->name() == name) return {format, bytes.substr(end + 1)};
  }
  throw local::InvalidArgument("these bytes describe no data set of a known file format");
}

}  // namespace

std::vector<const Format*> formats() { return Registry::instance().all(); }
void add_format(const Format& format) { Registry::instance().add(format); }

const Format& format_of(const std::string& file) {
  const bool is_folder = is_known_folder(file), is_unfinished = !is_folder && is_unfinished_folder(file);
  if (!is_folder && !is_unfinished) check_regular_file(file);
  // HDF5 files have another signature until then too, and folders no metadata; of others the name says it.
  if (is_unfinished || without_slashes(file).ends_with(".partial"))
    throw local::IoError(fmt::format("'{}' is an unfinished output: the run that was to make it has not ended", file));
  const Format* found = recognising(file);
  if (found == nullptr) found = format_of_extension(file);
  if (found != nullptr) return *found;
  throw local::IoError(fmt::format("'{}' is of no file format that can be read: {}", file, names_of_formats()));
}

bool knows_extension(const std::string& file) { return format_of_extension(file) != nullptr; }
bool is_known(const std::string& file) { return recognising(file) != nullptr; }
bool is_known_folder(const std::string& file) {
  std::error_code none;
  return std::filesystem::is_directory(file, none) && recognising(file) != nullptr;
}

const Format& format_to_write(const std::string& file) {
  std::error_code error;
  const bool readable = (std::filesystem::is_regular_file(file, error) && ::access(file.c_str(), R_OK) == 0) ||
                        std::filesystem::is_directory(file, error);
  const Format* found = readable ? recognising(file) : nullptr;
  if (found == nullptr) found = format_of_extension(file);
  return found != nullptr ? *found : *formats().front();
}

local::Dims usual_chunks(const local::Dims& shape, local::DType dtype, int64_t bytes) {
  local::Dims chunks = shape;
  for (int64_t& extent : chunks) extent = std::max<int64_t>(extent, 1);
  while (local::element_count(chunks) * local::itemsize(dtype) > bytes) {
    int64_t& longest = *std::max_element(chunks.begin(), chunks.end());
    if (longest == 1) break;
    longest = (longest + 1) / 2;
  }
  return chunks;
}

void Format::for_each_stored(const Dataset& dataset, int64_t bytes,
                             const std::function<bool(const local::Region&)>& use) const {
  const DatasetInfo& info = dataset.info();
  const local::Dims& shape = info.shape;
  // Chunks as they are; else slabs of whole rows, or parts of rows where one is larger.
  local::Dims block = info.chunks ? *info.chunks : shape;
  int64_t rest = std::max<int64_t>(1, bytes / local::itemsize(info.dtype));
  for (int d = shape.size() - 1; d >= 0 && !info.chunks; --d) {
    block[d] = std::clamp<int64_t>(rest, 1, std::max<int64_t>(1, shape[d]));
    rest /= block[d];
  }
  if (local::element_count(shape) == 0) return;
  local::Region region = local::Region::whole(shape);
  local::Dims at = local::Dims::filled(shape.size(), 0);
  for (;;) {
    for (int d = 0; d < at.size(); ++d) {
      region.start[d] = at[d];
      region.count[d] = std::min(block[d], shape[d] - at[d]);
    }
    if (!use(region)) return;
    int d = at.size() - 1;
    for (; d >= 0; --d) {
      at[d] += block[d];
      if (at[d] < shape[d]) break;
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

std::shared_ptr<Dataset> Dataset::open(const std::string& file, const std::string& object) {
  return format_of(file).open(file, object);
}

std::string Dataset::serialize() const { return tagged(format().name(), layout()); }

std::shared_ptr<Dataset> Dataset::deserialize(const std::string& bytes) {
  const auto [format, layout] = untagged(bytes);
  return format->dataset(layout);
}

std::vector<ObjectInfo> list_objects(const std::string& file, const std::string& object) {
  return format_of(file).list(file, object);
}

std::unique_ptr<OutputFile> OutputFile::create(const std::string& file, std::vector<OutputSpec> specs, bool overwrite) {
  return format_to_write(file).create(file, std::move(specs), overwrite);
}

std::unique_ptr<OutputFile> OutputFile::change(const std::string& file, const std::vector<ChangeSpec>& specs) {
  return format_of(file).change(file, specs);
}
std::unique_ptr<OutputFile> Format::change(const std::string& file, const std::vector<ChangeSpec>& /*specs*/) const {
  throw local::NotSupported(
      fmt::format("'{}' is of the format {}: only HDF5 files are appended to or changed in part", file, name()));
}

void keep_last_of_each(std::vector<PlacedChunk>& chunks) {
  std::ranges::stable_sort(chunks, {}, &PlacedChunk::number);
  const auto first = std::unique(chunks.rbegin(), chunks.rend(),
                                 [](const PlacedChunk& a, const PlacedChunk& b) { return a.number == b.number; });
  chunks.erase(chunks.begin(), first.base());
}

std::span<const std::byte> Writer::encode_part(const local::Dims& chunk, const local::Dims& start, const void* from,
                                               const local::Dims& strides, const local::Dims& count,
                                               std::span<std::byte> scratch) const {
  for (const int64_t first : start) QUARRY_CHECK(first == 0);
  return encode(chunk, from, strides, count, scratch);
}
std::vector<std::byte> Writer::encode(const local::Dims& chunk, const void* from, const local::Dims& count) const {
  std::vector<std::byte> scratch(static_cast<size_t>(encode_scratch_bytes()));
  const std::span<const std::byte> encoded =
      encode(chunk, from, local::detail::contiguous_strides(count, local::itemsize(spec().dtype)), count, scratch);
  return {encoded.begin(), encoded.end()};
}

PlacedChunk Writer::place(const local::Dims&, int64_t, std::span<const std::byte>) { QUARRY_CHECK(false); }

std::vector<PlacedChunk> Writer::write_index(int64_t, std::span<const PlacedChunk>, const PlacedChunk*) {
  QUARRY_CHECK(false);
}

uint32_t Writer::checksum_written(const local::Region&) const { QUARRY_CHECK(false); }
uint32_t Writer::checksum_written(const PlacedChunk&) const { QUARRY_CHECK(false); }

void Format::check_resumable(const std::string& file) const {
  if (can_resume()) return;
  std::vector<std::string_view> others;
  for (const Format* format : formats())
    if (format->can_resume()) others.push_back(format->name());
  throw local::NotSupported(fmt::format("'{}': outputs of the format {} cannot be resumed; those of {} can", file,
                                        name(), fmt::join(others, ", ")));
}
std::string OutputFile::keep() { QUARRY_CHECK(false); }
std::unique_ptr<OutputFile> Format::resume(const std::string& file, const std::string& /*kept*/) const {
  check_resumable(file);
  QUARRY_CHECK(false);
}

int64_t OutputFile::reserve(int64_t) { QUARRY_CHECK(false); }
void OutputFile::add_placed(size_t, std::span<const PlacedChunk>) { QUARRY_CHECK(false); }

int64_t OutputFile::reserve_index(size_t, int64_t) { QUARRY_CHECK(false); }

// NOLINTNEXTLINE(performance-unnecessary-value-param): those that override it keep the list
void OutputFile::finish_index(size_t, std::vector<PlacedChunk>) { QUARRY_CHECK(false); }

std::string Writer::serialize() const { return tagged(format().name(), layout()); }

std::shared_ptr<Writer> Writer::deserialize(const std::string& bytes) {
  const auto [format, layout] = untagged(bytes);
  return format->writer(layout);
}

}  // namespace quarry::io
