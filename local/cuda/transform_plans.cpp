#include "quarry/local/cuda/transform_plans.h"

#include <cufftXt.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "quarry/local/cuda/check.h"

namespace quarry::local::cuda {
namespace {

cudaDataType data_type(DType dtype, bool complex) {
  if (dtype == DType::float32) return complex ? CUDA_C_32F : CUDA_R_32F;
  return complex ? CUDA_C_64F : CUDA_R_64F;
}

std::array<long long, 3> long_longs(const std::array<int64_t, 3>& values) { return {values[0], values[1], values[2]}; }

using PlanKey = std::tuple<int, cudaStream_t, TransformKind, DType, PlanLayout>;

class PlanCache {
 public:
  std::shared_ptr<FftPlan> get(const PlanKey& key) {
    std::shared_ptr<FftPlan> dropped;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    const auto found = plans_.find(key);
    if (found != plans_.end()) {
      found->second.last_use = ++clock_;
      return found->second.plan;
    }
    const auto& [device, stream, kind, dtype, layout] = key;
    auto plan = std::make_shared<FftPlan>(device, kind, dtype, layout);
    ++made_;
    if (static_cast<int64_t>(plans_.size()) >= kMostPlans) {
      const auto oldest = std::min_element(plans_.begin(), plans_.end(), [](const auto& x, const auto& y) {
        return x.second.last_use < y.second.last_use;
      });
      dropped = std::move(oldest->second.plan);
      plans_.erase(oldest);
    }
    plans_[key] = {plan, ++clock_};
    return plan;
  }
  FftPlanCacheUse use() {
    const std::lock_guard lock(mutex_);
    return {static_cast<int64_t>(plans_.size()), made_};
  }

 private:
  static constexpr int64_t kMostPlans = 64;
  struct Entry {
    std::shared_ptr<FftPlan> plan;
    uint64_t last_use = 0;
  };
  std::mutex mutex_;
  std::map<PlanKey, Entry> plans_;
  int64_t made_ = 0;
  uint64_t clock_ = 0;
};

PlanCache& plan_cache() {
  static auto* const cache = new PlanCache();  // never destroyed: as the backend
  return *cache;
}

}  // namespace

FftPlan::FftPlan(int device, TransformKind kind, DType dtype, const PlanLayout& layout) : device_(device) {
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
  // Kernels in flight may still read the plan's tables.
  int current = 0;
  if (cudaGetDevice(&current) != cudaSuccess || cudaSetDevice(device_) != cudaSuccess) return;
  cudaDeviceSynchronize();
  cufftDestroy(plan_);
  cudaSetDevice(current);
}

void FftPlan::set(cudaStream_t stream, void* work) {
  check(cufftSetStream(plan_, stream), "cufftSetStream");
  if (work_bytes_ > 0) check(cufftSetWorkArea(plan_, work), "cufftSetWorkArea");
}

void FftPlan::execute(void* in, void* out, bool inverse) {
  check(cufftXtExec(plan_, in, out, inverse ? CUFFT_INVERSE : CUFFT_FORWARD), "cufftXtExec");
}

std::shared_ptr<FftPlan> fft_plan(int device, cudaStream_t stream, TransformKind kind, DType dtype,
                                  const PlanLayout& layout) {
  return plan_cache().get({device, stream, kind, dtype, layout});
}

FftPlanCacheUse fft_plan_cache_use() { return plan_cache().use(); }

}  // namespace quarry::local::cuda
