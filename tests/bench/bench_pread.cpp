// The ceiling for reading a file from the page cache: threads that do nothing but pread disjoint parts of it into their
// own buffer. usage: bench_pread FILE THREADS BLOCK_BYTES   prints bytes per second
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_pread FILE THREADS BLOCK_BYTES\n");
    return 2;
  }
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
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
      std::vector<char> buffer(static_cast<size_t>(block));
      const long first = status.st_size / threads * t,
                 last = t + 1 == threads ? status.st_size : status.st_size / threads * (t + 1);
      for (long at = first; at < last;) {
        const ssize_t got = pread(file, buffer.data(), static_cast<size_t>(std::min(block, last - at)), at);
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
