#include "tests/bench/plain_nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdlib>
#include <stdexcept>

namespace quarry::bench {
namespace {

void check(ncclResult_t result) {
  if (result != ncclSuccess) throw std::runtime_error(std::string("plain NCCL: ") + ncclGetErrorString(result));
}

class Plain final : public PlainNccl {
 public:
  Plain(const ncclUniqueId& id, int rank, int size) : rank_(rank), size_(size) {
    check(ncclCommInitRank(&comm_, size, id, rank));
  }
  ~Plain() override { ncclCommDestroy(comm_); }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;

  void all_to_all(const void* send, void* receive, int64_t bytes_each, void* stream) override {
    const auto bytes = static_cast<size_t>(bytes_each);
    check(ncclGroupStart());
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const size_t at = static_cast<size_t>(r) * bytes;
      check(
          ncclSend(static_cast<const char*>(send) + at, bytes, ncclUint8, r, comm_, static_cast<cudaStream_t>(stream)));
      check(ncclRecv(static_cast<char*>(receive) + at, bytes, ncclUint8, r, comm_, static_cast<cudaStream_t>(stream)));
    }
    check(ncclGroupEnd());
  }

  void all_reduce_float32(void* data, int64_t count, void* stream) override {
    check(ncclAllReduce(data, data, static_cast<size_t>(count), ncclFloat32, ncclSum, comm_,
                        static_cast<cudaStream_t>(stream)));
  }

 private:
  const int rank_, size_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::unique_ptr<PlainNccl> make_plain_nccl(int rank, int size, int device,
                                           const std::function<void(void* data, int64_t bytes)>& broadcast) {
  setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);  // as quarry
  cudaSetDevice(device);
  ncclUniqueId id{};
  if (rank == 0) check(ncclGetUniqueId(&id));
  broadcast(&id, sizeof id);
  return std::make_unique<Plain>(id, rank, size);
}

}  // namespace quarry::bench
