// Indexing, printing and casts against NumPy are in oracle_test.cpp.
#include "quarry/local/ndarray/ndarray.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using test::arange;

class OnDevices : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(OnDevices);

TEST_P(OnDevices, FromAndToHost) {
  const NdArray a = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(a.device().kind, GetParam());
  EXPECT_EQ(a.shape(), (Dims{2, 3}));
  EXPECT_EQ(a.strides(), (Dims{12, 4}));
  EXPECT_EQ(to_vector<float>(a), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(to_vector<float>(a.T()), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(to_vector<bool>(from_vector<bool>({true, false, true})), (std::vector<bool>{true, false, true}));
  EXPECT_THROW(a.data<double>(), TypeError);
  EXPECT_THROW(from_vector<int8_t>({1, 2, 3}, {2, 2}), InvalidArgument);
  EXPECT_EQ(to_vector<double>(NdArray({0, 3}, DType::float64)), std::vector<double>{});
}

TEST_P(OnDevices, Items) {
  EXPECT_EQ(from_vector<int16_t>({-7}, {}).item<int16_t>(), -7);
  EXPECT_EQ((arange({3, 4})[{2, 3}].item<int64_t>()), 11);
  EXPECT_EQ((arange({1, 1})[{0, 0}].item<double>()), 0.0);
  EXPECT_THROW(arange({2}).item(), InvalidArgument);
  EXPECT_THROW(arange({0}).item(), InvalidArgument);
}

TEST_P(OnDevices, ViewsShareMemory) {
  const NdArray a = arange({4, 6});
  const NdArray view = a[{Slice{1, 3, {}}, Slice{{}, {}, -2}}];
  EXPECT_EQ(view.buffer(), a.buffer());
  EXPECT_EQ(to_vector<int64_t>(view), (std::vector<int64_t>{11, 9, 7, 17, 15, 13}));
  view.fill(-1);
  EXPECT_EQ(to_vector<int64_t>(a[{1}]), (std::vector<int64_t>{6, -1, 8, -1, 10, -1}));
  EXPECT_EQ(to_vector<int64_t>(a[{0}]), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST_P(OnDevices, TransposeBroadcastReshape) {
  const NdArray a = arange({2, 3, 4});
  const int64_t axes[] = {2, 0, -2};
  const NdArray t = a.transpose(axes);
  EXPECT_EQ(t.shape(), (Dims{4, 2, 3}));
  EXPECT_EQ((t[{3, 1, 2}].item<int64_t>()), 23);
  const int64_t repeated[] = {0, 0, 1}, few[] = {0, 1}, outside[] = {0, 1, 3};
  EXPECT_THROW(a.transpose(repeated), InvalidArgument);
  EXPECT_THROW(a.transpose(few), InvalidArgument);
  EXPECT_THROW(a.transpose(outside), IndexError);

  const NdArray row = arange({1, 3}).broadcast_to({2, 2, 3});
  EXPECT_EQ(row.strides(), (Dims{0, 0, 8}));
  EXPECT_EQ(to_vector<int64_t>(row), (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_THROW(arange({3}).broadcast_to({2}), InvalidArgument);
  EXPECT_THROW(arange({2, 3}).broadcast_to({3}), InvalidArgument);

  EXPECT_EQ(a.reshape({6, -1}).buffer(), a.buffer());
  EXPECT_EQ(a.reshape({6, -1}).shape(), (Dims{6, 4}));
  EXPECT_EQ(a.reshape({1, 2, 1, 12, 1}).buffer(), a.buffer());
  EXPECT_EQ(a.T().reshape({4, 6}).buffer() == a.buffer(), false);  // no strides for it: a copy
  EXPECT_EQ(to_vector<int64_t>(a.T().reshape({24}))[1], 12);
  const NdArray every_other = a[{ellipsis, Slice{{}, {}, 2}}];
  EXPECT_EQ(every_other.reshape({3, 2, 2}).buffer(), a.buffer());
  EXPECT_EQ(to_vector<int64_t>(every_other.reshape({3, 4})), to_vector<int64_t>(every_other));
  EXPECT_EQ(every_other.reshape({12}).strides(), (Dims{16}));
  EXPECT_EQ(arange({0, 3}).reshape({5, 0}).shape(), (Dims{5, 0}));
  EXPECT_EQ(arange({1}).reshape({}).ndim(), 0);
  for (const Dims& wrong : {Dims{5, 5}, Dims{-1, -1}, Dims{-1, 5}, Dims{-2, 12}})
    EXPECT_THROW(a.reshape(wrong), InvalidArgument);
  EXPECT_THROW(arange({0}).reshape({-1, 0}), InvalidArgument);
}

TEST_P(OnDevices, RealAndImaginaryParts) {
  const NdArray z = from_vector<std::complex<float>>({{1, 2}, {3, 4}});
  EXPECT_EQ(to_vector<float>(z.real()), (std::vector<float>{1, 3}));
  EXPECT_EQ(to_vector<float>(z.imag()), (std::vector<float>{2, 4}));
  z.imag().fill(9);
  EXPECT_EQ(to_vector<std::complex<float>>(z)[1], (std::complex<float>{3, 9}));
  EXPECT_EQ(to_vector<int64_t>(arange({2}).imag()), (std::vector<int64_t>{0, 0}));
}

TEST_P(OnDevices, CopiesAndCasts) {
  const NdArray a = arange({3, 4}).T();
  const NdArray packed = a.copy();
  EXPECT_TRUE(packed.is_contiguous());
  EXPECT_EQ(to_vector<int64_t>(packed), to_vector<int64_t>(a));
  EXPECT_EQ(to_vector<float16>(a.astype(DType::float16))[1], float16(4.0f));
  EXPECT_NE(a.astype(DType::int64).buffer(), a.buffer());
}

TEST_P(OnDevices, AssignBroadcastsCastsAndHandlesOverlap) {
  const NdArray a = arange({2, 3});
  a.assign(from_vector<int8_t>({7, 8, 9}));
  EXPECT_EQ(to_vector<int64_t>(a), (std::vector<int64_t>{7, 8, 9, 7, 8, 9}));
  a.assign(from_vector<int8_t>({1, 2, 3}, {1, 1, 3}));  // leading ones may be more than there are axes
  EXPECT_EQ(to_vector<int64_t>(a), (std::vector<int64_t>{1, 2, 3, 1, 2, 3}));
  EXPECT_THROW(a.assign(from_vector<double>({1, 2, 3})), TypeError);
  EXPECT_THROW(a.assign(arange({2})), InvalidArgument);
  EXPECT_THROW(a.assign(arange({2, 1, 3})), InvalidArgument);

  const NdArray line = arange({6});
  line[{Slice{1, {}, {}}}].assign(line[{Slice{{}, -1, {}}}]);
  EXPECT_EQ(to_vector<int64_t>(line), (std::vector<int64_t>{0, 0, 1, 2, 3, 4}));
  line.assign(line[{Slice{{}, {}, -1}}]);
  EXPECT_EQ(to_vector<int64_t>(line), (std::vector<int64_t>{4, 3, 2, 1, 0, 0}));
  const NdArray square = arange({3, 3});
  square.assign(square.T());
  EXPECT_EQ(to_vector<int64_t>(square), (std::vector<int64_t>{0, 3, 6, 1, 4, 7, 2, 5, 8}));
}

TEST_P(OnDevices, MoveBetweenDevices) {
  const NdArray a = arange({3, 5})[{Slice{{}, {}, -1}, Slice{1, {}, 2}}];
  const NdArray host = a.to(kCpu);
  EXPECT_EQ(host.device(), kCpu);
  EXPECT_EQ(to_vector<int64_t>(host), to_vector<int64_t>(a));
  EXPECT_EQ(a.to(a.device()).buffer(), a.buffer());
  const Device second{DeviceKind::emulated, 1};
  const NdArray there = a.to(second);
  EXPECT_EQ(there.device(), second);
  EXPECT_EQ(to_vector<int64_t>(there), to_vector<int64_t>(a));
  try {
    ops::add(there, a);
    FAIL() << "no exception";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("emulated:1"), std::string::npos) << error.what();
  }
}

TEST_P(OnDevices, EagerOperatorsAndScalars) {
  const NdArray x = from_vector<float>({1, 2, 3});
  EXPECT_EQ((x + 1).dtype(), DType::float32);
  EXPECT_EQ(to_vector<float>(2.0 * x - 1), (std::vector<float>{1, 3, 5}));
  EXPECT_EQ((x + Scalar::strong(1.0, DType::float64)).dtype(), DType::float64);
  EXPECT_EQ(to_vector<bool>(x > 1.5), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(to_vector<bool>(from_vector<uint8_t>({0, 255}) < -1), (std::vector<bool>{false, false}));
  EXPECT_EQ(to_vector<bool>(from_vector<uint8_t>({0, 255}) < 300), (std::vector<bool>{true, true}));
  EXPECT_THROW(from_vector<uint8_t>({1}) + 300, InvalidArgument);
  EXPECT_EQ(to_vector<float>(ops::where(x > 2, x, 0)), (std::vector<float>{0, 0, 3}));
  EXPECT_EQ(to_vector<float>(ops::clip(x, 1.5, 2.5)), (std::vector<float>{1.5, 2, 2.5}));
  EXPECT_EQ(ops::add(1, 2).item<int64_t>(), 3);
  const auto [quotient, remainder] = ops::divmod(arange({5}), 3);
  EXPECT_EQ(to_vector<int64_t>(quotient), (std::vector<int64_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(to_vector<int64_t>(remainder), (std::vector<int64_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(to_vector<int32_t>(ops::frexp(from_vector<double>({8.0})).second), (std::vector<int32_t>{4}));
  EXPECT_EQ(to_vector<int64_t>(-arange({3}) % 3 + (~arange({3}) & 1)), (std::vector<int64_t>{1, 2, 2}));
}

TEST_P(OnDevices, LongChainsKeepTheirOrder) {
  // On asynchronous devices a missing wait would show: buffers are reused while earlier work is still queued.
  NdArray x = from_vector<double>(std::vector<double>(1000, 1.0));
  for (int i = 0; i < 200; ++i) x = x * 2 - x + 1;
  EXPECT_EQ(ops::sum(x).item<double>(), 201000);
}

TEST_P(OnDevices, ThreadsMayShareAnArray) {
  const NdArray x = from_vector<double>(std::vector<double>(4096, 1.5));
  const NdArray y = x + x;  // possibly still running when the threads start
  std::vector<double> sums(4);
  std::vector<std::thread> threads;
  for (double& sum : sums) {
    threads.emplace_back([&sum, &y] {
      NdArray mine = y;
      for (int i = 0; i < 20; ++i) mine = y + mine;
      sum = ops::sum(mine).item<double>();
    });
  }
  for (auto& thread : threads) thread.join();
  for (double sum : sums) EXPECT_EQ(sum, 4096 * 63.0);
}

TEST(NdArrays, RefuseWhatCannotBe) {
  EXPECT_THROW(NdArray({-1}, DType::int8), InvalidArgument);
  EXPECT_THROW(NdArray({int64_t{1} << 62, 2}, DType::float64), InvalidArgument);
  EXPECT_THROW(NdArray({int64_t{1} << 61}, DType::float64), InvalidArgument);
  EXPECT_THROW(NdArray({int64_t{1} << 50}, DType::float64), OutOfMemory);
  EXPECT_THROW(NdArray().raw(), InvalidArgument);
}

TEST(NdArrays, PrintFromTheirCorners) {
  const NdArray whole = arange({50, 4, 40});
  const NdArray shown({6, 4, 6}, DType::int64);
  for (const Slice& rows : {Slice{{}, 3, {}}, Slice{-3, {}, {}}})
    for (const Slice& columns : {Slice{{}, 3, {}}, Slice{-3, {}, {}}})
      shown[{rows, full_slice, columns}].assign(whole[{rows, full_slice, columns}]);
  EXPECT_EQ(summary_string(shown, whole.shape()), whole.to_string());
  EXPECT_EQ(summary_repr(shown, whole.shape()), whole.repr());
}

TEST(NdArrays, MoreThanTwoToThe31Elements) {
  // The pages of a broadcast view are one element's.
  const NdArray one = from_vector<uint8_t>({1}, {1, 1});
  const NdArray huge = one.broadcast_to({70000, 70000});
  EXPECT_EQ(huge.size(), int64_t{4900000000});
  EXPECT_EQ((huge[{-1, Slice{{}, {}, 35000}}].shape()), (Dims{2}));
  EXPECT_EQ(huge.to_string().substr(0, 20), "[[1 1 1 ... 1 1 1]\n ");
}

}  // namespace
}  // namespace quarry::local
