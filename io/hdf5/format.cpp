#include "quarry/io/hdf5/format.h"

#include "quarry/io/hdf5/parse/signature.h"
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

  bool recognises(const ByteSource& file) const override {
    try {
      return find_signature(file).has_value();
    } catch (const local::IoError&) {  // whoever opens it says why
      return false;
    }
  }

  bool has_groups() const override { return true; }
  std::shared_ptr<Dataset> open(const std::string& file, const std::string& object) const override {
    finish_change(file);
    return open_dataset(file, object);
  }
  std::vector<ObjectInfo> list(const std::string& file, const std::string& object) const override {
    finish_change(file);
    return list_objects(file, object);
  }
  std::vector<std::string> axis_names(const std::string& file, const std::string& object) const override {
    finish_change(file);
    return axis_names_of(file, object);
  }
  void for_each_stored(const Dataset& dataset, int64_t bytes,
                       const std::function<bool(const local::Region&)>& use) const override {
    if (!for_each_stored_chunk(dataset, use)) Format::for_each_stored(dataset, bytes, use);
  }
  std::shared_ptr<Dataset> dataset(const std::string& layout) const override { return dataset_of(layout); }
  std::unique_ptr<OutputFile> create(const std::string& file, std::vector<OutputSpec> specs,
                                     bool overwrite) const override {
    finish_change(file);
    return create_output(file, std::move(specs), overwrite);
  }
  std::unique_ptr<OutputFile> change(const std::string& file, const std::vector<ChangeSpec>& specs) const override {
    finish_change(file);
    return change_output(file, specs);
  }
  bool can_resume() const override { return true; }
  std::unique_ptr<OutputFile> resume(const std::string& file, const std::string& kept) const override {
    return resume_output(file, kept);
  }
  std::shared_ptr<Writer> writer(const std::string& layout) const override { return writer_of(layout); }
};

}  // namespace

const Format& format() {
  static const auto* const format = new Hdf5Format;  // leaked: data sets with static lifetime may come here late
  return *format;
}

}  // namespace quarry::io::hdf5
