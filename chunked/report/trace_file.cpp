// Events between ranks and in the Chrome trace event format.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>

#include "quarry/chunked/report/report.h"
#include "quarry/chunked/report/rows.h"
#include "quarry/io/text_file.h"
#include "quarry/local/base/error.h"
#include "quarry/scheduler/task.h"

namespace quarry::report {
namespace {

constexpr uint64_t kMagic = 0x3630454341525451u;  // "QTRACE06"
constexpr int kMostRowsPerTrack = 256;
constexpr size_t kPieceBytes = 1 << 20;  // of a trace that is being written
constexpr const char* kReserved = "reserved memory";

enum class Combine : uint8_t { sum, largest, first };

// A rank's totals, their names in a file, and what they are of several ranks.
struct Total {
  const char* name;
  int64_t RankTrace::*member;
  Combine combine;
};
constexpr std::array kTotals = std::to_array<Total>({
    {"ranks", &RankTrace::ranks, Combine::sum},
    {"memory_limit_bytes", &RankTrace::memory_limit_bytes, Combine::largest},
    {"memory_peak_bytes", &RankTrace::memory_peak_bytes, Combine::largest},
    {"host_limit_bytes", &RankTrace::host_limit_bytes, Combine::largest},
    {"host_peak_bytes", &RankTrace::host_peak_bytes, Combine::largest},
    {"read_bytes", &RankTrace::read_bytes, Combine::sum},
    {"written_bytes", &RankTrace::written_bytes, Combine::sum},
    {"spilled_bytes", &RankTrace::spilled_bytes, Combine::sum},
    {"restored_bytes", &RankTrace::restored_bytes, Combine::sum},
    {"communicated_bytes", &RankTrace::communicated_bytes, Combine::sum},
    {"tasks", &RankTrace::tasks, Combine::sum},
    {"stolen_chunks", &RankTrace::stolen_chunks, Combine::sum},
    {"flops", &RankTrace::flops, Combine::first},
});

class Writer {
 public:
  template <class T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<int64_t>(value.size()));
    bytes_.append(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<int64_t>())); }
  // A count of things of at least `each` bytes.
  int64_t count(int64_t each) {
    const auto n = number<int64_t>();
    if (n < 0 || n > static_cast<int64_t>(bytes_.size()) / each) broken();
    return n;
  }
  void end() const {
    if (!bytes_.empty()) broken();
  }
  [[noreturn]] static void broken() { throw local::InvalidArgument("these bytes are no trace of a rank"); }

 private:
  std::string_view take(int64_t n) {
    if (n < 0 || n > static_cast<int64_t>(bytes_.size())) broken();
    const std::string_view head = bytes_.substr(0, static_cast<size_t>(n));
    bytes_.remove_prefix(static_cast<size_t>(n));
    return head;
  }
  std::string_view bytes_;
};

}  // namespace

std::string numbers_of(const RankTrace& trace) {
  return trace.ranks == 1 ? fmt::format("{}", trace.rank)
                          : fmt::format("{}-{}", trace.rank, trace.rank + trace.ranks - 1);
}

void add_totals(RankTrace& trace, const RankTrace& next) {
  for (const Total& total : kTotals) {
    int64_t& mine = trace.*total.member;
    switch (total.combine) {
      case Combine::sum:
        mine += next.*total.member;
        break;
      case Combine::largest:
        mine = std::max(mine, next.*total.member);
        break;
      case Combine::first:
        break;
    }
  }
}

std::string serialize(const RankTrace& trace) {
  Writer out;
  out.number(kMagic);
  out.number(trace.rank);
  out.text(trace.host);
  out.text(trace.device);
  for (const Total& total : kTotals) out.number(trace.*total.member);
  out.number(static_cast<int64_t>(trace.ceilings.size()));
  for (const TrackCeiling& ceiling : trace.ceilings) {
    out.text(ceiling.track);
    out.number(ceiling.bytes_per_second);
  }
  // Tracks and details repeat: each is sent once.
  std::vector<std::string_view> words;
  std::unordered_map<std::string_view, int32_t> ids;
  const auto id = [&](const std::string& word) {
    const auto [found, added] = ids.try_emplace(word, static_cast<int32_t>(words.size()));
    if (added) words.push_back(word);
    return found->second;
  };
  Writer events;
  for (const local::TraceEvent& event : trace.events) {
    events.text(event.name);
    events.number(id(event.track));
    events.number(id(event.detail));
    events.number(event.thread);
    events.number(event.begin_ns);
    events.number(event.end_ns);
    events.number(event.bytes);
    events.number(event.budget_used);
    events.number(event.count);
    events.number(event.busy_ns);
    events.number(event.flops);
  }
  out.number(static_cast<int64_t>(words.size()));
  for (const std::string_view word : words) out.text(word);
  out.number(static_cast<int64_t>(trace.events.size()));
  return out.take() + events.take();
}

