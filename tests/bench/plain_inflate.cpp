// The ceiling for reading deflate chunks: threads that do nothing but decode, with libdeflate, streams that are in
// memory. usage: bench_plain_inflate FILE OBJECT THREADS   prints decoded bytes per second. Chunks may be shuffled;
// they stay so.
#include <hdf5.h>
#include <libdeflate.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "bench_plain_inflate: %s\n", what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_plain_inflate FILE OBJECT THREADS\n");
    return 2;
  }
  const hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, argv[2], H5P_DEFAULT);
  if (file < 0 || dataset < 0) fail("no such file or data set");
  hsize_t chunk[H5S_MAX_RANK];
  const int axes = H5Pget_chunk(H5Dget_create_plist(dataset), H5S_MAX_RANK, chunk);
  if (axes < 0) fail("the data set is not chunked");
  size_t chunk_bytes = H5Tget_size(H5Dget_type(dataset));
  for (int d = 0; d < axes; ++d) chunk_bytes *= chunk[d];

  const hid_t space = H5Dget_space(dataset);
  hsize_t count = 0;
  if (H5Dget_num_chunks(dataset, space, &count) < 0) fail("the chunks cannot be counted");
  std::vector<std::vector<char>> streams(count);
  for (hsize_t i = 0; i < count; ++i) {
    hsize_t offset[H5S_MAX_RANK], bytes = 0;
    unsigned mask = 0;
    if (H5Dget_chunk_info(dataset, space, i, offset, &mask, nullptr, &bytes) < 0) fail("a chunk is not found");
    streams[i].resize(bytes);
    if (H5Dread_chunk(dataset, H5P_DEFAULT, offset, &mask, streams[i].data()) < 0) fail("a chunk cannot be read");
  }

  const auto threads = static_cast<size_t>(std::max(1, std::atoi(argv[3])));
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    std::atomic<size_t> next{0};
    std::atomic<bool> is_good{true};
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> pool;
    for (size_t t = 0; t < threads; ++t) {
      pool.emplace_back([&] {
        libdeflate_decompressor* const decoder = libdeflate_alloc_decompressor();
        std::vector<char> to(chunk_bytes);
        for (size_t i; (i = next++) < streams.size();) {
          if (libdeflate_zlib_decompress(decoder, streams[i].data(), streams[i].size(), to.data(), to.size(),
                                         nullptr) != LIBDEFLATE_SUCCESS)
            is_good = false;
        }
        libdeflate_free_decompressor(decoder);
      });
    }
    for (std::thread& thread : pool) thread.join();
    if (!is_good) fail("a chunk is no zlib stream");
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, static_cast<double>(count * chunk_bytes) / seconds);
  }
  std::printf("%.0f\n", best);
}
