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
#include "quarry/apps/quarry/objects.h"
#include "quarry/apps/quarry/text.h"
#include "quarry/chunked/api/elementwise.h"
#include "quarry/chunked/api/files.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"

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
    const Side a = side_of(first_), b = side_of(second_);
    // One data set each: whatever they are called.
    if (a.objects.arrays.size() == 1 && b.objects.arrays.size() == 1 && (a.is_array || b.is_array)) {
      compare(a.objects.arrays[0], b.objects.arrays[0], name_of(a, a.objects.arrays[0]));
    } else {
      compare_all(a, b);
    }
    if (job_.root() && different_ == 0 && untold_ == 0)
      fmt::print("{} and {} hold the same ({} data set{})\n", options_.first, options_.second, compared_,
                 compared_ == 1 ? "" : "s");
    return untold_ > 0 ? kTroubleStatus : different_ > 0 ? kDifferentStatus : 0;
  }

 private:
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
      const std::string text = different_values(a, b);
      if (!text.empty()) how.push_back(text);
    }
    if (!how.empty()) differs(name, fmt::to_string(fmt::join(how, "; ")));
  }

  // "" where none are.
  std::string different_values(const io::DatasetInfo& a, const io::DatasetInfo& b) {
    const Array x = load(first_.file, a.object), y = load(second_.file, b.object);
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
    job_.step("comparing " + a.object);
    const std::vector<NdArray> found = to_host(wanted);
    const auto count = found[0].item<int64_t>();
    if (count == 0) return "";
    int64_t at = found[1].item<int64_t>();
    Dims place = Dims::filled(a.shape.size());
    for (int d = place.size() - 1; d >= 0; --d) {
      place[d] = at % a.shape[d];
      at /= a.shape[d];
    }
    std::string text = fmt::format("{} of {} values, the first at {}", format_count(count),
                                   format_count(local::element_count(a.shape)), local::to_string(place));
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
