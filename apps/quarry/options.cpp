#include "quarry/apps/quarry/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "quarry/apps/language/suggest.h"
#include "quarry/local/base/error.h"

namespace quarry::apps {

using local::InvalidArgument;

void add_common_options(CLI::App& command, CommonOptions& options) {
  constexpr const char* kGroup = "Common options";
#define QUARRY_OPTION(member, option, environment, placeholder, shown, help)                             \
  {                                                                                                      \
    CLI::Option* o = command.add_option(option, options.member, std::string(help) + " [" + shown + "]"); \
    o->group(kGroup)->type_name(placeholder)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);     \
    if (*environment != '\0') o->envname(environment);                                                   \
  }
#define QUARRY_FLAG(member, option, help) command.add_flag(option, options.member, help)->group(kGroup);
#include "quarry/apps/quarry/options.def"
#undef QUARRY_OPTION
#undef QUARRY_FLAG
}

int64_t parse_integer(const std::string& text, const std::string& option) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InvalidArgument(option + " takes a whole number, not '" + text + "'");
  }
  return value;
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

std::optional<Dims> parse_chunks(const std::string& text, const std::string& option) {
  if (text.empty() || text == "auto") return std::nullopt;
  std::string inner = text;
  if (inner.front() == '(' && inner.back() == ')') inner = inner.substr(1, inner.size() - 2);
  std::vector<std::string> parts = split(inner, ',');
  if (parts.size() > 1 && parts.back().empty()) parts.pop_back();
  Dims chunks;
  for (const std::string& part : parts) {
    const int64_t extent = parse_integer(part.substr(std::min(part.find_first_not_of(' '), part.size())), option);
    if (extent == 0 || extent < -1) {
      throw InvalidArgument(option + ": extents are at least 1, or -1 for a whole axis, not " + std::to_string(extent));
    }
    chunks.push_back(extent);
  }
  return chunks;
}

std::vector<io::Filter> parse_filters(const std::string& text, const std::string& option) {
  std::vector<io::Filter> filters;
  if (text.empty() || text == "none") return filters;
  for (const std::string& part : split(text, ',')) {
    const size_t colon = part.find(':');
    const std::string name = part.substr(0, colon);
    io::Filter filter{};
    if (name == "deflate" || name == "gzip") {
      filter.kind = io::Filter::Kind::deflate;
      filter.name = "deflate";
      constexpr int64_t kDefaultLevel = 4, kHighestLevel = 9;
      const int64_t level = colon == std::string::npos ? kDefaultLevel : parse_integer(part.substr(colon + 1), option);
      if (level < 0 || level > kHighestLevel)
        throw InvalidArgument(option + ": deflate's level is 0 to 9, not " + part.substr(colon + 1));
      filter.level = static_cast<int>(level);
    } else if (colon == std::string::npos && name == "shuffle") {
      filter.kind = io::Filter::Kind::shuffle;
      filter.name = name;
    } else if (colon == std::string::npos && name == "fletcher32") {
      filter.kind = io::Filter::Kind::fletcher32;
      filter.name = name;
    } else {
      const std::string known[] = {"deflate", "shuffle", "fletcher32"};
      const std::string meant = suggestion(name, known);
      throw InvalidArgument(option + ": unknown filter '" + part + "'" +
                            (meant.empty() ? "; there are deflate:LEVEL, shuffle and fletcher32" : meant));
    }
    for (const io::Filter& other : filters) {
      if (other.kind == filter.kind) throw InvalidArgument(option + ": the filter " + filter.name + " is named twice");
    }
    filters.push_back(filter);
  }
  const auto rank = [](io::Filter::Kind kind) {
    return kind == io::Filter::Kind::shuffle ? 0 : kind == io::Filter::Kind::deflate ? 1 : 2;
  };
  std::sort(filters.begin(), filters.end(),
            [&](const io::Filter& a, const io::Filter& b) { return rank(a.kind) < rank(b.kind); });
  return filters;
}

FileObject parse_file_object(const std::string& text) {
  const size_t separator = text.rfind(":/");
  if (separator == std::string::npos) return {text, ""};
  return {text.substr(0, separator), text.substr(separator + 1)};
}

RuntimeOptions CommonOptions::runtime() const {
  RuntimeOptions result;
  if (!device.empty() && device != "auto") {
    result.device = local::parse_device_kind(device);
    if (!result.device) {
      const std::string known[] = {"auto", "cpu", "cuda", "emulated"};
      throw InvalidArgument("--device: unknown device '" + device + "'" + suggestion(device, known));
    }
  }
  result.memory = memory;
  result.host_memory = host_memory;
  result.spill_dir = spill_dir;
  result.transport = transport;
  result.peer_copies = peer_copies;
  result.device_messages = device_messages;
  result.balance = balance;
  result.without_gpu = without_gpu;
  if (!threads.empty()) {
    const int64_t count = parse_integer(threads, "--threads");
    constexpr int64_t kMostThreads = 4096;
    if (count < 1 || count > kMostThreads) throw InvalidArgument("--threads takes 1 to 4096, not " + threads);
    result.threads = static_cast<int>(count);
  }
  result.chunks = parse_chunks(chunks, "--chunks");
  return result;
}

uint64_t CommonOptions::seed_value() const {
  if (seed.empty()) return 0;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), value);
  if (error != std::errc() || end != seed.data() + seed.size()) {
    throw InvalidArgument("--seed takes a whole number from 0 to 2**64 - 1, not '" + seed + "'");
  }
  return value;
}

StoreOptions CommonOptions::store(bool overwrite) const {
  StoreOptions result;
  result.overwrite = overwrite;
  if (out_chunks != "none") result.chunks = parse_chunks(out_chunks, "--out-chunks");
  result.filters = parse_filters(out_filter, "--out-filter");
  return result;
}

bool CommonOptions::show_progress() const {
  if (progress.empty() || progress == "auto") return true;
  if (progress == "off") return false;
  throw InvalidArgument("--progress takes auto or off, not '" + progress + "'");
}

}  // namespace quarry::apps
