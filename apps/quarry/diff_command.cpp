// quarry diff A[:/OBJECT] B[:/OBJECT]: whether two data sets, or all of two files, hold the same.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/failure.h"
#include "quarry/apps/quarry/job.h"
#include "quarry/apps/quarry/matrix_files.h"
#include "quarry/apps/quarry/objects.h"
#include "quarry/apps/quarry/text.h"
#include "quarry/chunked/api/elementwise.h"
#include "quarry/chunked/api/files.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/sparse_files.h"

namespace quarry::apps {

using local::InvalidArgument;

namespace {

constexpr int kDifferentStatus = 1, kTroubleStatus = 2;

struct DiffOptions {
  CommonOptions common;
  std::string first, second;
  std::string relative = "0", absolute = "0";
  bool values_only = false;
};

double parse_tolerance(const std::string& text, const std::string& option) {
  size_t end = 0;
  double value = -1;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end != text.size() || text.empty() || !(value >= 0) || std::isinf(value))
    throw InvalidArgument(fmt::format("{} takes a number from 0, not '{}'", option, text));
  return value;
}

// Attributes that say how a file was made are no difference.
bool is_provenance(const std::string& name) { return name.starts_with("quarry_"); }

bool same_value(const io::Attribute& a, const io::Attribute& b) {
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  const auto* const x = std::get_if<double>(&a);
  const auto* const y = std::get_if<double>(&b);
  if (x != nullptr && y != nullptr) return same(*x, *y);
  const auto* const xs = std::get_if<std::vector<double>>(&a);
  const auto* const ys = std::get_if<std::vector<double>>(&b);
  if (xs != nullptr && ys != nullptr) return std::ranges::equal(*xs, *ys, same);
  // HDF5 has a list of one text as the text.
  const auto texts = [](const io::Attribute& value) -> std::optional<std::vector<std::string>> {
    if (const auto* one = std::get_if<std::string>(&value)) return std::vector<std::string>{*one};
    if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return *list;
    return std::nullopt;
  };
  if (const auto first = texts(a)) return first == texts(b);
  return a == b;
}

using Attributes = std::map<std::string, io::Attribute>;

// "@a, @b": those that one lacks or that differ.
std::string different_attributes(const Attributes& a, const Attributes& b) {
  std::set<std::string> names;
  for (const Attributes* const all : {&a, &b})
    for (const auto& [name, value] : *all)
      if (!is_provenance(name)) names.insert(name);
  std::string text;
  for (const std::string& name : names) {
    const auto x = a.find(name), y = b.find(name);
    if (x != a.end() && y != b.end() && same_value(x->second, y->second)) continue;
    const char* const only = x == a.end() ? " (second only)" : y == b.end() ? " (first only)" : "";
    text += fmt::format("{}@{}{}", text.empty() ? "" : ", ", name, only);
  }
  return text;
}

class Comparison {
 public:
  Comparison(const DiffOptions& options, Job& job)
      : options_(options),
        job_(job),
        first_(parse_file_object(options.first)),
        second_(parse_file_object(options.second)),
        relative_(parse_tolerance(options.relative, "--rtol")),
        absolute_(parse_tolerance(options.absolute, "--atol")) {}

  int run() {
    if (sparse::is_matrix_market(first_.file) || sparse::is_matrix_market(second_.file)) {
      compare_matrices();
      return verdict();
    }
    const Side a = side_of(first_), b = side_of(second_);
    // One data set each: whatever they are called.
    if (a.objects.arrays.size() == 1 && b.objects.arrays.size() == 1 && (a.is_array || b.is_array)) {
      compare(a.objects.arrays[0], b.objects.arrays[0], name_of(a, a.objects.arrays[0]));
    } else {
      compare_all(a, b);
    }
    return verdict();
  }

 private:
  int verdict() const {
    if (job_.root() && different_ == 0 && untold_ == 0)
      fmt::print("{} and {} hold the same ({} data set{})\n", options_.first, options_.second, compared_,
                 compared_ == 1 ? "" : "s");
    return untold_ > 0 ? kTroubleStatus : different_ > 0 ? kDifferentStatus : 0;
  }

  // ---- One is a Matrix Market file ----

  // A data set is a dense matrix.
  Matrix matrix_of(const FileObject& place) {
    const std::string object = place.object.empty() ? "/" : place.object;
    if (const std::optional<Matrix> matrix = open_matrix(place.file, object)) return *matrix;
    const Side side = side_of(place);
    if (side.objects.arrays.size() != 1)
      throw InvalidArgument(fmt::format("{}:{} is neither a sparse matrix nor one data set", place.file, object));
    return load(place.file, side.objects.arrays[0].object);
  }

