#include "quarry/local/device/device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/memory_resource.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class DeviceKinds : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (!available(GetParam())) GTEST_SKIP() << "no device of kind " << name(GetParam());
  }
  Backend& owner() { return backend(GetParam()); }
};
QUARRY_ON_EVERY_DEVICE(DeviceKinds);

TEST_P(DeviceKinds, NamesRoundTrip) {
  EXPECT_EQ(parse_device_kind(name(GetParam())), GetParam());
  EXPECT_EQ(owner().kind(), GetParam());
}

TEST_P(DeviceKinds, InfoIsPlausible) {
  for (int i = 0; i < owner().device_count(); ++i) {
    const DeviceInfo info = owner().info(i);
    EXPECT_FALSE(info.name.empty());
    EXPECT_GT(info.total_bytes, 0);
    EXPECT_GT(info.free_bytes, 0);
    EXPECT_LE(info.free_bytes, info.total_bytes);
  }
}

TEST_P(DeviceKinds, CopiesInOrder) {
  constexpr int64_t kBytes = 1 << 20;
  const auto stream = owner().create_stream(0, StreamRole::compute);
  auto* host = static_cast<unsigned char*>(owner().allocate_pinned(kBytes));
  void* device = owner().allocate_slab(0, kBytes);
  stream->fill(device, 7, kBytes);
  stream->copy(host, device, kBytes);
  stream->synchronize();
  EXPECT_EQ(host[0], 7);
  EXPECT_EQ(host[kBytes - 1], 7);
  for (int64_t i = 0; i < kBytes; ++i) host[i] = static_cast<unsigned char>(i * 31);
  stream->copy(device, host, kBytes);
  stream->synchronize();
  std::memset(host, 0, kBytes);
  stream->copy(host, device, kBytes);
  stream->synchronize();
  for (int64_t i = 0; i < kBytes; ++i) ASSERT_EQ(host[i], static_cast<unsigned char>(i * 31));
  owner().free_slab(0, device, kBytes);
  owner().free_pinned(host, kBytes);
}

TEST_P(DeviceKinds, ZeroBytesAreNoWork) {
  const auto stream = owner().create_stream(0, StreamRole::to_host);
  stream->copy(nullptr, nullptr, 0);
  stream->fill(nullptr, 0, 0);
  stream->synchronize();
}

TEST_P(DeviceKinds, EventsOrderStreams) {
  const auto first = owner().create_stream(0, StreamRole::to_device);
  const auto second = owner().create_stream(0, StreamRole::compute);
  const auto event = owner().create_event(0);
  EXPECT_TRUE(event->done());  // never recorded
  event->synchronize();
  std::atomic<int> step{0};
  for (int round = 1; round <= 20; ++round) {
    first->host_callback([&] { step = round; });
    first->record(*event);
    second->wait(*event);
    int seen = 0;
    second->host_callback([&] { seen = step; });
    second->synchronize();
    EXPECT_EQ(seen, round);
    EXPECT_TRUE(event->done());
    first->synchronize();
  }
}

TEST(Emulated, AnUnsynchronisedReadShows) {
  // Somewhere in 64 tries a delay falls between the call and its effect.
  Backend& owner = backend(DeviceKind::emulated);
  const auto stream = owner.create_stream(0, StreamRole::compute);
  std::vector<std::atomic<int>> flags(64);
  int late = 0;
  for (auto& flag : flags) {
    stream->host_callback([&flag] { flag = 1; });
    late += flag == 0;
  }
  stream->synchronize();
  for (auto& flag : flags) EXPECT_EQ(flag, 1);
  EXPECT_GT(late, 0);
}

TEST(Emulated, RecordingAnEventAnewDoesNotChangeWhatIsWaitedFor) {
  Backend& owner = backend(DeviceKind::emulated);
  const auto slow = owner.create_stream(0, StreamRole::compute), waiting = owner.create_stream(0, StreamRole::compute),
             quick = owner.create_stream(0, StreamRole::compute);
  const auto event = owner.create_event(0);
  EXPECT_TRUE(event->done());
  std::atomic<bool> gate{false}, released{false};
  bool seen = false;
  slow->host_callback([&] {
    while (!gate) std::this_thread::yield();
    released = true;
  });
  slow->record(*event);
  EXPECT_FALSE(event->done());
  waiting->wait(*event);
  waiting->host_callback([&] { seen = released; });
  quick->record(*event);
  event->synchronize();
  EXPECT_FALSE(released);
  gate = true;
  waiting->synchronize();
  EXPECT_TRUE(seen);
}

