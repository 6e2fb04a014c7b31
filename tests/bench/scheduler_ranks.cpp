// The smallest task that is worth its scheduling where tasks read what other ranks' tasks made.
#include <fmt/format.h>

#include <map>
#include <vector>

#include "quarry/chunked/exec/service.h"
#include "quarry/comm/communicator.h"
#include "quarry/comm/world/world.h"
#include "quarry/scheduler/executor.h"
#include "scheduler_patterns.h"
#include "scheduler_rows.h"

namespace quarry::bench {

using namespace scheduler;

namespace {

constexpr int64_t kBlockBytes = 16;

class Receive final : public TaskBody {
 public:
  struct Source {
    int owner;
    int64_t block;
  };
  std::string name(int64_t) const override { return "receive"; }
  void run(TaskRun& run) override {
    const Source& source = sources[static_cast<size_t>(run.index)];
    exec::fetch_output(*service, run, source.owner, {0, 0, source.block}, {{kBlockBytes}, {0}, {kBlockBytes}, 1});
  }

  exec::Service* service = nullptr;
  std::vector<Source> sources;
};

class Ranks {
 public:
  Ranks(const SchedulerOptions& options, comm::Communicator& job) : options_(options), job_(job) {
    ExecutorConfig config;
    config.device = local::kCpu;
    config.memory_bytes = 256 << 20;
    config.spill_dir = "/tmp";
    config.compute_threads = 1;
    executor_ = Executor::create(config);
  }

  void rows() {
    for (const int64_t each : {int64_t{8}, int64_t{1}}) {
      for (const Pattern pattern : kPatterns) {
        const int64_t width = each * static_cast<int64_t>(std::bit_ceil(static_cast<unsigned>(job_.size())));
        const Metg found = smallest_worthwhile(1e-3, 0.5e-6, [&](double seconds, int64_t burn_steps) {
          return efficiency(pattern, width, seconds, burn_steps);
        });
        if (job_.rank() == 0)
          report({{"name", fmt::format("METG {}, {} ranks, width {}", name(pattern), job_.size(), width)},
                  {"metg_seconds", found.seconds},
                  {"ranks", job_.size()},
                  {"width", width},
                  {"curve", found.curve}});
      }
    }
  }

 private:
  int owner(int64_t point, int64_t width) const { return static_cast<int>(point * job_.size() / width); }

  // This rank's share of the tasks: what it makes that others read is exposed, what it reads of others is received.
  double run_seconds(const Shape& shape, int64_t burn_steps) {
    const auto service = exec::Service::create(job_, *executor_, ++epoch_);
    Graph graph;
    const int32_t burn = graph.add_body(std::make_unique<Burn>(burn_steps));
    auto receive = std::make_unique<Receive>();
    receive->service = service.get();
    std::vector<Receive::Source>& sources = receive->sources;
    const int32_t receiving = graph.add_body(std::move(receive));
    std::map<int64_t, BlockId> before, now;  // by point, of this rank or received
    std::array<int64_t, 3> points{};
    int64_t position = 0;
    for (int64_t t = 0; t < shape.steps; ++t) {
      for (int64_t i = 0; i < shape.points(t); ++i, ++position) {
        if (owner(i, shape.width) != job_.rank()) continue;
        std::array<BlockId, 3> inputs{};
        const int count = inputs_of(shape.pattern, t, i, shape.width, points);
        for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
          const auto [place, is_new] = before.try_emplace(points[k], -1);
          if (is_new) {  // another rank's
            place->second = graph.add_block(kBlockBytes);
            TaskDecl decl;
            decl.kind = TaskKind::receive;
            decl.queue = QueueKind::comm;
            decl.body = receiving;
            decl.index = static_cast<int64_t>(sources.size());
            decl.position = position;
            decl.outputs = std::span(&place->second, 1);
            graph.add_task(decl);
            sources.push_back({owner(points[k], shape.width), (t - 1) * shape.width + points[k]});
          }
          inputs[k] = place->second;
        }
        TaskDecl decl;
        decl.body = burn;
        decl.index = decl.position = position;
        decl.inputs = std::span(inputs).first(static_cast<size_t>(count));
        BlockId made = -1;
        if (shape.pattern != Pattern::trivial) {
          const int32_t readers = remote_readers(shape, t, i);
          made = graph.add_block(kBlockBytes, readers);
          if (readers > 0) service->expose({0, 0, t * shape.width + i}, made);
          decl.outputs = std::span(&made, 1);
          now[i] = made;
        }
        graph.add_task(decl);
      }
      std::swap(before, now);
      now.clear();
    }
    job_.barrier();
    const double mine = seconds_of([&] { service->run(graph); });
    double slowest[1] = {mine};
    job_.all_reduce(std::span(slowest), comm::ReduceOp::max);
    return slowest[0];
  }

  // Other ranks whose points of the next step read point `i` of step `t`; each fetches it once.
  int32_t remote_readers(const Shape& shape, int64_t t, int64_t i) const {
    if (t + 1 == shape.steps) return 0;
    std::vector<bool> reads(static_cast<size_t>(job_.size()));
    std::array<int64_t, 3> points{};
    for (int64_t next = 0; next < shape.points(t + 1); ++next) {
      const int count = inputs_of(shape.pattern, t + 1, next, shape.width, points);
      if (std::find(points.begin(), points.begin() + count, i) != points.begin() + count)
        reads[static_cast<size_t>(owner(next, shape.width))] = true;
    }
    reads[static_cast<size_t>(job_.rank())] = false;
    return static_cast<int32_t>(std::ranges::count(reads, true));
  }

  double efficiency(Pattern pattern, int64_t width, double task_seconds, int64_t burn_steps) {
    const double total = options_.quick ? 0.03 : 0.1;  // of all ranks
    int64_t steps = std::clamp<int64_t>(std::llround(total / task_seconds / static_cast<double>(width)), 50, 5000);
    job_.broadcast(&steps, sizeof steps, /*root=*/0);  // each rank measures its own tasks' seconds
    const Shape shape{pattern, width, steps};
    double best = 0;
    for (int i = 0; i < (options_.quick ? 1 : 3); ++i) {
      const double seconds = run_seconds(shape, burn_steps);
      best = std::max(best, static_cast<double>(shape.tasks()) * task_seconds / job_.size() / seconds);
    }
    job_.broadcast(&best, sizeof best, /*root=*/0);
    return best;
  }

  const SchedulerOptions& options_;
  comm::Communicator& job_;
  std::unique_ptr<Executor> executor_;
  uint64_t epoch_ = 1000;
};

}  // namespace

void rank_rows(const SchedulerOptions& options, int argc, char** argv) {
  const auto job = comm::world(&argc, &argv);
  Ranks(options, *job).rows();
}

}  // namespace quarry::bench
