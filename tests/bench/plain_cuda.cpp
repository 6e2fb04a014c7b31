// What CUDA programs take that do nothing else: the plain side of scripts/bench/start.
// usage: bench_plain_cuda start BYTES    makes a context and allocates; below 1: a share of what is free
//        bench_plain_cuda copy BYTES     copies pinned memory to the device again and again
// On the device of the process's number on its host (Open MPI's, Slurm's). Prints one JSON object: seconds, or bytes
// per second.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

int device_number() {
  for (const char* const name : {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    if (const char* const text = std::getenv(name)) return std::atoi(text);
  }
  return 0;
}

void start(double bytes) {
  const auto begin = Clock::now();
  check(cudaFree(nullptr), "cudaFree");
  const double context = seconds_since(begin);
  size_t free_bytes = 0, total = 0;
  check(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
  const auto wanted = static_cast<size_t>(bytes < 1 ? bytes * static_cast<double>(free_bytes) : bytes);
  void* data = nullptr;
  const auto allocation = Clock::now();
  check(cudaMalloc(&data, wanted), "cudaMalloc");
  std::printf("{\"bytes\": %zu, \"context\": %.4f, \"allocate\": %.4f}\n", wanted, context, seconds_since(allocation));
  check(cudaFree(data), "cudaFree");
}

void copy(double bytes) {
  constexpr int kCopies = 8;
  const auto count = static_cast<size_t>(bytes);
  void *host = nullptr, *device = nullptr;
  check(cudaHostAlloc(&host, count, cudaHostAllocDefault), "cudaHostAlloc");
  check(cudaMalloc(&device, count), "cudaMalloc");
  std::memset(host, 1, count);
  double best = 0;
  for (int i = 0; i < kCopies; ++i) {
    const auto begin = Clock::now();
    check(cudaMemcpy(device, host, count, cudaMemcpyHostToDevice), "cudaMemcpy");
    best = std::max(best, static_cast<double>(count) / seconds_since(begin));
  }
  std::printf("{\"rate\": %.0f}\n", best);
}

}  // namespace

int main(int argc, char** argv) {
  const bool starts = argc == 3 && std::strcmp(argv[1], "start") == 0;
  if (argc != 3 || (!starts && std::strcmp(argv[1], "copy") != 0) || std::atof(argv[2]) <= 0) {
    std::fprintf(stderr, "usage: bench_plain_cuda start|copy BYTES\n");
    return 2;
  }
  check(cudaSetDevice(device_number()), "cudaSetDevice");
  if (starts) {
    start(std::atof(argv[2]));
  } else {
    copy(std::atof(argv[2]));
  }
  return 0;
}
