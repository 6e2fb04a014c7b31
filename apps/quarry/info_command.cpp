// quarry info FILE[:/OBJECT]: what a file holds; quarry info --topology: how ranks are connected; quarry info --memory:
// who gets what of the memory budget.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/failure.h"
#include "quarry/apps/quarry/job.h"
#include "quarry/apps/quarry/memory_shares.h"
#include "quarry/apps/quarry/options.h"
#include "quarry/apps/quarry/text.h"
#include "quarry/apps/quarry/topology.h"
#include "quarry/chunked/api/sparse_files.h"
#include "quarry/io/format.h"
#include "quarry/local/sparse/matrix_market.h"

namespace quarry::apps {

namespace {

struct AttributeText {
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const {
    constexpr size_t kLongest = 60;
    return value.size() > kLongest ? "\"" + value.substr(0, kLongest) + "...\"" : "\"" + value + "\"";
  }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    constexpr size_t kMost = 6;
    std::string text = "[";
    for (size_t i = 0; i < std::min(values.size(), kMost); ++i) text += (i > 0 ? ", " : "") + (*this)(values[i]);
    return text + (values.size() > kMost ? ", ...]" : "]");
  }
};

std::string attribute_text(const io::Attribute& attribute) { return std::visit(AttributeText{}, attribute); }

bool never_written(const io::DatasetInfo& info, int64_t bytes) {
  if (bytes == 0 || info.stored_bytes > 0 || !info.direct) return false;
  bool any = false;  // not every format knows how much it stores
  io::format_of(info.file).for_each_stored(*io::Dataset::open(info.file, info.object), bytes,
                                           [&](const local::Region&) { return any = true, false; });
  return !any;
}

std::string dataset_text(const io::DatasetInfo& info) {
  int64_t bytes = local::itemsize(info.dtype);
  for (const int64_t extent : info.shape) bytes *= extent;  // the file's size has bounded it
  std::string text = fmt::format("{} {}{}  {}", local::to_string(info.shape), local::name(info.dtype),
                                 info.swapped ? " (foreign byte order)" : "", format_bytes(bytes));
  text += info.chunks ? "  chunks " + local::to_string(*info.chunks) : "  " + info.layout;
  if (!info.filters.empty()) {
    text += "  " + io::to_string(info.filters);
    if (info.stored_bytes > 0) {
      text += fmt::format("  stored {}, ratio {:.2f}", format_bytes(info.stored_bytes),
                          static_cast<double>(bytes) / static_cast<double>(info.stored_bytes));
    }
  }
  if (never_written(info, bytes)) text += "  never written";
  if (!info.direct) text += "  (read through the library: " + info.library_reason + ")";
  return text;
}

// Of what a data set holds, decoded: a part of it is read, for a fifth of a second at most. 0: nothing was written.
double read_rate(const std::string& file, const std::string& object) {
  constexpr double kMostSeconds = 0.2;
  constexpr int64_t kPieceBytes = 4 << 20;
  const std::shared_ptr<io::Dataset> dataset = io::Dataset::open(file, object);
  std::vector<std::byte> data, scratch;
  double bytes = 0, seconds = 0;
  io::format_of(file).for_each_stored(*dataset, kPieceBytes, [&](const local::Region& region) {
    const auto begin = std::chrono::steady_clock::now();
    scratch.resize(static_cast<size_t>(dataset->read_scratch_bytes(region)));
    data.resize(static_cast<size_t>(region.elements() * local::itemsize(dataset->info().dtype)));
    dataset->read(region, data.data(), scratch);
    bytes += static_cast<double>(data.size());
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return seconds < kMostSeconds;
  });
  return bytes / std::max(seconds, 1e-9);
}

std::string rate_text(const std::string& file, const std::string& object) {
  try {
    const double rate = read_rate(file, object);
    return rate > 0 ? "  one thread reads " + format_bytes(static_cast<int64_t>(rate)) + "/s" : "";
  } catch (const local::Error& error) {
    return fmt::format("  cannot be read: {}", error.what());
  }
}

// "sparse csr (30, 20) float64  41 stored elements"; nothing of another group.
std::string sparse_text(const std::string& file, const std::string& group, std::span<const io::ObjectInfo> objects) {
  try {
    const std::optional<sparse::GroupInfo> info = sparse::group_info(file, group, objects);
    if (!info) return "";
    const bool by_rows = info->format == "csr";
    const std::string shape = info->shape ? local::to_string(*info->shape)
                              : by_rows   ? fmt::format("({}, ?)", info->major)
                                          : fmt::format("(?, {})", info->major);
    return fmt::format("  sparse {} {} {}  {} stored elements", info->format, shape, local::name(info->dtype),
                       info->nnz);
  } catch (const local::Error& error) {
    return fmt::format("  {}", error.what());
  }
}

int run_matrix_market_info(const std::string& file) {
  const local::sparse::MatrixMarketInfo info = local::sparse::mminfo(file);
  fmt::print("/  ({}, {}) {}  {} entries  Matrix Market {} {} {}\n", info.rows, info.columns, local::name(info.dtype()),
             info.entries, info.format, info.field, info.symmetry);
  return 0;
}

int run_info(const std::string& target, bool rates) {
  const FileObject place = parse_file_object(target);
  if (sparse::is_matrix_market(place.file)) return run_matrix_market_info(place.file);
  const std::string object = place.object.empty() ? "/" : place.object;
  std::string text;
  const std::vector<io::ObjectInfo> entries = io::list_objects(place.file, object);
  for (const io::ObjectInfo& entry : entries) {
    const size_t depth =
        entry.path == "/" ? 0 : static_cast<size_t>(std::count(entry.path.begin(), entry.path.end(), '/'));
    const std::string indent(2 * depth, ' ');
    text += indent + entry.path + (entry.is_group && entry.path != "/" ? "/" : "");
    if (entry.dataset) text += "  " + dataset_text(*entry.dataset);
    if (entry.dataset && entry.note.empty() && rates) text += rate_text(place.file, entry.path);
    if (entry.is_group) text += sparse_text(place.file, entry.path, entries);
    if (!entry.note.empty()) text += "  " + entry.note;
    text += "\n";
    for (const auto& [name, value] : entry.dataset ? entry.dataset->attributes : entry.attributes) {
      text += indent + "    @" + name + " = " + attribute_text(value) + "\n";
    }
  }
  fmt::print("{}", text);
  return 0;
}

// Whether the option is on the command line: it may also come from the environment.
bool has_argument(int argc, char** argv, std::string_view option) {
  return std::any_of(argv, argv + argc, [&](std::string_view argument) {
    return argument == option || (argument.starts_with(option) && argument.substr(option.size()).starts_with('='));
  });
}

}  // namespace

