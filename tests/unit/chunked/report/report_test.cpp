#include "quarry/chunked/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>

#include "quarry/chunked/report/rows.h"
#include "quarry/chunked/report/thinning.h"
#include "quarry/io/text_file.h"
#include "quarry/local/base/error.h"
#include "quarry/scheduler/task.h"

namespace quarry::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Two tracks of reading, compute behind them, spilling and transfers, with the memory going up and down.
RankTrace sample(int rank, int chunks) {
  RankTrace trace;
  trace.rank = rank;
  trace.host = "node" + std::to_string(rank);
  trace.device = "cpu, 2 threads";
  trace.memory_limit_bytes = 256 << 20;
  trace.read_bytes = int64_t{16} << 20;
  std::mt19937 random(static_cast<unsigned>(rank) + 7);
  int64_t at = 1000000000;
  for (int i = 0; i < chunks; ++i) {
    const int64_t length = 3000000 + random() % 4000000;
    const auto add = [&](const std::string& name, const char* track, int64_t from, int64_t took, int64_t bytes) {
      local::TraceEvent event;
      event.name = name + "[" + std::to_string(i) + ", 0]";
      event.track = track;
      event.begin_ns = from;
      event.end_ns = from + took;
      event.bytes = bytes;
      event.budget_used = static_cast<int64_t>(random() % (256 << 20));
      event.detail = event.track == "read" ? "direct" : "";
      trace.memory_peak_bytes = std::max(trace.memory_peak_bytes, event.budget_used);
      trace.events.push_back(event);
    };
    add("read /returns", "read", at, length, 16 << 20);
    add("standardize", "compute", at + length, length / 2, 16 << 20);
    if (i % 3 == 0) {
      trace.events.back().detail = i % 2 == 0 ? "gemm" : "trsm";
      trace.events.back().flops = 1e6 * static_cast<double>(length) + i / 7.;
    }
    if (i % 7 == 3) add("spill tile", "spill", at + length / 3, length, 8 << 20);
    if (i % 4 == 1) add("fetch sum", "comm", at + length, 2 * length, 64 << 10);
    trace.tasks += 2;
    at += length / 2;
  }
  return trace;
}

void expect_equal(const RankTrace& a, const RankTrace& b) {
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.host, b.host);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.memory_limit_bytes, b.memory_limit_bytes);
  EXPECT_EQ(a.memory_peak_bytes, b.memory_peak_bytes);
  EXPECT_EQ(a.read_bytes, b.read_bytes);
  EXPECT_EQ(a.communicated_bytes, b.communicated_bytes);
  EXPECT_EQ(a.tasks, b.tasks);
  ASSERT_EQ(a.events.size(), b.events.size());
  for (size_t i = 0; i < a.events.size(); ++i) {
    EXPECT_EQ(a.events[i].name, b.events[i].name);
    EXPECT_EQ(a.events[i].track, b.events[i].track);
    EXPECT_EQ(a.events[i].detail, b.events[i].detail);
    EXPECT_EQ(a.events[i].thread, b.events[i].thread);
    EXPECT_EQ(a.events[i].begin_ns, b.events[i].begin_ns);
    EXPECT_EQ(a.events[i].end_ns, b.events[i].end_ns);
    EXPECT_EQ(a.events[i].bytes, b.events[i].bytes);
    EXPECT_EQ(a.events[i].budget_used, b.events[i].budget_used);
    EXPECT_EQ(a.events[i].flops, b.events[i].flops);
  }
}

TEST(RankTrace, TravelsAsBytes) {
  for (const int chunks : {0, 1, 50}) {
    const RankTrace trace = sample(3, chunks);
    expect_equal(deserialize(serialize(trace)), trace);
  }
}