TEST(Emulated, ErrorsSurfaceAtSynchronize) {
  Backend& owner = backend(DeviceKind::emulated);
  const auto stream = owner.create_stream(1, StreamRole::compute);
  const auto event = owner.create_event(1);
  unsigned char byte = 1;
  stream->host_callback([] { throw IoError("granule 3 is gone"); });
  stream->fill(&byte, 9, 1);  // skipped: the stream has failed
  stream->record(*event);
  EXPECT_THROW(event->synchronize(), IoError);
  EXPECT_THROW(stream->synchronize(), IoError);
  EXPECT_EQ(byte, 1);
  stream->fill(&byte, 9, 1);  // the error was delivered: the stream goes on
  stream->synchronize();
  EXPECT_EQ(byte, 9);
}

TEST(Emulated, MemoryHasALimit) {
  Backend& owner = backend(DeviceKind::emulated);
  const DeviceInfo info = owner.info(0);
  EXPECT_THROW(owner.allocate_slab(0, info.total_bytes + 1), OutOfMemory);
  void* slab = owner.allocate_slab(0, info.free_bytes);
  EXPECT_THROW(owner.allocate_slab(0, 256), OutOfMemory);
  owner.free_slab(0, slab, info.free_bytes);
  EXPECT_EQ(owner.info(0).free_bytes, info.free_bytes);
  EXPECT_THROW(owner.create_stream(owner.device_count(), StreamRole::compute), DeviceError);
}

TEST(Registry, SaysWhyThereIsNoGpu) {
  if (available(DeviceKind::cuda)) GTEST_SKIP() << "a device of kind cuda is present";
  try {
    backend(DeviceKind::cuda);
    FAIL() << "no exception";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("device kind cuda cannot be used: "), std::string::npos) << error.what();
  }
}

TEST(Contexts, ScopesNest) {
  EXPECT_EQ(current_context().device, kCpu);
  {
    const DeviceScope outer(Device{DeviceKind::emulated, 1});
    EXPECT_EQ(to_string(current_context().device), "emulated:1");
    EXPECT_EQ(current_context().memory, &default_pool({DeviceKind::emulated, 1}));
    const DeviceStream* stream = current_context().stream;
    {
      const DeviceScope inner(kCpu);
      EXPECT_EQ(current_context().device, kCpu);
    }
    EXPECT_EQ(current_context().stream, stream);
  }
  EXPECT_EQ(current_context().device, kCpu);
  EXPECT_THROW(DeviceScope(Device{DeviceKind::emulated, 99}), DeviceError);
  EXPECT_EQ(current_context().device, kCpu);
}

TEST(Contexts, ThreadsHaveTheirOwn) {
  const DeviceScope scope(Device{DeviceKind::emulated, 0});
  DeviceStream* mine = current_context().stream;
  DeviceStream *theirs = nullptr, *reused = nullptr;
  std::thread([&] {
    EXPECT_EQ(current_context().device, kCpu);
    theirs = default_context({DeviceKind::emulated, 0}).stream;
  }).join();
  std::thread([&] { reused = default_context({DeviceKind::emulated, 0}).stream; }).join();
  EXPECT_NE(mine, theirs);
  EXPECT_EQ(theirs, reused);  // streams outlive threads
}

// They take 300 MB and a quarter of a second.
TEST(Registry, LoadsNoGpuLibrariesWithoutAGpu) {
  if (available(DeviceKind::cuda)) GTEST_SKIP() << "there is a GPU";
  std::ifstream maps("/proc/self/maps");
  const std::string mapped{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_NE(mapped.find("libquarry_local"), std::string::npos);
  for (const char* library : {"libquarry_cuda", "libcudart", "libcublas"})
    EXPECT_EQ(mapped.find(library), std::string::npos) << library;
}

// The libraries that queued work calls are torn down after main().
TEST(EmulatedDevice, AProcessThatEndsWaitsForQueuedWork) {
  const auto ends_with_work = [] {
    static auto* const stream =
        backend(DeviceKind::emulated).create_stream(0, StreamRole::compute).release();  // as the default streams are
    stream->host_callback([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      static_cast<void>(std::fputs("the work is done", stderr));
    });
    std::exit(0);
  };
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(ends_with_work(), ::testing::ExitedWithCode(0), "the work is done");
}

TEST(EmulatedDevice, WorkMayEndTheProcess) {
  const auto is_ended_by_work = [] {
    const auto stream = backend(DeviceKind::emulated).create_stream(0, StreamRole::compute);
    stream->host_callback([] { std::exit(3); });
    stream->synchronize();
  };
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(is_ended_by_work(), ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace quarry::local