  void compare_matrices() {
    Matrix a, b;
    job_.read_inputs([&] {
      a = matrix_of(first_);
      b = matrix_of(second_);
    });
    ++compared_;
    const auto shape = [](const Matrix& m) { return std::visit([](const auto& x) { return x.shape(); }, m); };
    const auto dtype = [](const Matrix& m) { return std::visit([](const auto& x) { return x.dtype(); }, m); };
    std::vector<std::string> how;
    if (shape(a) != shape(b))
      how.push_back(fmt::format("shapes {} and {}", local::to_string(shape(a)), local::to_string(shape(b))));
    if (!options_.values_only && dtype(a) != dtype(b))
      how.push_back(fmt::format("dtypes {} and {}", local::name(dtype(a)), local::name(dtype(b))));
    if (shape(a) == shape(b) && local::element_count(shape(a)) > 0) {
      const auto *x = std::get_if<sparse::SparseArray>(&a), *y = std::get_if<sparse::SparseArray>(&b);
      const auto dense = [](const Matrix& m, const sparse::SparseArray* matrix) {
        return matrix != nullptr ? matrix->toarray() : std::get<Array>(m);
      };
      const std::string text =
          x != nullptr && y != nullptr ? different_elements(*x, *y) : different_values(dense(a, x), dense(b, y), "/");
      if (!text.empty()) how.push_back(text);
    }
    if (!how.empty()) differs("/", fmt::to_string(fmt::join(how, "; ")));
  }

  // Of the elements that are not zero: where they are, and then their values.
  std::string different_elements(const sparse::SparseArray& first, const sparse::SparseArray& second) {
    const sparse::SparseArray a = first.sum_duplicates().eliminate_zeros();
    const sparse::SparseArray b = second.sum_duplicates().eliminate_zeros();
    if (a.nnz() != b.nnz()) return fmt::format("{} and {} elements that are not zero", a.nnz(), b.nnz());
    if (a.nnz() == 0) return "";
    const Array ends = a.indptr(), other_rows = ends != b.indptr(), other_columns = a.indices() != b.indices();
    const std::vector<NdArray> found =
        to_host(std::vector<Array>{sum(other_rows), argmax(other_rows), sum(other_columns), argmax(other_columns)});
    const auto row_of = [&](int64_t element) { return sum(ends <= element).item<int64_t>() - 1; };
    int64_t row = first.shape()[0];
    if (found[0].item<int64_t>() > 0) row = found[1].item<int64_t>() - 1;
    if (found[2].item<int64_t>() > 0) row = std::min(row, row_of(found[3].item<int64_t>()));
    if (row < first.shape()[0]) return fmt::format("other elements that are not zero, first in row {}", row);
    return different_values(a.data(), b.data(), "/", [&](int64_t element) {
      return Dims{row_of(element), a.indices()[{Slice{element, element + 1, std::nullopt}}].to_host().item<int64_t>()};
    });
  }

  struct Side {
    FileObject place;
    std::string base;       // the object that was named
    bool is_array = false;  // which is a data set
    FileObjects objects;
    std::map<std::string, Attributes> groups;
  };

  Side side_of(const FileObject& place) {
    Side out{place, place.object.empty() ? "/" : place.object, false, {}, {}};
    std::vector<io::ObjectInfo> all;
    const auto list = [&] {
      out.objects = objects_of(place.file, out.base);
      all = io::list_objects(place.file, out.base);
    };
    job_.on_root(list);
    if (!job_.root()) list();
    for (const io::ObjectInfo& entry : all)
      if (entry.is_group) out.groups.emplace(relative(out.base, entry.path), entry.attributes);
    out.is_array = !out.objects.arrays.empty() && out.objects.arrays[0].object == out.base;
    return out;
  }

  // A path below the object that was named; fields of tables as objects.
  static std::string relative(const std::string& base, const std::string& path) {
    std::string name = base == "/" ? path : path.substr(std::min(base.size(), path.size()));
    std::ranges::replace(name, ':', '/');
    return name.empty() ? "/" : name;
  }
  static std::string name_of(const Side& side, const io::DatasetInfo& info) { return relative(side.base, info.object); }

  void compare_all(const Side& a, const Side& b) {
    std::map<std::string, std::pair<const io::DatasetInfo*, const io::DatasetInfo*>> pairs;
    for (const io::DatasetInfo& info : a.objects.arrays) pairs[name_of(a, info)].first = &info;
    for (const io::DatasetInfo& info : b.objects.arrays) pairs[name_of(b, info)].second = &info;
    for (const auto& [name, pair] : pairs) {
      if (pair.first == nullptr || pair.second == nullptr) {
        differs(name, fmt::format("is only in {}", pair.first == nullptr ? options_.second : options_.first));
        continue;
      }
      compare(*pair.first, *pair.second, name);
    }
    if (!options_.values_only) {
      // One that is missing has no attributes; its data sets were missed.
      std::map<std::string, std::pair<Attributes, Attributes>> groups;
      for (const auto& [name, attributes] : a.groups) groups[name].first = attributes;
      for (const auto& [name, attributes] : b.groups) groups[name].second = attributes;
      for (const auto& [name, both] : groups) {
        const std::string text = different_attributes(both.first, both.second);
        if (!text.empty()) differs(name, "attributes " + text);
      }
    }
    for (const Side* const side : {&a, &b})
      for (const auto* const list : {&side->objects.damaged, &side->objects.left_out})
        for (const auto& [path, reason] : *list) {
          ++untold_;
          if (job_.root()) fmt::print("{}:{} cannot be compared: {}\n", side->place.file, path, reason);
        }
  }

