// quarry convert FILE[:/OBJECT] -o FILE[:/PATH]: data sets of one file in another one, of any formats.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/job.h"
#include "quarry/apps/quarry/matrix_files.h"
#include "quarry/apps/quarry/objects.h"
#include "quarry/chunked/api/files.h"
#include "quarry/chunked/api/outputs.h"
#include "quarry/chunked/api/sparse_files.h"
#include "quarry/io/format.h"

namespace quarry::apps {

using local::InvalidArgument;

namespace {

struct ConvertOptions {
  CommonOptions common;
  std::string input, output, dtype;
  bool overwrite = false, skip = false;
};

class Conversion {
 public:
  Conversion(const ConvertOptions& options, Job& job)
      : options_(options),
        job_(job),
        from_(parse_file_object(options.input)),
        to_(parse_output(options.output)),
        from_object_(from_.object.empty() ? "/" : from_.object) {}

  int run() {
    if (sparse::is_matrix_market(from_.file) || sparse::is_matrix_market(to_.file)) {
      std::optional<Matrix> matrix;
      job_.read_inputs([&] {
        job_.on_root([&] { check_output(to_.file, {}, options_.overwrite); });  // before a large file is read
        matrix = open_matrix(from_.file, from_object_);
        if (matrix && std::holds_alternative<sparse::SparseArray>(*matrix))
          job_.on_root([&] { check_holds_sparse(to_.file); });
      });
      if (matrix) return store_matrix(*matrix);
    }
    FileObjects objects;
    job_.on_root([&] { objects = objects_of(from_.file, from_object_); });
    if (!job_.root()) objects = objects_of(from_.file, from_object_);
    job_.on_root([&] { check(objects); });
    std::vector<detail::OutputItem> items;
    std::set<std::string> paths;
    const bool names = names_axes();
    for (const io::DatasetInfo& info : objects.arrays) {
      if (names && objects.arrays.size() > 1 && is_empty_scale(info)) continue;
      items.push_back(item_of(info));
      if (!paths.insert(items.back().filled.item.path).second)
        throw InvalidArgument(fmt::format("two data sets would be stored as {}", items.back().filled.item.path));
    }
    const std::vector<std::string> all_paths(paths.begin(), paths.end());
    std::vector<Array> arrays;
    double bytes = 0;
    for (const detail::OutputItem& item : items) {
      arrays.push_back(item.filled.item.array);
      if (item.filters.empty()) bytes += static_cast<double>(arrays.back().nbytes());
    }
    if (!begin(all_paths, arrays, bytes)) return 0;
    const int version = options_.common.store(options_.overwrite).version;
    detail::store_outputs(to_.file, items, groups_of(objects), {.overwrite = options_.overwrite, .version = version});
    return 0;
  }

 private:
  // Checks the output, of which so many bytes are known; false where only the plan was to be printed.
  bool begin(const std::vector<std::string>& paths, const std::vector<Array>& arrays, double bytes = 0) {
    job_.on_root([&] { check_output(to_.file, paths, options_.overwrite, bytes); });
    job_.note_inputs(std::vector<std::string>{options_.input});
    if (options_.common.plan()) {
      job_.print_plan("convert " + options_.input, arrays, /*write=*/true);
      return false;
    }
    job_.step("converting");
    job_.note_plan("convert", arrays, /*write=*/true);
    return true;
  }

  // From a Matrix Market file, or to one.
  int store_matrix(const Matrix& given) {
    const bool to_text = sparse::is_matrix_market(to_.file);
    const auto* const dense = std::get_if<Array>(&given);
    const std::string path =
        to_.object.empty() || to_.object == "/" ? dense != nullptr ? "/data" : "/matrix" : to_.object;
    const StoreOptions store_options = options_.common.store(options_.overwrite);
    std::vector<StoreItem> items;
    std::optional<sparse::SparseArray> matrix;
    if (dense != nullptr) {
      items.push_back({path, converted(*dense)});
    } else {
      matrix = std::get<sparse::SparseArray>(given);
      if (!options_.dtype.empty()) matrix = matrix->astype(*local::parse_dtype(options_.dtype));
      items = sparse::group_items(path, *matrix);
    }
    std::vector<std::string> paths;
    std::vector<Array> arrays;
    for (const StoreItem& item : items) {
      paths.push_back(item.path);
      arrays.push_back(item.array);
    }
    if (!begin(paths, arrays)) return 0;
    if (dense != nullptr)
      store(to_.file, items, store_options);
    else if (to_text)
      sparse::mmwrite(to_.file, *matrix, store_options);
    else
      sparse::to_hdf5(to_.file, path, *matrix, store_options);
    return 0;
  }

