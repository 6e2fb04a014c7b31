#include "quarry/local/cuda/stream.h"

#include <set>
#include <utility>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"

namespace quarry::local::cuda {

void use_device(int index) {
  int current = -1;
  if (cudaGetDevice(&current) == cudaSuccess && current == index) return;
  QUARRY_CUDA_CALL(cudaSetDevice(index));
}

CudaEvent::CudaEvent(int index, Timing timing) : index_(index) {
  use_device(index);
  const unsigned flags = timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming;
  QUARRY_CUDA_CALL(cudaEventCreateWithFlags(event_.out(), flags));
}

bool CudaEvent::done() {
  use_device(index_);
  const cudaError_t status = cudaEventQuery(event_.get());
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

void CudaEvent::synchronize() {
  use_device(index_);
  QUARRY_CUDA_CALL(cudaEventSynchronize(event_.get()));
}

double CudaEvent::seconds_since(DeviceEvent& earlier) {
  const auto* begin = dynamic_cast<CudaEvent*>(&earlier);
  if (begin == nullptr) throw InvalidArgument("cuda: a time needs two events of CUDA devices");
  use_device(index_);
  float milliseconds = 0;
  const cudaError_t status = cudaEventElapsedTime(&milliseconds, begin->native(), native());
  if (status == cudaErrorInvalidResourceHandle || status == cudaErrorNotReady || status == cudaErrorInvalidValue) {
    cudaGetLastError();
    throw InvalidArgument("cuda: a time needs two timers of one device that were recorded and reached");
  }
  check(status, "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

CudaStream::CudaStream(int index, StreamRole role) : index_(index) {
  use_device(index);
  // Copies are short and others wait for them: they go first where the hardware has a choice.
  int least = 0, greatest = 0;
  QUARRY_CUDA_CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  const int priority = role == StreamRole::compute ? least : greatest;
  QUARRY_CUDA_CALL(cudaStreamCreateWithPriority(stream_.out(), cudaStreamNonBlocking, priority));
}

CudaStream::CudaStream(int index, int priority) : index_(index) {
  use_device(index);
  QUARRY_CUDA_CALL(cudaStreamCreateWithPriority(stream_.out(), cudaStreamNonBlocking, priority));
}

CudaStream::CudaStream(int index, cudaStream_t foreign) : index_(index), foreign_(true), stream_(foreign) {}

CudaStream::~CudaStream() {
  // Callbacks refer to this object, destroying a CUDA stream does not wait for them, and who finds the stream retired
  // takes its work for done.
  const auto finish = [this] {
    if (used_ && cudaSetDevice(index_) == cudaSuccess) cudaStreamSynchronize(stream_.get());
  };
  finish();
  retire();
  finish();
  if (foreign_) static_cast<void>(stream_.release());
}

void CudaStream::copy(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  use_device(index_);
  QUARRY_CUDA_CALL(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, handle()));
}

namespace {

// Copies between the two go over NVLink or PCIe directly from the first call on; where that is impossible the driver
// stages them through the host.
void enable_peer_access(int from, int to) {
  static std::mutex mutex;
  static std::set<std::pair<int, int>> tried;
  const std::lock_guard lock(mutex);
  if (!tried.emplace(from, to).second) return;
  int possible = 0;
  QUARRY_CUDA_CALL(cudaDeviceCanAccessPeer(&possible, from, to));
  if (possible == 0) return;
  use_device(from);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();
  else
    check(status, "cudaDeviceEnablePeerAccess");
}

}  // namespace

void CudaStream::copy_to_peer(void* to, Device target, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  if (target.kind != DeviceKind::cuda)
    throw InvalidArgument("a peer of " + to_string(device()) + " is a CUDA device, not " + to_string(target));
  if (target.index != index_) enable_peer_access(index_, target.index);
  use_device(index_);
  QUARRY_CUDA_CALL(cudaMemcpyPeerAsync(to, target.index, from, index_, static_cast<size_t>(bytes), handle()));
}

void CudaStream::fill(void* to, uint8_t value, int64_t bytes) {
  if (bytes == 0) return;
  use_device(index_);
  QUARRY_CUDA_CALL(cudaMemsetAsync(to, value, static_cast<size_t>(bytes), handle()));
}

void CudaStream::record(DeviceEvent& event) {
  use_device(index_);
  QUARRY_CUDA_CALL(cudaEventRecord(static_cast<CudaEvent&>(event).native(), stream_.get()));
}

void CudaStream::wait(DeviceEvent& event) {
  use_device(index_);
  QUARRY_CUDA_CALL(cudaStreamWaitEvent(stream_.get(), static_cast<CudaEvent&>(event).native(), 0));
}

void CudaStream::run_callback(void* data) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(data));
  try {
    callback->function();
  } catch (...) {
    const std::lock_guard lock(callback->stream->mutex_);
    if (!callback->stream->callback_error_) callback->stream->callback_error_ = std::current_exception();
  }
}

void CudaStream::host_callback(std::function<void()> function) {
  use_device(index_);
  auto callback = std::make_unique<Callback>(Callback{this, std::move(function)});
  QUARRY_CUDA_CALL(cudaLaunchHostFunc(handle(), &run_callback, callback.get()));
  static_cast<void>(callback.release());  // run_callback owns it now
}

void CudaStream::synchronize() {
  refuse_in_capture("synchronize()", "the host cannot wait for work that is only recorded");
  use_device(index_);
  QUARRY_CUDA_CALL(cudaStreamSynchronize(stream_.get()));
  rethrow();
}

uint64_t* CudaStream::host_word() {
  if (!word_) {
    use_device(index_);
    void* data = nullptr;
    QUARRY_CUDA_CALL(cudaHostAlloc(&data, sizeof(uint64_t), cudaHostAllocPortable));
    word_.reset(static_cast<uint64_t*>(data));
  }
  return word_.get();
}

uint64_t CudaStream::read_word(const void* from) {
  uint64_t* const word = host_word();
  copy(word, from, sizeof(uint64_t));
  synchronize();
  return *word;
}

void CudaStream::rethrow() {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    std::swap(error, callback_error_);
  }
  if (error) std::rethrow_exception(error);
}

