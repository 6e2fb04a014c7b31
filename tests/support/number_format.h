// A file format of the tests' own: the line "numbers", then float64 in the host's order; one data set, /x, of one axis.
// What a format must have, and no more.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/format.h"
#include "quarry/local/base/error.h"

namespace quarry::testing {

inline constexpr std::string_view kNumbersMagic = "numbers\n";

inline const io::Format& number_format();

class NumberDataset final : public io::Dataset {
 public:
  explicit NumberDataset(const std::string& path) : file_(path, io::ByteFile::Mode::read) {
    const int64_t bytes = file_.size() - std::ssize(kNumbersMagic);
    if (bytes < 0 || bytes % 8 != 0) throw local::IoError("'" + path + "' is truncated");
    info_.file = path;
    info_.object = "/x";
    info_.shape = local::Dims{bytes / 8};
    info_.layout = "contiguous";
    info_.direct = true;
    info_.stored_bytes = bytes;
  }
  const io::DatasetInfo& info() const override { return info_; }
  const io::Format& format() const override { return number_format(); }
  std::string layout() const override { return info_.file; }
  int64_t read_scratch_bytes(const local::Region& /*region*/) const override { return 0; }
  void read(const local::Region& region, void* to, std::span<std::byte> /*scratch*/) const override {
    for (int64_t i = 0; i < region.count[0]; ++i) {
      const int64_t at = std::ssize(kNumbersMagic) + (region.start[0] + i * region.step[0]) * 8;
      file_.read_at(at, std::span(static_cast<std::byte*>(to) + i * 8, 8));
    }
    bytes_read_ += region.elements() * 8;
  }
  int64_t visit_scratch_bytes(const local::Region& region) const override { return region.elements() * 8; }
  void visit(const local::Region& region, std::span<std::byte> scratch,
             const std::function<void(const Piece&)>& consume) const override {
    read(region, scratch.data(), {});
    if (region.elements() > 0) consume({local::Dims{0}, region.count, scratch.data(), local::Dims{8}});
  }
  int64_t bytes_read() const override { return bytes_read_; }

 private:
  io::ByteFile file_;
  io::DatasetInfo info_;
  mutable std::atomic<int64_t> bytes_read_{0};
};

class NumberWriter final : public io::Writer {
 public:
  NumberWriter(std::string path, io::OutputSpec spec)
      : path_(std::move(path)), spec_(std::move(spec)), file_(path_, io::ByteFile::Mode::write) {}
  const io::OutputSpec& spec() const override { return spec_; }
  const io::Format& format() const override { return number_format(); }
  std::string layout() const override { return path_ + "\n" + std::to_string(spec_.shape[0]); }
  void write(const local::Region& region, const void* from) override {
    const auto bytes = static_cast<size_t>(region.elements() * 8);
    file_.write_at(std::ssize(kNumbersMagic) + region.start[0] * 8,
                   std::span(static_cast<const std::byte*>(from), bytes));
    written_ += static_cast<int64_t>(bytes);
  }
  std::span<const std::byte> encode(const local::Dims&, const void*, const local::Dims&, const local::Dims&,
                                    std::span<std::byte>) const override {
    return {};
  }
  int64_t encode_scratch_bytes() const override { return 0; }
  void sync() const override {}
  int64_t bytes_written() const override { return written_; }

 private:
  const std::string path_;
  const io::OutputSpec spec_;
  io::ByteFile file_;
  std::atomic<int64_t> written_{0};
};

class NumberOutput final : public io::OutputFile {
 public:
  NumberOutput(const std::string& file, const std::vector<io::OutputSpec>& specs) {
    if (specs.size() != 1 || specs[0].object != "/x" || specs[0].shape.size() != 1 ||
        specs[0].dtype != local::DType::float64 || !specs[0].filters.empty()) {
      throw local::InvalidArgument("a numbers file holds one data set /x of float64 with one axis");
    }
    std::ofstream(file, std::ios::binary) << kNumbersMagic;
    std::filesystem::resize_file(file, kNumbersMagic.size() + static_cast<size_t>(specs[0].shape[0]) * 8);
    writer_ = std::make_shared<NumberWriter>(file, specs[0]);
  }
  std::shared_ptr<io::Writer> writer(size_t /*index*/) override { return writer_; }
  void write_encoded(size_t, const local::Dims&, std::span<const std::byte>) override {}
  void commit() override {}

 private:
  std::shared_ptr<NumberWriter> writer_;
};

class NumberFormat final : public io::Format {
 public:
  std::string_view name() const override { return "numbers"; }
  std::span<const std::string_view> extensions() const override {
    static constexpr std::string_view kExtensions[] = {".numbers"};
    return kExtensions;
  }
  bool recognises(const io::ByteSource& file) const override {
    char head[kNumbersMagic.size()];
    if (file.size() < std::ssize(kNumbersMagic)) return false;
    file.read_at(0, std::as_writable_bytes(std::span(head)));
    return std::string_view(head, sizeof head) == kNumbersMagic;
  }
  std::shared_ptr<io::Dataset> open(const std::string& file, const std::string& object) const override {
    if (object != "/x") throw local::InvalidArgument("no object '" + object + "' in '" + file + "'");
    return std::make_shared<NumberDataset>(file);
  }
  std::vector<io::ObjectInfo> list(const std::string& file, const std::string& /*object*/) const override {
    return {{"/", true, std::nullopt, ""}, {"/x", false, NumberDataset(file).info(), ""}};
  }
  std::shared_ptr<io::Dataset> dataset(const std::string& layout) const override {
    return std::make_shared<NumberDataset>(layout);
  }
  std::unique_ptr<io::OutputFile> create(const std::string& file, std::vector<io::OutputSpec> specs,
                                         bool /*overwrite*/) const override {
    return std::make_unique<NumberOutput>(file, specs);
  }
  std::shared_ptr<io::Writer> writer(const std::string& layout) const override {
    const size_t end = layout.find('\n');
    io::OutputSpec spec{"/x", local::Dims{std::stoll(layout.substr(end + 1))}, local::DType::float64, {}, {}, {}};
    return std::make_shared<NumberWriter>(layout.substr(0, end), std::move(spec));
  }
};

// Known to quarry from the first call on.
inline const io::Format& number_format() {
  static const NumberFormat* const format = [] {
    const auto* const made = new NumberFormat;
    io::add_format(*made);
    return made;
  }();
  return *format;
}

}  // namespace quarry::testing
