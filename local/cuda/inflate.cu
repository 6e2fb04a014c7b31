// The decoder of zlib streams: inflate.cuh for each, in a block of one warp.
#include "quarry/local/cuda/inflate.cuh"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "quarry/local/cuda/backend.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/stream.h"

namespace quarry::local::cuda {
namespace {

__global__ void __launch_bounds__(kWarp) decode_kernel(const EncodedStream* streams, StreamStatus* statuses) {
  __shared__ Tables tables;
  const StreamStatus status = decode(streams[blockIdx.x], tables);
  if (threadIdx.x == 0) statuses[blockIdx.x] = status;
}

class CudaStreamDecoder final : public StreamDecoder {
 public:
  void decode_zlib(const EncodedStream* streams, int64_t count, StreamStatus* statuses, OnHost /*on_host*/,
                   detail::DeviceStream& stream) override {
    constexpr int64_t kMostBlocks = int64_t{1} << 30;
    CudaStream& queue = cuda_stream(&stream);
    use_device(queue.device().index);
    for (int64_t first = 0; first < count; first += kMostBlocks) {
      const auto blocks = static_cast<unsigned>(std::min(count - first, kMostBlocks));
      decode_kernel<<<blocks, kWarp, 0, queue.handle()>>>(streams + first, statuses + first);
      check(cudaGetLastError(), "decoding zlib streams");
    }
  }
};

}  // namespace
}  // namespace quarry::local::cuda

// Never destroyed, as the backend.
extern "C" quarry::local::StreamDecoder* quarry_cuda_stream_decoder() {
  static auto* const decoder = new quarry::local::cuda::CudaStreamDecoder();
  return decoder;
}
