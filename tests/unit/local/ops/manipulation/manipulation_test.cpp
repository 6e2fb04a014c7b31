// What the replayed expressions cannot show: views and copies, devices, memory limits, exchange with others.
#include "quarry/local/ops/manipulation/manipulation.h"

#include <gtest/gtest.h>

#include <cstring>

#include "quarry/local/memory/adaptors.h"
#include "quarry/local/memory/slab_pool.h"
#include "quarry/local/ndarray/dlpack.h"
#include "quarry/local/ndarray/print.h"
#include "quarry/local/ndarray/transfer.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/types/types.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class Manipulation : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Manipulation);

NdArray counting(const Dims& shape) { return ops::arange(element_count(shape)).reshape(shape); }

TEST_P(Manipulation, ViewsShareMemoryAndCopiesDoNot) {
  const NdArray a = counting({2, 3, 4});
  for (const NdArray& view : {ops::moveaxis(a, 0, -1), ops::flip(a), ops::rot90(a), ops::expand_dims(a, 1),
                              ops::diagonal(a), ops::split(a, 2)[1], ops::sliding_window_view(a, 2, 1),
                              ops::reshape(a, {4, 6}), ops::ravel(a), ops::view(a, DType::uint8)})
    EXPECT_TRUE(ops::shares_memory(a, view));
  for (const NdArray& copy : {ops::copy(a), ops::flatten(a), ops::tile(a, 1), ops::roll(a, 0), ops::concatenate({a}),
                              ops::reshape(a, 24, "C", true), ops::pad(a, ops::zeros(1, DType::int64))})
    EXPECT_FALSE(ops::may_share_memory(a, copy));
}

TEST_P(Manipulation, OverlappingInPlaceOperands) {
  const NdArray x = counting({100000});
  x[{Slice{1, {}, {}}}].assign(x[{Slice{{}, -1, {}}}]);
  const std::vector<int64_t> values = to_vector<int64_t>(x);
  for (size_t i = 1; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<int64_t>(i) - 1);
  const NdArray y = counting({6});
  ops::concatenate({y[{Slice{3, {}, {}}}], y[{Slice{{}, 3, {}}}]}, 0, y);
  EXPECT_EQ(to_vector<int64_t>(y), (std::vector<int64_t>{3, 4, 5, 0, 1, 2}));
}

TEST_P(Manipulation, StridedViewsStayInsideTheirMemory) {
  const NdArray a = counting({10});
  EXPECT_EQ(to_vector<int64_t>(ops::as_strided(a, Dims{3, 3}, Dims{16, 8})),
            (std::vector<int64_t>{0, 1, 2, 2, 3, 4, 4, 5, 6}));
  EXPECT_THROW(ops::as_strided(a, Dims{3, 6}, Dims{16, 16}), InvalidArgument);
  EXPECT_THROW(ops::as_strided(a, Dims{3}, Dims{-8}), InvalidArgument);
  EXPECT_THROW(ops::as_strided(a, Dims{int64_t{1} << 40}, Dims{int64_t{1} << 40}), InvalidArgument);
  EXPECT_THROW(ops::as_strided(a, Dims{3}, Dims{8, 8}), InvalidArgument);
  EXPECT_EQ(ops::as_strided(a, Dims{0, 5}, Dims{800, 800}).size(), 0);
}

TEST_P(Manipulation, MixedDevicesAreRefused) {
  if (GetParam() == DeviceKind::emulated) {
    const NdArray here = counting({4}), there = here.to(Device{DeviceKind::emulated, 1});
    EXPECT_EQ(there.device(), (Device{DeviceKind::emulated, 1}));
    EXPECT_EQ(to_vector<int64_t>(there), to_vector<int64_t>(here));
  }
  const Device other =
      GetParam() == DeviceKind::emulated ? Device{DeviceKind::emulated, 1} : Device{DeviceKind::emulated, 0};
  const NdArray a = counting({4}), b = a.to(other);
  const auto refused = [&](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "no exception";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(to_string(a.device())), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(to_string(b.device())), std::string::npos) << error.what();
    }
  };
  refused([&] { ops::concatenate({a, b}); });
  refused([&] { ops::stack({a, b}); });
  refused([&] { ops::concatenate({a, a}, 0, ops::zeros(8, DType::int64, "C", other)); });
  refused([&] { ops::block({a, b}); });
  refused([&] { ops::append(a, b); });
  refused([&] { ops::insert(a, 1, b); });
  refused([&] { ops::repeat(a, b); });
  refused([&] { ops::linspace(a, b); });
  refused([&] { ops::full_like(a, b); });
  refused([&] { ops::geomspace(a + 1, b + 1); });
}

