// The GPU's backend: devices, memory, streams, events, the disk cache.
#include <atomic>
#include <filesystem>
#include <thread>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/backend.h"
#include "quarry/local/cuda/compiler.h"
#include "quarry/local/cuda/engine.h"
#include "quarry/local/memory/buffer.h"
#include "tests/unit/local/cuda/gpu_support.h"

namespace quarry::local::cuda {
namespace {

// Runs on every machine: without a driver there are no devices, and asking for one says so.
TEST(BackendWithoutGpu, CountsNoDevices) {
  Backend* const found = quarry_cuda_backend();
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->kind(), DeviceKind::cuda);
  if (found->device_count() > 0) {
    EXPECT_TRUE(available(DeviceKind::cuda));
    EXPECT_THROW(found->info(found->device_count()), InvalidArgument);
    EXPECT_THROW(found->info(-1), InvalidArgument);
    return;
  }
  EXPECT_FALSE(available(DeviceKind::cuda));
  EXPECT_THROW(found->info(0), DeviceError);
  EXPECT_THROW(found->allocate_slab(0, 1 << 20), DeviceError);
  EXPECT_THROW(found->create_stream(0, StreamRole::compute), DeviceError);
  EXPECT_THROW(backend(DeviceKind::cuda), DeviceError);
}

class CudaDevice : public CudaTest {};

TEST_F(CudaDevice, SaysWhatItIs) {
  const DeviceInfo info = backend(DeviceKind::cuda).info(0);
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.uuid.size(), std::string("GPU-00000000-0000-0000-0000-000000000000").size());
  EXPECT_GT(info.total_bytes, int64_t{1} << 30);
  EXPECT_GT(info.free_bytes, 0);
  EXPECT_LE(info.free_bytes, info.total_bytes);
}

TEST_F(CudaDevice, OutOfMemoryIsTyped) {
  Backend& gpu = backend(DeviceKind::cuda);
  EXPECT_THROW(gpu.allocate_slab(0, int64_t{1} << 50), OutOfMemory);
  EXPECT_THROW(gpu.allocate_pinned(int64_t{1} << 55), OutOfMemory);
  void* slab = gpu.allocate_slab(0, 1 << 20);  // and nothing is broken afterwards
  gpu.free_slab(0, slab, 1 << 20);
}

TEST_F(CudaDevice, SaysWhoItIsWithoutAContext) {
  Backend& gpu = backend(DeviceKind::cuda);
  const DeviceInfo identity = gpu.identity(0);
  gpu.open(0);
  const DeviceInfo info = gpu.info(0);  // of the device itself
  EXPECT_EQ(identity.name, info.name);
  EXPECT_EQ(identity.uuid, info.uuid);
  EXPECT_GT(info.free_bytes, 0);
}

TEST_F(CudaDevice, PinnedMemoryOfEverySize) {
  Backend& gpu = backend(DeviceKind::cuda);
  const auto stream = gpu.create_stream(0, StreamRole::to_device);
  void* const slab = gpu.allocate_slab(0, 64 << 20);
  // One byte less than what is registered, and more, on no page's border.
  for (const int64_t bytes : {int64_t{1}, int64_t{4096}, (int64_t{4} << 20) - 1, int64_t{4} << 20,
                              (int64_t{4} << 20) + 1, (int64_t{33} << 20) + 4097}) {
    auto* const from = static_cast<uint8_t*>(gpu.allocate_pinned(bytes));
    auto* const to = static_cast<uint8_t*>(gpu.allocate_pinned(bytes));
    for (int64_t i = 0; i < bytes; ++i) from[i] = static_cast<uint8_t>(i * 7 + bytes);
    std::memset(to, 0, static_cast<size_t>(bytes));
    stream->copy(slab, from, bytes);
    stream->copy(to, slab, bytes);
    stream->synchronize();
    EXPECT_EQ(std::memcmp(from, to, static_cast<size_t>(bytes)), 0) << bytes;
    gpu.free_pinned(from, bytes);
    gpu.free_pinned(to, bytes);
  }
  gpu.free_pinned(nullptr, 0);
  gpu.free_slab(0, slab, 64 << 20);
}