TEST(RankTrace, SeveralRanksAreOnePart) {
  RankTrace several = sample(64, 20);
  const RankTrace first = several;
  EXPECT_EQ(numbers_of(several), "64");
  several.flops = 5;
  for (int rank = 65; rank < 67; ++rank) {
    RankTrace next = sample(rank, 10);
    next.memory_peak_bytes = first.memory_peak_bytes + rank;
    next.flops = 1000;
    add_totals(several, next);
  }
  several = deserialize(serialize(several));
  EXPECT_EQ(numbers_of(several), "64-66");
  EXPECT_EQ(several.tasks, 40 + 20 + 20);
  EXPECT_EQ(several.read_bytes, 3 * first.read_bytes);
  EXPECT_EQ(several.memory_limit_bytes, first.memory_limit_bytes);
  EXPECT_EQ(several.memory_peak_bytes, first.memory_peak_bytes + 66);
  EXPECT_EQ(several.flops, 5);  // of those whose events are shown
  EXPECT_EQ(several.events.size(), first.events.size());
}

TEST(RankTrace, BrokenBytesAreRefused) {
  const std::string bytes = serialize(sample(0, 5));
  for (size_t length = 0; length < bytes.size(); length += 3) {
    EXPECT_THROW(deserialize(std::string_view(bytes).substr(0, length)), local::InvalidArgument) << length;
  }
  EXPECT_THROW(deserialize(bytes + "x"), local::InvalidArgument);
  // A changed byte gives another trace or an error, nothing worse.
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x80);
    try {
      deserialize(changed);
    } catch (const local::InvalidArgument&) {
    }
  }
}

TEST(RankTrace, ClocksAreAligned) {
  // This rank asked at 100, the answer came at 120; in between rank 0's clock was 5010.
  EXPECT_EQ(clock_offset_ns(100, 5010, 120), 4900);
  RankTrace trace = sample(0, 2);
  const int64_t begin = trace.events[0].begin_ns, end = trace.events[0].end_ns;
  align_clock(trace, -400);
  EXPECT_EQ(trace.events[0].begin_ns, begin - 400);
  EXPECT_EQ(trace.events[0].end_ns, end - 400);
}

// A run of one second in which tracks are busy for so long, one event each.
RunReport run_of(std::initializer_list<std::tuple<const char*, double, int64_t>> tracks) {
  RunReport report;
  report.wall_seconds = 1;
  RankTrace rank;
  rank.device = "cpu, 2 threads";
  rank.memory_limit_bytes = 64 << 20;
  rank.tasks = 3;
  rank.ceilings = {{"read", 1e9}, {"write", 1e9}, {std::string(kFlopsCeiling), 50e9}};
  for (const auto& [track, seconds, bytes] : tracks) {
    local::TraceEvent event;
    event.name = track;
    event.track = track;
    event.end_ns = static_cast<int64_t>(seconds * 1e9);
    event.bytes = bytes;
    rank.events.push_back(event);
  }
  report.ranks.push_back(rank);
  return report;
}

TEST(Bottleneck, NamesWhatTookTheTimeAndWhatHelps) {
  EXPECT_EQ(bottleneck({}), "");
  EXPECT_THAT(bottleneck(run_of({})), HasSubstr("Nothing was computed"));
  EXPECT_THAT(bottleneck(run_of({{"read", 0.9, 800000000}, {"compute", 0.5, 0}})),
              AllOf(HasSubstr("Reading files took 90 % of the time"), HasSubstr("fewer passes")));
  EXPECT_THAT(bottleneck(run_of({{"read", 0.9, 10000000}})), HasSubstr("faster disk"));
  EXPECT_THAT(bottleneck(run_of({{"write", 0.9, 10000000}, {"read", 0.2, 1}})), HasSubstr("Writing files took"));
  EXPECT_THAT(bottleneck(run_of({{"compute", 0.8, 0}, {"spill", 0.3, 1}})),
              AllOf(HasSubstr("budget of 64.0 MiB per rank was too small"), HasSubstr("larger --memory helps")));
  EXPECT_THAT(bottleneck(run_of({{"compute", 0.9, 0}})), HasSubstr("smaller chunks"));
  EXPECT_THAT(bottleneck(run_of({{"compute", 0.9, 0}, {"compute", 0.9, 0}})), HasSubstr("more threads"));
  EXPECT_THAT(bottleneck(run_of({{"comm", 0.6, 1000}})), HasSubstr("Communication between ranks took 60 %"));
  EXPECT_THAT(bottleneck(run_of({{"compute", 0.1, 0}})), HasSubstr("Nothing was busy"));
  EXPECT_THAT(bottleneck(run_of({{"step", 1, 0}})), HasSubstr("Nothing was computed"));
  RunReport products = run_of({{"compute", 0.9, 0}});
  products.ranks[0].flops = 30000000000;
  EXPECT_THAT(bottleneck(products),
              AllOf(HasSubstr("products and decompositions of matrices"), HasSubstr("33.3 Gflop/s"), HasSubstr("50")));
}

