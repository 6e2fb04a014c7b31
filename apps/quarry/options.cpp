#include "quarry/apps/quarry/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>

#include "quarry/chunked/api/sparse_files.h"
#include "quarry/io/format.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"

namespace quarry::apps {

using local::InvalidArgument;
using local::Option;
using local::OptionValue;

void add_common_options(CLI::App& command, CommonOptions& options) {
  constexpr const char* kGroup = "Common options";
  for (const local::OptionRow& row : local::option_table()) {
    if (row.option.empty()) continue;
    std::string& text = options.given[static_cast<size_t>(row.id)];
    const std::string name(row.option), help(row.help);
    if (row.type == local::OptionType::flag) {
      command
          .add_flag_function(
              name, [&text](int64_t times) { text = times > 0 ? "on" : "off"; }, help)
          ->group(kGroup);
      continue;
    }
    std::string what(row.placeholder());
    if (!row.environment.empty()) what += " (Env:" + std::string(row.environment) + ")";
    command.add_option(name, text, help + " [" + std::string(row.default_text()) + "]")
        ->group(kGroup)
        ->type_name(what)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  command.callback([&options] { options.check(); });
}

CLI::Option* add_integer_option(CLI::App& command, const std::string& names, int64_t& value, const std::string& help) {
  const auto read = [&value, name = names.substr(0, names.find(','))](const std::string& text) {
    value = parse_integer(text, name);
  };
  return command.add_option_function<std::string>(names, read, help)->type_name("N");
}

int64_t parse_integer(const std::string& text, const std::string& option) {
  const std::optional<int64_t> value = local::parse_integer(text);
  if (!value) throw InvalidArgument(option + " takes a whole number, not '" + local::excerpt(text) + "'");
  return *value;
}

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace

std::vector<io::Filter> parse_filters(const std::string& text, const std::string& option) {
  std::vector<io::Filter> filters;
  if (text.empty() || text == "none") return filters;
  const auto kinds = io::filter_kinds();
  for (const std::string& part : split(text, ',')) {
    const size_t colon = part.find(':');
    const std::string name = part.substr(0, colon) == "gzip" ? "deflate" : part.substr(0, colon);
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const io::FilterKind& row) {
      return row.written && row.name == name && (row.most_level > 0 || colon == std::string::npos);
    });
    if (kind == kinds.end()) {
      std::vector<std::string> known;
      std::string list;
      for (const io::FilterKind& row : kinds) {
        if (!row.written) continue;
        known.emplace_back(row.name);
        list += (list.empty() ? "" : ", ") + known.back() + (row.most_level > 0 ? ":LEVEL" : "");
      }
      const std::string meant = local::suggestion(name, known);
      throw InvalidArgument(option + ": unknown filter '" + local::excerpt(part) + "'" +
                            (meant.empty() ? "; there are " + list : meant));
    }
    const int64_t level = colon == std::string::npos ? kind->level : parse_integer(part.substr(colon + 1), option);
    if (level < kind->least_level || level > kind->most_level)
      throw InvalidArgument(
          fmt::format("{}: {}'s level is {} to {}, not {}", option, name, kind->least_level, kind->most_level, level));
    const io::Filter filter{kind->kind, static_cast<int>(level), name};
    for (const io::Filter& other : filters) {
      if (other.kind == filter.kind) throw InvalidArgument(option + ": the filter " + filter.name + " is named twice");
    }
    filters.push_back(filter);
  }
  const auto step = [](const io::Filter& filter) { return io::find_kind(filter.kind)->step; };
  std::stable_sort(filters.begin(), filters.end(),
                   [&](const io::Filter& a, const io::Filter& b) { return step(a) < step(b); });
  for (size_t i = 1; i < filters.size(); ++i)
    if (step(filters[i]) == io::FilterKind::Step::compress && step(filters[i - 1]) == step(filters[i]))
      throw InvalidArgument(fmt::format("{}: {} and {} both compress; one of them is enough", option,
                                        filters[i - 1].name, filters[i].name));
  return filters;
}

FileObject parse_file_object(const std::string& text) {
  const size_t separator = text.rfind(":/");
  if (separator == std::string::npos) return {text, ""};
  return {text.substr(0, separator), text.substr(separator + 1)};
}

FileObject parse_array(const std::string& text, const std::string& what) {
  FileObject place = parse_file_object(text);
  if (place.file.empty()) throw InvalidArgument(what + ": no file is given");
  if (place.object.empty() && (sparse::is_matrix_market(place.file) || io::format_to_write(place.file).is_one_array()))
    place.object = "/";
  if (place.object.empty()) throw InvalidArgument(fmt::format("{}: give the object too, {}:/PATH", what, place.file));
  return place;
}

