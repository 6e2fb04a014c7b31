// Events between ranks and in the Chrome trace event format.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <unordered_map>

#include "chunked/report/report.h"
#include "chunked/report/rows.h"
#include "local/base/error.h"

namespace quarry::report {
namespace {

constexpr uint64_t kMagic = 0x3130454341525451u;  // "QTRACE01"
constexpr int kMostRowsPerLane = 256;

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

std::string serialize(const RankTrace& trace) {
  Writer out;
  out.number(kMagic);
  out.number(trace.rank);
  out.text(trace.host);
  out.text(trace.device);
  for (const int64_t value : {trace.memory_limit_bytes, trace.memory_peak_bytes, trace.read_bytes, trace.written_bytes,
                              trace.spilled_bytes, trace.communicated_bytes, trace.tasks}) {
    out.number(value);
  }
  // Lanes and details repeat: each is sent once.
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
    events.number(id(event.lane));
    events.number(id(event.detail));
    events.number(event.thread);
    events.number(event.begin_ns);
    events.number(event.end_ns);
    events.number(event.bytes);
    events.number(event.budget_used);
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
  for (int64_t* value : {&trace.memory_limit_bytes, &trace.memory_peak_bytes, &trace.read_bytes, &trace.written_bytes,
                         &trace.spilled_bytes, &trace.communicated_bytes, &trace.tasks}) {
    *value = in.number<int64_t>();
  }
  std::vector<std::string> words(static_cast<size_t>(in.count(8)));
  for (std::string& word : words) word = in.text();
  const auto word = [&](int32_t id) {
    if (id < 0 || static_cast<size_t>(id) >= words.size()) Reader::broken();
    return words[static_cast<size_t>(id)];
  };
  trace.events.resize(static_cast<size_t>(in.count(8 + 3 * 4 + 4 * 8)));
  for (local::TraceEvent& event : trace.events) {
    event.name = in.text();
    event.lane = word(in.number<int32_t>());
    event.detail = word(in.number<int32_t>());
    event.thread = in.number<int32_t>();
    event.begin_ns = in.number<int64_t>();
    event.end_ns = in.number<int64_t>();
    event.bytes = in.number<int64_t>();
    event.budget_used = in.number<int64_t>();
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

void write_trace(const std::string& path, std::span<const RankTrace> ranks) {
  int64_t origin = INT64_MAX;
  for (const RankTrace& rank : ranks) {
    for (const local::TraceEvent& event : rank.events) origin = std::min(origin, event.begin_ns);
  }
  const auto microseconds = [&](int64_t ns) { return static_cast<double>(ns - origin) * 1e-3; };
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  auto to = std::back_inserter(out);
  bool first = true;
  const auto separate = [&] {
    if (!first) out += ",\n";
    first = false;
  };
  for (const RankTrace& rank : ranks) {
    separate();
    fmt::format_to(to, R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", rank.rank,
                   escape_json(fmt::format("rank {} ({})", rank.rank, rank.device)));
    const std::vector<Row> rows = rows_of(rank, kMostRowsPerLane);
    for (size_t r = 0; r < rows.size(); ++r) {
      const std::string label =
          rows[r].number == 0 ? rows[r].lane : fmt::format("{} {}", rows[r].lane, rows[r].number + 1);
      separate();
      fmt::format_to(to,
                     R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_name","args":{{"name":{2}}}}},)"
                     R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_sort_index","args":{{"sort_index":{1}}}}})",
                     rank.rank, r + 1, escape_json(label));
      for (const local::TraceEvent* event : rows[r].events) {
        separate();
        fmt::format_to(
            to, R"({{"ph":"X","pid":{},"tid":{},"cat":{},"name":{},"ts":{:.3f},"dur":{:.3f},"args":{{"bytes":{})",
            rank.rank, r + 1, escape_json(event->lane), escape_json(event->name), microseconds(event->begin_ns),
            static_cast<double>(event->end_ns - event->begin_ns) * 1e-3, event->bytes);
        if (!event->detail.empty()) fmt::format_to(to, R"(,"detail":{})", escape_json(event->detail));
        out += "}}";
      }
    }
    for (const local::TraceEvent& event : rank.events) {
      if (event.budget_used < 0) continue;
      separate();
      fmt::format_to(to, R"({{"ph":"C","pid":{},"name":"reserved memory","ts":{:.3f},"args":{{"bytes":{}}}}})",
                     rank.rank, microseconds(event.end_ns), event.budget_used);
    }
  }
  out += "\n]}\n";
  write_file(path, out);
}

}  // namespace quarry::report