cublasHandle_t CudaStream::blas() {
  if (!blas_) {
    use_device(index_);
    QUARRY_CUDA_CALL(cublasCreate(blas_.out()));
    QUARRY_CUDA_CALL(cublasSetStream(blas_.get(), handle()));
    // float32 in full precision (never TF32); half types must not sum in half precision either.
    QUARRY_CUDA_CALL(cublasSetMathMode(
        blas_.get(),
        static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
    QUARRY_CUDA_CALL(cublasSetAtomicsMode(blas_.get(), CUBLAS_ATOMICS_NOT_ALLOWED));
  }
  return blas_.get();
}

cusolverDnHandle_t CudaStream::solver() {
  if (!solver_) {
    use_device(index_);
    QUARRY_CUDA_CALL(cusolverDnCreate(solver_.out()));
    QUARRY_CUDA_CALL(cusolverDnSetStream(solver_.get(), handle()));
    QUARRY_CUDA_CALL(cusolverDnSetDeterministicMode(solver_.get(), CUSOLVER_DETERMINISTIC_RESULTS));
  }
  return solver_.get();
}

cusparseHandle_t CudaStream::sparse() {
  if (!sparse_) {
    use_device(index_);
    QUARRY_CUDA_CALL(cusparseCreate(sparse_.out()));
    QUARRY_CUDA_CALL(cusparseSetStream(sparse_.get(), handle()));
  }
  return sparse_.get();
}

namespace {

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(int index, Handle<cudaGraph_t> graph) : index_(index), graph_(std::move(graph)) {
    use_device(index);
    QUARRY_CUDA_CALL(cudaGraphInstantiateWithFlags(executable_.out(), graph_.get(), 0));
  }
  void launch(DeviceStream& stream) override {
    use_device(index_);
    QUARRY_CUDA_CALL(cudaGraphLaunch(executable_.get(), cuda_stream(&stream).handle()));
  }

 private:
  const int index_;
  Handle<cudaGraph_t> graph_;
  Handle<cudaGraphExec_t> executable_;
};

}  // namespace

void CudaStream::begin_capture() {
  use_device(index_);
  // Relaxed: what must not be called meanwhile is refused by us, with a reason; loading a kernel is no matter.
  QUARRY_CUDA_CALL(cudaStreamBeginCapture(handle(), cudaStreamCaptureModeRelaxed));
}

std::unique_ptr<DeviceGraph> CudaStream::end_capture() {
  use_device(index_);
  Handle<cudaGraph_t> graph;
  QUARRY_CUDA_CALL(cudaStreamEndCapture(stream_.get(), graph.out()));
  return std::make_unique<CudaGraph>(index_, std::move(graph));
}

CudaStream& cuda_stream(DeviceStream* stream) {
  if (stream == nullptr || stream->device().kind != DeviceKind::cuda)
    throw InvalidArgument("a CUDA operation needs a stream of a CUDA device");
  return static_cast<CudaStream&>(*stream);
}

}  // namespace quarry::local::cuda