  Array converted(const Array& array) const {
    return options_.dtype.empty() ? array : array.astype(*local::parse_dtype(options_.dtype));
  }

  bool one_array() const { return sparse::is_matrix_market(to_.file) || io::format_to_write(to_.file).is_one_array(); }
  bool same_format() const {
    return !sparse::is_matrix_market(to_.file) && &io::format_to_write(to_.file) == &io::format_of(from_.file);
  }

  void check(const FileObjects& objects) const {
    std::error_code none;
    std::vector<std::pair<std::string, std::string>> missing = objects.damaged;
    missing.insert(missing.end(), objects.left_out.begin(), objects.left_out.end());
    if (!missing.empty() && !options_.skip)
      throw InvalidArgument(
          fmt::format("{}:{} is no array of numbers: {}{}; --skip leaves out what cannot be converted", from_.file,
                      missing[0].first, missing[0].second,
                      missing.size() > 1 ? fmt::format(" ({} more)", missing.size() - 1) : ""));
    for (const auto& [path, reason] : missing)
      fmt::print(stderr, "quarry: {}:{} is left out: {}\n", from_.file, path, reason);
    if (objects.arrays.empty()) throw InvalidArgument(fmt::format("{} holds no arrays of numbers", options_.input));
    if (one_array() && objects.arrays.size() > 1)
      throw InvalidArgument(fmt::format("{} takes one array, {} has {}: name one of them, as {}:{}", to_.file,
                                        options_.input, objects.arrays.size(), from_.file, objects.arrays[0].object));
  }

  // Where a data set goes: as it is called below the object that was named, a field of a table below the table.
  std::string path_of(const io::DatasetInfo& info) const {
    std::string name = info.object == "/" ? "/data" : info.object;
    std::ranges::replace(name, ':', '/');
    const bool itself = info.object == from_object_;
    if ((itself || one_array()) && !to_.object.empty() && to_.object != "/") return to_.object;
    if (one_array()) return name.substr(name.rfind('/'));
    if (itself && info.object == "/") return name;
    const std::string base = to_.object == "/" ? "" : to_.object;
    if (base.empty()) return name;
    return base + (from_object_ == "/" ? name : name.substr(from_object_.size()));
  }

  // Where a group goes.
  std::string group_path(const std::string& path) const {
    const std::string base = to_.object == "/" ? "" : to_.object;
    if (base.empty()) return path;
    const std::string below = from_object_ == "/" ? path : path.substr(from_object_.size());
    return below.empty() || below == "/" ? base : base + below;
  }

  detail::GroupAttributes groups_of(const FileObjects& objects) const {
    detail::GroupAttributes out;
    for (const auto& [path, attributes] : objects.groups) out.emplace(group_path(path), without_provenance(attributes));
    return out;
  }

  static std::map<std::string, io::Attribute> without_provenance(std::map<std::string, io::Attribute> attributes) {
    std::erase_if(attributes, [](const auto& entry) { return entry.first.starts_with("quarry_"); });
    return attributes;
  }

  detail::OutputItem item_of(const io::DatasetInfo& info) const {
    detail::OutputItem out;
    const Array array = converted(load(from_.file, info.object));
    out.attributes = without_provenance(info.attributes);
    // netCDF's, which has the data set's dtype.
    if (const auto fill = out.attributes.find("_FillValue"); fill != out.attributes.end()) {
      std::optional<Scalar> value;
      if (const auto* whole = std::get_if<int64_t>(&fill->second)) value = Scalar(*whole);
      if (const auto* real = std::get_if<double>(&fill->second)) value = Scalar(*real);
      if (value && !local::is_complex(array.dtype())) {
        out.filled.fill_value = value;
        out.attributes.erase(fill);
      }
    }
    out.filled.item = {path_of(info), array};
    name_axes(info, out);
    choose_layout(info, out);
    return out;
  }

  // From HDF5 to a new file of HDF5, where scales can be made as they were.
  bool names_axes() const {
    std::error_code none;
    return same_format() && !std::filesystem::exists(to_.file, none);
  }

