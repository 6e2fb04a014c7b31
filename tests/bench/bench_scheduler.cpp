// What tasks cost: rates of empty ones, the smallest task that is worth its scheduling (METG of Task Bench), memory per
// task, and chunks on a device. One JSON object a line; scripts/bench/scheduler prints the table.
//   bench_scheduler [--device cpu|cuda|emulated] [--threads N] [--streams N] [--quick] [--tasks N]
//                   [empty|metg|memory|ranks|chunks|64KiB|4MiB|64MiB|spilling|streaming ...]     (the last five: of
//                   chunks)
// `ranks` is the METG of a job's ranks, which mpirun starts.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

#include "quarry/scheduler/executor.h"
#include "scheduler_patterns.h"
#include "scheduler_rows.h"

namespace quarry::bench {

using namespace scheduler;

void report(const nlohmann::json& row) {
  fmt::print("{}\n", row.dump());
  std::fflush(stdout);
}

bool wanted(const SchedulerOptions& options, const std::string& row) {
  return options.rows.empty() || std::ranges::count(options.rows, row) > 0;
}

namespace {

void build(Graph& graph, const Shape& shape, int64_t burn_steps) {
  const int32_t body = graph.add_body(std::make_unique<Burn>(burn_steps));
  std::vector<BlockId> before(static_cast<size_t>(shape.width)), now(before);
  std::array<int64_t, 3> points{};
  for (int64_t t = 0; t < shape.steps; ++t) {
    for (int64_t i = 0; i < shape.points(t); ++i) {
      std::array<BlockId, 3> inputs{};
      const int count = inputs_of(shape.pattern, t, i, shape.width, points);
      for (size_t k = 0; k < static_cast<size_t>(count); ++k) inputs[k] = before[static_cast<size_t>(points[k])];
      TaskDecl decl;
      decl.body = body;
      decl.position = decl.index = graph.task_count();
      decl.inputs = std::span(inputs).first(static_cast<size_t>(count));
      if (shape.pattern != Pattern::trivial) {
        now[static_cast<size_t>(i)] = graph.add_block(16);
        decl.outputs = std::span(now).subspan(static_cast<size_t>(i), 1);
      }
      graph.add_task(decl);
    }
    std::swap(before, now);
  }
}

std::unique_ptr<Executor> make_executor(const SchedulerOptions& options, int threads) {
  ExecutorConfig config;
  config.device = options.device;
  config.memory_bytes = 64 << 20;
  config.host_bytes = options.device.kind == local::DeviceKind::cpu ? 0 : 64 << 20;
  config.spill_dir = "/tmp";
  config.compute_threads = threads;
  return Executor::create(config);
}

double run_seconds(Executor& executor, const Shape& shape, int64_t burn_steps) {
  Graph graph;
  build(graph, shape, burn_steps);
  return seconds_of([&] { executor.run(graph); });
}

void empty_rows(const SchedulerOptions& options) {
  const int64_t width = 64, steps = options.quick ? 500 : 10000;
  for (const int threads : {1, options.threads}) {
    for (const Pattern pattern : kPatterns) {
      const auto executor = make_executor(options, threads);
      const Shape shape{pattern, width, steps};
      run_seconds(*executor, {pattern, width, 100}, 0);
      std::vector<double> times;
      for (int i = 0; i < (options.quick ? 1 : 5); ++i) times.push_back(run_seconds(*executor, shape, 0));
      std::ranges::sort(times);
      const double seconds = times[times.size() / 2] / static_cast<double>(shape.tasks());
      report({{"name", fmt::format("empty tasks, {}, {} thread{}", name(pattern), threads, threads == 1 ? "" : "s")},
              {"seconds_per_task", seconds},
              {"per_second_and_core", 1 / seconds / threads},
              {"threads", threads}});
    }
    if (options.threads == 1) return;
  }
}

// The share of the threads' time that tasks of `burn_steps` get: the best of a few runs.
double efficiency(const SchedulerOptions& options, Executor& executor, Pattern pattern, int64_t width,
                  double task_seconds, int64_t burn_steps) {
  const double total = options.quick ? 0.005 : 0.05;  // of all threads
  const auto steps = static_cast<int64_t>(total / task_seconds / static_cast<double>(width));
  const Shape shape{pattern, width, std::max<int64_t>(steps, 20)};
  double best = 0;
  for (int i = 0; i < (options.quick ? 1 : 5); ++i) {
    const double seconds = run_seconds(executor, shape, burn_steps);
    best = std::max(best, static_cast<double>(shape.tasks()) * task_seconds / options.threads / seconds);
  }
  return best;
}

void metg_rows(const SchedulerOptions& options) {
  const auto executor = make_executor(options, options.threads);
  for (const int64_t width : {int64_t{8} * options.threads, int64_t{1} * options.threads}) {
    for (const Pattern pattern : kPatterns) {
      const Metg found = smallest_worthwhile(256e-6, 0.125e-6, [&](double seconds, int64_t burn_steps) {
        return efficiency(options, *executor, pattern, width, seconds, burn_steps);
      });
      report({{"name", fmt::format("METG {}, {} threads, width {}", name(pattern), options.threads, width)},
              {"metg_seconds", found.seconds},
              {"width", width},
              {"threads", options.threads},
              {"curve", found.curve}});
    }
  }
}

// Largest resident set of this process: run it alone.
void memory_row(const SchedulerOptions& options) {
  const Shape shape{Pattern::stencil, 1000, std::max<int64_t>(options.tasks / 1000, 1)};
  const auto executor = make_executor(options, options.threads);
  Graph graph;
  const double building = seconds_of([&] { build(graph, shape, 0); });
  const double running = seconds_of([&] { executor->run(graph); });
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  report({{"name", "stencil of many tasks on one rank"},
          {"tasks", shape.tasks()},
          {"peak_resident_bytes", usage.ru_maxrss * 1024},
          {"build_seconds", building},
          {"run_seconds", running}});
}

int run(int argc, char** argv) {
  SchedulerOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (word == "--device") {
      const auto kind = local::parse_device_kind(value());
      if (!kind) return 2;
      options.device = {*kind, 0};
    } else if (word == "--threads") {
      options.threads = std::max(1, std::atoi(value().c_str()));
    } else if (word == "--streams") {
      options.streams = std::max(1, std::atoi(value().c_str()));
    } else if (word == "--tasks") {
      options.tasks = std::atoll(value().c_str());
    } else if (word == "--quick") {
      options.quick = true;
    } else {
      options.rows.push_back(word);
    }
  }
  const bool cpu = options.device.kind == local::DeviceKind::cpu;
  if (std::ranges::count(options.rows, "ranks") > 0) {
    rank_rows(options, argc, argv);
    return 0;
  }
  if (wanted(options, "empty")) empty_rows(options);
  if (cpu && wanted(options, "metg")) metg_rows(options);
  if (cpu && std::ranges::count(options.rows, "memory") > 0) memory_row(options);
  const auto of_chunks = [&](const char* row) { return wanted(options, row); };
  if (std::ranges::any_of(kChunkRows, of_chunks) || wanted(options, "chunks")) chunk_rows(options);
  return 0;
}

}  // namespace
}  // namespace quarry::bench

int main(int argc, char** argv) {
  try {
    return quarry::bench::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_scheduler: {}\n", e.what());
    return 1;
  }
}
