// The GPU's reductions against the CPU's, their accuracy and their repeatability.
#include <array>

#include "quarry/local/memory/buffer.h"
#include "quarry/local/program/op_enum.h"
#include "quarry/local/program/reduction_enum.h"
#include "tests/unit/local/cuda/gpu_support.h"
#include "tests/unit/local/cuda/launches.h"

namespace quarry::local::cuda {
namespace {

constexpr std::array kDTypes = {
#define QUARRY_DTYPE(name, text, type, kind, compute) DType::name,
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
};

// `flat` strides give C order when -1.
Comparison reduction_case(Reduction reduction, DType dtype, const Dims& shape, uint32_t axes, const Dims& strides) {
  Program program;
  std::vector<ValueId> args = {program.input(dtype)};
  if (info(reduction).has_position) {
    ValueId position = program.index(0);
    for (int d = 1; d < shape.size(); ++d)
      position = program.apply(
          Op::add, std::array{program.apply(Op::multiply,
                                            std::array{position, program.constant(Scalar(shape[d]), DType::int64)}),
                              program.index(d)});
    args.push_back(position);
  }
  const DType accumulate = accumulate_dtype(reduction, dtype);
  program.reduce(reduction, args, accumulate);
  Comparison c{.program = program,
               .shape = shape,
               .reduce_axes = axes,
               .inputs = {make_array(dtype, shape, strides)},
               .outputs = {}};
  for (const DType field : state_dtypes(reduction, accumulate))
    c.states.push_back(make_array(field, shape, state_strides(shape, axes, itemsize(field))));
  return c;
}

double tolerance(Reduction reduction, DType dtype) {
  switch (reduction) {
    case Reduction::sum:
    case Reduction::mean:
    case Reduction::var:
    case Reduction::std:
    case Reduction::prod:
      return is_float(dtype) || is_complex(dtype) || reduction == Reduction::var || reduction == Reduction::std ||
                     reduction == Reduction::mean
                 ? 200
                 : 0;
    case Reduction::min:
    case Reduction::max:
    case Reduction::any:
    case Reduction::all:
    case Reduction::argmin:
    case Reduction::argmax:
    case Reduction::count_nonzero:
      return 0;
  }
  return 0;
}

class CudaReductions : public CudaTest, public ::testing::WithParamInterface<DType> {};

TEST_P(CudaReductions, EveryReductionAxisAndLayout) {
  const DType dtype = GetParam();
  const int64_t s = itemsize(dtype);
  struct Case {
    Dims shape;
    uint32_t axes;
  };
  const Case cases[] = {
      {Dims{1}, 1},          {Dims{7}, 1},          {Dims{1000}, 1},       {Dims{300001}, 1},     {Dims{0}, 1},
      {Dims{5, 0}, 2},       {Dims{3, 2000}, 2},    {Dims{2000, 3}, 1},    {Dims{2000, 3}, 2},    {Dims{100, 100}, 1},
      {Dims{100, 100}, 2},   {Dims{50, 60000}, 2},  {Dims{60000, 50}, 1},  {Dims{1, 500}, 1},     {Dims{500, 1}, 2},
      {Dims{20, 30, 40}, 5}, {Dims{20, 30, 40}, 2}, {Dims{20, 30, 40}, 3}, {Dims{20, 30, 41}, 6}, {Dims{20, 30, 40}, 7},
      {Dims{20, 30, 40}, 0}, {Dims{7, 5000, 3}, 2}, {Dims{5000, 33}, 2},
  };
  for (int i = 0; i < reduction_count(); ++i) {
    const auto reduction = static_cast<Reduction>(i);
    if (std::string(info(reduction).kinds).find(kind(dtype) == 'u' ? 'i' : kind(dtype)) == std::string::npos) continue;
    // Products stay in range over few elements only.
    for (const Case& which : cases) {
      if (reduction == Reduction::prod && element_count(which.shape) > 2000 && (is_float(dtype) || is_complex(dtype)))
        continue;
      Comparison c = reduction_case(reduction, dtype, which.shape, which.axes, contiguous_strides(which.shape, s));
      fill_moderate(c.inputs[0], 9);
      EXPECT_TRUE(same_on_gpu(std::move(c), tolerance(reduction, dtype)))
          << info(reduction).name << " " << to_string(which.shape) << " axes " << which.axes;
    }
    Comparison transposed = reduction_case(reduction, dtype, Dims{61, 700}, 2, Dims{s, 61 * s});
    Comparison stepped = reduction_case(reduction, dtype, Dims{61, 700}, 1, Dims{-2 * 701 * s, s});
    for (Comparison* c : {&transposed, &stepped}) {
      if (reduction == Reduction::prod) continue;
      fill_moderate(c->inputs[0], 10);
      EXPECT_TRUE(same_on_gpu(*c, tolerance(reduction, dtype))) << info(reduction).name << " by other strides";
    }
  }
}

TEST_P(CudaReductions, SpecialValues) {
  const DType dtype = GetParam();
  for (const Reduction reduction : {Reduction::min, Reduction::max, Reduction::argmin, Reduction::argmax,
                                    Reduction::any, Reduction::all, Reduction::count_nonzero}) {
    for (const uint32_t axes : {1u, 2u, 3u}) {
      Comparison c =
          reduction_case(reduction, dtype, Dims{173, 211}, axes, contiguous_strides(Dims{173, 211}, itemsize(dtype)));
      fill_interesting(c.inputs[0], 77 + axes);
      // A zero of either sign is the same extreme.
      const bool values = reduction == Reduction::min || reduction == Reduction::max || info(reduction).has_position;
      EXPECT_TRUE(same_on_gpu(std::move(c), values ? 1e-9 : 0)) << info(reduction).name << " axes " << axes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaReductions, ::testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(name(info.param)); });

class CudaReduction : public CudaTest {
 protected:
  // The sum of n values in GPU memory at a distance of `misalignment` elements from an aligned address.
  template <class T>
  T sum(const std::vector<T>& values, int64_t misalignment = 0) {
    const ExecContext gpu = gpu_context();
    const auto n = static_cast<int64_t>(values.size()), size = static_cast<int64_t>(sizeof(T));
    const Buffer data((n + misalignment) * size, *gpu.memory, gpu.stream), state(size, *gpu.memory, gpu.stream);
    char* const first = static_cast<char*>(data.data()) + misalignment * size;
    gpu.stream->copy(first, values.data(), n * size);
    Program program;
    program.reduce(Reduction::sum, std::array{program.input(dtype_of_v<T>)}, dtype_of_v<T>);
    Launch launch;
    launch.shape = Dims{n};
    launch.reduce_axes = 1;
    launch.inputs.push_back({first, Dims{size}});
    launch.states.push_back({state.data(), Dims{0}});
    EXPECT_LE(engine(kGpu).run_scratch_bytes(program, launch), int64_t{1} << 20);
    engine(kGpu).run(program, launch, gpu);
    T result;
    gpu.stream->copy(&result, state.data(), size);
    gpu.stream->synchronize();
    return result;
  }
};

TEST_F(CudaReduction, SumsAreAsAccurateAsPairwise) {
  std::vector<float> values(30'000'001, 0.1f);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(values.size());
  EXPECT_NEAR(sum(values), exact, exact * 3e-7);
  std::vector<double> wide(10'000'019);
  std::mt19937_64 random(1);
  long double reference = 0;
  for (double& x : wide) {
    x = static_cast<double>(random() >> 11) * 0x1p-53;
    reference += static_cast<long double>(x);
  }
  EXPECT_NEAR(sum(wide), static_cast<double>(reference), static_cast<double>(reference) * 5e-16);
}

TEST_F(CudaReduction, BitsDependOnShapesOnly) {
  std::vector<float> values(5'000'003);
  std::mt19937_64 random(2);
  for (float& x : values) x = static_cast<float>(random() >> 40) * 0x1p-24f - 0.3f;
  const float first = sum(values);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(sum(values), first);
  EXPECT_EQ(sum(values, 1), first);
  EXPECT_EQ(sum(values, 3), first);
}

TEST_F(CudaReduction, SeveralReductionsAndAnOutputInOnePass) {
  Program program;
  const ValueId x = program.input(DType::float32), row = program.input(DType::float32);
  const ValueId centred = program.apply(Op::subtract, std::array{x, row});
  program.output(centred);
  program.reduce(Reduction::var, std::array{centred}, DType::float64);
  program.reduce(Reduction::max, std::array{centred}, DType::float32);
  program.reduce(Reduction::sum, std::array{program.apply(Op::square, std::array{centred})}, DType::float64);
  for (const uint32_t axes : {1u, 2u, 3u}) {
    const Dims shape{3000, 117};
    Comparison c{.program = program,
                 .shape = shape,
                 .reduce_axes = axes,
                 .inputs = {make_array(DType::float32, shape), make_array(DType::float32, shape, Dims{0, 4})},
                 .outputs = {make_array(DType::float32, shape)}};
    for (const ProgramReduction& reduction : program.reductions())
      for (const DType field : state_dtypes(reduction.reduction, reduction.accumulate))
        c.states.push_back(make_array(field, shape, state_strides(shape, axes, itemsize(field))));
    fill_moderate(c.inputs[0], 4);
    fill_moderate(c.inputs[1], 5);
    EXPECT_TRUE(same_on_gpu(std::move(c), 500)) << axes;
  }
}

TEST_F(CudaReduction, MoreThanTwoToThe31Elements) {
  const ExecContext gpu = gpu_context();
  const int64_t n = (int64_t{1} << 31) + 4321;
  const Buffer data(n, *gpu.memory, gpu.stream), state(16, *gpu.memory, gpu.stream);
  gpu.stream->fill(data.data(), 3, n);
  Program program;
  program.reduce(Reduction::sum, std::array{program.input(DType::uint8)}, DType::uint64);
  for (const bool columns : {false, true}) {
    Launch launch;
    launch.shape = columns ? Dims{n / 3, 3} : Dims{n};
    launch.reduce_axes = 1;
    launch.inputs.push_back({data.data(), columns ? Dims{3, 1} : Dims{1}});
    const Buffer sums(3 * 8, *gpu.memory, gpu.stream);
    launch.states.push_back({sums.data(), columns ? Dims{0, 8} : Dims{0}});
    engine(kGpu).run(program, launch, gpu);
    uint64_t result[3];
    gpu.stream->copy(result, sums.data(), columns ? 24 : 8);
    gpu.stream->synchronize();
    for (int i = 0; i < (columns ? 3 : 1); ++i)
      EXPECT_EQ(result[i], columns ? static_cast<uint64_t>(n / 3 * 3) : static_cast<uint64_t>(n * 3));
  }
}

}  // namespace
}  // namespace quarry::local::cuda