  void name_axes(const io::DatasetInfo& info, detail::OutputItem& out) const {
    if (!names_axes()) return;
    out.dims = io::format_of(from_.file).axis_names(from_.file, info.object);
    if (!is_scale(info)) return;
    out.attributes.erase("CLASS");
    out.attributes.erase("NAME");
    const std::string& path = out.filled.item.path;  // perhaps another name
    if (out.dims.size() == 1) out.dims[0] = path.substr(path.rfind('/') + 1);
  }

  static bool is_scale(const io::DatasetInfo& info) {
    const auto found = info.attributes.find("CLASS");
    return found != info.attributes.end() && found->second == io::Attribute("DIMENSION_SCALE");
  }

  // One that only gives an axis its name, as netCDF has it: it is made anew where it is needed.
  static bool is_empty_scale(const io::DatasetInfo& info) {
    const auto name = info.attributes.find("NAME");
    const std::string* const text = name == info.attributes.end() ? nullptr : std::get_if<std::string>(&name->second);
    return is_scale(info) && text != nullptr &&
           text->starts_with("This is a netCDF dimension but not a netCDF variable");
  }

  // What the command line says; else as the data set has it, as far as the output's format does.
  void choose_layout(const io::DatasetInfo& info, detail::OutputItem& out) const {
    const CommonOptions& common = options_.common;
    const StoreOptions given = common.store(options_.overwrite);
    const bool chunks_given = common.value(local::Option::out_chunks).is_given();
    const bool filters_given = common.value(local::Option::out_filter).is_given();
    const int64_t axes = out.filled.item.array.ndim();
    const bool keeps_layout = same_format();
    if (filters_given)
      out.filters = given.filters;
    else if (keeps_layout)
      out.filters = written_filters(info);
    const bool fits = given.chunks && given.chunks->size() == axes;
    if (chunks_given && !given.chunks) {  // "none": contiguous, unless filters need chunks
      if (!filters_given) out.filters.clear();
    } else if (fits) {
      out.chunks = given.chunks;
    } else if (keeps_layout) {
      out.chunks = info.chunks;
    }
  }

  std::vector<io::Filter> written_filters(const io::DatasetInfo& info) const {
    std::vector<io::Filter> out;
    for (const io::Filter& filter : info.filters) {
      const io::FilterKind* const kind = io::find_kind(filter.kind);
      if (kind != nullptr && kind->written) {
        out.push_back({filter.kind, filter.level, filter.name});
      } else if (job_.root()) {
        fmt::print(stderr, "quarry: {}:{}: filter {} is not written and is left out; --out-filter chooses others\n",
                   from_.file, info.object, filter.name);
      }
    }
    return out;
  }

  const ConvertOptions& options_;
  Job& job_;
  const FileObject from_, to_;
  const std::string from_object_;
};

}  // namespace

RunCommand add_convert_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand(
      "convert",
      "Copy the data sets of a file, or one of them, to another file of any format: names, groups and attributes are "
      "kept; "
      "--out-chunks, --out-filter and --dtype rechunk, recompress and cast");
  command->footer(
      "Without --out-chunks and --out-filter, HDF5 to HDF5 keeps each data set's chunks and filters. What is "
      "no array of numbers is not copied, and where the output's format has no attributes they are left out.");
  const auto options = std::make_shared<ConvertOptions>();
  command->add_option("FILE[:/OBJECT]", options->input, "The file, and the data set or group in it")->required();
  command->add_option("-o,--output", options->output, "The other file; its name says its format")
      ->required()
      ->type_name("FILE[:/PATH]");
  command->add_option("--dtype", options->dtype, "What the elements become [as they are]")->type_name("T");
  command->add_flag("--skip", options->skip, "Leave out what cannot be converted, with a note");
  command->add_flag("--overwrite", options->overwrite, "Replace existing objects of the output");
  add_common_options(*command, options->common);
  return [options](int& argc, char**& argv) {
    parse_output(options->output);
    if (!options->dtype.empty() && !local::parse_dtype(options->dtype))
      throw InvalidArgument(fmt::format("--dtype: there is no dtype '{}'", options->dtype));
    return run_job(options->common, argc, argv, [&](Job& job) { return Conversion(*options, job).run(); });
  };
}

}  // namespace quarry::apps
