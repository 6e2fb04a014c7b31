// Writing .npy and .npz files. What is stored as it is has its place before it is computed, so that all ranks write it
// by offset; deflated members are parts that are put together at commit.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "quarry/io/npy/format.h"
#include "quarry/io/npy/header.h"
#include "quarry/io/npy/zip.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/inflate.h"
#include "quarry/io/storage/objects.h"
#include "quarry/io/storage/parts.h"
#include "quarry/io/storage/pieces.h"
#include "quarry/io/storage/replacement.h"
#include "quarry/io/storage/strided.h"
#include "quarry/io/storage/trace.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::io::npy {
namespace {

using local::Dims;

constexpr int64_t kPartBytes = 4 << 20;  // of a deflated member, before it is compressed
constexpr int64_t kCopyBytes = 1 << 20;  // at once, when an archive is put together

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

int64_t data_bytes(const OutputSpec& spec) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(local::element_count(spec.shape), local::itemsize(spec.dtype), &bytes))
    throw local::InvalidArgument(fmt::format("cannot create '{}': the shape {} is more bytes than 64 bits count",
                                             spec.object, local::to_string(spec.shape)));
  return bytes;
}

// --- the array in the file that is written ---

class NpyWriter final : public Writer {
 public:
  // `path` is the file while it is written, `name` as the user named it; `offset` of the data there.
  NpyWriter(const Format& format, OutputSpec spec, std::string path, std::string name, int64_t offset)
      : format_(format), spec_(std::move(spec)), path_(std::move(path)), name_(std::move(name)), offset_(offset) {
    // Now, while it has its name: discard_partial_files() may take that.
    if (spec_.filters.empty()) file_.emplace(path_, ByteFile::Mode::write);
  }

  const OutputSpec& spec() const override { return spec_; }
  const Format& format() const override { return format_; }
  std::string layout() const override {
    ByteWriter out;
    serialize_array(spec_, out);
    out.put_string(path_);
    out.put_string(name_);
    out.put(offset_);
    return out.take();
  }

  void write(const local::Region& region, const void* from) override {
    if (!file_) throw local::InvalidArgument(fmt::format("'{}' is filtered: encode it", spec_.object));
    const int64_t item = local::itemsize(spec_.dtype), bytes = region.elements() * item;
    const TraceCall traced("write", "write", spec_.object, region.start, bytes, "direct");
    try {
      write_box(*file_, offset_, spec_.shape, item, region, static_cast<const std::byte*>(from));
    } catch (const local::IoError& error) {
      throw local::IoError(fmt::format("writing '{}' to '{}': {}", spec_.object, name_, error.what()));
    }
    bytes_written_ += bytes;
  }

  // The elements without gaps; behind them their checksum and number of bytes, and a part of a deflate stream.
  int64_t encode_scratch_bytes() const override {
    if (spec_.filters.empty()) return 0;
    constexpr int64_t kGrowth = 16, kRest = 1024;  // more than zlib's stored blocks take
    const int64_t bytes = chunk_bytes();
    return bytes + kPartHead + bytes + bytes / kGrowth + kRest;
  }
  using Writer::encode;
  std::span<const std::byte> encode(const Dims& /*chunk*/, const void* from, const Dims& strides, const Dims& count,
                                    std::span<std::byte> scratch) const override {
    QUARRY_CHECK(!spec_.filters.empty());
    const int64_t item = local::itemsize(spec_.dtype);
    const auto data = scratch.first(static_cast<size_t>(local::element_count(count) * item));
    copy_box(count, item, static_cast<const std::byte*>(from), strides, data.data(),
             local::contiguous_strides(count, item));
    ByteWriter head;
    head.put(checksum(0, data));
    head.put(static_cast<int64_t>(data.size()));
    // A part has a mebibyte: its text is no matter beside the budget.
    const std::string text = head.take() + deflate_part(data, spec_.filters[0].level);
    const auto out = scratch.subspan(data.size());
    QUARRY_CHECK(text.size() <= out.size());
    std::memcpy(out.data(), text.data(), text.size());
    return out.first(text.size());
  }
  uint32_t checksum_written(const local::Region& region) const override {
    const int64_t item = local::itemsize(spec_.dtype);
    const StridedPlace place{offset_, spec_.shape, local::contiguous_strides(spec_.shape, item), item};
    std::vector<std::byte> bytes(static_cast<size_t>(region.elements() * item));
    std::vector<std::byte> scratch(static_cast<size_t>(StridedReader::scratch_bytes()));
    StridedReader(std::make_shared<ByteFile>(path_, ByteFile::Mode::read), place, spec_.object)
        .read(region, bytes.data(), scratch);
    return checksum(0, bytes);
  }
  void sync() const override {
    if (file_) file_->sync();
  }
  int64_t bytes_written() const override { return bytes_written_; }
  void count_written(int64_t bytes) { bytes_written_ += bytes; }

