// Streams, events and graphs: order between streams without the host, and arrays that outlive their streams.
#include "quarry/local/memory/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "quarry/local/device/device.h"
#include "quarry/local/memory/slab_pool.h"
#include "quarry/local/ndarray/transfer.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/statistics/statistics.h"
#include "quarry/local/ops/ufunc/in_place.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/ops/ufunc/ufuncs.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using test::doubles;

// Work on a stream that is not done until it is let go.
class Gate {
 public:
  explicit Gate(const Stream& stream) : Gate(*stream.handle()) {}
  explicit Gate(DeviceStream& stream) : on_host_(stream.device().kind == DeviceKind::cpu) {
    if (on_host_) return;
    stream.host_callback([state = state_] { state->wait(false); });
  }
  ~Gate() { open(); }
  void open() {
    *state_ = true;
    state_->notify_all();
  }
  bool is_open() const { return on_host_ || *state_; }

 private:
  const bool on_host_;
  const std::shared_ptr<std::atomic<bool>> state_ = std::make_shared<std::atomic<bool>>(false);
};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

class Streams : public test::OnDevice {
 protected:
  Device device() const { return {GetParam(), 0}; }
  bool asynchronous() const { return GetParam() != DeviceKind::cpu; }
};
QUARRY_ON_EVERY_DEVICE(Streams);

TEST_P(Streams, AScopeSendsWorkThere) {
  const Stream side(device());
  EXPECT_EQ(side.device(), device());
  const Stream before = Stream::current();
  NdArray x;
  {
    const StreamScope scope(side);
    EXPECT_EQ(current_context().stream, side.handle().get());
    EXPECT_EQ(Stream::current().handle(), side.handle());
    x = test::arange({5}) + 1;
  }
  EXPECT_EQ(current_context().stream, before.handle().get());
  EXPECT_EQ(doubles(x), (std::vector<double>{1, 2, 3, 4, 5}));
}

TEST_P(Streams, ArraysOutliveTheirStream) {
  for (int round = 0; round < 20; ++round) {
    NdArray x, y;
    {
      const Stream stream(device());
      const StreamScope scope(stream);
      x = test::arange({1000});
      y = x + 1;
      y += x;
    }
    EXPECT_EQ(ops::sum(y).item<int64_t>(), 999 * 1000 + 1000);  // read on another stream
    x += 1;                                                     // written on another stream
    {
      std::optional<Stream> two(device());
      const StreamScope scope(*two);
      two.reset();  // the scope holds it
      y = y * 2 + x;
    }
    y = NdArray();  // given back with its stream gone
    const Stream last(device());
    const StreamScope scope(last);
    EXPECT_EQ(ops::sum(x).item<int64_t>(), 999 * 500 + 1000);
  }
}

