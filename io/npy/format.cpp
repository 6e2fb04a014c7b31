#include "quarry/io/npy/format.h"

#include <algorithm>
#include <array>

#include "quarry/io/npy/header.h"
#include "quarry/local/base/error.h"

namespace quarry::io::npy {
namespace {

class NpyFormat final : public Format {
 public:
  std::string_view name() const override { return "NumPy"; }
  std::span<const std::string_view> extensions() const override {
    static constexpr std::string_view kExtensions[] = {".npy"};
    return kExtensions;
  }
  bool recognises(const ByteSource& file) const override {
    try {
      return begins_as_npy(file, 0);
    } catch (const local::IoError&) {  // whoever opens it says why
      return false;
    }
  }
  bool is_one_array() const override { return true; }
  std::shared_ptr<Dataset> open(const std::string& file, const std::string& object) const override {
    return open_npy(file, object);
  }
  std::vector<ObjectInfo> list(const std::string& file, const std::string& object) const override {
    return list_npy(file, object);
  }
  std::shared_ptr<Dataset> dataset(const std::string& layout) const override { return dataset_of(*this, layout); }
  std::unique_ptr<OutputFile> create(const std::string& file, std::vector<OutputSpec> specs,
                                     bool overwrite) const override {
    return create_npy(file, std::move(specs), overwrite);
  }
  bool can_resume() const override { return true; }
  std::unique_ptr<OutputFile> resume(const std::string& file, const std::string& kept) const override {
    return resume_npy(file, kept);
  }
  std::shared_ptr<Writer> writer(const std::string& layout) const override { return writer_of(*this, layout); }
};

class NpzFormat final : public Format {
 public:
  std::string_view name() const override { return "NumPy archive"; }
  std::span<const std::string_view> extensions() const override {
    static constexpr std::string_view kExtensions[] = {".npz"};
    return kExtensions;
  }
  // A ZIP archive by its first or, where it has no members, last record. Other programs' files are archives too, but
  // none that another format here reads.
  bool recognises(const ByteSource& file) const override {
    constexpr std::array kMember = {std::byte{'P'}, std::byte{'K'}, std::byte{3}, std::byte{4}};
    constexpr std::array kEnd = {std::byte{'P'}, std::byte{'K'}, std::byte{5}, std::byte{6}};
    std::array<std::byte, 4> found{};
    try {
      if (file.size() < std::ssize(found)) return false;
      file.read_at(0, found);
    } catch (const local::IoError&) {
      return false;
    }
    return found == kMember || found == kEnd;
  }
  std::shared_ptr<Dataset> open(const std::string& file, const std::string& object) const override {
    return open_npz(file, object);
  }
  std::vector<ObjectInfo> list(const std::string& file, const std::string& object) const override {
    return list_npz(file, object);
  }
  std::shared_ptr<Dataset> dataset(const std::string& layout) const override { return dataset_of(*this, layout); }
  void prepare(OutputSpec& spec) const override { prepare_npz(spec); }
  std::unique_ptr<OutputFile> create(const std::string& file, std::vector<OutputSpec> specs,
                                     bool overwrite) const override {
    return create_npz(file, std::move(specs), overwrite);
  }
  std::shared_ptr<Writer> writer(const std::string& layout) const override { return writer_of(*this, layout); }
};

}  // namespace

// Leaked: data sets with static lifetime may come here late.
const Format& npy_format() {
  static const auto* const format = new NpyFormat;
  return *format;
}
const Format& npz_format() {
  static const auto* const format = new NpzFormat;
  return *format;
}

}  // namespace quarry::io::npy
