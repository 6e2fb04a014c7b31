// A rank that leaves the job while others still communicate with it: they get an error that names it, and the program
// ends everywhere, in seconds and without the launcher's help.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "quarry/comm/communicator.h"
#include "quarry/comm/world/world.h"

int main(int argc, char** argv) {
  using namespace quarry;
  auto job = comm::world(&argc, &argv);
  const int leaver = job->size() - 1;
  if (job->rank() == leaver) {
    job->barrier();
    job.reset();
    return 0;
  }
  job->barrier();
  const auto begin = std::chrono::steady_clock::now();
  // The collective call may name another rank that has had its error and left since.
  const auto expect_error = [&](const char* what, auto call, const std::string& named) {
    try {
      call();
    } catch (const local::CommError& error) {
      if (std::string(error.what()).find(named + " has left the job") != std::string::npos) return true;
      fmt::print(stderr, "{}: {}\n", what, error.what());
      return false;
    }
    fmt::print(stderr, "{}: no error\n", what);
    return false;
  };
  const std::string name = fmt::format("rank {}", leaver);
  char byte = 0;
  bool good = expect_error(
      "receive", [&] { job->receive(&byte, 1, leaver, 1)->wait(); }, name);
  good &= expect_error(
      "send", [&] { job->send(&byte, 1, leaver, 1); }, name);
  good &= expect_error(
      "post", [&] { job->post(leaver, {}); }, name);
  good &= expect_error(
      "barrier", [&] { job->barrier(); }, "");
  job.reset();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  constexpr double kMostSeconds = 30;
  if (seconds > kMostSeconds) fmt::print(stderr, "took {} s\n", seconds);
  return good && seconds <= kMostSeconds ? 0 : 1;
}
