// Exchange of memory with others: flags, copies, streams, and what is consumed once.
#include "quarry/local/ndarray/dlpack.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "quarry/local/device/device.h"
#include "quarry/local/memory/stream.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using namespace dlpack;
using test::doubles;

// A producer's tensor over numbers of its own.
struct Producer {
  std::vector<float> data{1, 2, 3};
  int64_t shape[1] = {3};
  int deleted = 0;
  DLManagedTensorVersioned tensor{
      {1, 0},
      this,
      [](DLManagedTensorVersioned* self) { ++static_cast<Producer*>(self->manager)->deleted; },
      0,
      {data.data(), {DeviceType::cpu, 0}, 1, {TypeCode::floating, 32, 1}, shape, nullptr, 0}};
};

struct Deleter {
  template <class Managed>
  void operator()(Managed* tensor) const {
    tensor->deleter(tensor);
  }
};
template <class Managed>
std::unique_ptr<Managed, Deleter> held(Managed* tensor) {
  return std::unique_ptr<Managed, Deleter>(tensor);
}

TEST(DLPack, ReadOnlyArraysSaySo) {
  const NdArray x = test::arange({3}), view = x.broadcast_to({2, 3});
  EXPECT_EQ(held(to_dlpack(x))->flags, 0u);
  EXPECT_EQ(held(to_dlpack(view))->flags, kReadOnly);
  EXPECT_THROW(to_dlpack_unversioned(view), NotSupported);
  EXPECT_EQ(held(to_dlpack_unversioned(x))->tensor.data, x.raw());
  const auto copy = held(to_dlpack(view, {.copy = true}));
  EXPECT_EQ(copy->flags, kIsCopied);
  EXPECT_NE(copy->tensor.data, x.raw());
  EXPECT_NE(held(to_dlpack_unversioned(view, {.copy = true}))->tensor.data, x.raw());
  EXPECT_EQ(held(to_dlpack(x, {.copy = false}))->tensor.data, x.raw());

  const NdArray back = from_dlpack(to_dlpack(view));
  EXPECT_FALSE(back.writeable());
  EXPECT_THROW(back.fill(0), InvalidArgument);
  EXPECT_TRUE(from_dlpack(to_dlpack(x)).writeable());
  EXPECT_EQ(doubles(back + 1), (std::vector<double>{1, 2, 3, 1, 2, 3}));
}

