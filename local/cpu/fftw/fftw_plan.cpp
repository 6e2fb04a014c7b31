#include <fftw3.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/short_plan.h"

namespace quarry::local::cpu {
namespace {

// FFTW's planner, which also destroys plans, is one per process; executing a plan needs no lock.
std::mutex& planner_mutex() {
  static auto* const mutex = new std::mutex();
  return *mutex;
}

template <class T>
struct Fftw;
template <>
struct Fftw<double> {
  using Plan = fftw_plan;
  using Complex = fftw_complex;
  using Axis = fftw_iodim64;
  static constexpr auto kMalloc = &fftw_malloc;
  static constexpr auto kFree = &fftw_free;
  static constexpr auto kDestroy = &fftw_destroy_plan;
  static constexpr auto kPlanComplex = &fftw_plan_guru64_dft;
  static constexpr auto kPlanForward = &fftw_plan_guru64_dft_r2c;
  static constexpr auto kPlanInverse = &fftw_plan_guru64_dft_c2r;
  static constexpr auto kComplex = &fftw_execute_dft;
  static constexpr auto kForward = &fftw_execute_dft_r2c;
  static constexpr auto kInverse = &fftw_execute_dft_c2r;
};
template <>
struct Fftw<float> {
  using Plan = fftwf_plan;
  using Complex = fftwf_complex;
  using Axis = fftwf_iodim64;
  static constexpr auto kMalloc = &fftwf_malloc;
  static constexpr auto kFree = &fftwf_free;
  static constexpr auto kDestroy = &fftwf_destroy_plan;
  static constexpr auto kPlanComplex = &fftwf_plan_guru64_dft;
  static constexpr auto kPlanForward = &fftwf_plan_guru64_dft_r2c;
  static constexpr auto kPlanInverse = &fftwf_plan_guru64_dft_c2r;
  static constexpr auto kComplex = &fftwf_execute_dft;
  static constexpr auto kForward = &fftwf_execute_dft_r2c;
  static constexpr auto kInverse = &fftwf_execute_dft_c2r;
};

template <class T>
class FftwPlan final : public LinePlan {
  using Library = Fftw<T>;

 public:
  FftwPlan(TransformKind kind, bool inverse, int64_t n)
      : kind_(kind),
        input_bytes_(input_count(kind, n) * size(kind == TransformKind::real_to_half)),
        output_bytes_(output_count(kind, n) * size(kind == TransformKind::half_to_real)) {
    one_ = make(n, inverse, 1);
    if (n <= kShort && input_bytes_ % kLineAlignment == 0 && output_bytes_ % kLineAlignment == 0)
      group_ = make(n, inverse, kGroup);
  }
  FftwPlan(const FftwPlan&) = delete;
  FftwPlan& operator=(const FftwPlan&) = delete;
  ~FftwPlan() override {
    const std::lock_guard lock(planner_mutex());
    Library::kDestroy(one_);
    if (group_) Library::kDestroy(group_);
  }

  int64_t input_distance() const override { return group_ ? input_bytes_ : spread(input_bytes_); }
  int64_t output_distance() const override { return group_ ? output_bytes_ : spread(output_bytes_); }
  bool keeps_input() const override { return kind_ != TransformKind::half_to_real; }

  int64_t table_bytes() const override { return std::max(input_bytes_, output_bytes_); }

  void execute(const Lines& in, const Lines& out, int64_t lines, char*, int) const override {
    int64_t line = 0;
    if (group_ && in.distance == input_bytes_ && out.distance == output_bytes_) {
      for (; line + kGroup <= lines; line += kGroup)
        run(group_, in.data + line * in.distance, out.data + line * out.distance);
    }
    for (; line < lines; ++line) run(one_, in.data + line * in.distance, out.data + line * out.distance);
  }

 private:
  using Plan = typename Library::Plan;
  using Complex = typename Library::Complex;
  // A call for every line would cost more than the line.
  static constexpr int64_t kShort = 64;
  static constexpr int kGroup = 16;

  static int64_t size(bool real) { return static_cast<int64_t>(real ? sizeof(T) : 2 * sizeof(T)); }

  // Estimated: measuring takes up to seconds at the first call, and long lines are cut into short ones before.
  Plan make(int64_t n, bool inverse, int64_t lines) const {
    struct Free {
      void operator()(void* data) const { Library::kFree(data); }
    };
    // FFTW looks at their alignment only.
    const auto memory = [&](int64_t bytes) {
      return std::unique_ptr<void, Free>(Library::kMalloc(static_cast<size_t>(bytes * lines)));
    };
    const auto in = memory(input_bytes_), out = memory(output_bytes_);
    if (!in || !out) throw OutOfMemory("cpu: no memory to plan a transform of " + std::to_string(n) + " points");
    const typename Library::Axis points{n, 1, 1}, batch{lines, input_count(kind_, n), output_count(kind_, n)};
    const std::lock_guard lock(planner_mutex());
    Plan plan = nullptr;
    switch (kind_) {
      case TransformKind::complex:
        plan = Library::kPlanComplex(1, &points, 1, &batch, static_cast<Complex*>(in.get()),
                                     static_cast<Complex*>(out.get()), inverse ? FFTW_BACKWARD : FFTW_FORWARD,
                                     FFTW_ESTIMATE);
        break;
      case TransformKind::real_to_half:
        plan = Library::kPlanForward(1, &points, 1, &batch, static_cast<T*>(in.get()), static_cast<Complex*>(out.get()),
                                     FFTW_ESTIMATE);
        break;
      case TransformKind::half_to_real:
        plan = Library::kPlanInverse(1, &points, 1, &batch, static_cast<Complex*>(in.get()), static_cast<T*>(out.get()),
                                     FFTW_ESTIMATE | FFTW_DESTROY_INPUT);
        break;
    }
    if (plan == nullptr) throw OutOfMemory("cpu: FFTW has no plan for " + std::to_string(n) + " points");
    return plan;
  }

  void run(Plan plan, char* in, char* out) const {
    switch (kind_) {
      case TransformKind::complex:
        return Library::kComplex(plan, reinterpret_cast<Complex*>(in), reinterpret_cast<Complex*>(out));
      case TransformKind::real_to_half:
        return Library::kForward(plan, reinterpret_cast<T*>(in), reinterpret_cast<Complex*>(out));
      case TransformKind::half_to_real:
        return Library::kInverse(plan, reinterpret_cast<Complex*>(in), reinterpret_cast<T*>(out));
    }
  }

  const TransformKind kind_;
  const int64_t input_bytes_, output_bytes_;
  Plan one_ = nullptr, group_ = nullptr;
};

}  // namespace

std::shared_ptr<const LinePlan> short_plan(TransformKind kind, DType dtype, bool inverse, int64_t length) {
  if (dtype == DType::float32) return std::make_shared<FftwPlan<float>>(kind, inverse, length);
  return std::make_shared<FftwPlan<double>>(kind, inverse, length);
}

}  // namespace quarry::local::cpu