namespace {

// Extensions that name a format.
struct OtherFormat {
  std::string_view extension, name;
};
constexpr OtherFormat kOtherFormats[] = {
    {".arrow", "Arrow"},
    {".avro", "Avro"},
    {".bin", "raw bytes"},
    {".dat", "raw bytes"},
    {".feather", "Feather"},
    {".fits", "FITS"},
    {".gz", "gzip"},
    {".jpg", "JPEG"},
    {".json", "JSON"},
    {".orc", "ORC"},
    {".parquet", "Parquet"},
    {".pdf", "PDF"},
    {".pickle", "pickle"},
    {".pkl", "pickle"},
    {".png", "PNG"},
    {".pt", "PyTorch"},
    {".safetensors", "safetensors"},
    {".tif", "TIFF"},
    {".tiff", "TIFF"},
    {".txt", "text"},
    {".xls", "Excel"},
    {".xlsx", "Excel"},
    {".xml", "XML"},
    {".yaml", "YAML"},
    {".zip", "ZIP"},
};

}  // namespace

FileObject parse_output(const std::string& text) {
  FileObject output = parse_file_object(text);
  if (output.file.empty()) throw InvalidArgument(fmt::format("the output '{}' names no file", text));
  if (!output.object.empty()) return output;
  const std::filesystem::path file(output.file);
  std::string extension = file.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto* const other = std::ranges::find(kOtherFormats, extension, &OtherFormat::extension);
  if (other == std::end(kOtherFormats) || io::knows_extension(output.file)) return output;
  std::error_code error;
  if (std::filesystem::is_regular_file(file, error) && io::is_known(output.file)) return output;
  throw InvalidArgument(fmt::format(
      "the output {} has the name of a file of {}, which quarry does not write: call it {}, or {}:/result for {} under "
      "this name",
      output.file, other->name, std::filesystem::path(file).replace_extension(".h5").string(), output.file,
      io::formats().front()->name()));
}

OptionValue CommonOptions::value(Option option) const {
  return {option, given[static_cast<size_t>(option)], local::OptionGiver::command_line};
}

void CommonOptions::check() const {
  for (const local::OptionRow& row : local::option_table()) {
    if (!row.option.empty()) value(row.id).check();
  }
}

std::string CommonOptions::alike() const {
  std::string text;
  for (const local::OptionRow& row : local::option_table()) {
    if (row.scope != local::OptionScope::tool || row.id == Option::progress || row.id == Option::dashboard_token)
      continue;
    const OptionValue one = value(row.id);
    const bool is_place = row.id == Option::dashboard || row.type == local::OptionType::path;
    text += fmt::format("{} ({}) {}\n", row.member, row.option,
                        !is_place        ? one.text()
                        : one.is_given() ? "given"
                                         : "not given");
  }
  return text;
}

RuntimeOptions CommonOptions::runtime() const {
  const auto of = [this](Option option) { return given[static_cast<size_t>(option)]; };
  RuntimeOptions result;
  result.from_command_line = true;
  result.memory = of(Option::memory);
  result.host_memory = of(Option::host_memory);
  result.spill_dir = of(Option::spill_dir);
  result.transport = of(Option::transport);
  result.peer_copies = of(Option::peer_copies);
  result.device_messages = of(Option::device_messages);
  result.decompress = of(Option::decompress);
  result.direct_io = of(Option::direct_io);
  if (!of(Option::io_threads).empty()) result.io_threads = static_cast<int>(value(Option::io_threads).integer());
  result.balance = of(Option::balance);
  result.without_gpu = of(Option::without_gpu);
  if (!of(Option::device).empty()) result.device = local::parse_device_kind(of(Option::device));
  if (!of(Option::threads).empty()) result.threads = static_cast<int>(value(Option::threads).integer());
  if (!of(Option::chunks).empty()) result.chunks = value(Option::chunks).extents();
  return result;
}

StoreOptions CommonOptions::store(bool overwrite) const {
  StoreOptions result;
  result.overwrite = overwrite;
  result.chunks = value(Option::out_chunks).extents();
  const OptionValue filters = value(Option::out_filter);
  result.filters = parse_filters(filters.text(), filters.source());
  const OptionValue version = value(Option::out_zarr);
  if (version.is_given()) result.version = version.text() == "3" ? 3 : 2;
  return result;
}

}  // namespace quarry::apps
