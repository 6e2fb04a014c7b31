// Times expressions over chunked arrays, as a co-process of scripts/bench/chunked: one request a line on standard
// input, its fields separated by tabs, one JSON object a line on standard output. Under mpirun rank 0 reads and
// answers.
//   open NAME FILE OBJECT           a lazy array over a data set
//   set NAME EXPR                   a lazy variable
//   keep NAME EXPR                  a variable that is computed and kept
//   value EXPR COUNT FILE           builds and computes EXPR so often, the values being wanted on the host:
//                                   {"seconds": [each]}; FILE is an HDF5 file for the last values, or empty
//   persist EXPR COUNT              the same, the results staying where they are computed
//   store EXPR COUNT FILE CHUNKS    the same, written as a new file; CHUNKS of the file: "1024,16", or empty
//   traced EXPR COUNT [persist]     as `value` or `persist`; {"events": of the last one on rank 0, [name, track, from,
//   to]
//                                   in us, "begin": ns of the steady clock}
//   number EXPR                     {"value": of one element, as float64}
//   build EXPR COUNT                builds EXPR so often and computes nothing
//   explain EXPR                    {"seconds": of planning, "text": the plan}
//   lower EXPR RANKS RANK TIMES     {"seconds": of lowering each, "tasks": of the rank, "all": of all} as that rank
//                                   of a job of so many, by the smallest tiles, without running any
//   peak                            {"bytes": that were resident at most}
//   moved                           {"read", "written", "spilled", "restored": bytes so far, of all ranks}
//   clear                           forgets all variables
// The options of the Runtime come from the environment (QUARRY_DEVICE, QUARRY_THREADS, QUARRY_MEMORY, ...).
// usage: bench_chunked < requests
#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/script.h"
#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/plan_owners.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/plan/passes.h"
#include "quarry/comm/communicator.h"
#include "quarry/local/base/trace.h"