RankTrace deserialize(std::string_view bytes) {
  Reader in(bytes);
  if (in.number<uint64_t>() != kMagic) Reader::broken();
  RankTrace trace;
  trace.rank = in.number<int32_t>();
  trace.host = in.text();
  trace.device = in.text();
  for (const Total& total : kTotals) trace.*total.member = in.number<int64_t>();
  trace.ceilings.resize(static_cast<size_t>(in.count(16)));
  for (TrackCeiling& ceiling : trace.ceilings) {
    ceiling.track = in.text();
    ceiling.bytes_per_second = in.number<double>();
  }
  std::vector<std::string> words(static_cast<size_t>(in.count(8)));
  for (std::string& word : words) word = in.text();
  const auto word = [&](int32_t id) {
    if (id < 0 || static_cast<size_t>(id) >= words.size()) Reader::broken();
    return words[static_cast<size_t>(id)];
  };
  trace.events.resize(static_cast<size_t>(in.count(8 + 4 * 4 + 6 * 8)));
  for (local::TraceEvent& event : trace.events) {
    event.name = in.text();
    event.track = word(in.number<int32_t>());
    event.detail = word(in.number<int32_t>());
    event.thread = in.number<int32_t>();
    event.begin_ns = in.number<int64_t>();
    event.end_ns = in.number<int64_t>();
    event.bytes = in.number<int64_t>();
    event.budget_used = in.number<int64_t>();
    event.count = in.number<int32_t>();
    event.busy_ns = in.number<int64_t>();
    event.flops = in.number<double>();
  }
  in.end();
  return trace;
}

void align_clock(RankTrace& trace, int64_t offset_ns) {
  for (local::TraceEvent& event : trace.events) {
    event.begin_ns += offset_ns;
    event.end_ns += offset_ns;
  }
}

int64_t clock_offset_ns(int64_t asked_ns, int64_t answered_ns, int64_t received_ns) {
  return answered_ns - (asked_ns + (received_ns - asked_ns) / 2);
}

namespace {

// What a rank is and did in all, beside its name; readers of the format leave it alone.
std::string rank_arguments(const RankTrace& rank) {
  std::string out = fmt::format(R"("name":{},"host":{},"device":{})",
                                escape_json(fmt::format("rank {} ({})", numbers_of(rank), rank.device)),
                                escape_json(rank.host), escape_json(rank.device));
  for (const Total& total : kTotals) out += fmt::format(R"(,"{}":{})", total.name, rank.*total.member);
  out += R"(,"ceilings":{)";
  for (size_t i = 0; i < rank.ceilings.size(); ++i) {
    out += fmt::format("{}{}:{:.6g}", i ? "," : "", escape_json(rank.ceilings[i].track),
                       rank.ceilings[i].bytes_per_second);
  }
  return out + "}";
}

}  // namespace

void write_trace(const std::string& path, const RunReport& report) {
  int64_t origin = INT64_MAX;
  for (const RankTrace& rank : report.ranks) {
    for (const local::TraceEvent& event : rank.events) origin = std::min(origin, event.begin_ns);
  }
  const auto microseconds = [&](int64_t ns) { return static_cast<double>(ns - origin) * 1e-3; };
  std::string out = fmt::format(
      R"({{"displayTimeUnit":"ms","otherData":{{"title":{},"command":{},"version":{},"started":{},"banner":{},"plan":{},)"
      R"("wall_seconds":{:.9g}}},"traceEvents":[)",
      escape_json(report.title), escape_json(report.command), escape_json(report.version), escape_json(report.started),
      escape_json(report.banner), escape_json(report.plan), report.wall_seconds);
  out += '\n';
  auto to = std::back_inserter(out);
  io::TextFile file(path);
  bool first = true;
  const auto separate = [&] {
    if (!first) out += ",\n";
    first = false;
    if (out.size() < kPieceBytes) return;
    file.append(out);
    out.clear();
  };
  const auto counter = [&](const RankTrace& rank, const std::string& name, int64_t ns, int64_t bytes) {
    separate();
    fmt::format_to(to, R"({{"ph":"C","pid":{},"name":{},"ts":{:.3f},"args":{{"bytes":{}}}}})", rank.rank,
                   escape_json(name), microseconds(ns), bytes);
  };
  for (const RankTrace& rank : report.ranks) {
    separate();
    fmt::format_to(to, R"({{"ph":"M","pid":{},"name":"process_name","args":{{{}}}}})", rank.rank, rank_arguments(rank));
    const std::vector<Row> rows = rows_of(rank, kMostRowsPerTrack);
    for (size_t r = 0; r < rows.size(); ++r) {
      const std::string label =
          rows[r].number == 0 ? rows[r].track : fmt::format("{} {}", rows[r].track, rows[r].number + 1);
      separate();
      fmt::format_to(to,
                     R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_name","args":{{"name":{2}}}}},)"
                     R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_sort_index","args":{{"sort_index":{1}}}}})",
                     rank.rank, r + 1, escape_json(label));
      for (const local::TraceEvent* event : rows[r].events) {
        separate();
        fmt::format_to(
            to, R"({{"ph":"X","pid":{},"tid":{},"cat":{},"name":{},"ts":{:.3f},"dur":{:.3f},"args":{{"bytes":{})",
            rank.rank, r + 1, escape_json(event->track), escape_json(event->name), microseconds(event->begin_ns),
            static_cast<double>(event->end_ns - event->begin_ns) * 1e-3, event->bytes);
        if (!event->detail.empty()) fmt::format_to(to, R"(,"detail":{})", escape_json(event->detail));
        if (event->budget_used >= 0) fmt::format_to(to, R"(,"reserved":{})", event->budget_used);
        if (event->count > 1) fmt::format_to(to, R"(,"tasks":{},"busy_ns":{})", event->count, event->busy_ns);
        if (event->flops > 0) {
          fmt::format_to(to, R"(,"flops":{:.17g})", event->flops);
          if (const int64_t ns = busy_ns(*event); ns > 0)
            fmt::format_to(to, R"(,"TFLOP/s":{:.4g})", event->flops / static_cast<double>(ns) * 1e-3);
        }
        fmt::format_to(to, R"(,"thread":{}}}}})", event->thread);
      }
    }
    for (const local::TraceEvent& event : rank.events) {
      if (event.track == scheduler::kTierTrack) {
        counter(rank, event.name, event.end_ns, event.bytes);
      } else if (event.budget_used >= 0) {
        counter(rank, kReserved, event.end_ns, event.budget_used);
      }
    }
  }
  out += "\n]}\n";
  file.append(out);
  file.commit();
}