TEST(DLPack, AReadOnlyTensorIsNotWrittenTo) {
  Producer producer;
  producer.tensor.flags = kReadOnly;
  {
    const NdArray x = from_dlpack(&producer.tensor);
    EXPECT_FALSE(x.writeable());
    EXPECT_THROW(x.fill(0), InvalidArgument);
    EXPECT_THROW(x[{0}].assign(x[{1}]), InvalidArgument);
    EXPECT_THROW(x.data<float>(), InvalidArgument);
    EXPECT_EQ(*x.data<const float>(), 1);
    NdArray other(x.buffer(), x.dtype(), x.shape(), x.strides(), x.offset());
    EXPECT_THROW(other.set_writeable(true), InvalidArgument);
  }
  EXPECT_EQ(producer.data, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(producer.deleted, 1);
}

TEST(DLPack, ATensorIsConsumedOnce) {
  Producer producer;
  {
    const NdArray x = from_dlpack(&producer.tensor);
    EXPECT_THROW(from_dlpack(&producer.tensor), InvalidArgument);
    EXPECT_EQ(producer.deleted, 0);
    EXPECT_EQ(doubles(x), (std::vector<double>{1, 2, 3}));
  }
  EXPECT_EQ(producer.deleted, 1);
  EXPECT_EQ(doubles(from_dlpack(&producer.tensor)), (std::vector<double>{1, 2, 3}));  // the producer gives it anew
  EXPECT_EQ(producer.deleted, 2);
}

TEST(DLPack, DevicesThatAreNotThere) {
  Producer producer;
  producer.tensor.tensor.device = {DeviceType::cuda, 99};
  EXPECT_THROW(from_dlpack(&producer.tensor), Error);
  EXPECT_EQ(producer.deleted, 1);
  producer.tensor.tensor.device = {DeviceType::cuda, -1};
  EXPECT_THROW(from_dlpack(&producer.tensor), Error);
  producer.tensor.tensor.device = {static_cast<DeviceType>(77), 0};
  EXPECT_THROW(from_dlpack(&producer.tensor), DeviceError);
  EXPECT_EQ(producer.deleted, 3);
  EXPECT_THROW(to_dlpack(test::arange({3}), {.dl_device = DLDevice{DeviceType::cuda, 99}}), Error);
  EXPECT_EQ(held(to_dlpack(test::arange({3}), {.dl_device = DLDevice{DeviceType::cpu, 0}}))->flags, 0u);
}

TEST(DLPack, TheCpuHasNoStreams) {
  const NdArray x = test::arange({3});
  for (intptr_t stream : {-1, 0, 1, 2}) {
    EXPECT_THROW(to_dlpack(x, {.stream = stream}), InvalidArgument);
    Producer producer;
    EXPECT_THROW(from_dlpack(&producer.tensor, {.stream = stream}), InvalidArgument);
    EXPECT_EQ(producer.deleted, 1);
  }
}

// Device memory of a producer with a stream of its own.
class Imports : public test::OnDevice {
 protected:
  void SetUp() override {
    test::OnDevice::SetUp();
    if (IsSkipped()) return;
    if (GetParam() == DeviceKind::cpu) GTEST_SKIP() << "the cpu has no streams";
    theirs_.emplace(Device{GetParam(), 0});
    memory_ = NdArray({100}, DType::uint8);
    Stream::current().synchronize();
  }
  NdArray import(bool with_stream) {
    const CudaArrayInterface fields{.shape = {100},
                                    .typestr = "|u1",
                                    .data = memory_.raw(),
                                    .strides = std::nullopt,
                                    .stream = with_stream ? reinterpret_cast<uintptr_t>(theirs_->native()) : 0};
    return from_cuda_array_interface(fields, {GetParam(), 0}, [this] { released_ = true; });
  }
  // Holds the stream up until the returned function is called.
  static std::function<void()> gate(const Stream& stream) {
    auto state = std::make_shared<std::atomic<bool>>(false);
    stream.handle()->host_callback([state] { state->wait(false); });
    return [state] {
      *state = true;
      state->notify_all();
    };
  }
  std::optional<Stream> theirs_;
  NdArray memory_;
  std::atomic<bool> released_ = false;
};
QUARRY_ON_EVERY_DEVICE(Imports);

TEST_P(Imports, WaitForTheProducersStream) {
  static_cast<void>(ops::sum(test::arange({100}).astype(DType::uint8) + 1).item());  // kernels are ready
  const auto open = gate(*theirs_);
  theirs_->handle()->fill(memory_.raw(), 3, 100);
  NdArray x = import(/*with_stream=*/true);
  const NdArray y = x + 1;  // does not block
  EXPECT_FALSE(theirs_->record().done());
  open();
  EXPECT_EQ(ops::sum(y).item<int64_t>(), 400);
  // Given back in the order of the streams: at once, and the producer's next work waits for ours.
  const Stream side({GetParam(), 0});
  const auto open_side = gate(side);
  NdArray z;
  {
    const StreamScope scope(side);
    z = x + 1;
  }
  x = NdArray();
  EXPECT_TRUE(released_);
  theirs_->handle()->fill(memory_.raw(), 9, 100);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  open_side();
  EXPECT_EQ(ops::sum(z).item<int64_t>(), 400);
  theirs_->synchronize();
  EXPECT_EQ(ops::sum(memory_).item<int64_t>(), 900);
}

TEST_P(Imports, WithoutAStreamAreGivenBackWhenTheirWorkIsDone) {
  static_cast<void>(ops::sum(test::arange({100}).astype(DType::uint8) + 1).item());
  memory_.fill(3);
  Stream::current().synchronize();
  NdArray x = import(/*with_stream=*/false);
  const Stream side({GetParam(), 0});
  const auto open = gate(side);
  NdArray y;
  {
    const StreamScope scope(side);
    y = x + 1;
  }
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(released_);
    open();
  });
  x = NdArray();  // blocks
  EXPECT_TRUE(released_);
  opener.join();
  EXPECT_EQ(ops::sum(y).item<int64_t>(), 400);
}

TEST_P(Imports, AreReadOnlyIfTheProducerSaysSo) {
  memory_.fill(1);
  const CudaArrayInterface fields{
      .shape = {100}, .typestr = "|u1", .data = memory_.raw(), .read_only = true, .strides = std::nullopt};
  const NdArray x = from_cuda_array_interface(fields, {GetParam(), 0}, nullptr);
  EXPECT_FALSE(x.writeable());
  EXPECT_THROW(x.fill(2), InvalidArgument);
  EXPECT_EQ(ops::sum(x).item<int64_t>(), 100);
}

TEST_P(Imports, ExportsWaitOnTheConsumersStream) {
  if (GetParam() != DeviceKind::cuda) GTEST_SKIP() << "DLPack has no name for this device";
  const NdArray x = test::arange({1000});
  EXPECT_THROW(to_dlpack(x, {.stream = 0}), InvalidArgument);
  for (const intptr_t stream : {intptr_t{-1}, intptr_t{1}, intptr_t{2}, reinterpret_cast<intptr_t>(theirs_->native())})
    EXPECT_EQ(doubles(from_dlpack(to_dlpack(x, {.stream = stream}), {.stream = stream})), doubles(x)) << stream;
  EXPECT_THROW(to_dlpack(x, {.copy = false, .dl_device = DLDevice{DeviceType::cpu, 0}}), InvalidArgument);
  const auto on_host = held(to_dlpack(x, {.dl_device = DLDevice{DeviceType::cpu, 0}}));
  EXPECT_EQ(on_host->flags, kIsCopied);
  EXPECT_EQ(static_cast<const int64_t*>(on_host->tensor.data)[7], 7);
  EXPECT_TRUE(cuda_array_interface(x.broadcast_to({2, 1000})).read_only);
  EXPECT_FALSE(cuda_array_interface(x).read_only);
}

}  // namespace
}  // namespace quarry::local
