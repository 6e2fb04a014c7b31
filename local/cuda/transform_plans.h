// cuFFT's plans, kept for later calls.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <tuple>

#include "quarry/local/cuda/stream.h"
#include "quarry/local/program/transforms.h"

namespace quarry::local::cuda {

// A batch of transforms over up to three axes; strides in elements. Element (x, y, z) of one, with three axes, lies at
// ((x embed[1] + y) embed[2] + z) stride from its first.
struct PlanLayout {
  struct Side {
    std::array<int64_t, 3> embed{};
    int64_t stride = 1, distance = 0;  // between the transforms of the batch
    friend bool operator<(const Side& x, const Side& y) {
      return std::tie(x.embed, x.stride, x.distance) < std::tie(y.embed, y.stride, y.distance);
    }
  };
  int rank = 1;
  std::array<int64_t, 3> lengths{};
  Side input, output;
  int64_t batch = 1;
  friend bool operator<(const PlanLayout& x, const PlanLayout& y) {
    return std::tie(x.rank, x.lengths, x.input, x.output, x.batch) <
           std::tie(y.rank, y.lengths, y.input, y.output, y.batch);
  }
};

// Not for use by two threads at once, but by any number of them in turn: use lock(). Destroyed when it is idle() alone,
// for kernels in flight read its tables.
class FftPlan {
 public:
  FftPlan(int device, TransformKind kind, DType dtype, const PlanLayout& layout);
  ~FftPlan();
  FftPlan(const FftPlan&) = delete;
  FftPlan& operator=(const FftPlan&) = delete;

  int64_t work_bytes() const { return work_bytes_; }
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  // With the lock held: set(), execute() any number of times, queued().
  void set(cudaStream_t stream, void* work);
  void execute(void* in, void* out, bool inverse);
  void queued();
  // Whether the device has done all that was queued. Does not wait.
  bool idle() const;

 private:
  const int device_;
  CudaEvent executed_;
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;
  int plan_ = 0;
  int64_t work_bytes_ = 0;
};

// The plan of a stream (null: of none, for its size). Thread-safe: other threads make other plans at the same time.
// What the cache forgets is destroyed later on, when a plan is made and the device is done with it.
std::shared_ptr<FftPlan> fft_plan(int device, cudaStream_t stream, TransformKind kind, DType dtype,
                                  const PlanLayout& layout);

struct FftPlanCacheUse {
  int64_t plans = 0, made = 0, retired = 0;  // now; ever; forgotten and not destroyed yet
};
FftPlanCacheUse fft_plan_cache_use(int device);

}  // namespace quarry::local::cuda
