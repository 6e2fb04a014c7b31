#include "quarry/io/zarr/format.h"

#include "quarry/io/zarr/nodes.h"

namespace quarry::io::zarr {
namespace {

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
  bool has_groups() const override { return true; }
  bool has_chunk_files() const override { return true; }
  std::shared_ptr<Dataset> open(const std::string& file, const std::string& object) const override {
    return open_dataset(file, object);
  }
  std::vector<ObjectInfo> list(const std::string& file, const std::string& object) const override {
    return list_objects(file, object);
  }
  std::shared_ptr<Dataset> dataset(const std::string& layout) const override { return dataset_of(layout); }
  void prepare(OutputSpec& spec) const override { zarr::prepare(spec); }
  std::unique_ptr<OutputFile> create(const std::string& file, std::vector<OutputSpec> specs,
                                     bool overwrite) const override {
    return create_output(file, std::move(specs), overwrite);
  }
  bool can_resume() const override { return true; }
  std::unique_ptr<OutputFile> resume(const std::string& file, const std::string& kept) const override {
    return resume_output(file, kept);
  }
  std::shared_ptr<Writer> writer(const std::string& layout) const override { return writer_of(layout); }
};

}  // namespace

const Format& format() {
  static const auto* const format = new ZarrFormat;  // leaked: data sets with static lifetime may come here late
  return *format;
}

}  // namespace quarry::io::zarr