 private:
  static constexpr int64_t kPartHead = 12;
  int64_t chunk_bytes() const { return local::element_count(*spec_.chunks) * local::itemsize(spec_.dtype); }

  const Format& format_;
  const OutputSpec spec_;
  const std::string path_, name_;
  const int64_t offset_;
  std::optional<ByteFile> file_;
  std::atomic<int64_t> bytes_written_{0};
};

// Text: what NumPy makes of a str or bytes.
std::string text_member(const OutputText& text) {
  const std::string element = text_element(text.value, text.is_bytes);
  const int64_t character = text.is_bytes ? 1 : 4;  // bytes
  return text_header(text.is_bytes, std::ssize(element) / character) + element;
}

void check_spec(const OutputSpec& spec) {
  for (const int64_t extent : spec.shape)
    if (extent < 0)
      throw local::InvalidArgument(fmt::format("cannot create '{}': the shape {} has a negative extent", spec.object,
                                               local::to_string(spec.shape)));
}

bool exists(const std::string& file) {
  try {
    check_regular_file(file);
    return true;
  } catch (const local::InvalidArgument&) {
    return false;
  }
}

// --- .npy ---

class NpyOutput final : public OutputFile {
 public:
  NpyOutput(const std::string& file, OutputSpec spec, bool overwrite) {
    if (!overwrite && exists(file))
      throw local::InvalidArgument(fmt::format("'{}' exists; it is replaced only with overwrite", file));
    check_spec(spec);
    head_ = spec.text ? text_member(*spec.text) : header_text(spec.dtype, spec.shape);
    const int64_t bytes = spec.text ? 0 : data_bytes(spec);
    place_.emplace(file, static_cast<double>(bytes), Replacement::Content::nothing);
    made_.emplace(place_->path(), ByteFile::Mode::write);
    made_->resize(std::ssize(head_) + bytes);
    if (!spec.text)
      writer_ = std::make_shared<NpyWriter>(npy_format(), std::move(spec), place_->path(), file, std::ssize(head_));
  }
  // Goes on with one that was kept.
  NpyOutput(const std::string& file, ByteReader kept) : head_(kept.get_string()) {
    place_.emplace(file, kept.get_string());
    made_.emplace(place_->path(), ByteFile::Mode::write);
    clear_head();  // it may have been about to be committed
    writer_ =
        std::make_shared<NpyWriter>(npy_format(), deserialize_array(kept), place_->path(), file, std::ssize(head_));
  }

  std::string keep() override {
    if (!writer_) throw local::NotSupported("a text cannot be resumed");
    place_->keep();
    place_->sync();
    ByteWriter out;
    out.put_string(head_);
    out.put_string(place_->state());
    serialize_array(writer_->spec(), out);
    return out.take();
  }
  std::shared_ptr<Writer> writer(size_t /*index*/) override { return writer_; }
  void write_encoded(size_t, const Dims&, std::span<const std::byte>) override { QUARRY_CHECK(false); }
  void commit() override {
    place_->sync();  // no header before everything else is there
    made_->write_at(0, as_bytes(head_));
    try {
      place_->commit();
    } catch (...) {  // interrupted, or the file that it was to replace is another one
      clear_head();
      throw;
    }
  }

 private:
  // Without it no program takes the file for an array.
  void clear_head() const { made_->write_at(0, std::vector<std::byte>(head_.size())); }

  std::string head_;  // what stands before the data: NumPy's header, or all of a text
  std::optional<Replacement> place_;
  std::optional<ByteFile> made_;
  std::shared_ptr<NpyWriter> writer_;
};

// --- .npz ---

std::string member_name(const std::string& object) { return object.substr(1) + ".npy"; }

class NpzOutput final : public OutputFile {
 public:
  NpzOutput(std::string file, std::vector<OutputSpec> specs, bool overwrite) : file_(std::move(file)) {
    for (OutputSpec& spec : specs) add(std::move(spec));
    if (exists(file_)) keep_others(overwrite);
    double bytes = 0;
    for (const Item& item : items_) bytes += static_cast<double>(item.member.bytes);
    for (const auto& [member, copied] : kept_) bytes += static_cast<double>(copied);
    place_.emplace(file_, bytes, Replacement::Content::nothing);
    made_.emplace(place_->path(), ByteFile::Mode::write);
    copy_kept();
    for (Item& item : items_) place_item(item);
  }

  std::shared_ptr<Writer> writer(size_t index) override { return items_.at(index).writer; }

  void write_encoded(size_t index, const Dims& chunk, std::span<const std::byte> bytes) override {
    Item& item = items_.at(index);
    item.parts->add(chunk[0], bytes);
    item.writer->count_written(std::ssize(bytes));
  }