RunCommand add_info_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand(
      "info",
      "Show the tree of a file: shapes, dtypes, chunks, filters, ratio, attributes; how ranks are connected "
      "(--topology); or who gets what of the memory budget (--memory, with or without a size)");
  const auto target = std::make_shared<std::string>();
  const auto options = std::make_shared<CommonOptions>();
  const auto topology = std::make_shared<bool>(false);
  CLI::Option* file = command->add_option("FILE[:/OBJECT]", *target, "The file, and where to start in it");
  command->add_flag("--topology", *topology, "Show instead where the ranks run and how data travels between them")
      ->excludes(file);
  add_common_options(*command, *options);
  // Alone it asks for the shares of the budget that there would be.
  command->get_option("--memory")->expected(0, 1);
  const auto rates = std::make_shared<bool>(false);
  command->add_flag("--rate", *rates, "Show too how fast one thread reads each data set, by reading a part of it");
  return [target, topology, rates, options](int& argc, char**& argv) {
    if (*topology) {
      return run_job(*options, argc, argv, [](Job& job) {
        fmt::print("{}", describe_topology(job.runtime()));
        return 0;
      });
    }
    if (target->empty() && has_argument(argc, argv, "--memory")) {
      return run_job(*options, argc, argv, [](Job& job) {
        fmt::print("{}", describe_memory(job.runtime()));
        return 0;
      });
    }
    if (target->empty()) throw local::InvalidArgument("info needs a FILE, --topology or --memory");
    if (launcher_rank() != 0) return 0;
    return run_info(*target, *rates);
  };
}

}  // namespace quarry::apps