TEST(Rows, EventsOfARowDoNotOverlap) {
  const RankTrace trace = sample(1, 100);
  size_t events = 0;
  std::set<std::string> tracks;
  for (const Row& row : rows_of(trace, 100)) {
    tracks.insert(row.track);
    events += row.events.size();
    for (size_t i = 1; i < row.events.size(); ++i) EXPECT_GE(row.events[i]->begin_ns, row.events[i - 1]->end_ns);
  }
  EXPECT_EQ(events, trace.events.size());
  EXPECT_EQ(tracks, (std::set<std::string>{"read", "compute", "comm", "spill"}));
  EXPECT_EQ(rows_of(trace, 1).size(), 4u);
  EXPECT_DOUBLE_EQ(busy_seconds({{0, 10}, {5, 20}, {30, 40}, {32, 33}}), 30e-9);
  EXPECT_DOUBLE_EQ(busy_seconds({}), 0);
}

TEST(Rows, CallsBecomePartOfTheirTasks) {
  const auto event = [](const char* name, const char* track, int64_t from, int64_t to, const char* detail, int thread) {
    local::TraceEvent e;
    e.name = name;
    e.track = track;
    e.begin_ns = from;
    e.end_ns = to;
    e.detail = detail;
    e.thread = thread;
    return e;
  };
  std::vector<local::TraceEvent> events{
      event("call", "write", 12, 18, "direct", 1), event("task", "write", 10, 20, "", 1),
      event("other", "write", 11, 30, "", 2),      event("late", "write", 25, 29, "library: filter", 2),
      event("fused", "read", 13, 15, "direct", 1), event("outside", "write", 28, 40, "direct", 3),
      event("compute", "compute", 10, 50, "", 1),  event("inner", "compute", 12, 13, "x", 1)};
  merge_calls(events);
  std::map<std::string, std::string> left;
  for (const local::TraceEvent& e : events) left[e.name] = e.detail;
  EXPECT_EQ(left, (std::map<std::string, std::string>{{"task", "direct"},
                                                      {"other", "library: filter"},
                                                      {"fused", "direct"},
                                                      {"outside", "direct"},
                                                      {"compute", ""},
                                                      {"inner", "x"}}));
}

TEST(Rows, ATransferAndItsTaskAreOne) {
  const auto event = [](const char* name, int64_t from, int64_t to, int64_t bytes, const char* detail) {
    local::TraceEvent e;
    e.name = name;
    e.track = "comm";
    e.begin_ns = from;
    e.end_ns = to;
    e.bytes = bytes;
    e.detail = detail;
    e.thread = 1;
    return e;
  };
  // Several at once on one thread, one of them without a task.
  std::vector<RankTrace> ranks(3);
  ranks[0].events = {
      event("receive a from rank 1", 10, 50, 100, ""),       event("receive b from rank 2", 11, 60, 100, ""),
      event("fetch (0, 1) from rank 1", 12, 49, 100, "ucx"), event("fetch (0, 2) from rank 2", 13, 59, 100, "ucx"),
      event("receive c from rank 1", 14, 70, 100, ""),       event("fetch (0, 3) from rank 1", 15, 69, 100, "ucx"),
      event("fetch (0, 4) from rank 2", 16, 20, 7, "ucx"),   event("send (1, 0) to rank 2", 17, 30, 9, "")};
  const std::vector<std::vector<int64_t>> matrix = fetched_bytes(ranks).bytes;
  EXPECT_EQ(matrix[1][0], 200);
  EXPECT_EQ(matrix[2][0], 107);
  merge_calls(ranks[0].events);
  std::map<std::string, std::string> left;
  for (const local::TraceEvent& e : ranks[0].events) left[e.name] = e.detail;
  EXPECT_EQ(left, (std::map<std::string, std::string>{{"receive a from rank 1", "ucx"},
                                                      {"receive b from rank 2", "ucx"},
                                                      {"receive c from rank 1", "ucx"},
                                                      {"fetch (0, 4) from rank 2", "ucx"},
                                                      {"send (1, 0) to rank 2", ""}}));
  EXPECT_EQ(fetched_bytes(ranks).bytes, matrix);
  EXPECT_EQ(track_uses(ranks[0]).at(0).bytes, 316);
}

