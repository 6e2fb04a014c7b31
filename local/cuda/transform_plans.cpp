#include "quarry/local/cuda/transform_plans.h"

#include <cufftXt.h>

#include <map>
#include <mutex>
#include <tuple>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/plan_cache.h"

namespace quarry::local::cuda {
namespace {

cudaDataType data_type(DType dtype, bool complex) {
  if (dtype == DType::float32) return complex ? CUDA_C_32F : CUDA_R_32F;
  return complex ? CUDA_C_64F : CUDA_R_64F;
}

std::array<long long, 3> long_longs(const std::array<int64_t, 3>& values) { return {values[0], values[1], values[2]}; }

using PlanKey = std::tuple<cudaStream_t, TransformKind, DType, PlanLayout>;

using FftPlans = PlanCache<PlanKey, FftPlan>;

// One for each device, so that devices do not take plans from each other.
FftPlans& plan_cache(int device) {
  constexpr int64_t kMostPlans = 64;
  static std::mutex mutex;
  static auto* const caches = new std::map<int, FftPlans>();  // never destroyed: as the backend
  const std::lock_guard lock(mutex);
  return caches->try_emplace(device, kMostPlans).first->second;
}

}  // namespace

FftPlan::FftPlan(int device, TransformKind kind, DType dtype, const PlanLayout& layout)
    : device_(device), executed_(device, CudaEvent::Timing::off) {
  use_device(device);
  check(cufftCreate(&plan_), "cufftCreate");
  try {
    // The work area comes from quarry's pool at every call.
    check(cufftSetAutoAllocation(plan_, 0), "cufftSetAutoAllocation");
    auto lengths = long_longs(layout.lengths), in = long_longs(layout.input.embed),
         out = long_longs(layout.output.embed);
    size_t bytes = 0;
    check(cufftXtMakePlanMany(plan_, layout.rank, lengths.data(), in.data(), layout.input.stride, layout.input.distance,
                              data_type(dtype, kind != TransformKind::real_to_half), out.data(), layout.output.stride,
                              layout.output.distance, data_type(dtype, kind != TransformKind::half_to_real),
                              layout.batch, &bytes, data_type(dtype, /*complex=*/true)),
          "cufftXtMakePlanMany");
    work_bytes_ = static_cast<int64_t>(bytes);
  } catch (...) {
    cufftDestroy(plan_);
    throw;
  }
}

FftPlan::~FftPlan() {
  int current = 0;
  if (cudaGetDevice(&current) != cudaSuccess || cudaSetDevice(device_) != cudaSuccess) return;
  cufftDestroy(plan_);
  cudaSetDevice(current);
}

bool FftPlan::idle() const {
  const cudaError_t status = cudaEventQuery(executed_.native());
  if (status == cudaSuccess) return true;
  // An event of a graph that is captured says no more: the graph may run again.
  if (status != cudaErrorNotReady) cudaGetLastError();
  return false;
}

void FftPlan::set(cudaStream_t stream, void* work) {
  check(cufftSetStream(plan_, stream), "cufftSetStream");
  stream_ = stream;
  if (work_bytes_ > 0) check(cufftSetWorkArea(plan_, work), "cufftSetWorkArea");
}

void FftPlan::queued() { QUARRY_CUDA_CALL(cudaEventRecord(executed_.native(), stream_)); }

void FftPlan::execute(void* in, void* out, bool inverse) {
  check(cufftXtExec(plan_, in, out, inverse ? CUFFT_INVERSE : CUFFT_FORWARD), "cufftXtExec");
}

std::shared_ptr<FftPlan> fft_plan(int device, cudaStream_t stream, TransformKind kind, DType dtype,
                                  const PlanLayout& layout) {
  return plan_cache(device).get({stream, kind, dtype, layout},
                                [&] { return std::make_unique<FftPlan>(device, kind, dtype, layout); });
}

FftPlanCacheUse fft_plan_cache_use(int device) {
  FftPlans& cache = plan_cache(device);
  return {cache.plans(), cache.made(), cache.retired()};
}

}  // namespace quarry::local::cuda