namespace quarry {
namespace {

using apps::expression::Environment;
using apps::expression::Source;
using apps::expression::Value;
using nlohmann::json;
using Fields = std::vector<std::string>;

Fields fields_of(const std::string& line) {
  Fields fields;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find('\t', begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

class Bench {
 public:
  explicit Bench(Runtime& runtime) : runtime_(runtime) {}
  json answer(const Fields& fields);

 private:
  Value evaluated(const std::string& text) {
    const Source source{text, "", 0};
    return evaluate(source, *apps::expression::parse(source), environment_);
  }
  std::vector<StoreItem> items(const std::string& text) {
    std::vector<StoreItem> plain;
    for (const ma::FilledItem& filled : apps::store_items("/result", evaluated(text))) plain.push_back(filled.item);
    return plain;
  }
  // Seconds of each call, from when all ranks begin.
  json times(const std::string& count, const std::function<void()>& call) {
    std::vector<double> seconds;
    for (int i = 0; i < std::stoi(count); ++i) {
      runtime_.communicator().barrier();
      const auto begin = std::chrono::steady_clock::now();
      call();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return {{"seconds", seconds}};
  }
  json value(const Fields& fields);
  json traced(const Fields& fields);
  json lowered(const Fields& fields);

  Runtime& runtime_;
  Environment environment_;
};

std::vector<Array> arrays_of(const std::vector<StoreItem>& items) {
  std::vector<Array> arrays;
  arrays.reserve(items.size());
  for (const StoreItem& item : items) arrays.push_back(item.array);
  return arrays;
}

json Bench::value(const Fields& fields) {
  std::vector<StoreItem> last;
  std::vector<NdArray> values;
  json found = times(fields.at(2), [&] {
    last = items(fields[1]);
    values = to_host(arrays_of(last));
  });
  if (fields.at(3).empty()) return found;
  for (size_t i = 0; i < last.size(); ++i) last[i].array = Array::from_local(values[i]);
  store(fields[3], last, {.overwrite = true});
  return found;
}

json Bench::traced(const Fields& fields) {
  std::vector<local::TraceEvent> events;
  int64_t begin = 0, end = 0;
  times(fields.at(2), [&] {
    local::start_tracing();
    begin = local::trace_clock_ns();
    if (fields.size() > 3) {
      persist(arrays_of(items(fields[1])));
    } else {
      to_host(arrays_of(items(fields[1])));
    }
    end = local::trace_clock_ns();
    events = local::stop_tracing();
  });
  constexpr double kMicrosecond = 1e3;
  const auto since = [&](int64_t ns) { return static_cast<double>(ns - begin) / kMicrosecond; };
  json rows = json::array({{"call", "", 0., since(end)}});
  for (const local::TraceEvent& event : events)
    rows.push_back({event.name, event.track, since(event.begin_ns), since(event.end_ns)});
  return {{"events", rows}, {"begin", begin}};
}

json Bench::lowered(const Fields& fields) {
  constexpr int64_t kTileBytes = 512;
  const ChunkPolicyScope smallest({local::DeviceKind::cpu, {}, kTileBytes});
  std::vector<expr::NodePtr> nodes;
  for (const Array& array : arrays_of(items(fields.at(1)))) nodes.push_back(array.node());
  plan::Plan plan = plan::make_plan(nodes, {});
  const auto tasks_of = [](const plan::Plan& of, int rank, const Ownership& owners) {
    std::vector<exec::Sink> sinks(of.results.size());
    for (size_t i = 0; i < sinks.size(); ++i) sinks[i].array = of.results[i];
    exec::LoweringContext context;
    context.rank = rank;
    context.owners = owners;
    return exec::lower(of, sinks, context)->graph.task_count();
  };
  plan::Plan alone = plan;
  const Ownership one(1), owners(std::stoi(fields.at(2)));
  exec::settle_owners(alone, one);
  exec::settle_owners(plan, owners);
  int64_t tasks = 0;
  json found = times(fields.at(4), [&] { tasks = tasks_of(plan, std::stoi(fields.at(3)), owners); });
  found["tasks"] = tasks;
  found["all"] = tasks_of(alone, /*rank=*/0, one);
  return found;
}

json Bench::answer(const Fields& fields) {
  const std::string& request = fields[0];
  if (request == "open") {
    environment_.variables.insert_or_assign(fields.at(1), open_hdf5(fields.at(2), fields.at(3)));
  } else if (request == "set") {
    environment_.variables.insert_or_assign(fields.at(1), evaluated(fields.at(2)));
  } else if (request == "keep") {
    environment_.variables.insert_or_assign(fields.at(1), items(fields.at(2)).at(0).array.persist());
  } else if (request == "value") {
    return value(fields);
  } else if (request == "traced") {
    return traced(fields);
  } else if (request == "persist") {
    return times(fields.at(2), [&] { persist(arrays_of(items(fields[1]))); });
  } else if (request == "store") {
    StoreOptions options{.overwrite = true};
    if (!fields.at(4).empty()) {
      Dims chunks;
      std::istringstream words(fields[4]);
      for (std::string extent; std::getline(words, extent, ',');) chunks.push_back(std::stoll(extent));
      options.chunks = chunks;
    }
    return times(fields.at(2), [&] { store(fields[3], items(fields[1]), options); });
  } else if (request == "number") {
    return {{"value", items(fields.at(1)).at(0).array.astype(DType::float64).item<double>()}};
  } else if (request == "build") {
    return times(fields.at(2), [&] { items(fields[1]); });
  } else if (request == "explain") {
    const std::vector<Array> arrays = arrays_of(items(fields.at(1)));
    std::string text;
    json found = times("1", [&] { text = explain(arrays); });
    return {{"seconds", found["seconds"][0]}, {"text", text}};
  } else if (request == "lower") {
    return lowered(fields);
  } else if (request == "peak") {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    constexpr int64_t kKibibyte = 1024;
    return {{"bytes", usage.ru_maxrss * kKibibyte}};
  } else if (request == "moved") {
    const RunStatistics so_far = runtime_.total_statistics();
    return {{"read", so_far.read_bytes},
            {"written", so_far.written_bytes},
            {"spilled", so_far.spilled_bytes},
            {"restored", so_far.restored_bytes}};
  } else if (request == "clear") {
    environment_.variables.clear();
  } else {
    throw local::InvalidArgument("no request '" + request + "'");
  }
  return json::object();
}

int run(int argc, char** argv) {
  Runtime runtime(argc, argv);
  Bench bench(runtime);
  const bool root = runtime.rank() == 0;
  // Of an ended input an empty line, which is no request.
  for (std::string line;; line.clear()) {
    if (root) std::getline(std::cin, line);
    line = runtime.communicator().broadcast_string(line, /*root=*/0);
    if (line.empty()) return 0;
    json reply;
    try {
      reply = bench.answer(fields_of(line));
    } catch (const std::exception& error) {
      const std::string text = error.what();
      reply = {{"error", text.substr(0, text.find('\n'))}};
    }
    if (root) std::cout << reply.dump() << std::endl;
  }
}

}  // namespace
}  // namespace quarry

int main(int argc, char** argv) {
  try {
    return quarry::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "bench_chunked: " << error.what() << "\n";
    return 1;
  }
}
