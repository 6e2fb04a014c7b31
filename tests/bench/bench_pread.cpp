// The ceiling for reading a file: threads that do nothing but pread disjoint parts of it into their own buffer; with
// `direct` around the page cache. usage: bench_pread FILE THREADS BLOCK_BYTES [direct]   prints bytes per second
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

constexpr long kPage = 4096;  // what O_DIRECT wants addresses, offsets and lengths to be multiples of

int main(int argc, char** argv) {
  const bool direct = argc == 5 && std::strcmp(argv[4], "direct") == 0;
  if (argc != 4 && !direct) {
    std::fprintf(stderr, "usage: bench_pread FILE THREADS BLOCK_BYTES [direct]\n");
    return 2;
  }
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) {
    std::perror(argv[1]);
    return 1;
  }
  const int threads = std::atoi(argv[2]);
  const long block = std::atol(argv[3]);
  std::atomic<bool> failed{false};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      const std::unique_ptr<char, void (*)(void*)> buffer(
          static_cast<char*>(std::aligned_alloc(kPage, static_cast<size_t>((block + kPage - 1) / kPage * kPage))),
          std::free);
      const long part = status.st_size / threads / kPage * kPage, first = part * t,
                 last = t + 1 == threads ? status.st_size : first + part;
      for (long at = first; at < last;) {
        const ssize_t got =
            pread(file, buffer.get(), static_cast<size_t>(direct ? block : std::min(block, last - at)), at);
        if (got <= 0) {
          failed = true;
          return;
        }
        at += got;
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (failed) return 1;
  std::printf("%.0f\n", static_cast<double>(status.st_size) / seconds);
}
