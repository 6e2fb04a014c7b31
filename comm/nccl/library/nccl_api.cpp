// libquarry_nccl: the only file with NCCL calls.
#include "quarry/comm/nccl/nccl_api.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "quarry/local/base/options.h"
#include "quarry/local/base/thread.h"

namespace quarry::comm {
namespace {

static_assert(sizeof(ncclUniqueId) == kNcclIdBytes);

using Clock = std::chrono::steady_clock;
constexpr auto kPollInterval = std::chrono::microseconds(50);
constexpr auto kGrace = std::chrono::seconds(1);  // for the call that holds the lock

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

// Calls of a communicator that does not block are queued by a thread that NCCL makes for each (170 to 300 us); calls of
// one that blocks are queued at once, but wait for ever for a rank that died while they connect. So a communicator that
// does not block is made first, which can be given up at any time; it makes the one that all calls use. That one
// connects everything there and then, in a thread that is given up after the timeout (the rings and trees while it is
// made: NCCL_RUNTIME_CONNECT=0; pairs of ranks by a message from each to each). From then on calls only queue kernels,
// and abort(), from any thread, ends those that wait for a rank.
class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(const std::string& id, int rank, int size, local::Device device, double timeout_seconds)
      : device_(device.index), rank_(rank), size_(size), timeout_(timeout_seconds) {
    ncclUniqueId unique;
    std::memcpy(&unique, id.data(), sizeof unique);
    checked(cudaSetDevice(device_), "cudaSetDevice");
    ncclComm_t parent = nullptr, child = nullptr;
    try {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      checked(ncclCommInitRankConfig(&parent, size, unique, rank, &config), "ncclCommInitRankConfig");
      settle(parent, "ncclCommInitRankConfig");
      config.blocking = 1;
      config.splitShare = 0;
      checked(ncclCommSplit(parent, /*color=*/0, /*key=*/rank, &child, &config), "ncclCommSplit");
      settle(parent, "ncclCommSplit");
      comm_ = child;
      checked(ncclCommFinalize(parent), "ncclCommFinalize");
      settle(parent, "ncclCommFinalize");
      checked(ncclCommDestroy(std::exchange(parent, nullptr)), "ncclCommDestroy");
      supervised([this] { connect_pairs(); }, "connecting");
    } catch (...) {
      if (parent != nullptr) ncclCommAbort(parent);  // waits for the thread that makes the child
      if (!given_up_) comm_ = child;
      abort();
      throw;
    }
  }

  // Finalising waits for the peers' last collectives; one that never comes is given up after the timeout.
  ~NcclCollectives() override {
    if (comm_ == nullptr) return;
    try {
      supervised([this] { checked(ncclCommFinalize(comm_), "ncclCommFinalize"); }, "ncclCommFinalize");
    } catch (...) {
      give_up();
      return;
    }
    cudaSetDevice(device_);
    ncclCommDestroy(comm_);
  }

  void broadcast(void* data, int64_t bytes, int root, local::DeviceStream& stream) override {
    if (bytes == 0) return;
    const std::lock_guard lock(mutex_);
    ready();
    start(ncclBroadcast(data, data, static_cast<size_t>(bytes), ncclUint8, root, comm_, native(stream)),
          "ncclBroadcast");
  }

  void all_gather(const void* mine, int64_t bytes_each, void* all, local::DeviceStream& stream) override {
    if (bytes_each == 0) return;
    const std::lock_guard lock(mutex_);
    ready();
    start(ncclAllGather(mine, all, static_cast<size_t>(bytes_each), ncclUint8, comm_, native(stream)), "ncclAllGather");
  }

  void all_reduce(void* data, int64_t count, local::DType dtype, ReduceOp op, local::DeviceStream& stream) override {
    const ncclDataType_t type = type_of(dtype);
    if (count == 0) return;
    const std::lock_guard lock(mutex_);
    ready();
    start(ncclAllReduce(data, data, static_cast<size_t>(count), type, operation(op), comm_, native(stream)),
          "ncclAllReduce");
  }