TEST(WriteTrace, IsJsonWithEveryEvent) {
  std::vector<RankTrace> ranks{sample(0, 40), sample(1, 30)};
  ranks[1].events[0].name = "read \"/a\\b\"\n\x01\xff\xc3\xa9 <script>";
  const std::string path = ::testing::TempDir() + "trace.json";
  RunReport report;
  report.ranks = ranks;
  write_trace(path, report);
  const auto json = nlohmann::json::parse(contents(path));
  size_t complete = 0, counters = 0;
  std::set<std::string> names, processes;
  for (const auto& event : json.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase == "X") {
      ++complete;
      EXPECT_GE(event.at("ts").get<double>(), 0);
      EXPECT_GE(event.at("dur").get<double>(), 0);
      EXPECT_TRUE(event.at("args").contains("bytes"));
      names.insert(event.at("name").get<std::string>());
    } else if (phase == "C") {
      ++counters;
    } else if (event.at("name") == "process_name") {
      processes.insert(event.at("args").at("name").get<std::string>());
    }
  }
  EXPECT_EQ(complete, ranks[0].events.size() + ranks[1].events.size());
  EXPECT_EQ(counters, complete);
  EXPECT_TRUE(names.count("read \"/a\\b\"\n\x01?\xc3\xa9 <script>"));
  EXPECT_EQ(processes, (std::set<std::string>{"rank 0 (cpu, 2 threads)", "rank 1 (cpu, 2 threads)"}));
}

TEST(WriteTrace, NoEventsAndNoRanksAreJsonToo) {
  const std::string path = ::testing::TempDir() + "empty.json";
  write_trace(path, {});
  EXPECT_TRUE(nlohmann::json::parse(contents(path)).at("traceEvents").empty());
  EXPECT_THROW(write_trace("/does/not/exist/trace.json", {}), local::IoError);
}

local::TraceEvent tier_level(const char* tier, int64_t at_ns, int64_t bytes) {
  local::TraceEvent event;
  event.name = tier;
  event.track = scheduler::kTierTrack;
  event.begin_ns = event.end_ns = at_ns;
  event.bytes = bytes;
  return event;
}

RunReport full_report(int chunks) {
  RunReport report;
  report.title = "quarry pca market.h5:/returns";
  report.command = "mpirun -n 2 quarry pca market.h5:/returns -k 10 --standardize --memory 256MiB -o factors.h5";
  report.version = "0.1.0";
  report.started = "2026-01-02 03:04:05";
  report.banner = "2 ranks, cpu, 2 threads each, 256 MiB each";
  report.plan =
      "stage 0  mean, std of /returns     512 chunks  2.00 GiB\nstage 1  syrk                     64 chunks  2.00 "
      "MiB\n";
  report.wall_seconds = 12.34;
  report.facts = {{"Input", "524288 x 512 float64, chunks 8192 x 64"}};
  BarChart scree{"Explained variance", "component", "share of the variance", {}, true};
  for (int i = 0; i < 10; ++i) scree.values.push_back(0.35 / (1 + i));
  report.results = {scree,
                    Checks{"Recovered factors",
                           {{"largest angle between subspaces", "< 0.05", "0.0132", true}, {"rank", "8", "7", false}}},
                    Table{"Explained variance",
                          {"#Component", "#Variance", "#Ratio"},
                          {{"1", "179.2", "0.350"}, {"2", "89.6", "0.175"}}}};
  for (int rank = 0; rank < 2; ++rank) {
    report.ranks.push_back(sample(rank, chunks));
    report.ranks.back().written_bytes = 40 << 20;
    report.ranks.back().spilled_bytes = 11 << 20;
    report.ranks.back().communicated_bytes = 5 << 20;
  }
  return report;
}