// softplus, written once for every device.
NdArray softplus(const NdArray& x) { return ops::maximum(x, 0) + ops::log1p(ops::exp(-ops::absolute(x))); }

TEST_P(Manipulation, DeviceAgnosticCode) {
  const std::vector<double> values = to_vector<double>(softplus(from_vector<double>({-1000, 0, 1000})));
  EXPECT_EQ(values[0], 0);
  EXPECT_NEAR(values[1], 0.6931471805599453, 1e-15);
  EXPECT_EQ(values[2], 1000);
}

TEST_P(Manipulation, CurrentDevice) {
  const Device before = current_device();
  {
    const DeviceScope scope(kCpu);
    set_device(before);
    EXPECT_EQ(ops::zeros(3).device(), before);
    set_device(kCpu);
    EXPECT_EQ(ops::zeros(3).device(), kCpu);
    EXPECT_EQ(ops::zeros(3, std::nullopt, "C", before).device(), before);
  }
  EXPECT_EQ(current_device(), before);
  EXPECT_THROW(set_device(Device{DeviceKind::emulated, 99}), DeviceError);
  EXPECT_EQ(current_device(), before);
}

TEST_P(Manipulation, OutOfMemoryLosesNothing) {
  const Device device{GetParam(), 0};
  const std::unique_ptr<DeviceStream> stream = backend(GetParam()).create_stream(0, StreamRole::compute);
  const auto pool = SlabPool::fixed(device, int64_t{1} << 20);
  const auto work = [&] {
    const NdArray a = counting({60, 10});
    const NdArray parts = ops::concatenate({ops::tile(a, {2, 1}), ops::roll(a.T().reshape({60, 10}), 3, 0)});
    const NdArray padded = ops::pad(parts, ops::full(1, 2, DType::int64), "reflect");
    return to_vector<int64_t>(ops::repeat(ops::delete_(padded, 3, 1), 2, 0)).size();
  };
  int failed = 0;
  for (bool threw = true; threw; ++failed) {
    FaultResource fault(*pool, failed + 1);
    const DeviceScope scope(ExecContext{device, stream.get(), &fault, 0});
    try {
      EXPECT_EQ(work(), 2u * 184 * 13);
      threw = false;
    } catch (const OutOfMemory&) {
    }
    stream->synchronize();
    EXPECT_EQ(pool->used_bytes(), 0) << "after failure of allocation " << failed + 1;
  }
  EXPECT_GT(failed, 5);
  const DeviceScope scope(ExecContext{device, stream.get(), pool.get(), 0});
  EXPECT_THROW(ops::zeros({1 << 20}), OutOfMemory);
  EXPECT_EQ(work(), 2u * 184 * 13);
}

TEST_P(Manipulation, HostCopies) {
  const DeviceKind kind = GetParam();
  const NdArray pinned = pinned_empty({1000}, DType::int32, kind), back = pinned_empty({1000}, DType::int32, kind);
  for (int32_t i = 0; i < 1000; ++i) pinned.data<int32_t>()[i] = i;
  const ExecContext context = current_context();
  const NdArray there = from_host_async(pinned.raw(), DType::int32, {10, 100}, context);
  to_host_async(there.T(), back.raw(), context);
  context.stream->synchronize();
  EXPECT_EQ(back.data<int32_t>()[1], 100);
  std::vector<int32_t> pageable(1000);
  to_host(there, pageable.data());
  EXPECT_EQ(pageable[999], 999);
  EXPECT_EQ(to_vector<int32_t>(from_host(pageable.data(), DType::int32, {1000})), pageable);
  EXPECT_THROW(from_host(pageable.data(), DType::int32, {-1}), InvalidArgument);
}