  void commit() override {
    for (Item& item : items_) {
      if (item.parts)
        append_deflated(item);
      else
        finish_stored(item);
    }
    std::vector<ZipMember> members;
    for (const auto& [member, copied] : kept_) members.push_back(member);
    for (const Item& item : items_) members.push_back(item.member);
    made_->write_at(end_, as_bytes(zip_directory(members, end_)));
    made_.reset();
    place_->commit();
  }

 private:
  struct Item {
    OutputSpec spec;
    ZipMember member;
    std::string head;  // what stands before the data: NumPy's header, or all of a text
    bool is_large = false;
    std::shared_ptr<NpyWriter> writer;
    std::unique_ptr<OrderedParts> parts;  // of a deflated one
  };

  void add(OutputSpec spec) {
    spec.object = normalized_object(spec.object);
    if (spec.object == "/") throw local::InvalidArgument(fmt::format("an array in '{}' needs a name", file_));
    check_spec(spec);
    prepare_npz(spec);
    for (const Item& other : items_)
      if (other.spec.object == spec.object)
        throw local::InvalidArgument(fmt::format("'{}' is to be written twice", spec.object));
    Item item;
    item.member.name = member_name(spec.object);
    constexpr size_t kLongestName = 0xffff;
    if (item.member.name.size() > kLongestName)
      throw local::InvalidArgument(fmt::format("cannot create '{}': the name is too long", spec.object));
    item.head = spec.text ? text_member(*spec.text) : header_text(spec.dtype, spec.shape);
    item.member.bytes = std::ssize(item.head) + (spec.text ? 0 : data_bytes(spec));
    constexpr int64_t kLarge = int64_t{1} << 31;  // deflate may make it longer
    item.is_large = item.member.bytes >= kLarge;
    if (!spec.filters.empty()) {
      item.member.method = ZipMember::kDeflated;
      item.parts = std::make_unique<OrderedParts>(fmt::format("{}.partial.{}", file_, items_.size()));
    }
    item.spec = std::move(spec);
    items_.push_back(std::move(item));
  }

  // Members of the file that is there and stay.
  void keep_others(bool overwrite) {
    const ByteFile old(file_, ByteFile::Mode::read);
    ZipDirectory directory = read_zip(old, file_);
    std::ranges::sort(directory.members, {}, &ZipMember::header_offset);
    for (size_t i = 0; i < directory.members.size(); ++i) {
      ZipMember& member = directory.members[i];
      const int64_t end = i + 1 < directory.members.size() ? directory.members[i + 1].header_offset : directory.offset;
      const bool replaced =
          std::ranges::any_of(items_, [&](const Item& item) { return item.member.name == member.name; });
      if (replaced && !overwrite) {
        throw local::InvalidArgument(fmt::format("'/{}' exists in '{}'; it is replaced only with overwrite",
                                                 member.name.substr(0, member.name.size() - 4), file_));
      }
      if (!replaced) kept_.emplace_back(std::move(member), end - member.header_offset);
    }
  }

  void copy_kept() {
    if (kept_.empty()) return;
    const ByteFile old(file_, ByteFile::Mode::read);
    for (auto& [member, bytes] : kept_) {
      copy_bytes(bytes, [&, &member = member](int64_t done, std::span<std::byte> to) {
        old.read_at(member.header_offset + done, to);
      });
      member.header_offset = end_ - bytes;
    }
  }

  // Appends bytes that `read` gives.
  template <class Read>
  void copy_bytes(int64_t bytes, Read&& read) {
    std::vector<std::byte> buffer(static_cast<size_t>(std::min(bytes, kCopyBytes)));
    for (int64_t done = 0; done < bytes;) {
      const auto part = std::span(buffer).first(static_cast<size_t>(std::min(bytes - done, kCopyBytes)));
      read(done, part);
      append(part);
      done += std::ssize(part);
    }
  }
  void append(std::span<const std::byte> bytes) {
    made_->write_at(end_, bytes);
    end_ += std::ssize(bytes);
  }

  void place_item(Item& item) {
    if (item.parts) {
      item.writer = std::make_shared<NpyWriter>(npz_format(), item.spec, place_->path(), file_, 0);
      return;
    }
    item.member.stored_bytes = item.member.bytes;
    item.member.header_offset = end_;
    end_ += std::ssize(zip_local_header(item.member, item.is_large));
    append(as_bytes(item.head));
    const int64_t data = end_;
    end_ = item.member.header_offset + std::ssize(zip_local_header(item.member, item.is_large)) + item.member.bytes;
    made_->resize(end_);
    if (!item.spec.text)
      item.writer = std::make_shared<NpyWriter>(npz_format(), item.spec, place_->path(), file_, data);
  }