TEST(Rows, KernelsTellTheRatesOfTheirTasks) {
  const auto event = [](const char* kernel, int64_t took_ns, double flops) {
    local::TraceEvent e;
    e.name = std::string(kernel) + " of tile (1, 2)";
    e.track = "compute";
    e.end_ns = took_ns;
    e.detail = flops > 0 ? kernel : "";
    e.flops = flops;
    return e;
  };
  RunReport report;
  report.ranks.resize(2);
  report.ranks[0].events = {event("gemm", 1000000, 4e9), event("potrf", 2000000, 1e6), event("zeros", 9000000, 0)};
  report.ranks[1].events = {event("gemm", 3000000, 4e9), event("gemm", 0, 1e3)};
  const std::vector<KernelUse> uses = kernel_uses(report.ranks);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].kernel, "gemm");
  EXPECT_EQ(uses[0].tasks, 3);
  EXPECT_DOUBLE_EQ(uses[0].flops, 8e9 + 1e3);
  EXPECT_NEAR(uses[0].rate(), 2e12, 1e6);
  EXPECT_EQ(uses[1].kernel, "potrf");
  EXPECT_DOUBLE_EQ(uses[1].rate(), 5e8);
  EXPECT_THAT(summary(report), AllOf(HasSubstr("2 TFLOP/s"), HasSubstr("0.5 GFLOP/s")));
  EXPECT_THAT(summary(full_report(0)), Not(HasSubstr("FLOP/s")));
  const std::string path = ::testing::TempDir() + "kernels";
  write_report(path + ".html", report);
  EXPECT_THAT(contents(path + ".html"), AllOf(HasSubstr("2 TFLOP/s"), Not(HasSubstr("Ways taken"))));
  write_trace(path + ".json", report);
  std::vector<double> rates;
  const auto json = nlohmann::json::parse(contents(path + ".json"));
  for (const auto& e : json.at("traceEvents"))
    if (e.at("ph") == "X" && e.at("args").contains("TFLOP/s"))
      rates.push_back(e.at("args").at("TFLOP/s").get<double>());
  EXPECT_THAT(rates, ::testing::UnorderedElementsAre(4, 0.0005, 1.333));
}

void expect_self_contained(const std::string& html) {
  for (const char* reference : {"http:", "https:", "src=", "href=", "url(", "@import", "<link", "<img", "<iframe"}) {
    EXPECT_THAT(html, Not(HasSubstr(reference)));
  }
}

