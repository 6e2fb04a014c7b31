// Collectives of device buffers: over NCCL where each rank has its own GPU, refused alike on every rank elsewhere.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "quarry/comm/device_collectives.h"
#include "quarry/local/base/error.h"
#include "tests/support/mpi_job.h"

namespace quarry::comm {
namespace {

using local::Device;
using local::DeviceKind;
using test::job;

TEST(DeviceCollectives, AreRefusedWithoutGpus) { EXPECT_EQ(make_device_collectives(job(), local::kCpu), nullptr); }

class CudaCollectives : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!local::available(DeviceKind::cuda)) GTEST_SKIP() << "no GPU on this machine";
    backend_ = &local::backend(DeviceKind::cuda);
    devices_ = backend_->device_count();
  }
  Device own_device() const { return {DeviceKind::cuda, job().node_rank() % devices_}; }

  local::Backend* backend_ = nullptr;
  int devices_ = 0;
};

TEST_F(CudaCollectives, BroadcastAndAllGather) {
  const Device device = own_device();
  const auto collectives = make_device_collectives(job(), device);
  if (job().size() > devices_) {
    EXPECT_EQ(collectives, nullptr) << "two ranks share a GPU";
    return;
  }
  ASSERT_NE(collectives, nullptr);
  const auto stream = backend_->create_stream(device.index, local::StreamRole::compute);
  constexpr int64_t n = 3'000'001;
  const int64_t total = n * job().size();
  auto* const host = static_cast<uint8_t*>(backend_->allocate_pinned(total));
  auto* const data = static_cast<uint8_t*>(backend_->allocate_slab(device.index, total));
  for (int root = 0; root < job().size(); ++root) {
    std::memset(host, 100 + job().rank(), n);
    stream->copy(data, host, n);
    collectives->broadcast(data, n, root, *stream);
    stream->copy(host, data, n);
    stream->synchronize();
    EXPECT_EQ(host[0], 100 + root);
    EXPECT_EQ(host[n - 1], 100 + root);
  }
  uint8_t* const mine = data + job().rank() * n;
  stream->fill(data, 0xee, total);
  stream->fill(mine, static_cast<uint8_t>(job().rank() + 1), n);
  collectives->all_gather(mine, n, data, *stream);
  stream->copy(host, data, total);
  stream->synchronize();
  for (int rank = 0; rank < job().size(); ++rank) {
    EXPECT_EQ(host[rank * n], rank + 1);
    EXPECT_EQ(host[rank * n + n - 1], rank + 1);
  }
  EXPECT_NO_THROW(collectives->check());
  backend_->free_slab(device.index, data, total);
  backend_->free_pinned(host, total);
}

TEST_F(CudaCollectives, AllReduce) {
  const Device device = own_device();
  const auto collectives = make_device_collectives(job(), device);
  if (!collectives) GTEST_SKIP() << "ranks share a GPU on this machine";
  const auto stream = backend_->create_stream(device.index, local::StreamRole::compute);
  constexpr int64_t n = 1'000'003;
  auto* const host = static_cast<double*>(backend_->allocate_pinned(n * 8));
  void* const data = backend_->allocate_slab(device.index, n * 8);
  for (int64_t i = 0; i < n; ++i) host[i] = static_cast<double>(i + job().rank());
  stream->copy(data, host, n * 8);
  collectives->all_reduce(data, n, local::DType::float64, ReduceOp::sum, *stream);
  stream->copy(host, data, n * 8);
  stream->synchronize();
  const double ranks = job().size(), sum_of_ranks = ranks * (ranks - 1) / 2;
  for (int64_t i = 0; i < n; i += 1009) EXPECT_EQ(host[i], ranks * static_cast<double>(i) + sum_of_ranks);
  auto* const numbers = reinterpret_cast<int32_t*>(host);
  numbers[0] = job().rank();
  stream->copy(data, numbers, 4);
  collectives->all_reduce(data, 1, local::DType::int32, ReduceOp::max, *stream);
  stream->copy(numbers, data, 4);
  stream->synchronize();
  EXPECT_EQ(numbers[0], job().size() - 1);
  EXPECT_THROW(collectives->all_reduce(data, 1, local::DType::complex64, ReduceOp::sum, *stream), local::NotSupported);
  EXPECT_NO_THROW(collectives->check());
  backend_->free_slab(device.index, data, n * 8);
  backend_->free_pinned(host, n * 8);
}

