// The decoder of streams: inflate.cuh or zstd.cuh for each, in a block of one warp.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "quarry/local/cuda/backend.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/inflate.cuh"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/cuda/zstd.cuh"

namespace quarry::local::cuda {
namespace {

__global__ void __launch_bounds__(kWarp) decode_zlib(const EncodedStream* streams, StreamStatus* statuses) {
  __shared__ Tables tables;
  const StreamStatus status = decode(streams[blockIdx.x], tables);
  if (threadIdx.x == 0) statuses[blockIdx.x] = status;
}

__global__ void __launch_bounds__(kWarp) decode_zstd(const EncodedStream* streams, StreamStatus* statuses) {
  __shared__ zstd::Tables tables;
  const StreamStatus status = zstd::decode(streams[blockIdx.x], tables);
  if (threadIdx.x == 0) statuses[blockIdx.x] = status;
}

class CudaStreamDecoder final : public StreamDecoder {
 public:
  void decode(StreamFormat format, const EncodedStream* streams, int64_t count, StreamStatus* statuses,
              OnHost /*on_host*/, detail::DeviceStream& stream) override {
    constexpr int64_t kMostBlocks = int64_t{1} << 30;
    CudaStream& queue = cuda_stream(&stream);
    use_device(queue.device().index);
    const auto kernel = format == StreamFormat::zlib ? decode_zlib : decode_zstd;
    for (int64_t first = 0; first < count; first += kMostBlocks) {
      const auto blocks = static_cast<unsigned>(std::min(count - first, kMostBlocks));
      kernel<<<blocks, kWarp, 0, queue.handle()>>>(streams + first, statuses + first);
      check(cudaGetLastError(), "decoding streams");
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