// Every element that is opened is closed, in order.
void expect_balanced(const std::string& html) {
  static const std::regex tag("<(/?)([a-zA-Z][a-zA-Z0-9]*)([^<>]*)>");
  static const std::set<std::string> empty{"meta", "br"};
  std::vector<std::string> open;
  const std::string body = std::regex_replace(html, std::regex("<(style|script)>[^]*?</\\1>"), "");
  for (std::sregex_iterator it(body.begin(), body.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2], rest = (*it)[3];
    if (empty.count(name) || (!rest.empty() && rest.back() == '/')) continue;
    if ((*it)[1].length() == 0) {
      open.push_back(name);
    } else {
      ASSERT_FALSE(open.empty()) << name;
      ASSERT_EQ(open.back(), name) << "at " << it->position();
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(ReadTrace, GivesBackWhatWasWritten) {
  RunReport report = full_report(30);
  report.ranks[1].ceilings = {{"read", 2.5e9}, {"compute", 1e10}};
  report.ranks[1].host_limit_bytes = 1 << 30;
  report.ranks[1].restored_bytes = 77;
  report.ranks[1].ranks = 9;
  report.ranks[1].events[3].name = "read \"/a\\b\" <\xc3\xa9>";
  report.ranks[1].events.push_back(tier_level("spill file", 1010000000, 4096));
  const std::string path = ::testing::TempDir() + "round.json";
  write_trace(path, report);
  const RunReport back = read_trace(path);
  EXPECT_EQ(back.title, report.title);
  EXPECT_EQ(back.command, report.command);
  EXPECT_EQ(back.plan, report.plan);
  EXPECT_EQ(back.wall_seconds, report.wall_seconds);
  ASSERT_EQ(back.ranks.size(), 2u);
  ASSERT_EQ(back.ranks[1].ceilings.size(), 2u);
  EXPECT_EQ(back.ranks[1].ceilings[0].track, "compute");
  EXPECT_EQ(back.ranks[1].host_limit_bytes, 1 << 30);
  EXPECT_EQ(back.ranks[1].restored_bytes, 77);
  EXPECT_EQ(back.ranks[0].ranks, 1);
  EXPECT_EQ(back.ranks[1].ranks, 9);
  for (size_t r = 0; r < 2; ++r) {
    RankTrace want = report.ranks[r], got = back.ranks[r];
    const auto by_time = [](const local::TraceEvent& a, const local::TraceEvent& b) {
      return std::tie(a.begin_ns, a.end_ns, a.track, a.name) < std::tie(b.begin_ns, b.end_ns, b.track, b.name);
    };
    // Times begin with the first event.
    int64_t origin = INT64_MAX;
    for (const RankTrace& rank : report.ranks) {
      for (const local::TraceEvent& event : rank.events) origin = std::min(origin, event.begin_ns);
    }
    align_clock(want, -origin);
    std::ranges::sort(want.events, by_time);
    std::ranges::sort(got.events, by_time);
    expect_equal(want, got);
  }
  EXPECT_THAT(summary(back), AllOf(HasSubstr("compute"), HasSubstr("quarry pca"), HasSubstr("10 ranks")));
  write_report(::testing::TempDir() + "again.html", back);
}

TEST(ReadTrace, OtherFilesAreRefused) {
  EXPECT_THROW(read_trace("/does/not/exist"), local::IoError);
  const std::string path = ::testing::TempDir() + "broken.json";
  const std::string late = R"({"otherData":{"title":""},"traceEvents":[{"ph":"X","name":"a","pid":0,"cat":"read",)"
                           R"("ts":1e300,"dur":0,"args":{}}]})";
  for (const std::string& text : std::initializer_list<std::string>{
           "", "{", "[]", "3", "{\"otherData\":{}}", R"({"otherData":{"title":3},"traceEvents":[]})",
           R"({"otherData":{"title":""},"traceEvents":[{}]})",
           R"({"otherData":{"title":""},"traceEvents":[{"ph":"X","name":"a","pid":0}]})", late}) {
    io::write_file(path, text);
    EXPECT_THROW(read_trace(path), local::InvalidArgument) << text;
  }
  // A cut or changed file gives a report or an error, nothing worse.
  write_trace(path, full_report(3));
  const std::string whole = contents(path);
  for (size_t length = 0; length < whole.size(); length += 97) {
    std::string changed = whole;
    changed[length] = static_cast<char>(changed[length] ^ 1);
    io::write_file(path, changed);
    try {
      summary(read_trace(path));
    } catch (const local::InvalidArgument&) {
    }
    io::write_file(path, whole.substr(0, length));
    EXPECT_THROW(read_trace(path), local::InvalidArgument);
  }
}

TEST(Thinning, KeepsTheSumsOfEveryTrack) {
  RankTrace trace = sample(0, 2000);
  merge_calls(trace.events);
  const std::vector<TrackUse> before = track_uses(trace);
  const std::vector<KernelUse> kernels = kernel_uses({&trace, 1});
  const size_t events = trace.events.size();
  thin_to(trace.events, 300);
  EXPECT_LE(trace.events.size(), 300u);
  EXPECT_LT(trace.events.size(), events / 10);
  const std::vector<TrackUse> after = track_uses(trace);
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].track, before[i].track);
    EXPECT_EQ(after[i].events, before[i].events) << before[i].track;
    EXPECT_EQ(after[i].bytes, before[i].bytes) << before[i].track;
    EXPECT_NEAR(after[i].sum_seconds, before[i].sum_seconds, 1e-9) << before[i].track;
  }
  const std::vector<KernelUse> thinned = kernel_uses({&trace, 1});
  ASSERT_EQ(thinned.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(thinned[i].kernel, kernels[i].kernel);
    EXPECT_EQ(thinned[i].tasks, kernels[i].tasks);
    EXPECT_NEAR(thinned[i].flops / kernels[i].flops, 1, 1e-12);
  }
  const RankTrace sent = deserialize(serialize(trace));
  EXPECT_EQ(sent.events.front().count, trace.events.front().count);
  EXPECT_EQ(sent.events.front().busy_ns, trace.events.front().busy_ns);
}

