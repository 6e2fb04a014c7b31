// Rate of Dataset::visit() against a plain pread loop over the same bytes, both with two threads and in turn, on a warm
// page cache. Usage: bench_io [DIRECTORY [GiB]]. Writes its files there (float64, contiguous, in 8192 x 64 chunks, and
// compressed) and removes them.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <thread>
#include <vector>

#include "quarry/io/dataset.h"
#include "quarry/io/output.h"

namespace {

using namespace quarry;
using Clock = std::chrono::steady_clock;

constexpr int kThreads = 2;
constexpr int64_t kColumns = 512, kChunkRows = 8192, kChunkColumns = 64;

template <class F>
double seconds(F&& f) {
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&f, t] { f(t); });
  for (std::thread& thread : threads) thread.join();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double plain_loop(const std::string& file, size_t block) {
  const int64_t bytes = static_cast<int64_t>(std::filesystem::file_size(file));
  const double time = seconds([&](int t) {
    const int fd = ::open(file.c_str(), O_RDONLY);
    std::vector<char> buffer(block);
    for (int64_t at = bytes * t / kThreads; at < bytes * (t + 1) / kThreads;) {
      const ssize_t got = ::pread(fd, buffer.data(), block, at);
      if (got <= 0) break;
      at += got;
    }
    ::close(fd);
  });
  return static_cast<double>(bytes) / time / 1e9;
}

// Row blocks dealt to threads by an atomic counter, as the engine does; `work` sees every piece.
template <class Work>
double visit_rate(const io::Dataset& dataset, Work&& work) {
  const int64_t rows = dataset.info().shape[0], blocks = rows / kChunkRows;
  std::atomic<int64_t> next{0};
  const double time = seconds([&](int) {
    const local::Region any = local::Region::box({0, 0}, {kChunkRows, kColumns});
    std::vector<std::byte> scratch(static_cast<size_t>(dataset.visit_scratch_bytes(any)));
    for (int64_t block; (block = next++) < blocks;)
      dataset.visit(local::Region::box({block * kChunkRows, 0}, {kChunkRows, kColumns}), scratch, work);
  });
  return static_cast<double>(rows * kColumns * 8) / time / 1e9;
}

double sum_piece(const io::Dataset::Piece& piece) {
  double lanes[8] = {};
  for (int64_t i = 0; i < piece.count[0]; ++i) {
    const auto* row = reinterpret_cast<const double*>(piece.data + i * piece.strides[0]);
    for (int64_t j = 0; j + 8 <= piece.count[1]; j += 8)
      for (int k = 0; k < 8; ++k) lanes[k] += row[j + k];
  }
  return std::accumulate(lanes, lanes + 8, 0.0);
}

double read_rate(const io::Dataset& dataset) {
  const int64_t rows = dataset.info().shape[0], blocks = rows / kChunkRows;
  std::atomic<int64_t> next{0};
  const double time = seconds([&](int) {
    const local::Region any = local::Region::box({0, 0}, {kChunkRows, kColumns});
    std::vector<std::byte> scratch(static_cast<size_t>(dataset.read_scratch_bytes(any)));
    std::vector<std::byte> to(static_cast<size_t>(any.elements() * 8));
    for (int64_t block; (block = next++) < blocks;)
      dataset.read(local::Region::box({block * kChunkRows, 0}, {kChunkRows, kColumns}), to.data(), scratch);
  });
  return static_cast<double>(rows * kColumns * 8) / time / 1e9;
}

void write_file(const std::string& file, int64_t rows, std::optional<local::Dims> chunks, bool compressed) {
  std::vector<io::Filter> filters;
  if (compressed) filters = {{io::Filter::Kind::shuffle, 0, "shuffle"}, {io::Filter::Kind::deflate, 4, "deflate"}};
  const auto output =
      io::OutputFile::create(file, {{"/x", {rows, kColumns}, local::DType::float64, chunks, filters, {}}}, true);
  const auto writer = output->writer(0);
  std::vector<double> block(static_cast<size_t>(kChunkRows * kColumns));
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<double>((i * 2654435761u) % 4096) / 64;
  const auto begin = Clock::now();
  for (int64_t row = 0; row < rows; row += kChunkRows) {
    if (!compressed) {
      writer->write(local::Region::box({row, 0}, {kChunkRows, kColumns}), block.data());
      continue;
    }
    for (int64_t column = 0; column < kColumns; column += kChunkColumns) {
      const local::Dims chunk{row / kChunkRows, column / kChunkColumns};
      output->write_encoded(0, chunk, writer->encode(chunk, block.data(), {kChunkRows, kChunkColumns}));
    }
  }
  const double time = std::chrono::duration<double>(Clock::now() - begin).count();
  fmt::print("write {}: {:.2f} GB/s (one thread, to the page cache)\n", std::filesystem::path(file).filename().string(),
             static_cast<double>(rows * kColumns * 8) / time / 1e9);
  output->commit();
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path directory = argc > 1 ? argv[1] : "/tmp";
  const double gib = argc > 2 ? std::atof(argv[2]) : 1;
  const auto rows = static_cast<int64_t>(gib * (1 << 30) / (kColumns * 8 * kChunkRows)) * kChunkRows;
  struct Case {
    const char* name;
    std::optional<local::Dims> chunks;
    bool compressed;
  };
  const Case cases[] = {{"contiguous", std::nullopt, false},
                        {"chunked", local::Dims{kChunkRows, kChunkColumns}, false},
                        {"compressed", local::Dims{kChunkRows, kChunkColumns}, true}};
  for (const Case& c : cases) {
    const std::string file = (directory / fmt::format("bench_io_{}.h5", c.name)).string();
    write_file(file, rows, c.chunks, c.compressed);
    const auto dataset = io::Dataset::open(file, "/x");
    double best_plain = 0, visit = 0, sum = 0, read = 0;
    std::atomic<double> total{0};
    for (int round = 0; round < 5; ++round) {
      for (size_t block = 256 << 10; block <= (8 << 20); block *= 2)
        best_plain = std::max(best_plain, plain_loop(file, block));
      visit = std::max(visit, visit_rate(*dataset, [](const io::Dataset::Piece&) {}));
      sum = std::max(sum, visit_rate(*dataset, [&](const io::Dataset::Piece& piece) { total += sum_piece(piece); }));
      read = std::max(read, read_rate(*dataset));
    }
    fmt::print("{}: pread loop {:.2f} GB/s of file; visit {:.2f}, visit with a sum {:.2f}, read {:.2f} GB/s of data",
               c.name, best_plain, visit, sum, read);
    if (!c.compressed)
      fmt::print(" ({:.0f} %, {:.0f} %, {:.0f} %)", 100 * visit / best_plain, 100 * sum / best_plain,
                 100 * read / best_plain);
    fmt::print("\n");
    std::filesystem::remove(file);
  }
}
