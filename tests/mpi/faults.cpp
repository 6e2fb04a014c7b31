// A program on quarry's public interface of which one rank leaves, dies, stops, or calls another function than the
// others, as the command line says. Every rank prints what it met. tests/cli/faults_test.py and scripts/faults run it.
//
// usage: mpi_faults HOW RANK OTHERS [ROUNDS [DELAY_US]]
//   HOW     what rank RANK does where the others do OTHERS: "throw" leaves by an exception that passes the Runtime,
//           "inside" by one that is caught within its scope, "return" from main, "exit" by exit(), "kill" and "stop" by
//           a signal, "compute" and "sleep" never come back; or the name of a call. "signals": every rank prints which
//           signals have a handler. "task": nothing else than the others; a task of it goes wrong, as QUARRY_FAULT_TASK
//           says
//   OTHERS  a call
//   ROUNDS  how often all ranks do OTHERS together before that (2)
//   DELAY_US  after how many microseconds of the last round the signals come (0: before it)
#include <dlfcn.h>
#include <quarry/chunked/grid/chunking.h>
#include <quarry/quarry.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

namespace qy = quarry;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWrongDate = 3;  // status of exit() and of an early return

struct World {
  qy::Runtime& runtime;
  qy::Array x;       // lazy
  qy::Array kept;    // persisted
  std::string file;  // in the working directory
};

using Call = std::function<void(World&)>;

const std::map<std::string, Call>& calls() {
  // Never destroyed: a thread that ends the process by exit() has another one behind it that goes on calling.
  static const auto& table = *new std::map<std::string, Call>{
      {"sum", [](World& w) { qy::sum(w.x).to_host(); }},
      {"mean", [](World& w) { qy::mean(w.x).to_host(); }},
      {"product", [](World& w) { qy::sum(qy::matmul(w.x.T(), w.x)).to_host(); }},
      // By panels that all ranks read, and pass on where they are more than a few.
      {"factor",
       [](World& w) {
         const qy::ChunkPolicyScope small({qy::local::DeviceKind::cpu, {}, /*target_bytes=*/65536});
         qy::linalg::qr(w.kept, qy::local::linalg::r_only).to_host();
       }},
      {"persist", [](World& w) { qy::sum(w.x, 0).persist(); }},
      {"rechunk",
       [](World& w) {
         w.kept.rechunk(qy::Dims{-1, 7}).persist();
       }},
      {"to_host", [](World& w) { w.kept.to_host(); }},
      {"store", [](World& w) { (w.x + 1).to_hdf5(w.file, "result"); }},
      {"write", [](World& w) { qy::to_hdf5(w.file, "result", w.x + 1, {.overwrite = true}); }},
      // So many chunks that every rank writes a part of their index.
      {"index",
       [](World& w) {
         const qy::StoreOptions options{
             .overwrite = true, .chunks = qy::Dims{5, 5}, .filters = {{qy::io::Filter::Kind::deflate, 1, "deflate"}}};
         qy::to_hdf5(w.file, "result", w.x + 1, options);
       }},
      {"read", [](World& /*w*/) { qy::sum(qy::open_hdf5("faults_input.h5", "x") + 1).to_host(); }},
      {"open", [](World& /*w*/) { qy::open_hdf5("faults_input.h5", "x"); }},
      {"quantile", [](World& w) { qy::quantile(w.x, 0.3).to_host(); }},
      {"unique", [](World& w) { qy::unique(qy::floor(w.x * 10)); }},
      {"statistics", [](World& w) { w.runtime.total_statistics(); }},
      {"rng", [](World& /*w*/) { qy::random::default_rng(); }},
      {"explain", [](World& w) { qy::explain(qy::sum(w.x)); }},
      {"runtime",
       [](World& /*w*/) {
         qy::RuntimeOptions options;
         options.memory = "64MiB";
         const qy::Runtime second(options);
       }},
      {"nothing", [](World& /*w*/) {}},
  };
  return table;
}

[[noreturn]] void found_wrong_date(int rank) {
  throw std::runtime_error("rank " + std::to_string(rank) + " found a wrong date");
}

Clock::time_point failed_at;

int work(int argc, char** argv) {
  const std::string how = argv[1], others = argv[3];
  const int failing = std::atoi(argv[2]);
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 2;
  const auto delay = std::chrono::microseconds(argc > 5 ? std::atoi(argv[5]) : 0);
  qy::RuntimeOptions options;
  options.memory = "64MiB";
  options.threads = 1;
  options.chunks = qy::Dims{50, -1};
  qy::Runtime runtime(argc, argv, options);
  failed_at = Clock::now();
  const qy::Array x = qy::random::normal({400, 300});
  World world{runtime, x, x.persist(), "faults_" + std::to_string(failing) + ".h5"};
  const Call& call = calls().at(others);
  const auto fail_now = [&] {
    failed_at = Clock::now();
    if (how == "throw" || how == "inside") found_wrong_date(failing);
    if (how == "exit") std::exit(kWrongDate);
    if (how == "compute") {
      for (std::atomic<int64_t> turns{0};;) ++turns;
    }
    if (how == "sleep") {
      for (;;) pause();
    }
    if (how == "kill") kill(getpid(), SIGKILL);
    if (how == "stop") kill(getpid(), SIGSTOP);
  };
  for (int i = 0; i < rounds; ++i) {
    failed_at = Clock::now();  // perhaps by a task
    call(world);
  }
  failed_at = Clock::now();
  if (how == "signals") {
    for (const int number : {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV}) {
      struct sigaction action {};
      sigaction(number, nullptr, &action);
      Dl_info where{};  // Open MPI's own ones are its affair
      if (dladdr(reinterpret_cast<void*>(action.sa_handler), &where) == 0) continue;
      if (std::strstr(where.dli_fname, "libucs") != nullptr) std::fprintf(stderr, "handler of signal %d\n", number);
    }
    return 0;
  }
  const bool mine = runtime.rank() == failing;
  if (mine && how == "return") return kWrongDate;
  if (mine && calls().contains(how)) {
    calls().at(how)(world);
    return 0;
  }
  if (mine && delay.count() == 0) {
    try {
      fail_now();
    } catch (const std::exception&) {
      if (how == "throw") throw;
      return kWrongDate;
    }
  }
  std::jthread timer;
  if (mine) {
    timer = std::jthread([&] {
      std::this_thread::sleep_for(delay);
      fail_now();
    });
  }
  for (;;) {
    if (how == "task") failed_at = Clock::now();
    call(world);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* name = std::getenv("OMPI_COMM_WORLD_RANK");
  const std::string rank = name != nullptr ? name : "0";
  const auto met = [&](const char* type, const char* what) {
    const double seconds = std::chrono::duration<double>(Clock::now() - failed_at).count();
    std::fprintf(stderr, "rank %s met %s after %.3f s: %s\n", rank.c_str(), type, seconds, what);
    return 1;
  };
  try {
    const int status = work(argc, argv);
    std::fprintf(stderr, "rank %s ended with %d\n", rank.c_str(), status);
    return status;
  } catch (const qy::local::CommError& error) {
    return met("CommError", error.what());
  } catch (const qy::local::IoError& error) {
    return met("IoError", error.what());
  } catch (const qy::local::OutOfMemory& error) {
    return met("OutOfMemory", error.what());
  } catch (const qy::local::Cancelled& error) {
    return met("Cancelled", error.what());
  } catch (const qy::local::Error& error) {
    return met("Error", error.what());
  } catch (const std::exception& error) {
    return met("exception", error.what());
  }
}