TEST(Thinning, OtherWaysAndOtherRanksStayApart) {
  std::vector<local::TraceEvent> events;
  for (int i = 0; i < 100; ++i) {
    local::TraceEvent event;
    event.name = "fetch (0, 0)[" + std::to_string(i) + "] from rank " + std::to_string(i % 3);
    event.track = "comm";
    event.begin_ns = 10 * i;
    event.end_ns = 10 * i + 5;
    event.bytes = 1 << i % 3;
    event.detail = "staged";
    events.push_back(event);
  }
  std::vector<RankTrace> ranks(3);
  ranks[0].events = events;
  const Fetched before = fetched_bytes(ranks);
  thin_to(ranks[0].events, 3);
  EXPECT_EQ(ranks[0].events.size(), 3u);
  const Fetched after = fetched_bytes(ranks);
  EXPECT_EQ(after.bytes, before.bytes);
  EXPECT_EQ(after.by_path, before.by_path);
}

// Of the levels of a tier the later one counts; empty lists and single events stay as they are.
TEST(Thinning, LevelsAndFewEvents) {
  std::vector<local::TraceEvent> events(5);
  for (int i = 0; i < 5; ++i) {
    events[static_cast<size_t>(i)].name = "spill file";
    events[static_cast<size_t>(i)].track = scheduler::kTierTrack;
    events[static_cast<size_t>(i)].begin_ns = events[static_cast<size_t>(i)].end_ns = i;
    events[static_cast<size_t>(i)].bytes = 100 + i;
  }
  thin_to(events, 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].bytes, 104);
  thin_to(events, 0);
  EXPECT_EQ(events.size(), 1u);
  std::vector<local::TraceEvent> none;
  thin_to(none, 0);
  EXPECT_TRUE(none.empty());
}

TEST(Rows, FetchesMakeAMatrix) {
  std::vector<RankTrace> ranks(3);
  const auto event = [](const std::string& name, int64_t bytes) {
    local::TraceEvent made;
    made.name = name;
    made.track = "comm";
    made.bytes = bytes;
    return made;
  };
  ranks[0].events = {event("fetch (1, 2)[3] from rank 2", 10), event("fetch (1, 2)[4] from rank 2", 5),
                     event("send (1, 2)[3] to rank 1", 100),   event("fetch x from rank 7", 1),
                     event("fetch x from rank -1", 1),         event("fetch from rank 1 x", 1)};
  ranks[2].events = {event("fetch (1, 2)[3] from rank 1", 7)};
  ranks[0].events[0].detail = ranks[2].events[0].detail = "rendezvous (mpi)";
  const Fetched fetched = fetched_bytes(ranks);
  EXPECT_EQ(fetched.bytes, (std::vector<std::vector<int64_t>>{{0, 0, 0}, {0, 0, 7}, {15, 0, 0}}));
  ASSERT_EQ(fetched.by_path.size(), 1u);
  EXPECT_EQ(fetched.by_path.at("rendezvous (mpi)"), (std::pair<int64_t, int64_t>{2, 17}));
}

