// A file of rows, several times the memory budget, becomes a file of columns by Array::rechunk; and, in turn with it,
// threads that do nothing but pread and pwrite as many bytes as that read, spilled, restored and wrote.
// usage: bench_rechunk FOLDER MEBIBYTES TIMES_THE_BUDGET THREADS   prints a JSON object
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"

namespace {

using namespace quarry;

constexpr int kRepeats = 3;

// Of the clock, and of all threads on processors: what others on the machine do changes the first more.
struct Seconds {
  double clock = 0, processor = 0;
};

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Seconds seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  const double before = processor_seconds();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          processor_seconds() - before};
}

// Moves `bytes` between a file and the threads' own buffers, which are as large as a chunk of the result.
void move(const std::string& path, int64_t bytes, int64_t block, int threads, bool write) {
  const int file = open(path.c_str(), write ? O_WRONLY | O_CREAT | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0644);
  if (file < 0) throw std::runtime_error("cannot open " + path);
  std::vector<std::thread> pool;
  std::vector<int> failures(static_cast<size_t>(threads), 0);
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      std::vector<char> buffer(static_cast<size_t>(block), 1);
      for (int64_t at = bytes / threads * t, end = t + 1 == threads ? bytes : bytes / threads * (t + 1); at < end;) {
        const auto part = static_cast<size_t>(std::min(block, end - at));
        const ssize_t moved = write ? pwrite(file, buffer.data(), part, at) : pread(file, buffer.data(), part, at);
        if (moved <= 0) {
          failures[static_cast<size_t>(t)] = 1;
          return;
        }
        at += moved;
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  close(file);
  if (std::ranges::count(failures, 1) > 0) throw std::runtime_error("moving bytes of " + path + " failed");
}

RuntimeOptions options_for(const std::string& folder, int64_t memory, int threads) {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = std::to_string(memory);
  options.spill_dir = folder;
  options.threads = threads;
  return options;
}

void run(const std::string& folder, int64_t bytes, int64_t times, int threads) {
  constexpr int64_t kItem = sizeof(double);
  int64_t columns = 1024;
  while (columns * columns * kItem < bytes) columns *= 2;
  const int64_t rows = bytes / kItem / columns, budget = bytes / times;
  // Chunks of an eighth of the budget.
  const int64_t together = std::max<int64_t>(budget / 8 / (rows * kItem), 1);
  const std::string from = folder + "/rows.h5", to = folder + "/columns.h5", other = folder + "/plain-spill.bin";
  const std::string result = folder + "/plain-result.bin";
  {
    const Runtime runtime(options_for(folder, int64_t{1} << 30, threads));
    const Array position = reshape(arange(rows, DType::float64), {rows, 1}) * static_cast<double>(columns);
    StoreOptions store;
    store.overwrite = true;
    to_hdf5(from, "/x", position + arange(columns, DType::float64), store);
  }
  StoreOptions store;
  store.overwrite = true;
  store.chunks = Dims{rows, together};
  std::vector<Seconds> ours, plain;
  RunStatistics moved;
  std::string plan;
  for (int i = 0; i < kRepeats; ++i) {
    std::remove(to.c_str());
    Runtime runtime(options_for(folder, budget, threads));
    const Array made = open_hdf5(from, "/x").rechunk(Dims{rows, together});
    if (i == 0) plan = explain(made);
    ours.push_back(seconds_of([&] { to_hdf5(to, "/x", made, store); }));
    moved = runtime.statistics();
    plain.push_back(seconds_of([&] {
      const int64_t block = rows * together * kItem;
      move(from, std::min(moved.read_bytes, bytes), block, threads, /*write=*/false);
      move(other, moved.spilled_bytes, block, threads, /*write=*/true);
      move(other, std::min(moved.restored_bytes, moved.spilled_bytes), block, threads, /*write=*/false);
      move(result, moved.written_bytes, block, threads, /*write=*/true);
    }));
    std::remove(other.c_str());
    std::remove(result.c_str());
  }
  {
    const Runtime runtime(options_for(folder, int64_t{1} << 30, threads));
    const Array position = reshape(arange(rows, DType::float64), {rows, 1}) * static_cast<double>(columns);
    if (!all(open_hdf5(to, "/x") == position + arange(columns, DType::float64)).item<bool>())
      throw std::runtime_error("the file of columns does not hold the array");
  }
  std::remove(to.c_str());
  std::remove(from.c_str());
  const Seconds best = *std::ranges::min_element(ours, {}, &Seconds::clock);
  const Seconds ceiling = *std::ranges::min_element(plain, {}, &Seconds::clock);
  fmt::print(stderr, "{}", plan);
  fmt::print(
      "{{\"name\": \"rechunk rows to columns\", \"bytes\": {}, \"budget\": {}, \"threads\": {}, \"read\": {}, "
      "\"spilled\": {}, \"restored\": {}, \"written\": {}, \"seconds\": {:.4f}, \"plain_seconds\": {:.4f}, "
      "\"of_plain\": {:.3f}, \"processor_seconds\": {:.4f}, \"plain_processor_seconds\": {:.4f}}}\n",
      bytes, budget, threads, moved.read_bytes, moved.spilled_bytes, moved.restored_bytes, moved.written_bytes,
      best.clock, ceiling.clock, ceiling.clock / best.clock, best.processor, ceiling.processor);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: bench_rechunk FOLDER MEBIBYTES TIMES_THE_BUDGET THREADS\n");
    return 2;
  }
  try {
    run(argv[1], int64_t{std::atol(argv[2])} << 20, std::atol(argv[3]), std::atoi(argv[4]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
