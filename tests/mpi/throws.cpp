// A program on quarry's public interface of which one rank fails alone, in the way that the command line says.
// tests/cli/exceptions_test.py runs it.
//
// usage: mpi_throws HOW OTHERS CATCHES RANK
//   HOW      what rank RANK does between two collective calls: "throws", or "returns" from main with status 3. Or what
//            every rank does: "alike", all throw; "progress", "progress_int": rank 0's callback throws during a run. Or
//            rank RANK starts MPI, and then is "absent"
//   OTHERS   what the other ranks do next: "compute" collectively, "sleep" for minutes, or "end"
//   CATCHES  who catches exceptions, outside the scope of the Runtime: "all", "none", or "one", rank RANK
#include <mpi.h>
#include <quarry/quarry.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

namespace qy = quarry;

namespace {

constexpr int kEarly = 3;

double compute() {
  const qy::Array x = qy::random::normal({400, 300});
  return qy::sum(qy::matmul(x.T(), x)).to_host().item<double>();
}

[[noreturn]] void fail(int rank) { throw std::runtime_error("rank " + std::to_string(rank) + " found a wrong date"); }

int work(int argc, char** argv) {
  const std::string how = argv[1], others = argv[2];
  const int failing = std::atoi(argv[4]);
  if (const char* rank = std::getenv("OMPI_COMM_WORLD_RANK"); how == "absent" && std::atoi(rank) == failing) {
    MPI_Init(&argc, &argv);
    std::this_thread::sleep_for(std::chrono::minutes(10));
  }
  qy::RuntimeOptions options;
  options.memory = "64MiB";
  options.threads = 1;
  options.chunks = qy::Dims{50, -1};
  qy::Runtime runtime(argc, argv, options);
  if (how.starts_with("progress")) {
    runtime.set_progress([&](const qy::Progress&) {
      if (how == "progress_int") throw 42;
      fail(0);
    });
  }
  const qy::Array kept = qy::random::normal({400, 300}).persist();
  compute();
  if (how == "alike") fail(runtime.rank());
  if (runtime.rank() == failing) {
    // The others wait for this one by then.
    if (others == "end") std::this_thread::sleep_for(std::chrono::milliseconds(500));
    if (how == "throws") fail(failing);
    if (how == "returns") return kEarly;
  }
  if (others == "sleep") std::this_thread::sleep_for(std::chrono::minutes(10));
  while (others == "compute") compute();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string catches = argv[3];
  if (catches == "none") return work(argc, argv);
  try {
    return work(argc, argv);
  } catch (const qy::local::CommError& error) {
    if (catches == "one") throw;
    std::fprintf(stderr, "caught of another rank: %s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caught: %s\n", error.what());
  }
  return 1;
}
