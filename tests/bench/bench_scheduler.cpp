// What a task costs: graphs of empty tasks, timed per task.
//   bench_scheduler [TASKS]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "scheduler/executor.h"

namespace {

using namespace quarry;
using namespace quarry::scheduler;

class Empty final : public TaskBody {
 public:
  std::string name(int64_t) const override { return "empty"; }
  void run(TaskRun&) override {}
};

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

enum class Shape { independent, chains, lanes };

// chains: 64 chains side by side, each task reads the block before it. lanes: read, compute, write per chunk.
void build(Graph& graph, Shape shape, int64_t tasks) {
  const int32_t body = graph.add_body(std::make_unique<Empty>());
  const auto add = [&](LaneKind lane, std::span<const BlockId> inputs, std::span<const BlockId> outputs) {
    TaskDecl decl;
    decl.body = body;
    decl.lane = lane;
    decl.position = decl.index = graph.task_count();
    decl.inputs = inputs;
    decl.outputs = outputs;
    graph.add_task(decl);
  };
  switch (shape) {
    case Shape::independent:
      for (int64_t t = 0; t < tasks; ++t) add(LaneKind::compute, {}, {});
      return;
    case Shape::chains: {
      BlockId last[64] = {};
      for (int64_t t = 0; t < tasks; ++t) {
        BlockId& before = last[t % 64];
        const BlockId out = graph.add_block(256);
        add(LaneKind::compute, {&before, t < 64 ? 0u : 1u}, {&out, 1});
        before = out;
      }
      return;
    }
    case Shape::lanes:
      for (int64_t t = 0; t < tasks; t += 3) {
        const BlockId in = graph.add_block(4096), out = graph.add_block(4096);
        add(LaneKind::io, {}, {&in, 1});
        add(LaneKind::compute, {&in, 1}, {&out, 1});
        add(LaneKind::io, {&out, 1}, {});
      }
      return;
  }
}

void measure(const char* name, Shape shape, int64_t tasks, int threads) {
  const int64_t before = resident_bytes();
  Graph graph;
  build(graph, shape, tasks);
  const int64_t graph_bytes = resident_bytes() - before;
  ExecutorConfig config;
  config.memory_bytes = 64 << 20;
  config.spill_dir = "/tmp";
  config.compute_threads = threads;
  const auto executor = Executor::create(config);
  const auto begin = std::chrono::steady_clock::now();
  executor->run(graph);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto n = static_cast<double>(graph.task_count());
  fmt::print("{:12} {} compute threads  {:9} tasks  {:6.2f} us/task  {:5.0f} bytes/task in the graph\n", name, threads,
             graph.task_count(), seconds / n * 1e6, static_cast<double>(graph_bytes) / n);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t tasks = argc > 1 ? std::atoll(argv[1]) : 1000000;
  for (const int threads : {1, 2}) {
    measure("independent", Shape::independent, tasks, threads);
    measure("chains", Shape::chains, tasks, threads);
    measure("lanes", Shape::lanes, tasks, threads);
  }
}
