// libquarry_nccl: the only file with NCCL calls.
#include "comm/nccl/nccl_api.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

namespace quarry::comm {
namespace {

static_assert(sizeof(ncclUniqueId) == kNcclIdBytes);

using Clock = std::chrono::steady_clock;
constexpr auto kPollInterval = std::chrono::microseconds(50);
constexpr auto kSpin = std::chrono::microseconds(200);

void checked(ncclResult_t result, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw local::CommError(fmt::format("{}: {} ({})", call, ncclGetErrorString(result), ncclGetLastError(nullptr)));
}

void checked(cudaError_t result, const char* call) {
  if (result != cudaSuccess) throw local::DeviceError(fmt::format("{}: {}", call, cudaGetErrorString(result)));
}

ncclDataType_t type_of(local::DType dtype) {
  using local::DType;
  switch (dtype) {
    case DType::int8:
      return ncclInt8;
    case DType::uint8:
      return ncclUint8;
    case DType::int32:
      return ncclInt32;
    case DType::uint32:
      return ncclUint32;
    case DType::int64:
      return ncclInt64;
    case DType::uint64:
      return ncclUint64;
    case DType::float16:
      return ncclFloat16;
    case DType::bfloat16:
      return ncclBfloat16;
    case DType::float32:
      return ncclFloat32;
    case DType::float64:
      return ncclFloat64;
    case DType::bool_:
    case DType::int16:
    case DType::uint16:
    case DType::complex64:
    case DType::complex128:
      break;
  }
  throw local::NotSupported(fmt::format("NCCL does not reduce {}", local::name(dtype)));
}

ncclRedOp_t operation(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
  }
  return ncclSum;
}

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(const std::string& id, int rank, int size, local::Device device, double timeout_seconds)
      : device_(device.index), rank_(rank), size_(size), timeout_(timeout_seconds) {
    ncclUniqueId unique;
    std::memcpy(&unique, id.data(), sizeof unique);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    checked(cudaSetDevice(device_), "cudaSetDevice");
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, size, unique, rank, &config);
    try {
      checked(result, "ncclCommInitRankConfig");
      settle("ncclCommInitRankConfig");
    } catch (...) {
      abort();
      throw;
    }
  }

  ~NcclCollectives() override {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return;
    cudaSetDevice(device_);
    // Finalising waits for the peers' last collectives; one that never comes is given up after the timeout.
    ncclResult_t state = ncclCommFinalize(comm_);
    const auto end = Clock::now() + timeout_;
    while (state == ncclInProgress && Clock::now() < end) {
      std::this_thread::sleep_for(kPollInterval);
      if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess) state = ncclSystemError;
    }
    if (state == ncclSuccess)
      ncclCommDestroy(comm_);
    else
      ncclCommAbort(comm_);
  }

  void broadcast(void* data, int64_t bytes, int root, local::Stream& stream) override {
    if (bytes == 0) return;
    const std::lock_guard lock(mutex_);
    ready();
    start(ncclBroadcast(data, data, static_cast<size_t>(bytes), ncclUint8, root, comm_, native(stream)),
          "ncclBroadcast");
  }

  void all_gather(const void* mine, int64_t bytes_each, void* all, local::Stream& stream) override {
    if (bytes_each == 0) return;
    const std::lock_guard lock(mutex_);
    ready();
    start(ncclAllGather(mine, all, static_cast<size_t>(bytes_each), ncclUint8, comm_, native(stream)), "ncclAllGather");
  }

  void all_reduce(void* data, int64_t count, local::DType dtype, ReduceOp op, local::Stream& stream) override {
    const ncclDataType_t type = type_of(dtype);
    if (count == 0) return;
    const std::lock_guard lock(mutex_);
    ready();
    start(ncclAllReduce(data, data, static_cast<size_t>(count), type, operation(op), comm_, native(stream)),
          "ncclAllReduce");
  }

  void all_to_all(const void* send, std::span<const int64_t> send_bytes, void* receive,
                  std::span<const int64_t> receive_bytes, local::Stream& stream) override {
    if (send_bytes.size() != static_cast<size_t>(size_) || receive_bytes.size() != static_cast<size_t>(size_)) {
      throw local::InvalidArgument(
          fmt::format("all-to-all of {} and {} pieces over {} ranks", send_bytes.size(), receive_bytes.size(), size_));
    }
    const std::lock_guard lock(mutex_);
    ready();
    try {
      checked(ncclGroupStart(), "ncclGroupStart");
      const auto* from = static_cast<const std::byte*>(send);
      auto* to = static_cast<std::byte*>(receive);
      ncclResult_t result = ncclSuccess;  // the group must be ended in any case
      const auto keep = [&](ncclResult_t one) {
        if (result == ncclSuccess && one != ncclInProgress) result = one;
      };
      for (int r = 0; r < size_; ++r) {
        const auto out = static_cast<size_t>(send_bytes[static_cast<size_t>(r)]);
        const auto in = static_cast<size_t>(receive_bytes[static_cast<size_t>(r)]);
        if (r == rank_ && out > 0 && out == in) {
          stream.copy(to, from, static_cast<int64_t>(out));
        } else {
          if (out > 0) keep(ncclSend(from, out, ncclUint8, r, comm_, native(stream)));
          if (in > 0) keep(ncclRecv(to, in, ncclUint8, r, comm_, native(stream)));
        }
        from += out;
        to += in;
      }
      const ncclResult_t end = ncclGroupEnd();
      checked(result, "ncclSend or ncclRecv");
      checked(end, "ncclGroupEnd");
      if (end == ncclInProgress) settle("ncclGroupEnd");
    } catch (...) {
      give_up();
      throw;
    }
  }

  void check() override {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) throw local::CommError("NCCL: the communicator was aborted");
    ncclResult_t state = ncclSuccess;
    checked(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    checked(state, "NCCL");
  }

  // Takes no lock before it raises the flag: the thread that holds the lock may be waiting for what is given up here.
  void abort() noexcept override {
    aborting_ = true;
    const std::lock_guard lock(mutex_);
    give_up();
  }

 private:
  static cudaStream_t native(local::Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

  void ready() {
    if (comm_ == nullptr) throw local::CommError("NCCL: the communicator was aborted");
    checked(cudaSetDevice(device_), "cudaSetDevice");
  }

  void start(ncclResult_t result, const char* call) {
    try {
      checked(result, call);
      if (result == ncclInProgress) settle(call);
    } catch (...) {
      give_up();
      throw;
    }
  }

  // A non-blocking call is queued once the communicator's state is no longer "in progress".
  void settle(const char* call) {
    const auto begin = Clock::now();
    ncclResult_t state = ncclInProgress;
    while (true) {
      checked(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
      checked(state, call);
      if (state == ncclSuccess) return;
      if (aborting_) throw local::CommError(fmt::format("{}: aborted", call));
      const auto waited = Clock::now() - begin;
      if (waited > timeout_)
        throw local::CommError(fmt::format("{}: no answer from the other ranks in {:g} s", call, timeout_.count()));
      // A call is queued in some microseconds; only the first ones, which connect, take longer.
      if (waited < kSpin) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kPollInterval);
      }
    }
  }

  void give_up() noexcept {
    if (comm_ == nullptr) return;
    cudaSetDevice(device_);
    ncclCommAbort(comm_);
    comm_ = nullptr;
  }

  const int device_, rank_, size_;
  const std::chrono::duration<double> timeout_;
  std::mutex mutex_;
  std::atomic<bool> aborting_ = false;
  ncclComm_t comm_ = nullptr;
};

class NcclLibrary final : public NcclApi {
 public:
  NcclLibrary() {
    // NVLink multicast stays off unless the user asks for it: a program that dies while it holds a multicast object can
    // take the node's GPUs out of service.
    setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
  }

  std::string make_id() override {
    ncclUniqueId id;
    checked(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return std::string(reinterpret_cast<const char*>(&id), sizeof id);
  }

  std::unique_ptr<DeviceCollectives> connect(const std::string& id, int rank, int size, local::Device device,
                                             double timeout_seconds) override {
    return std::make_unique<NcclCollectives>(id, rank, size, device, timeout_seconds);
  }
};

}  // namespace
}  // namespace quarry::comm

extern "C" quarry::comm::NcclApi* quarry_nccl_api() {
  static quarry::comm::NcclLibrary library;
  return &library;
}
