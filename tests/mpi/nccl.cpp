// Collectives of device buffers: over NCCL where each rank has its own GPU, refused alike on every rank elsewhere.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "comm/nccl/device_collectives.h"
#include "local/base/error.h"
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