namespace {

std::string whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw local::IoError(fmt::format("'{}' cannot be read", path));
  return text.str();
}

int64_t nanoseconds(const nlohmann::json& microseconds) {
  constexpr double kMost = 9e15;  // microseconds in 64 bits of nanoseconds
  const double value = microseconds.get<double>();
  if (!(std::abs(value) < kMost)) throw local::InvalidArgument("a time is out of range");
  return std::llround(value * 1e3);
}

RankTrace& rank_of(std::map<int32_t, RankTrace>& ranks, const nlohmann::json& event) {
  const auto number = event.at("pid").get<int32_t>();
  RankTrace& rank = ranks[number];
  rank.rank = number;
  return rank;
}

void read_event(std::map<int32_t, RankTrace>& ranks, const nlohmann::json& event) {
  const auto kind = event.at("ph").get<std::string>();
  const auto name = event.at("name").get<std::string>();
  if (kind == "M" && name == "process_name") {
    RankTrace& rank = rank_of(ranks, event);
    const nlohmann::json& args = event.at("args");
    rank.host = args.value("host", "");
    rank.device = args.value("device", "");
    for (const Total& total : kTotals) rank.*total.member = args.value(total.name, rank.*total.member);
    const nlohmann::json ceilings = args.value("ceilings", nlohmann::json::object());
    for (const auto& [track, rate] : ceilings.items()) {
      rank.ceilings.push_back({track, rate.get<double>()});
    }
  } else if (kind == "X" || (kind == "C" && name != kReserved)) {
    local::TraceEvent made;
    const nlohmann::json& args = event.at("args");
    made.name = name;
    made.begin_ns = made.end_ns = nanoseconds(event.at("ts"));
    made.bytes = args.value("bytes", int64_t{0});
    if (kind == "X") {
      made.track = event.at("cat").get<std::string>();
      made.end_ns = made.begin_ns + std::max<int64_t>(nanoseconds(event.at("dur")), 0);
      made.detail = args.value("detail", "");
      made.budget_used = args.value("reserved", int64_t{-1});
      made.thread = args.value("thread", 0);
      made.count = args.value("tasks", 0);
      made.busy_ns = args.value("busy_ns", int64_t{0});
      made.flops = args.value("flops", 0.0);
    } else {
      made.track = scheduler::kTierTrack;
    }
    rank_of(ranks, event).events.push_back(std::move(made));
  }
}

}  // namespace

RunReport read_trace(const std::string& path) {
  const std::string text = whole_file(path);
  RunReport report;
  std::map<int32_t, RankTrace> ranks;
  try {
    const nlohmann::json file = nlohmann::json::parse(text);
    const nlohmann::json& about = file.at("otherData");
    report.title = about.at("title").get<std::string>();
    report.command = about.value("command", "");
    report.version = about.value("version", "");
    report.started = about.value("started", "");
    report.banner = about.value("banner", "");
    report.plan = about.value("plan", "");
    report.wall_seconds = about.value("wall_seconds", 0.0);
    for (const nlohmann::json& event : file.at("traceEvents")) read_event(ranks, event);
  } catch (const nlohmann::json::parse_error& error) {
    throw local::InvalidArgument(
        fmt::format("'{}' is no trace of quarry: it is no JSON from byte {} on", path, error.byte));
  } catch (const nlohmann::json::exception& error) {
    throw local::InvalidArgument(fmt::format("'{}' is no trace of quarry: {}", path, error.what()));
  }
  for (auto& [number, rank] : ranks) {
    std::ranges::stable_sort(rank.events, {}, &local::TraceEvent::begin_ns);
    report.ranks.push_back(std::move(rank));
  }
  return report;
}

}  // namespace quarry::report