  void all_to_all(const void* send, std::span<const int64_t> send_bytes, void* receive,
                  std::span<const int64_t> receive_bytes, local::DeviceStream& stream) override {
    if (send_bytes.size() != static_cast<size_t>(size_) || receive_bytes.size() != static_cast<size_t>(size_)) {
      throw local::InvalidArgument(fmt::format("all-to-all of {} and {} segments over {} ranks", send_bytes.size(),
                                               receive_bytes.size(), size_));
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

  // A call that holds the lock ends when what it waits for is given up: the device's queue is full of work behind a
  // collective that waits for a rank.
  void abort() noexcept override {
    aborting_ = true;
    const std::unique_lock lock(mutex_, kGrace);
    give_up();
  }

 private:
  static cudaStream_t native(local::DeviceStream& stream) { return static_cast<cudaStream_t>(stream.native()); }

  void ready() {
    if (comm_ == nullptr || aborting_) throw local::CommError("NCCL: the communicator was aborted");
    checked(cudaSetDevice(device_), "cudaSetDevice");
  }

  void start(ncclResult_t result, const char* call) {
    try {
      checked(result, call);
    } catch (...) {
      give_up();
      throw;
    }
  }

  // Waits until a call of a communicator that does not block is over.
  void settle(ncclComm_t comm, const char* call) {
    const auto begin = Clock::now();
    ncclResult_t state = ncclInProgress;
    while (true) {
      checked(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
      checked(state, call);
      if (state == ncclSuccess) return;
      give_up_after(begin, call);
      std::this_thread::sleep_for(kPollInterval);
    }
  }

  void give_up_after(Clock::time_point begin, const char* call) const {
    if (aborting_) throw local::CommError(fmt::format("{}: aborted", call));
    if (Clock::now() - begin > timeout_)
      throw local::CommError(fmt::format("{}: no answer from the other ranks in {:g} s", call, timeout_.count()));
  }

  // In a thread of its own, which ends when the communicator is given up; then this throws.
  void supervised(const std::function<void()>& work, const char* call) {
    std::packaged_task<void()> task([this, &work] {
      checked(cudaSetDevice(device_), "cudaSetDevice");
      work();
    });
    std::future<void> done = task.get_future();
    std::thread thread = local::start_thread("NCCL", [&task] { task(); });
    std::exception_ptr error;
    try {
      const auto begin = Clock::now();
      while (done.wait_for(kPollInterval) != std::future_status::ready) give_up_after(begin, call);
    } catch (...) {
      error = std::current_exception();
      give_up();
    }
    thread.join();
    if (error) std::rethrow_exception(error);
    done.get();
  }

  // A byte from every rank to every other one, and a sum.
  void connect_pairs() {
    struct Memory {
      void* data = nullptr;
      cudaStream_t stream = nullptr;
      ~Memory() {
        if (stream != nullptr) cudaStreamDestroy(stream);
        cudaFree(data);
      }
    } memory;
    const auto size = static_cast<size_t>(size_);
    constexpr size_t kSumBytes = 64;
    checked(cudaStreamCreateWithFlags(&memory.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    checked(cudaMalloc(&memory.data, kSumBytes + 2 * size), "cudaMalloc");
    checked(cudaMemsetAsync(memory.data, 0, kSumBytes + 2 * size, memory.stream), "cudaMemsetAsync");
    auto* const bytes = static_cast<std::byte*>(memory.data) + kSumBytes;
    checked(
        ncclAllReduce(memory.data, memory.data, kSumBytes / sizeof(float), ncclFloat32, ncclSum, comm_, memory.stream),
        "ncclAllReduce");
    checked(ncclGroupStart(), "ncclGroupStart");
    ncclResult_t result = ncclSuccess;  // the group must be ended in any case
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const ncclResult_t out = ncclSend(bytes + r, 1, ncclUint8, r, comm_, memory.stream);
      const ncclResult_t in = ncclRecv(bytes + size + r, 1, ncclUint8, r, comm_, memory.stream);
      if (result == ncclSuccess) result = out != ncclSuccess ? out : in;
    }
    const ncclResult_t end = ncclGroupEnd();
    checked(result, "ncclSend or ncclRecv");
    checked(end, "ncclGroupEnd");
    checked(cudaStreamSynchronize(memory.stream), "cudaStreamSynchronize");
  }

  // Once.
  void give_up() noexcept {
    if (given_up_.exchange(true)) return;
    cudaSetDevice(device_);
    if (comm_ != nullptr) ncclCommAbort(comm_);
    comm_ = nullptr;
  }

  const int device_, rank_, size_;
  const std::chrono::duration<double> timeout_;
  std::timed_mutex mutex_;
  std::atomic<bool> aborting_ = false, given_up_ = false;
  std::atomic<ncclComm_t> comm_ = nullptr;
};

class NcclLibrary final : public NcclApi {
 public:
  NcclLibrary() {
    // NVLink multicast stays off unless the user asks for it: a program that dies while it holds a multicast object can
    // take the node's GPUs out of service. Both are set for the process, which is what NCCL reads them for.
    local::set_default_environment("NCCL_NVLS_ENABLE", "0");
    // Rings and trees are connected when a communicator is made, not in the first call that uses them.
    local::set_default_environment("NCCL_RUNTIME_CONNECT", "0");
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
