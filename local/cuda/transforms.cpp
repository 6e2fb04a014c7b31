// A transform is done by plans of cuFFT of up to three axes each, where the memory lies. What cuFFT does not take as it
// lies (negative strides, missing elements, axes that do not nest, too many batches) is copied to contiguous memory; so
// is the input of complex-to-real plans, which destroy theirs. The scale rides on a copy where there is one.
#include "quarry/local/cuda/transforms.h"

#include <algorithm>
#include <array>
#include <utility>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/engine.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/program/indexing.h"

namespace quarry::local::cuda {
namespace {

// Calls of one plan: few, or large ones.
constexpr int64_t kMostPlaces = 32, kMostLargePlaces = 1024, kLargePlace = int64_t{1} << 18;

int64_t input_size(const AxisGroup& g) {
  return itemsize(g.kind == TransformKind::real_to_half ? g.dtype : complex_type(g.dtype));
}
int64_t output_size(const AxisGroup& g) {
  return itemsize(g.kind == TransformKind::half_to_real ? g.dtype : complex_type(g.dtype));
}
bool contains(const std::vector<int>& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Whether rows along `inner` follow each other along `outer` at a whole number of inner strides.
bool nests(const Dims& extents, const Operand& operand, int outer, int inner) {
  const int64_t step = operand.strides[inner], row = operand.strides[outer];
  if (extents[outer] == 1 || extents[inner] == 1) return false;
  return step > 0 && row > 0 && row % step == 0 && row / step >= extents[inner];
}

// Stride and embedding of one side; false where there is none.
bool describe(const AxisGroup& g, const Dims& extents, const Operand& operand, int64_t size, PlanLayout::Side& side) {
  if (reinterpret_cast<uintptr_t>(operand.data) % static_cast<uintptr_t>(itemsize(complex_type(g.dtype))) != 0)
    return false;
  for (int d = 0; d < extents.size(); ++d)
    if (extents[d] > 1 && (operand.strides[d] <= 0 || operand.strides[d] % size != 0)) return false;
  const int rank = static_cast<int>(g.axes.size()), innermost = g.axes.back();
  side.stride = extents[innermost] == 1 ? 1 : operand.strides[innermost] / size;
  side.embed[0] = extents[g.axes[0]];
  for (int i = 1; i < rank; ++i) {
    const int outer = g.axes[static_cast<size_t>(i - 1)], inner = g.axes[static_cast<size_t>(i)];
    if (!nests(extents, operand, outer, inner)) return false;
    side.embed[static_cast<size_t>(i)] = operand.strides[outer] / operand.strides[inner];
  }
  return true;
}

// cuFFT's real plans of doubles along a strided axis take twice as long as two copies and a plan of contiguous lines.
bool is_slow(const AxisGroup& g, const PlanLayout& plan) {
  return g.kind != TransformKind::complex && g.dtype == DType::float64 && g.axes.size() == 1 &&
         (plan.input.stride > 1 || plan.output.stride > 1);
}

}  // namespace

std::optional<GroupLayout> layout_of(const AxisGroup& g) {
  GroupLayout result;
  PlanLayout& plan = result.plan;
  plan.rank = static_cast<int>(g.axes.size());
  for (int i = 0; i < plan.rank; ++i) plan.lengths[static_cast<size_t>(i)] = g.lengths[i];
  const int64_t in_size = input_size(g), out_size = output_size(g);
  if (!describe(g, g.input_extents, g.input, in_size, plan.input) ||
      !describe(g, g.output_extents, g.output, out_size, plan.output))
    return std::nullopt;

  // The other axes, from the longest stride to the shortest, so that neighbours merge.
  std::vector<int> others;
  for (int d = 0; d < g.output_extents.size(); ++d)
    if (!contains(g.axes, d) && g.output_extents[d] > 1) others.push_back(d);
  std::stable_sort(others.begin(), others.end(),
                   [&](int a, int b) { return g.output.strides[a] > g.output.strides[b]; });
  Dims extents, in_strides, out_strides;
  for (const int d : others) {
    extents.push_back(g.output_extents[d]);
    in_strides.push_back(g.input.strides[d]);
    out_strides.push_back(g.output.strides[d]);
  }
  merge_axes(extents, std::array{&in_strides, &out_strides});

  // The longest is the batch; the plan runs once for every position along the others.
  plan.input.distance = plan.output.distance = 1;
  if (extents.size() > 0) {
    const int batch = static_cast<int>(std::max_element(extents.begin(), extents.end()) - extents.begin());
    plan.batch = extents[batch];
    plan.input.distance = in_strides[batch] / in_size;
    plan.output.distance = out_strides[batch] / out_size;
    for (Dims* values : {&extents, &in_strides, &out_strides}) values->erase(batch);
  }
  int64_t points = plan.batch;
  for (const int64_t n : g.lengths) points *= n;
  if (element_count(extents) > (points >= kLargePlace ? kMostLargePlaces : kMostPlaces)) return std::nullopt;
  result.places.push_back({});
  const int64_t alignment = itemsize(complex_type(g.dtype));
  for (int d = 0; d < extents.size(); ++d) {
    if (in_strides[d] % alignment != 0 || out_strides[d] % alignment != 0) return std::nullopt;
    const std::vector<GroupLayout::Place> before = result.places;
    for (int64_t k = 1; k < extents[d]; ++k)
      for (const GroupLayout::Place& place : before)
        result.places.push_back({place.input + k * in_strides[d], place.output + k * out_strides[d]});
  }
  return result;
}

std::vector<int> plan_axes(int innermost, const std::vector<int>& axes, const Dims& input_extents, const Operand& input,
                           const Dims& output_extents, const Operand& output) {
  constexpr size_t kMostAxes = 3;
  std::vector<int> rest;
  for (const int axis : axes)
    if (axis != innermost) rest.push_back(axis);
  std::stable_sort(rest.begin(), rest.end(), [&](int a, int b) { return output.strides[a] < output.strides[b]; });
  std::vector<int> chosen{innermost};
  for (const int axis : rest) {
    if (chosen.size() < kMostAxes && nests(input_extents, input, axis, chosen.back()) &&
        nests(output_extents, output, axis, chosen.back()))
      chosen.push_back(axis);
  }
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

namespace {

// Runs a transform, or only finds out what scratch it takes.
class Job {
 public:
  explicit Job(const Transform& transform, const ExecContext* context = nullptr) : t_(transform), context_(context) {}

  void run() {
    // A transform of one point is nothing.
    std::vector<int> axes;
    for (const int axis : t_.axes)
      if (t_.shape[axis] > 1) axes.push_back(axis);
    switch (t_.kind) {
      case TransformKind::complex:
        return run_complex(axes);
      case TransformKind::real_to_half:
        return run_forward(axes);
      case TransformKind::half_to_real:
        return run_inverse(axes);
    }
  }
  int64_t peak_bytes() const { return peak_; }

 private:
  // Scratch, or its size.
  class Memory {
   public:
    Memory(Job& job, int64_t bytes) : job_(job), bytes_(rounded_allocation(bytes)) {
      if (job.context_) {
        scratch_.emplace(bytes_, *job.context_);
      } else {
        job.used_ += bytes_;
        job.peak_ = std::max(job.peak_, job.used_);
      }
    }
    ~Memory() {
      if (!job_.context_) job_.used_ -= bytes_;
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    char* data() const { return scratch_ ? scratch_->data() : nullptr; }

   private:
    Job& job_;
    const int64_t bytes_;
    std::optional<Scratch> scratch_;
  };

  DType complex() const { return complex_type(t_.dtype); }
  int half_axis() const { return t_.axes.back(); }
  // What is left of the scale is applied at most once.
  double take_scale() { return std::exchange(scale_, 1); }

  void run_complex(const std::vector<int>& axes) {
    if (axes.empty()) return copy(complex(), t_.input_shape, t_.input, t_.shape, t_.output);
    const bool whole = t_.input_shape == t_.shape;
    const AxisGroup first = group_of(TransformKind::complex, axes, whole ? t_.input : t_.output, t_.shape, t_.output);
    if (whole && layout_of(first)) {
      execute(first);
      run_rest(axes, first.axes, t_.shape, t_.output, t_.inverse);
    } else {
      copy(complex(), t_.input_shape, t_.input, t_.shape, t_.output);
      run_rest(axes, {}, t_.shape, t_.output, t_.inverse);
    }
    scale_output();
  }

  void run_forward(const std::vector<int>& axes) {
    const Dims half = half_extents(t_);
    const bool whole = t_.input_shape == t_.shape;
    AxisGroup first = half_group(axes, t_.shape, t_.input, half, t_.output);
    if (t_.shape[half_axis()] == 1) {
      first.axes = {half_axis()};
      convert(t_.dtype, t_.input_shape, t_.input, complex(), half, t_.output);
    } else if (whole && layout_of(first)) {
      execute(first);
    } else {
      const Memory packed(*this, element_count(t_.shape) * itemsize(t_.dtype));
      const Operand input{packed.data(), contiguous_strides(t_.shape, itemsize(t_.dtype))};
      copy(t_.dtype, t_.input_shape, t_.input, t_.shape, input);
      first = half_group(axes, t_.shape, input, half, t_.output);
      execute(first);
    }
    run_rest(axes, first.axes, half, t_.output, /*inverse=*/false);
    scale_output();
  }

  // The plans destroy their input: it is a copy.
  void run_inverse(const std::vector<int>& axes) {
    const Dims half = half_extents(t_);
    const Memory copied(*this, element_count(half) * itemsize(complex()));
    // Doubles along one axis: in lines, see is_slow().
    const Operand input =
        arranged(copied.data(), half, axes.size() == 1 && t_.dtype == DType::float64 ? axes : std::vector<int>(),
                 itemsize(complex()));
    copy(complex(), t_.input_shape, t_.input, half, input);
    const AxisGroup last = half_group(axes, half, input, t_.shape, t_.output);
    std::vector<int> earlier;
    for (const int axis : axes)
      if (!contains(last.axes, axis)) earlier.push_back(axis);
    run_rest(earlier, {}, half, input, /*inverse=*/true);
    if (t_.shape[half_axis()] == 1) return convert(complex(), half, input, t_.dtype, t_.shape, t_.output);
    execute(last);
  }

  // Complex transforms in place of those axes that are not done.
  void run_rest(const std::vector<int>& axes, const std::vector<int>& done, const Dims& extents, const Operand& data,
                bool inverse) {
    std::vector<int> rest;
    for (const int axis : axes)
      if (!contains(done, axis) && t_.shape[axis] > 1 && !(axis == half_axis() && t_.kind != TransformKind::complex))
        rest.push_back(axis);
    while (!rest.empty()) {
      const AxisGroup group = group_of(TransformKind::complex, rest, data, extents, data);
      execute(group, inverse);
      std::erase_if(rest, [&](int axis) { return contains(group.axes, axis); });
    }
  }

  AxisGroup group_of(TransformKind kind, const std::vector<int>& axes, const Operand& input, const Dims& extents,
                     const Operand& output) const {
    const int innermost = *std::min_element(axes.begin(), axes.end(),
                                            [&](int a, int b) { return output.strides[a] < output.strides[b]; });
    return make_group(kind, plan_axes(innermost, axes, extents, input, extents, output), extents, input, extents,
                      output);
  }
  AxisGroup half_group(const std::vector<int>& axes, const Dims& input_extents, const Operand& input,
                       const Dims& output_extents, const Operand& output) const {
    return make_group(t_.kind, plan_axes(half_axis(), axes, input_extents, input, output_extents, output),
                      input_extents, input, output_extents, output);
  }
  AxisGroup make_group(TransformKind kind, const std::vector<int>& axes, const Dims& input_extents,
                       const Operand& input, const Dims& output_extents, const Operand& output) const {
    AxisGroup group{kind, t_.dtype, {}, axes, input_extents, output_extents, input, output};
    for (const int axis : axes) group.lengths.push_back(t_.shape[axis]);
    return group;
  }

  void execute(const AxisGroup& group) { execute(group, t_.kind == TransformKind::half_to_real || t_.inverse); }
  void execute(const AxisGroup& group, bool inverse) {
    const std::optional<GroupLayout> layout = layout_of(group);
    if (layout && !is_slow(group, layout->plan)) return execute(group, *layout, inverse);
    // Through contiguous memory, the group's axes last.
    AxisGroup packed = group;
    std::optional<Memory> in, out;
    const auto pack_input = [&] {
      in.emplace(*this, element_count(group.input_extents) * input_size(group));
      packed.input = arranged(in->data(), group.input_extents, group.axes, input_size(group));
      copy(group.kind == TransformKind::real_to_half ? t_.dtype : complex(), group.input_extents, group.input,
           group.input_extents, packed.input);
    };
    if (!layout || layout->plan.input.stride > 1) pack_input();
    if (group.kind == TransformKind::complex) {
      packed.output = packed.input;
      run_packed(packed, inverse);
      return copy(complex(), group.output_extents, packed.output, group.output_extents, group.output);
    }
    if (!layout || layout->plan.output.stride > 1) {
      out.emplace(*this, element_count(group.output_extents) * output_size(group));
      packed.output = arranged(out->data(), group.output_extents, group.axes, output_size(group));
    }
    if (!in && !layout_of(packed)) pack_input();
    run_packed(packed, inverse);
    if (out)
      copy(group.kind == TransformKind::half_to_real ? t_.dtype : complex(), group.output_extents, packed.output,
           group.output_extents, group.output);
  }
  void run_packed(const AxisGroup& group, bool inverse) {
    const std::optional<GroupLayout> layout = layout_of(group);
    QUARRY_CHECK(layout.has_value());
    execute(group, *layout, inverse);
  }
  void execute(const AxisGroup& group, const GroupLayout& layout, bool inverse) {
    CudaStream* const stream = context_ ? &cuda_stream(context_->stream) : nullptr;
    int device = 0;
    if (stream)
      device = stream->device().index;
    else
      QUARRY_CUDA_CALL(cudaGetDevice(&device));
    use_device(device);
    const std::shared_ptr<FftPlan> plan =
        fft_plan(device, stream ? stream->handle() : nullptr, group.kind, group.dtype, layout.plan);
    const Memory work(*this, plan->work_bytes());
    if (!stream) return;
    const std::unique_lock lock = plan->lock();
    plan->set(stream->handle(), work.data());
    for (const GroupLayout::Place& place : layout.places) {
      plan->execute(static_cast<char*>(group.input.data) + place.input,
                    static_cast<char*>(group.output.data) + place.output, inverse);
    }
    plan->queued();
  }

  // Contiguous memory with `axes` last, in their order.
  static Operand arranged(char* data, const Dims& extents, const std::vector<int>& axes, int64_t size) {
    Operand result{data, Dims::filled(extents.size())};
    int64_t stride = size;
    const auto place = [&](int axis) {
      result.strides[axis] = stride;
      stride *= extents[axis];
    };
    for (size_t i = axes.size(); i-- > 0;) place(axes[i]);
    for (int d = extents.size(); d-- > 0;)
      if (!contains(axes, d)) place(d);
    return result;
  }

  void scale_output() {
    if (scale_ != 1) copy_scaled(output_type(t_), output_extents(t_), t_.output, t_.output);
  }

  // `to`, which is larger, gets zeros where `from` ends.
  void copy(DType dtype, const Dims& from_extents, const Operand& from, const Dims& to_extents, const Operand& to) {
    if (from_extents != to_extents) clear(dtype, to_extents, to);
    copy_scaled(dtype, from_extents, from, to);
  }
  void clear(DType dtype, const Dims& extents, const Operand& to) {
    Program zeros;
    zeros.output(zeros.constant(Scalar(0), dtype));
    Launch launch;
    launch.shape = extents;
    launch.outputs.push_back(to);
    run(zeros, launch);
  }
  // Transforms of one point between real and complex numbers.
  void convert(DType from_dtype, const Dims& from_extents, const Operand& from, DType to_dtype, const Dims& to_extents,
               const Operand& to) {
    if (from_extents != to_extents) clear(to_dtype, to_extents, to);
    if (element_count(from_extents) == 0) return;
    Program program;
    program.output(program.cast(program.input(from_dtype), to_dtype));
    Launch launch;
    launch.shape = from_extents;
    launch.inputs.push_back(from);
    launch.outputs.push_back(to);
    run(program, launch);
  }

  // A complex number is scaled as two real ones, so that infinite parts stay what they are.
  void copy_scaled(DType dtype, const Dims& extents, const Operand& from, const Operand& to) {
    if (element_count(extents) == 0) return;
    const double scale = take_scale();
    Launch launch;
    launch.shape = extents;
    launch.inputs.push_back(from);
    launch.outputs.push_back(to);
    Dims& in_strides = launch.inputs[0].strides;
    Dims& out_strides = launch.outputs[0].strides;
    merge_axes(launch.shape, std::array{&in_strides, &out_strides});
    const bool as_reals = is_complex(dtype) && scale != 1 && launch.shape.size() < kMaxDims;
    if (as_reals) {
      dtype = real_type(dtype);
      launch.shape.push_back(2);
      in_strides.push_back(itemsize(dtype));
      out_strides.push_back(itemsize(dtype));
    }
    Program program;
    ValueId value = program.input(dtype);
    if (scale != 1) value = program.apply("multiply"_op, std::array{value, program.constant(Scalar(scale), dtype)});
    program.output(value);
    run(program, launch);
  }

  void run(const Program& program, const Launch& launch) {
    if (context_) return cuda_engine().run(program, launch, *context_);
    peak_ = std::max(peak_, used_ + cuda_engine().run_scratch_bytes(program, launch));
  }

  const Transform& t_;
  const ExecContext* const context_;
  double scale_ = t_.scale;
  int64_t used_ = 0, peak_ = 0;
};

class CudaTransforms final : public Transforms {
 public:
  int64_t transform_scratch_bytes(const Transform& transform) override {
    if (element_count(transform.shape) == 0) return 0;
    Job job(transform);
    job.run();
    return job.peak_bytes();
  }
  void transform(const Transform& transform, const ExecContext& context) override {
    if (element_count(transform.shape) == 0) return;
    Job(transform, &context).run();
  }
};

}  // namespace

Transforms& cuda_transforms() {
  static auto* const instance = new CudaTransforms();
  return *instance;
}

}  // namespace quarry::local::cuda
