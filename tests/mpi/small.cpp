// What a small computation through the planner takes: sum(x * 2 + 1) of a kept array of 4 chunks, from the call to the
// value on the host; and a step of a loop, of MINRES for a matrix of one chunk and of 4 x 4, in which tasks
// have next to nothing to do: in all, and for each of the plans that it runs what is left beside the tasks of the rank
// that has most.
// Prints the least and the median of groups; fails where even the fastest group is far above the goal (150 us on one
// rank, 300 us on four), on a machine with a core for each rank.
//
// usage: mpi_small [GROUPS]
#include <fmt/format.h>
#include <quarry/comm/communicator.h>
#include <quarry/local/base/trace.h>
#include <quarry/quarry.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <span>
#include <thread>
#include <vector>

namespace qy = quarry;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCalls = 40;        // of a group
constexpr double kGoalOne = 150;  // us
constexpr double kGoalFour = 300;
constexpr double kFar = 3;  // times the goal: other work on the machine

struct Steps {
  std::vector<double> us;  // of a step in each of the groups, ascending
  double plans = 0;        // that a step runs
  double tasks_us = 0;     // of a step, on the rank that has most
};
// For n x n chunks.
Steps steps(qy::Runtime& runtime, int64_t n, int groups) {
  const qy::Array a = (qy::eye(64) * qy::arange(1.0, 65.0)).rechunk({64 / n, 64 / n}).persist();
  const qy::Array b = qy::arange(64.0).rechunk({64 / n}).persist();
  const auto group = [&] {
    // As many steps as are asked for: nothing is near enough.
    const int64_t made = qy::sparse::linalg::minres(a, b, {.rtol = 0, .maxiter = kCalls}).info;
    if (made != kCalls) throw qy::local::InternalError(fmt::format("{} steps instead of {}", made, kCalls));
  };
  Steps found;
  for (int g = 0; g <= groups; ++g) {
    const auto begin = Clock::now();
    group();
    if (g > 0) found.us.push_back(std::chrono::duration<double>(Clock::now() - begin).count() * 1e6 / kCalls);
  }
  std::ranges::sort(found.us);
  qy::local::start_tracing();
  group();
  for (const qy::local::TraceEvent& event : qy::local::stop_tracing()) {
    if (event.track == "plan") found.plans += event.name == "run" ? 1. / kCalls : 0;
    if (event.track == "compute") found.tasks_us += static_cast<double>(busy_ns(event)) * 1e-3 / kCalls;
  }
  runtime.communicator().all_reduce(std::span(&found.tasks_us, 1), qy::comm::ReduceOp::max);
  return found;
}

int measure(int argc, char** argv) {
  qy::RuntimeOptions options;
  options.device = qy::local::DeviceKind::cpu;
  options.memory = "64MiB";
  options.threads = 1;
  options.chunks = qy::Dims{250};
  qy::Runtime runtime(argc, argv, options);
  const int groups = argc > 1 ? std::atoi(argv[1]) : 15;
  const qy::Array x = qy::arange(1000.0).persist();
  const auto call = [&x] { return qy::sum(x * 2 + 1).to_host(); };
  call();
  std::vector<double> us;
  for (int g = 0; g < groups; ++g) {
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    us.push_back(std::chrono::duration<double>(Clock::now() - begin).count() * 1e6 / kCalls);
  }
  std::ranges::sort(us);
  const Steps one = steps(runtime, 1, groups), sixteen = steps(runtime, 4, groups);
  if (runtime.rank() != 0) return 0;
  for (const auto& [chunks, of] : {std::pair(1, &one), std::pair(16, &sixteen)})
    fmt::print(
        "{} ranks: {:.0f} us a step of {} chunks (median {:.0f}), of {:.1f} plans and tasks of {:.1f} us: {:.0f} us a "
        "plan "
        "beside them\n",
        runtime.size(), of->us.front(), chunks, of->us[of->us.size() / 2], of->plans, of->tasks_us,
        (of->us.front() - of->tasks_us) / of->plans);
  const double goal = runtime.size() == 1 ? kGoalOne : kGoalFour;
  fmt::print("{} ranks: {:.0f} us a computation (median {:.0f}), goal {:.0f}\n", runtime.size(), us.front(),
             us[us.size() / 2], goal);
  const bool has_cores = std::thread::hardware_concurrency() >= static_cast<unsigned>(runtime.size());
  return has_cores && us.front() > kFar * goal ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return measure(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