  // ZIP has a checksum of everything, which no rank knows: the file is read once more.
  void finish_stored(Item& item) {
    const std::string header = zip_local_header(item.member, item.is_large);
    const int64_t begin = item.member.header_offset + std::ssize(header);
    std::vector<std::byte> buffer(static_cast<size_t>(std::min(item.member.bytes, kCopyBytes)));
    for (int64_t done = 0; done < item.member.bytes;) {
      const auto part = std::span(buffer).first(static_cast<size_t>(std::min(item.member.bytes - done, kCopyBytes)));
      made_->read_at(begin + done, part);
      item.member.crc32 = checksum(item.member.crc32, part);
      done += std::ssize(part);
    }
    made_->write_at(item.member.header_offset, as_bytes(zip_local_header(item.member, item.is_large)));
  }

  void append_deflated(Item& item) {
    item.member.header_offset = end_;
    end_ += std::ssize(zip_local_header(item.member, item.is_large));
    const int64_t begin = end_;
    item.member.crc32 = checksum(0, as_bytes(item.head));
    append(as_bytes(deflate_part(as_bytes(item.head), item.spec.filters[0].level)));
    int64_t bytes = std::ssize(item.head);
    for (int64_t number = 0; number < item.parts->count(); ++number) {
      constexpr int64_t kHead = sizeof(uint32_t) + sizeof(int64_t);
      std::string head(kHead, '\0');
      item.parts->read(number, 0, std::as_writable_bytes(std::span(head)));
      ByteReader in(head);
      const auto crc = in.get<uint32_t>();
      const auto part_bytes = in.get<int64_t>();
      item.member.crc32 = checksum_of_both(item.member.crc32, crc, part_bytes);
      bytes += part_bytes;
      copy_bytes(item.parts->size(number) - kHead,
                 [&](int64_t done, std::span<std::byte> to) { item.parts->read(number, kHead + done, to); });
    }
    QUARRY_CHECK(bytes == item.member.bytes);
    append(as_bytes(deflate_end()));
    item.member.stored_bytes = end_ - begin;
    made_->write_at(item.member.header_offset, as_bytes(zip_local_header(item.member, item.is_large)));
  }

  const std::string file_;
  std::vector<Item> items_;
  std::vector<std::pair<ZipMember, int64_t>> kept_;  // and their bytes with all that belongs to them
  std::optional<Replacement> place_;
  std::optional<ByteFile> made_;
  int64_t end_ = 0;
};

}  // namespace

std::unique_ptr<OutputFile> create_npy(const std::string& file, std::vector<OutputSpec> specs, bool overwrite) {
  if (specs.size() != 1) {
    throw local::InvalidArgument(fmt::format(
        "'{}' would hold {} arrays, and a .npy file holds one: a .npz file holds several", file, specs.size()));
  }
  if (!specs[0].filters.empty())
    throw local::InvalidArgument(fmt::format("'{}': a .npy file has no filters; a .npz file has deflate", file));
  return std::make_unique<NpyOutput>(file, std::move(specs[0]), overwrite);
}

std::unique_ptr<OutputFile> resume_npy(const std::string& file, const std::string& kept) {
  return std::make_unique<NpyOutput>(file, ByteReader(kept));
}

std::unique_ptr<OutputFile> create_npz(const std::string& file, std::vector<OutputSpec> specs, bool overwrite) {
  return std::make_unique<NpzOutput>(file, std::move(specs), overwrite);
}

void prepare_npz(OutputSpec& spec) {
  if (spec.text || spec.shape.empty()) spec.filters.clear();
  if (spec.filters.empty()) {
    spec.chunks.reset();
    return;
  }
  for (const Filter& filter : spec.filters)
    if (filter.kind != Filter::Kind::deflate)
      throw local::InvalidArgument(
          fmt::format("cannot create '{}': a .npz file has the filter deflate, and not {}", spec.object, filter.name));
  Dims chunks = spec.shape;
  for (int64_t& extent : chunks) extent = std::max<int64_t>(extent, 1);
  const int64_t rows = chunks[0];
  const int64_t row_bytes = local::element_count(chunks) / rows * local::itemsize(spec.dtype);
  chunks[0] = std::clamp<int64_t>(kPartBytes / row_bytes, 1, rows);
  spec.chunks = chunks;
}

std::shared_ptr<Writer> writer_of(const Format& format, const std::string& layout) {
  ByteReader in(layout);
  OutputSpec spec = deserialize_array(in);
  std::string path = in.get_string(), name = in.get_string();
  const auto offset = in.get<int64_t>();
  return std::make_shared<NpyWriter>(format, std::move(spec), std::move(path), std::move(name), offset);
}

}  // namespace quarry::io::npy