TEST(WriteReport, ShowsTiersCeilingsAndWhoSentToWhom) {
  RunReport report = full_report(20);
  report.ranks[0].ceilings = {{"read", 40e9}};
  report.ranks[0].host_limit_bytes = 1 << 20;
  report.ranks[0].restored_bytes = 3 << 20;
  report.ranks[0].events.push_back(tier_level("pinned host", 1000000000, 1 << 19));
  report.ranks[0].events.push_back(tier_level("spill file", 1002000000, 1 << 22));
  report.ranks[0].events.push_back(tier_level("spill file", 1003000000, 0));
  report.ranks[1].events[0].track = "comm";
  report.ranks[1].events[0].name = "fetch (0, 0)[1] from rank 0";
  const std::string path = ::testing::TempDir() + "tiers.html";
  write_report(path, report);
  const std::string html = contents(path);
  expect_self_contained(html);
  expect_balanced(html);
  for (const char* part : {"pinned host, at most 512 KiB", "spill file, at most 4.00 MiB", "budget 1.00 MiB",
                           "Measured ceiling", "37.3 GiB/s", "Communication matrix", "Brought back", "3.00 MiB"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(WriteReport, HasEverythingInOneFile) {
  const std::string path = ::testing::TempDir() + "report.html";
  write_report(path, full_report(60));
  const std::string html = contents(path);
  expect_self_contained(html);
  expect_balanced(html);
  for (const char* part :
       {"quarry pca market.h5:/returns", "--memory 256MiB", "stage 1  syrk", "Explained variance", "largest angle",
        "failed", "budget 256 MiB", "12.3 s", "Slowest tasks", "Communication", "direct", "Rank 1", "node1"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(WriteReport, APartMayBeOfSeveralRanks) {
  RunReport report = full_report(30);
  report.ranks[1].ranks = 27;
  const std::string path = ::testing::TempDir() + "several.html";
  write_report(path, report);
  const std::string html = contents(path);
  EXPECT_THAT(html, HasSubstr("28 ranks"));
  EXPECT_THAT(html, HasSubstr("Rank 1-27"));
  EXPECT_THAT(summary(report), HasSubstr(" on 28 ranks"));
}

TEST(WriteReport, NamesAreEscaped) {
  RunReport report = full_report(2);
  const std::string evil = "<script>alert('x')</script>&\"\xff\x01";
  report.title = report.command = report.plan = report.banner = evil;
  report.facts = {{evil, evil}};
  report.results = {Text{evil, evil}, Table{evil, {evil}, {{evil}}}, Checks{evil, {{evil, evil, evil, true}}},
                    BarChart{evil, evil, evil, {1}}};
  for (RankTrace& rank : report.ranks) {
    rank.host = rank.device = evil;
    for (local::TraceEvent& event : rank.events) event.name = event.detail = evil;
    rank.events[0].track = "\"><script>";
  }
  const std::string path = ::testing::TempDir() + "escaped.html";
  write_report(path, report);
  const std::string html = contents(path);
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, Not(HasSubstr("\"><script>\"")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"));
  expect_balanced(html);
}

TEST(WriteReport, ManyEventsAreDrawnTogether) {
  const std::string path = ::testing::TempDir() + "many.html";
  write_report(path, full_report(30000));
  const std::string html = contents(path);
  EXPECT_LT(html.size(), size_t{6} << 20);
  EXPECT_THAT(html, HasSubstr(" events from "));
  expect_self_contained(html);
}

TEST(WriteReport, NothingRan) {
  RunReport report;
  report.results = {BarChart{"no values", "x", "y", {}, true}, BarChart{"negative", "x", "y", {-1, 0, 2}, false},
                    BarChart{"not finite", "x", "y", {std::numeric_limits<double>::quiet_NaN(), 1}, true}};
  report.ranks.emplace_back();
  const std::string path = ::testing::TempDir() + "nothing.html";
  write_report(path, report);
  expect_balanced(contents(path));
  EXPECT_THAT(contents(path), Not(HasSubstr("nan\"")));
  EXPECT_THROW(write_report("/does/not/exist/report.html", report), local::IoError);
}

TEST(Format, BytesAndSeconds) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(int64_t{256} << 20), "256 MiB");
  EXPECT_EQ(format_bytes(int64_t{5} << 40), "5.00 TiB");
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
  EXPECT_EQ(format_seconds(125), "2 min 5 s");
  EXPECT_EQ(format_seconds(7322), "2 h 2 min");
}

}  // namespace
}  // namespace quarry::report
