// Mutants of files by the hundred thousand, each used as `quarry info` and `quarry eval` use files, in workers with
// limits of memory and time. Whatever ends a worker is named by file and seed, and kept.
//
// usage: fuzz_mutants [--count N] [--first SEED] [--jobs N] [--largest BYTES] [--save FOLDER] FILE|FOLDER...
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>

#include "tests/fuzz/mutants.h"

namespace quarry::test {
namespace {

namespace fs = std::filesystem;

// Beyond what a worker has when it begins: the budget's scratch and data, and 64 MiB.
constexpr int64_t kMoreBytes = (64 + 24) << 20;
constexpr unsigned kSeconds = 10;  // of one mutant

struct Progress {
  std::atomic<uint64_t> next, seed, done, read, refused, ended;
  std::atomic<uint64_t> slowest_us, slowest_seed;
};

struct Arguments {
  uint64_t count = 10000, first = 0, jobs = 1, largest = 200000;
  std::string folder;
  std::vector<fs::path> files;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0; };
    if (word == "--count")
      out.count = number();
    else if (word == "--first")
      out.first = number();
    else if (word == "--jobs")
      out.jobs = number();
    else if (word == "--largest")
      out.largest = number();
    else if (word == "--save")
      out.folder = i + 1 < argc ? argv[++i] : "";
    else if (fs::is_directory(word))
      for (const auto& entry : fs::directory_iterator(word)) out.files.push_back(entry.path());
    else
      out.files.emplace_back(word);
  }
  std::ranges::sort(out.files);
  std::erase_if(out.files, [&](const fs::path& file) {
    return !fs::is_regular_file(file) || fs::file_size(file) == 0 || fs::file_size(file) > out.largest;
  });
  return out;
}

[[noreturn]] void work(const std::deque<Original>& files, Progress& progress, uint64_t last, const std::string& place) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::setenv("QUARRY_HDF5_SECONDS", "2", 0);
  ::setenv("QUARRY_HDF5_MEMORY", "64MiB", 0);
  if (!std::freopen("/dev/null", "w", stderr)) ::_exit(3);
  limit_memory(kMoreBytes);
  for (;;) {
    const uint64_t seed = progress.next++;
    if (seed >= last) ::_exit(0);
    progress.seed = seed;
    ::alarm(kSeconds);
    const auto begin = std::chrono::steady_clock::now();
    save(place, files[seed % files.size()].mutated(static_cast<unsigned>(seed)));
    const Use use = use_file(place);
    const auto us = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count());
    if (us > progress.slowest_us) {
      progress.slowest_us = us;
      progress.slowest_seed = seed;
    }
    progress.read += static_cast<uint64_t>(use.read);
    progress.refused += static_cast<uint64_t>(use.refused);
    progress.ended += static_cast<uint64_t>(use.ended);
    ++progress.done;
  }
}

int run(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  if (arguments.files.empty() || arguments.jobs == 0) {
    std::fputs("usage: fuzz_mutants [--count N] [--first SEED] [--jobs N] [--largest BYTES] [--save FOLDER] FILE...\n",
               stderr);
    return 2;
  }
  std::deque<Original> files;
  for (const fs::path& file : arguments.files) files.emplace_back(load(file.string()));
  // Each worker has seeds of its own, and a place for its mutant.
  const size_t bytes = arguments.jobs * sizeof(Progress);
  void* const shared = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  auto* const progress = new (shared) Progress[arguments.jobs]();
  std::vector<uint64_t> lasts;
  std::vector<pid_t> workers(arguments.jobs, -1);
  std::vector<std::string> places;
  const fs::path memory = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
  const auto start = [&](uint64_t i) {
    workers[i] = ::fork();
    if (workers[i] == 0) work(files, progress[i], lasts[i], places[i]);
  };
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < arguments.jobs; ++i) {
    progress[i].next = arguments.first + arguments.count * i / arguments.jobs;
    lasts.push_back(arguments.first + arguments.count * (i + 1) / arguments.jobs);
    places.push_back((memory / fmt::format("quarry_mutant_{}_{}.h5", ::getpid(), i)).string());
    start(i);
  }
  uint64_t deaths = 0;
  for (uint64_t left = arguments.jobs; left > 0;) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    const auto found = std::ranges::find(workers, ended);
    if (ended < 0 || found == workers.end()) continue;
    const auto i = static_cast<uint64_t>(found - workers.begin());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      --left;
      continue;
    }
    const uint64_t seed = progress[i].seed;
    const fs::path& file = arguments.files[seed % files.size()];
    ++deaths;
    fmt::print("seed {} of {}: {}\n", seed, file.string(),
               WIFSIGNALED(status) ? ::strsignal(WTERMSIG(status)) : fmt::format("status {}", WEXITSTATUS(status)));
    std::fflush(stdout);
    if (!arguments.folder.empty())
      save((fs::path(arguments.folder) / fmt::format("{}_{}.h5", file.stem().string(), seed)).string(),
           files[seed % files.size()].mutated(static_cast<unsigned>(seed)));
    start(i);
  }
  Progress sum{};
  for (uint64_t i = 0; i < arguments.jobs; ++i) {
    sum.done += progress[i].done;
    sum.read += progress[i].read;
    sum.refused += progress[i].refused;
    sum.ended += progress[i].ended;
    if (progress[i].slowest_us > sum.slowest_us) {
      sum.slowest_us = progress[i].slowest_us.load();
      sum.slowest_seed = progress[i].slowest_seed.load();
    }
    fs::remove(places[i]);
  }
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const double cpu = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  fmt::print(
      "{} mutants of {} files: {} workers died, the library's process ended {} times; {} data sets read, {} errors; "
      "{:.0f} s, {:.0f} mutants/s, {:.0f} s of CPU; the slowest took {:.1f} ms (seed {} of {})\n",
      sum.done.load() + deaths, files.size(), deaths, sum.ended.load(), sum.read.load(), sum.refused.load(),
      wall.count(), static_cast<double>(sum.done) / wall.count(), cpu, static_cast<double>(sum.slowest_us) / 1e3,
      sum.slowest_seed.load(), arguments.files[sum.slowest_seed % files.size()].filename().string());
  return deaths == 0 ? 0 : 1;
}

}  // namespace
}  // namespace quarry::test

int main(int argc, char** argv) { return quarry::test::run(argc, argv); }
