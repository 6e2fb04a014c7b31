#include "quarry/io/hdf5/format.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "quarry/local/base/error.h"

namespace quarry::io::hdf5 {
namespace {

class Hdf5Format final : public Format {
 public:
  std::string_view name() const override { return "HDF5"; }

  std::span<const std::string_view> extensions() const override {
    static constexpr std::string_view kExtensions[] = {".h5", ".hdf5", ".he5", ".nc", ".nc4", ".mat"};
    return kExtensions;
  }

  // The signature is at the beginning, or behind a user block of 512 bytes or a power of two times as many.
  bool recognises(const ByteSource& file) const override {
    constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    constexpr int64_t kLeastUserBlock = 512;
    std::array<std::byte, kSignature.size()> found;
    const auto matches = [](std::byte a, unsigned char b) { return a == std::byte{b}; };
    try {
      for (int64_t at = 0; at + std::ssize(found) <= file.size(); at = at == 0 ? kLeastUserBlock : 2 * at) {
        file.read_at(at, found);
        if (std::ranges::equal(found, kSignature, matches)) return true;
      }
    } catch (const local::IoError&) {  // whoever opens it says why
    }
    return false;
  }

  std::shared_ptr<Dataset> open(const std::string& file, const std::string& object) const override {
    return open_dataset(file, object);
  }
  std::vector<ObjectInfo> list(const std::string& file, const std::string& object) const override {
    return list_objects(file, object);
  }
  std::shared_ptr<Dataset> dataset(const std::string& layout) const override { return dataset_of(layout); }
  std::unique_ptr<OutputFile> create(const std::string& file, std::vector<OutputSpec> specs,
                                     bool overwrite) const override {
    return create_output(file, std::move(specs), overwrite);
  }
  std::shared_ptr<Writer> writer(const std::string& layout) const override { return writer_of(layout); }
};

}  // namespace

const Format& format() {
  static const auto* const format = new Hdf5Format;  // leaked: data sets with static lifetime may come here late
  return *format;
}

}  // namespace quarry::io::hdf5