TEST_F(CudaDevice, StreamsCopyInOrderAndWaitForEvents) {
  Backend& gpu = backend(DeviceKind::cuda);
  constexpr int64_t n = 64 << 20;
  auto* const host = static_cast<uint8_t*>(gpu.allocate_pinned(n));
  auto* const back = static_cast<uint8_t*>(gpu.allocate_pinned(n));
  void* const slab = gpu.allocate_slab(0, n);
  const auto to_device = gpu.create_stream(0, StreamRole::to_device),
             to_host = gpu.create_stream(0, StreamRole::to_host);
  const auto event = gpu.create_event(0);
  EXPECT_TRUE(event->done());  // never recorded
  for (int round = 1; round <= 3; ++round) {
    std::memset(host, round, n);
    to_device->copy(slab, host, n);
    to_device->record(*event);
    to_host->wait(*event);
    to_host->copy(back, slab, n);
    to_host->synchronize();
    EXPECT_TRUE(event->done());
    EXPECT_EQ(back[0], round);
    EXPECT_EQ(back[n - 1], round);
  }
  to_device->fill(slab, 0x5a, n);
  event->synchronize();
  to_device->synchronize();
  to_host->copy(back, slab, n);
  to_host->synchronize();
  EXPECT_EQ(std::count(back, back + n, 0x5a), n);
  gpu.free_pinned(host, n);
  gpu.free_pinned(back, n);
  gpu.free_slab(0, slab, n);
}

TEST_F(CudaDevice, HostCallbacksRunInOrderAndTheirErrorsSurface) {
  const auto stream = backend(DeviceKind::cuda).create_stream(0, StreamRole::compute);
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) stream->host_callback([&order, i] { order.push_back(i); });
  stream->synchronize();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  stream->host_callback([] { throw IoError("disk full"); });
  EXPECT_THROW(stream->synchronize(), IoError);
  EXPECT_NO_THROW(stream->synchronize());
}

TEST_F(CudaDevice, PoolReusesMemoryAcrossThreadsAndStreams) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&wrong, t] {
      const ExecContext gpu = gpu_context();
      Program program;
      const ValueId x = program.input(DType::int64);
      program.output(program.apply("add"_op, std::array{x, program.constant(Scalar(t), DType::int64)}));
      constexpr int64_t n = 300000;
      for (int round = 0; round < 20; ++round) {
        const Buffer a(n * 8, *gpu.memory, gpu.stream), b(n * 8, *gpu.memory, gpu.stream);
        gpu.stream->fill(a.data(), 0, n * 8);
        engine(kGpu).run(program,
                         {.shape = Dims{n},
                          .index_offset = {},
                          .inputs = {{a.data(), Dims{8}}},
                          .outputs = {{b.data(), Dims{8}}},
                          .states = {}},
                         gpu);
        std::vector<int64_t> result(n);
        gpu.stream->copy(result.data(), b.data(), n * 8);
        gpu.stream->synchronize();
        for (const int64_t value : result) wrong += value != t;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// The folder is chosen at the process's first kernel; what earlier tests compiled lies there.
TEST_F(CudaDevice, CompiledKernelsAreKeptOnDisk) {
  const std::string folder = DiskCache::default_folder();
  if (folder.empty()) GTEST_SKIP() << "no folder for compiled kernels";
  const ExecContext gpu = gpu_context();
  Program program;
  const ValueId x = program.input(DType::float32);
  program.output(program.apply("arctan"_op, std::array{program.apply("cbrt"_op, std::array{x})}));
  const Buffer a(4000, *gpu.memory, gpu.stream);
  const Operand operand{a.data(), Dims{4}};
  gpu.stream->fill(a.data(), 0, 4000);
  engine(kGpu).run(
      program, {.shape = Dims{1000}, .index_offset = {}, .inputs = {operand}, .outputs = {operand}, .states = {}}, gpu);
  gpu.stream->synchronize();
  EXPECT_FALSE(std::filesystem::is_empty(folder));
}

}  // namespace
}  // namespace quarry::local::cuda