TEST_F(CudaCollectives, AllToAllOfAnySizes) {
  const Device device = own_device();
  const auto collectives = make_device_collectives(job(), device);
  if (!collectives) GTEST_SKIP() << "ranks share a GPU on this machine";
  const auto stream = backend_->create_stream(device.index, local::StreamRole::compute);
  const auto bytes_of_pair = [](int from, int to) { return int64_t{(from * 7 + to * 3 + 1) % 5} * 300'001; };
  const auto value_of_pair = [](int from, int to) { return static_cast<uint8_t>(1 + from * 16 + to); };
  std::vector<int64_t> out, in;
  int64_t out_total = 0, in_total = 0;
  for (int r = 0; r < job().size(); ++r) {
    out.push_back(bytes_of_pair(job().rank(), r));
    in.push_back(bytes_of_pair(r, job().rank()));
    out_total += out.back();
    in_total += in.back();
  }
  auto* const host = static_cast<uint8_t*>(backend_->allocate_pinned(in_total + 1));
  auto* const from = static_cast<uint8_t*>(backend_->allocate_slab(device.index, out_total + 1));
  auto* const to = static_cast<uint8_t*>(backend_->allocate_slab(device.index, in_total + 1));
  int64_t at = 0;
  for (int r = 0; r < job().size(); ++r) {
    stream->fill(from + at, value_of_pair(job().rank(), r), out[static_cast<size_t>(r)]);
    at += out[static_cast<size_t>(r)];
  }
  stream->fill(to, 0, in_total + 1);
  collectives->all_to_all(from, out, to, in, *stream);
  stream->copy(host, to, in_total + 1);
  stream->synchronize();
  at = 0;
  for (int r = 0; r < job().size(); ++r) {
    for (int64_t i = 0; i < in[static_cast<size_t>(r)]; i += 997) {
      ASSERT_EQ(host[at + i], value_of_pair(r, job().rank())) << "from " << r << " at " << i;
    }
    at += in[static_cast<size_t>(r)];
  }
  EXPECT_EQ(host[in_total], 0);
  out.pop_back();
  EXPECT_THROW(collectives->all_to_all(from, out, to, in, *stream), local::InvalidArgument);
  EXPECT_NO_THROW(collectives->check());
  backend_->free_slab(device.index, from, out_total + 1);
  backend_->free_slab(device.index, to, in_total + 1);
  backend_->free_pinned(host, in_total + 1);
}

TEST_F(CudaCollectives, AfterAnAbortEveryCallThrows) {
  const Device device = own_device();
  auto collectives = make_device_collectives(job(), device);
  if (!collectives) GTEST_SKIP() << "ranks share a GPU on this machine";
  const auto stream = backend_->create_stream(device.index, local::StreamRole::compute);
  collectives->abort();
  EXPECT_THROW(collectives->check(), local::CommError);
  EXPECT_THROW(collectives->broadcast(stream.get(), 8, 0, *stream), local::CommError);
  job().barrier();
  // A new one works.
  collectives = make_device_collectives(job(), device);
  ASSERT_NE(collectives, nullptr);
  void* const data = backend_->allocate_slab(device.index, 1 << 20);
  collectives->broadcast(data, 1 << 20, 0, *stream);
  EXPECT_NO_THROW(stream->synchronize());
  backend_->free_slab(device.index, data, 1 << 20);
}

}  // namespace
}  // namespace quarry::comm