TEST_P(Manipulation, PeerCopies) {
  const Device other{GetParam(), 1};
  if (backend(GetParam()).device_count() < 2) GTEST_SKIP() << "one device of kind " << name(GetParam());
  const NdArray a = counting({300, 400}), there = (a + 1).T().to(other);  // queued work, other strides
  EXPECT_EQ(there.device(), other);
  const NdArray doubled = there * 2;
  EXPECT_EQ(doubled.device(), other);
  EXPECT_THROW(a + doubled.T(), InvalidArgument);
  const NdArray back = doubled.to(a.device());
  EXPECT_EQ(to_vector<int64_t>(back), to_vector<int64_t>((a.T() + 1) * 2));
  EXPECT_EQ(a.to(other).to(a.device()).to(other).device(), other);
  EXPECT_EQ(ops::zeros({0, 3}, std::nullopt, "C", other).to(a.device()).shape(), (Dims{0, 3}));
}

TEST_P(Manipulation, DLPackSharesMemory) {
  const NdArray a = counting({4, 6})[{Slice{{}, {}, -1}, Slice{1, {}, 2}}];
  if (GetParam() == DeviceKind::emulated) {
    EXPECT_THROW(to_dlpack(a), NotSupported);
    return;
  }
  const NdArray shared = from_dlpack(to_dlpack(a)), older = from_dlpack(to_dlpack_unversioned(a));
  EXPECT_EQ(shared.raw(), a.raw());
  EXPECT_EQ(shared.strides(), a.strides());
  shared.fill(7);
  EXPECT_EQ(to_vector<int64_t>(a), std::vector<int64_t>(12, 7));
  EXPECT_EQ(to_vector<int64_t>(older), std::vector<int64_t>(12, 7));
  for (int i = 0; i < kDTypeCount; ++i) {
    const NdArray values = ops::ones({3}, static_cast<DType>(i));
    EXPECT_EQ(from_dlpack(to_dlpack(values)).dtype(), values.dtype());
  }
}

TEST(DLPack, OwnsWhatItTakes) {
  using namespace dlpack;
  static int deleted = 0;
  deleted = 0;
  int64_t shape[] = {2}, strides[] = {1};
  float data[] = {1, 2};
  DLManagedTensorVersioned tensor{{1, 3},
                                  nullptr,
                                  [](DLManagedTensorVersioned*) { ++deleted; },
                                  0,
                                  {data, {DeviceType::cpu, 0}, 1, {TypeCode::floating, 32, 1}, shape, strides, 0}};
  {
    const NdArray a = from_dlpack(&tensor);
    EXPECT_EQ(to_vector<float>(a), (std::vector<float>{1, 2}));
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);
  const auto refused = [&](const auto& change) {
    DLManagedTensorVersioned bad = tensor;
    change(bad);
    const int before = deleted;
    EXPECT_THROW(from_dlpack(&bad), Error);
    EXPECT_EQ(deleted, before + 1);
  };
  refused([](auto& t) { t.version.major = 2; });
  refused([](auto& t) { t.tensor.ndim = -1; });
  refused([](auto& t) { t.tensor.ndim = 99; });
  refused([](auto& t) { t.tensor.dtype.lanes = 4; });
  refused([](auto& t) { t.tensor.dtype.bits = 80; });
  refused([](auto& t) { t.tensor.device.type = static_cast<DeviceType>(10); });
  refused([](auto& t) { t.tensor.data = nullptr; });
  int64_t negative[] = {-2};
  refused([&](auto& t) { t.tensor.shape = negative; });
  EXPECT_THROW(from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr)), InvalidArgument);
  EXPECT_THROW(cuda_array_interface(ops::zeros(2)), InvalidArgument);
}

TEST(Printing, OptionsOfTheThread) {
  const NdArray a = from_vector<double>({1.0 / 3, 2e-9});
  EXPECT_EQ(a.to_string(), "[3.33333333e-01 2.00000000e-09]");
  {
    const PrintScope scope({.precision = 3, .suppress = true});
    EXPECT_EQ(a.to_string(), "[0.333 0.   ]");
  }
  EXPECT_EQ(a.to_string(), "[3.33333333e-01 2.00000000e-09]");
  EXPECT_EQ(ops::ones({2}, DType::bfloat16).repr(), "array([1., 1.], dtype=bfloat16)");
  EXPECT_THROW(set_print_options({.sign = 'x'}), InvalidArgument);
}

}  // namespace
}  // namespace quarry::local