  void differs(const std::string& name, const std::string& how) {
    ++different_;
    if (job_.root()) fmt::print("{}: {}\n", name, how);
  }

  void compare(const io::DatasetInfo& a, const io::DatasetInfo& b, const std::string& name) {
    ++compared_;
    std::vector<std::string> how;
    if (a.shape != b.shape)
      how.push_back(fmt::format("shapes {} and {}", local::to_string(a.shape), local::to_string(b.shape)));
    if (!options_.values_only && a.dtype != b.dtype)
      how.push_back(fmt::format("dtypes {} and {}", local::name(a.dtype), local::name(b.dtype)));
    if (!options_.values_only) {
      const std::string text = different_attributes(a.attributes, b.attributes);
      if (!text.empty()) how.push_back("attributes " + text);
    }
    if (a.shape == b.shape && local::element_count(a.shape) > 0) {
      const std::string text = different_values(load(first_.file, a.object), load(second_.file, b.object), a.object);
      if (!text.empty()) how.push_back(text);
    }
    if (!how.empty()) differs(name, fmt::to_string(fmt::join(how, "; ")));
  }

  // "" where none are. `place_of`: what the number of an element stands for; none: its position.
  std::string different_values(const Array& x, const Array& y, const std::string& name,
                               const std::function<Dims(int64_t)>& place_of = nullptr) {
    const auto may_be_nan = [](const Array& array) {
      return local::is_float(array.dtype()) || local::is_complex(array.dtype());
    };
    const bool exact = relative_ == 0 && absolute_ == 0;
    Array same = exact ? x == y : isclose(x, y, relative_, absolute_, /*equal_nan=*/true);
    if (exact && may_be_nan(x) && may_be_nan(y)) same = same | (isnan(x) & isnan(y));
    const Array other = ~same;
    std::vector<Array> wanted = {sum(other), argmax(ravel(other))};
    const bool distance = x.dtype() != DType::bool_ || y.dtype() != DType::bool_;
    if (distance) {
      const DType wide =
          local::is_complex(x.dtype()) || local::is_complex(y.dtype()) ? DType::complex128 : DType::float64;
      wanted.push_back(nanmax_of(abs(x.astype(wide) - y.astype(wide))));
    }
    job_.step("comparing " + name);
    const std::vector<NdArray> found = to_host(wanted);
    const auto count = found[0].item<int64_t>();
    if (count == 0) return "";
    int64_t at = found[1].item<int64_t>();
    Dims place = Dims::filled(x.ndim());
    if (place_of) place = place_of(at);
    for (int d = x.ndim() - 1; d >= 0 && !place_of; --d) {
      place[d] = at % x.shape(d);
      at /= x.shape(d);
    }
    std::string text = fmt::format("{} of {} values, the first at {}", format_count(count), format_count(x.size()),
                                   local::to_string(place));
    if (distance) text += fmt::format(", by {:.6g} at most", found[2].item<double>());
    return text;
  }

  static Array nanmax_of(const Array& x) { return max(where(isnan(x), 0.0, x)); }

  const DiffOptions& options_;
  Job& job_;
  const FileObject first_, second_;
  const double relative_, absolute_;
  int64_t compared_ = 0, different_ = 0, untold_ = 0;
};

}  // namespace

RunCommand add_diff_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand(
      "diff",
      "Compare two data sets, or all of two files or groups, of any formats: shapes, dtypes, attributes and values");
  command->footer(
      "The exit status is 0 where they hold the same, 1 where they differ, 2 where something cannot be compared. NaN "
      "equals NaN. Attributes quarry_... do not count.");
  const auto options = std::make_shared<DiffOptions>();
  command->add_option("FIRST[:/OBJECT]", options->first, "One")->required();
  command->add_option("SECOND[:/OBJECT]", options->second, "The other one")->required();
  command->add_option("--rtol", options->relative, "How much values may differ, as a part of the second one [0]")
      ->type_name("R");
  command->add_option("--atol", options->absolute, "How much values may differ besides [0]")->type_name("A");
  command->add_flag("--values", options->values_only, "Compare shapes and values, not dtypes and attributes");
  add_common_options(*command, options->common);
  return [options](int& argc, char**& argv) {
    parse_tolerance(options->relative, "--rtol");
    parse_tolerance(options->absolute, "--atol");
    bool told = false;
    const int status = run_job(options->common, argc, argv, [&](Job& job) {
      const int verdict = Comparison(*options, job).run();
      told = true;
      return verdict;
    });
    // What went wrong is no difference.
    return told || status > kTroubleStatus ? status : kTroubleStatus;
  };
}

}  // namespace quarry::apps