TEST_P(Streams, ThreadsDestroyStreamsThatOthersReadFrom) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const DeviceScope scope(device());
      for (int round = 0; round < 25; ++round) {
        NdArray x;
        {
          const Stream stream(device());
          const StreamScope on(stream);
          x = test::arange({300}) * 2;
        }
        std::thread reader([&] {
          const DeviceScope here(device());
          if (ops::sum(x + 1).item<int64_t>() != 299 * 300 + 300) ++wrong;
        });
        if (ops::sum(x).item<int64_t>() != 299 * 300) ++wrong;
        reader.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A change of stream waits on the device: the host comes past work that is held up.
TEST_P(Streams, AChangeOfStreamDoesNotBlockTheHost) {
  const Stream slow(device()), quick(device());
  const NdArray x = test::arange({100});
  const NdArray scratch = x * 3, warm = scratch - 1;  // the pool and kernels are ready
  scratch += 1;
  slow.synchronize();
  NdArray y, z;
  Gate gate(slow);
  {
    const StreamScope scope(slow);
    y = x * 3;
  }
  {
    const StreamScope scope(quick);
    z = y - 1;  // after y
    y += 1;     // after it, too
  }
  y = NdArray();  // not yet done with
  const Event reached = quick.record();
  EXPECT_EQ(reached.done(), gate.is_open());
  gate.open();
  EXPECT_TRUE(ops::array_equal(z, warm));
}

TEST_P(Streams, ReadsDoNotWaitForReads) {
  if (!asynchronous()) GTEST_SKIP() << "the CPU's streams have no order to keep";
  const Stream one(device()), two(device());
  // With memory of its own, so that it waits for no memory that the other stream gave back.
  const auto pool = SlabPool::fixed(device(), int64_t{1} << 20);
  const ExecContext on_two{device(), two.handle().get(), pool.get(), 0};
  const NdArray x = test::arange({100});
  const NdArray warm = x + 1;
  test::arange({100}).fill(0);
  Stream::current().synchronize();
  {
    const DeviceScope scope(on_two);
    EXPECT_EQ(ops::sum(x).item<int64_t>(), 4950);  // the stream knows x now
  }
  NdArray held, read;
  Gate gate(one);
  {
    const StreamScope scope(one);
    held = x + 1;  // reads x, and waits
  }
  {
    const DeviceScope scope(on_two);
    read = x + 1;
  }
  const Event after_read = two.record();
  for (int i = 0; i < 10000 && !after_read.done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(after_read.done());
  const Event written = [&] {
    const DeviceScope scope(on_two);
    x.fill(0);  // waits for the read
    return two.record();
  }();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(written.done());
  gate.open();
  EXPECT_TRUE(ops::array_equal(held, warm));
  EXPECT_TRUE(ops::array_equal(read, warm));
  read = NdArray();
  EXPECT_EQ(ops::sum(x).item<int64_t>(), 0);
}

// Every interleaving of work on three streams gives what one stream gives.
TEST_P(Streams, ManyStreamsComputeWhatOneDoes) {
  std::vector<Stream> streams;
  for (int i = 0; i < 3; ++i) streams.emplace_back(device());
  uint64_t random = 7;
  const auto next = [&](uint64_t n) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % n;
  };
  const auto run = [&](bool spread) {
    random = 11;
    std::vector<NdArray> arrays;
    for (int i = 0; i < 4; ++i) arrays.push_back(test::arange({64}) + i);
    for (int step = 0; step < 300; ++step) {
      const uint64_t to = next(4), from = next(4), kind = next(4), where = next(3);
      std::optional<StreamScope> scope;
      if (spread) scope.emplace(streams[where]);
      NdArray &x = arrays[to], &y = arrays[from];
      if (kind == 0) x = y * 3 + 1;
      if (kind == 1) x += y;
      if (kind == 2) x = y[{Slice{{}, {}, -1}}] - x;
      if (kind == 3) x[{Slice{0, 32, {}}}].assign(y[{Slice{32, 64, {}}}]);
    }
    std::vector<double> all;
    for (const NdArray& x : arrays)
      for (double value : doubles(x)) all.push_back(value);
    return all;
  };
  const std::vector<double> expected = run(false);
  for (int round = 0; round < 5; ++round) EXPECT_EQ(run(true), expected);
}

// Memory goes back to the pool with its last use, and not before.
TEST_P(Streams, MemoryIsGivenBackInOrder) {
  const Stream one(device()), two(device());
  const auto pool = SlabPool::fixed(device(), int64_t{1} << 20);
  for (int round = 0; round < 50; ++round) {
    NdArray x, y;
    {
      const DeviceScope scope(ExecContext{device(), one.handle().get(), pool.get(), 0});
      x = test::arange({20000});  // 160 of 1024 KB
    }
    {
      const DeviceScope scope(ExecContext{device(), two.handle().get(), pool.get(), 0});
      y = x + 1;
      x = NdArray();
      const NdArray z = test::arange({20000}) * 0;  // in the memory of x
      y += z;
    }
    ASSERT_EQ(ops::sum(y).item<int64_t>(), int64_t{19999} * 10000 + 20000);
  }
  EXPECT_EQ(pool->used_bytes(), 0);
}

TEST_P(Streams, EventsOrderAndTell) {
  const Stream one(device()), two(device());
  Event begin(device()), end(device());
  EXPECT_TRUE(begin.done());
  EXPECT_THROW(end.elapsed_ms(begin), InvalidArgument);
  begin.record(one);
  Gate gate(one);
  end.record(one);
  two.wait(end);
  const Event after = two.record();
  EXPECT_EQ(end.done(), !asynchronous());
  EXPECT_EQ(after.done(), !asynchronous());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gate.open();
  after.synchronize();
  EXPECT_TRUE(end.done());
  end.synchronize();
  EXPECT_GE(end.elapsed_ms(begin), asynchronous() ? 15 : 0);
  EXPECT_LT(end.elapsed_ms(begin), 60e3);
  two.wait(one);
  two.wait(two);
  two.synchronize();
}

TEST_P(Streams, Priorities) {
  const auto [least, greatest] = Stream::priorities(device());
  EXPECT_EQ(least, 0);
  EXPECT_LE(greatest, least);
  const Stream urgent(device(), greatest);
  {
    const StreamScope scope(urgent);
    EXPECT_EQ(ops::sum(test::arange({10})).item<int64_t>(), 45);
  }
  EXPECT_NE(refusal([&] { Stream(device(), 1); }).find("priorities"), std::string::npos);
  EXPECT_THROW(Stream(device(), greatest - 1), InvalidArgument);
  EXPECT_THROW(Stream(Device{GetParam(), 99}), Error);
}

TEST_P(Streams, ForeignStreams) {
  if (!asynchronous()) {
    int value = 0;
    EXPECT_THROW(Stream::wrap(device(), &value), NotSupported);
    return;
  }
  const auto theirs = backend(GetParam()).create_stream(0, StreamRole::compute);
  NdArray y;
  {
    const Stream wrapped = Stream::wrap(device(), theirs->native());
    EXPECT_EQ(wrapped.native(), theirs->native());
    const StreamScope scope(wrapped);
    y = test::arange({50}) + 1;
  }
  EXPECT_EQ(ops::sum(y).item<int64_t>(), 49 * 25 + 50);
  // A stream that was only ordered may go while others' work on it is not done.
  const Gate gate(*theirs);
  {
    const Stream wrapped = Stream::wrap(device(), theirs->native());
    wrapped.wait(Stream::current());
    EXPECT_FALSE(wrapped.record().done());
  }
  EXPECT_FALSE(gate.is_open());
}

TEST_P(Streams, MistakesAreToldAtOnce) {
  const Stream here(device());
  const Device other = GetParam() == DeviceKind::cpu ? Device{DeviceKind::emulated, 0} : kCpu;
  const Stream there(other);
  EXPECT_THROW(DeviceScope(ExecContext{device(), there.handle().get(), &default_pool(device()), 0}), InvalidArgument);
  Event event(device());
  EXPECT_THROW(event.record(there), InvalidArgument);
  const NdArray x = test::arange({3});
  if (asynchronous()) {
    EXPECT_THROW(x.begin_read(there.handle().get()), InvalidArgument);
    EXPECT_THROW(x.copy(ExecContext{device(), there.handle().get(), &default_pool(device()), 0}), Error);
  }
  {
    const StreamScope scope(there);  // arrays of this device are still worked on here
    EXPECT_EQ((x + 1).device(), device());
  }
  EXPECT_EQ(doubles(x), (std::vector<double>{0, 1, 2}));
}

class Graphs : public Streams {
 protected:
  void SetUp() override {
    Streams::SetUp();
    if (GetParam() == DeviceKind::cpu) GTEST_SKIP() << "the CPU queues nothing";
  }
};
QUARRY_ON_EVERY_DEVICE(Graphs);

TEST_P(Graphs, ReplayWhatWasCaptured) {
  const Stream stream(device());
  const NdArray x = test::arange({1000}), y = ops::zeros_like(x);
  const auto step = [&] {
    const NdArray t = x * 2 + 1;  // scratch that comes from the graph
    y += t[{Slice{{}, {}, -1}}] + ops::sum(t);
  };
  step();
  const std::vector<double> once = doubles(y);
  y.fill(0);
  const Graph graph = stream.capture(step);
  EXPECT_EQ(ops::sum(y).item<int64_t>(), 0) << "captured work has run";
  EXPECT_GT(graph.reserved_bytes(), 0);
  graph.launch(stream);
  EXPECT_EQ(doubles(y), once);
  graph.launch();  // on the thread's stream, after what `stream` does
  std::vector<double> twice = once;
  for (double& value : twice) value *= 2;
  EXPECT_EQ(doubles(y), twice);
  x.fill(0);  // a launch reads what the arrays hold then
  y.fill(0);
  for (int i = 0; i < 10; ++i) graph.launch(i % 2 == 0 ? stream : Stream::current());
  EXPECT_EQ(doubles(y), std::vector<double>(1000, 10 * (1 + 1000)));
}

TEST_P(Graphs, KeepTheirMemory) {
  const Stream stream(device());
  NdArray x = test::arange({5000}), result;
  const NdArray warm = ops::sort(x * 3 + x);
  std::optional<Graph> graph = stream.capture([&] { result = ops::sort(x * 3 + x) + 0; });
  x = NdArray();  // the graph has it
  for (int round = 0; round < 5; ++round) {
    graph->launch(stream);
    const NdArray others = ops::full({5000}, 7, DType::int64) + 1;  // would use what the graph gave back
    const Stream side(device());
    const StreamScope scope(side);
    EXPECT_TRUE(ops::array_equal(result, warm)) << round;  // on another stream
    EXPECT_EQ(ops::sum(others).item<int64_t>(), 40000);
  }
  graph->launch(stream);
  graph.reset();  // waits; the result lives on
  EXPECT_TRUE(ops::array_equal(result, warm));
  const NdArray others = ops::full({5000}, 7, DType::int64) + 1;
  EXPECT_TRUE(ops::array_equal(result, warm));
}

TEST_P(Graphs, GiveMemoryBack) {
  const auto pool = SlabPool::fixed(device(), int64_t{8} << 20);
  {
    const Stream stream(device());
    const DeviceScope scope(ExecContext{device(), stream.handle().get(), pool.get(), 0});
    const NdArray x = test::arange({1000});
    NdArray y;
    const int64_t before = pool->used_bytes();
    {
      const Graph graph = stream.capture([&] { y = x + 1; });
      EXPECT_GT(pool->used_bytes(), before);
      graph.launch(stream);
    }
    EXPECT_EQ(ops::sum(y).item<int64_t>(), 999 * 500 + 1000);
    y = NdArray();
    EXPECT_EQ(pool->used_bytes(), before);
    EXPECT_THROW(stream.capture([&] {
      y = x + 1;
      throw std::runtime_error("on purpose");
    }),
                 std::runtime_error);
    y = NdArray();
    EXPECT_EQ(pool->used_bytes(), before);
  }
  EXPECT_EQ(pool->used_bytes(), 0);
}

TEST_P(Graphs, WhatBlocksOrAllocatesIsRefused) {
  const Stream stream(device());
  const NdArray x = test::arange({100});
  const auto inside = [&](const std::function<void()>& call) { return refusal([&] { stream.capture(call); }); };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(inside([&] { x[{0}].item(); }), "synchronize() inside the capture of a graph"));
  EXPECT_TRUE(has(inside([&] { x.to(kCpu); }), "synchronize()"));
  EXPECT_TRUE(has(inside([&] { ops::nonzero(x); }), "inside the capture"));
  EXPECT_TRUE(has(inside([&] { Stream::current().synchronize(); }), "synchronize()"));
  EXPECT_TRUE(has(inside([&] { stream.capture([] {}); }), "captures do not nest"));
  EXPECT_TRUE(has(inside([&] { const StreamScope scope(stream); }), "another stream"));
  EXPECT_TRUE(has(inside([&] { const DeviceScope scope(device()); }), "another stream"));
  EXPECT_TRUE(has(inside([&] { Stream::current().record(); }), "record()"));
  EXPECT_TRUE(has(inside([&] { stream.wait(Event(device())); }), "wait()"));
  EXPECT_TRUE(has(inside([&] { NdArray({int64_t{1} << 30}, DType::uint8); }), "allocating 1073741824 bytes"));
  const Graph graph = stream.capture([] {});
  graph.launch(stream);
  EXPECT_TRUE(has(inside([&] { graph.launch(); }), "graphs do not nest"));
  EXPECT_THROW(graph.launch(Stream(kCpu)), InvalidArgument);
  // Nothing of this is left.
  EXPECT_FALSE(capturing());
  NdArray y;
  const Graph again = stream.capture([&] { y = x + 1; });
  again.launch(stream);
  EXPECT_EQ(ops::sum(y).item<int64_t>(), 5050);
  EXPECT_EQ(ops::sum(x + 1).item<int64_t>(), 5050);
}

TEST(GraphsOnTheCpu, AreRefused) {
  bool called = false;
  EXPECT_THROW(Stream(kCpu).capture([&] { called = true; }), NotSupported);
  EXPECT_FALSE(called);
  EXPECT_FALSE(capturing());
}

}  // namespace
}  // namespace quarry::local
