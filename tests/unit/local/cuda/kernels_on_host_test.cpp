// Generated kernels do on the host what the CPU engine does; needs no GPU, only a compiler.
#include "tests/unit/local/cuda/kernels_on_host.h"

#include <array>
#include <deque>
#include <functional>
#include <optional>

#include "quarry/local/base/error.h"
#include "tests/unit/local/cuda/gpu_support.h"
#include "tests/unit/local/cuda/launches.h"

namespace quarry::local::cuda {
namespace {

constexpr std::array kDTypes = {
#define QUARRY_DTYPE(name, text, type, kind, compute) DType::name,
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
};

// ---- What inputs hold ----

enum class Fill : uint8_t {
  interesting,
  moderate,
  few,  // small whole numbers, many of them equal
  equal,
  ascending,
  descending,
  zeros,  // of both signs
  first_nan,
  last_nan,
  some_nans,
  all_nan,
  extremes,
  nans_and_extremes,
};
constexpr const char* kFillNames[] = {
    "interesting", "moderate", "few",       "equal",   "ascending", "descending",       "zeros",
    "first NaN",   "last NaN", "some NaNs", "all NaN", "extremes",  "NaNs and extremes"};

template <class T>
T number(double x) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
    return T(static_cast<float>(x));
  else if constexpr (std::is_same_v<T, bool>)
    return x != 0;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<int64_t>(x));
  else
    return static_cast<T>(x);
}
// The greatest and the least; infinities where there are any.
template <class T>
T extreme(bool greatest) {
  if constexpr (std::is_integral_v<T>)
    return greatest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest();
  else
    return number<T>(greatest ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
}
// Where there is no NaN, an extreme.
template <class T>
T not_a_number() {
  if constexpr (std::is_integral_v<T>)
    return extreme<T>(true);
  else
    return number<T>(std::numeric_limits<double>::quiet_NaN());
}

template <class T>
T filled(Fill fill, size_t i, size_t count, std::mt19937_64& random) {
  const auto few = [&] { return number<T>(static_cast<double>(random() % 5)); };
  switch (fill) {
    case Fill::interesting:
    case Fill::moderate:
    case Fill::few:
      return few();
    case Fill::equal:
      return number<T>(1);
    case Fill::ascending:
      return number<T>(static_cast<double>(i));
    case Fill::descending:
      return number<T>(static_cast<double>(count - i));
    case Fill::zeros:
      return number<T>(random() % 2 == 0 ? 0.0 : -0.0);
    case Fill::first_nan:
      return i == 0 ? not_a_number<T>() : few();
    case Fill::last_nan:
      return i + 1 == count ? not_a_number<T>() : few();
    case Fill::some_nans:
      return random() % 40 == 0 ? not_a_number<T>() : few();
    case Fill::all_nan:
      return not_a_number<T>();
    case Fill::extremes:
      return random() % 3 == 0 ? few() : extreme<T>(random() % 2 == 0);
    case Fill::nans_and_extremes:
      return random() % 20 == 0 ? not_a_number<T>() : extreme<T>(random() % 2 == 0);
  }
  return {};
}

void fill_array(HostArray& array, Fill fill, uint64_t seed) {
  if (fill == Fill::interesting) return fill_interesting(array, seed);
  std::mt19937_64 random(seed);
  if (fill == Fill::moderate && array.offset % itemsize(array.dtype) == 0) return fill_moderate(array, seed);
  dispatch(array.dtype, [&]<class T>() {
    const size_t first = static_cast<size_t>(array.offset) % sizeof(T);
    const size_t count = (array.bytes.size() - first) / sizeof(T);
    for (size_t i = 0; i < count; ++i) {
      T value;
      if constexpr (requires { value.imag(); }) {
        using R = typename T::value_type;
        // A number is no number by either part.
        const Fill other = random() % 2 == 0 ? fill : Fill::few;
        const R a = filled<R>(fill, i, count, random), b = filled<R>(other, i, count, random);
        value = random() % 2 == 0 ? T(a, b) : T(b, a);
      } else {
        value = filled<T>(fill, i, count, random);
      }
      std::memcpy(array.bytes.data() + first + i * sizeof(T), &value, sizeof(T));
    }
  });
}

// ---- The fixture ----

class KernelsOnHostTest : public ::testing::Test {
 protected:
  struct Entry {
    std::string name;
    Comparison comparison;
    std::vector<Fill> fills;
    double ulps = 0;
    size_t number = 0;
  };

  // Runs later, once for each of `fills`. The plan's kind tells whether the launch is the one that is meant.
  const Plan& add(std::string name, Comparison comparison, std::vector<Fill> fills, double ulps,
                  const PlanOverrides& overrides = {}) {
    Entry& entry = entries_.emplace_back(Entry{std::move(name), std::move(comparison), std::move(fills), ulps});
    entry.number = kernels_.add(entry.comparison.program, launch_of(entry.comparison), overrides);
    return kernels_.plan(entry.number);
  }

  void check() {
    try {
      kernels_.compile();
    } catch (const NotSupported& none) {
      GTEST_SKIP() << none.what();
    }
    for (Entry& entry : entries_)
      for (const Fill fill : entry.fills) {
        Comparison& c = entry.comparison;
        for (size_t i = 0; i < c.inputs.size(); ++i) fill_array(c.inputs[i], fill, 100 + i);
        clear_results(c);
        ASSERT_EQ(kernels_.run(entry.number), "") << entry.name;
        std::vector<std::vector<char>> results;
        for (const auto* group : {&c.outputs, &c.states})
          for (const HostArray& array : *group) results.push_back(array.bytes);
        clear_results(c);
        EXPECT_TRUE(same_as_cpu(c, std::move(results), entry.ulps))
            << entry.name << ", " << kFillNames[static_cast<size_t>(fill)];
      }
  }

  KernelsOnHost kernels_;
  std::deque<Entry> entries_;
};

// ---- Elementwise ----

// How an input lies: strides of an array of the shape, misalignment in bytes.
struct Placed {
  Dims strides;
  int64_t misalignment = 0;
};
Comparison elementwise(const Program& program, const Dims& shape, const std::vector<Placed>& placed = {}) {
  Comparison c{.program = program, .shape = shape, .inputs = {}, .outputs = {}};
  for (int i = 0; i < program.inputs(); ++i) {
    const DType dtype = program.input_dtype(i);
    const auto k = static_cast<size_t>(i);
    c.inputs.push_back(k < placed.size() ? make_array(dtype, shape, placed[k].strides, placed[k].misalignment)
                                         : make_array(dtype, shape));
  }
  for (const ValueId id : program.outputs()) c.outputs.push_back(make_array(program.dtype(id), shape));
  return c;
}

Program addition(DType dtype, bool swapped = false) {
  Program program;
  const ValueId x = program.input(dtype, swapped), y = program.input(dtype);
  program.output(program.apply("add"_op, std::array{x, y}));
  return program;
}

const std::vector<Fill> kElementwiseFills = {Fill::interesting};

TEST_F(KernelsOnHostTest, EveryLayout) {
  for (const DType dtype : {DType::int8, DType::float16, DType::float32, DType::complex128}) {
    const int64_t s = itemsize(dtype);
    const Program program = addition(dtype);
    const auto run = [&](const char* name, const Dims& shape, const std::vector<Placed>& placed = {},
                         const PlanOverrides& overrides = {}) {
      return add(fmt::format("{} {} {}", name, local::name(dtype), to_string(shape)),
                 elementwise(program, shape, placed), kElementwiseFills, 0, overrides)
          .kind;
    };
    const Dims square{67, 45};
    run("contiguous", Dims{1003});
    run("contiguous", Dims{4096});
    run("single", Dims{});
    run("one element", Dims{1, 1});
    run("empty", Dims{3, 0});
    run("64-bit indices", square, {{Dims{90 * s, 2 * s}}}, {.force_wide = true});
    run("unaligned", Dims{1003}, {{Dims{s}, s}, {Dims{s}, 3 * s}});
    run("broadcast", square, {{Dims{0, s}}, {Dims{s, 0}}});
    run("one number", square, {{Dims{0, 0}}});
    run("every second", square, {{Dims{90 * s, 2 * s}}});
    run("reversed", square, {{Dims{-45 * s, -s}}, {Dims{45 * s, -s}}});
    EXPECT_EQ(run("transposed", square, {{Dims{s, 67 * s}}}), Plan::Kind::tile);
    EXPECT_EQ(run("transposed, large tiles", Dims{300, 270}, {{Dims{s, 300 * s}}}), Plan::Kind::tile);
    EXPECT_EQ(run("both transposed, one in part", Dims{40, 3, 33}, {{Dims{s, 40 * s, 120 * s}}, {Dims{s, 0, 40 * s}}}),
              Plan::Kind::tile);
    run("transposed, 64-bit indices", square, {{Dims{s, 67 * s}}}, {.force_wide = true});
    run("four axes", Dims{3, 5, 7, 9}, {{Dims{s, 3 * s, 15 * s, 105 * s}}, {Dims{0, 9 * s, 0, s}}});
  }
  check();
}

// Views of one array that begin elsewhere: most are unaligned, and those of equal strides have one offset.
TEST_F(KernelsOnHostTest, ShiftedViews) {
  for (const DType dtype : {DType::uint8, DType::float16, DType::float32, DType::float64, DType::complex128}) {
    const int64_t s = itemsize(dtype);
    const auto run = [&](const char* name, const Dims& shape, const std::vector<Placed>& placed) -> const Plan& {
      Program program;
      ValueId sum = program.input(dtype);
      for (size_t i = 1; i < placed.size(); ++i)
        sum = program.apply("subtract"_op, std::array{program.input(dtype), sum});
      program.output(sum);
      return add(fmt::format("{} {} {}", name, local::name(dtype), to_string(shape)),
                 elementwise(program, shape, placed), kElementwiseFills, 0);
    };
    const int64_t widest = std::max<int64_t>(16 / s, s < 4 ? 4 / s : 1);
    const Dims strides{1280 * s, 64 * s, s};
    for (const int64_t columns : {int64_t{32}, int64_t{33}, int64_t{1}}) {
      const Plan& plan = run("shifted", Dims{5, 9, columns},
                             {{strides, s}, {strides, 0}, {strides, 3 * s}, {strides, s}, {strides, 2 * s}});
      if (columns == 1) continue;
      EXPECT_EQ(plan.lanes, s < 16 ? widest / 2 : 1) << name(dtype);
      EXPECT_EQ(plan.inputs[0].like, -1);
      for (size_t i = 1; i < 5; ++i) EXPECT_EQ(plan.inputs[i].like, 0) << i;
    }
    const Plan& mixed = run("mixed", Dims{5, 9, 32},
                            {{Dims{1280 * s, 128 * s, 2 * s}, s},
                             {strides, 0},
                             {Dims{0, 64 * s, s}, s},
                             {Dims{1280 * s, 128 * s, 2 * s}, 0},
                             {Dims{0, 64 * s, s}, 0},
                             {strides, 0}});
    EXPECT_EQ(mixed.lanes, widest) << name(dtype);
    const int like[] = {-1, -1, -1, 0, 2, 1};
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(mixed.inputs[i].like, like[i]) << i;
    run("reversed", Dims{7, 33}, {{Dims{-64 * s, -s}, s}, {Dims{-64 * s, -s}, 0}, {Dims{64 * s, -s}, s}});
  }
  check();
}

TEST_F(KernelsOnHostTest, ChainsAndSelections) {
  for (const DType dtype : {DType::bool_, DType::uint8, DType::int32, DType::uint64, DType::float16, DType::bfloat16,
                            DType::float32, DType::float64}) {
    Program program;
    const ValueId x = program.input(dtype), y = program.input(dtype);
    const ValueId scaled = program.apply("multiply"_op, std::array{x, program.constant(Scalar(3), dtype)});
    const ValueId sum = program.apply("add"_op, std::array{scaled, y});
    program.output(sum);
    program.output(program.apply("where"_op, std::array{program.apply("less"_op, std::array{x, y}), sum, y}));
    program.output(program.apply("maximum"_op, std::array{x, y}));
    program.output(program.apply("sqrt"_op, std::array{program.apply("absolute"_op, std::array{y})}));
    add(fmt::format("chain {}", name(dtype)), elementwise(program, Dims{13, 31}), kElementwiseFills, 0);
    add(fmt::format("chain {}, transposed", name(dtype)),
        elementwise(program, Dims{33, 31}, {{Dims{itemsize(dtype), 33 * itemsize(dtype)}}}), kElementwiseFills, 0);
  }
  for (const DType dtype : {DType::complex64, DType::complex128}) {
    Program program;
    const ValueId x = program.input(dtype), y = program.input(dtype);
    const ValueId product = program.apply("multiply"_op, std::array{x, y});
    program.output(program.apply("subtract"_op, std::array{product, program.constant(Scalar(2), dtype)}));
    program.output(program.apply("real"_op, std::array{product}));
    program.output(program.apply("equal"_op, std::array{x, y}));
    add(fmt::format("chain {}", name(dtype)), elementwise(program, Dims{13, 31}), {Fill::few, Fill::moderate}, 0);
  }
  check();
}

// To all dtypes in one pass: fifteen outputs, a third of them of other widths than the input.
TEST_F(KernelsOnHostTest, Casts) {
  for (const DType from : kDTypes) {
    Program program;
    const ValueId x = program.input(from);
    for (const DType to : kDTypes) program.output(program.cast(x, to));
    add(fmt::format("cast {}", name(from)), elementwise(program, Dims{700}), kElementwiseFills, 0);
    Program swapped;
    swapped.output(swapped.cast(swapped.input(from, /*swapped=*/true), from));
    add(fmt::format("swapped {}", name(from)), elementwise(swapped, Dims{13, 31}), kElementwiseFills, 0);
  }
  check();
}

TEST_F(KernelsOnHostTest, Positions) {
  Program program;
  const ValueId x = program.input(DType::int32);
  const ValueId row = program.index(0), column = program.index(2);
  program.output(program.apply("add"_op, std::array{x, row}));
  program.output(program.apply("multiply"_op, std::array{row, column}));
  for (const Dims& shape : {Dims{5, 7, 11}, Dims{1, 7, 40}, Dims{40, 7, 1}, Dims{1, 1, 1}}) {
    Comparison c = elementwise(program, shape);
    c.index_offset = Dims{1000, 5, int64_t{1} << 40};
    add("positions " + to_string(shape), c, kElementwiseFills, 0);
    add("positions, 64-bit indices " + to_string(shape), c, kElementwiseFills, 0, {.force_wide = true});
  }
  const Dims shape{40, 2, 36};
  add("positions in tiles", elementwise(program, shape, {{Dims{4, 4 * 40, 4 * 80}}}), kElementwiseFills, 0);
  Program alone;
  alone.output(alone.index(1));
  add("positions alone", elementwise(alone, Dims{3, 500}), kElementwiseFills, 0);
  check();
}

// ---- Random numbers ----

Program random_numbers(Op op, DType dtype) {
  Program program;
  const ValueId seed = program.constant(Scalar(uint64_t{0x0123456789abcdef}), DType::uint64);
  const ValueId stream = program.constant(Scalar(uint64_t{1} << 40 | 7), DType::uint64);
  program.output(program.apply(op, std::array{program.index(0), seed, stream}, dtype));
  return program;
}

// Lanes share Philox blocks where they begin one; the bits are those of an element alone.
TEST_F(KernelsOnHostTest, RandomNumbersAtEveryOffset) {
  const int64_t starts[] = {0, 1, 2, 3, 4, 5, 6, 7, 1000, (int64_t{1} << 32) * 4 - 8, (int64_t{1} << 34) - 5};
  for (const auto& [op, dtype] :
       {std::pair{"random_bits"_op, DType::uint32}, std::pair{"random_bits"_op, DType::uint64},
        std::pair{"random_uniform"_op, DType::float32}, std::pair{"random_uniform"_op, DType::float64},
        std::pair{"random_normal"_op, DType::float32}, std::pair{"random_normal"_op, DType::float64}}) {
    const Program program = random_numbers(op, dtype);
    for (const int64_t start : starts)
      for (const int64_t count : {1, 2, 3, 4, 5, 7, 8, 1003}) {
        Comparison c = elementwise(program, Dims{count});
        c.index_offset = Dims{start};
        add(fmt::format("op {} {} from {}, {}", static_cast<int>(op), name(dtype), start, count), c,
            {Fill::interesting}, 0, {.force_wide = start == 3});
      }
    for (const int64_t stride : {2, -1}) {
      Comparison c = elementwise(program, Dims{301});
      c.outputs[0] = make_array(dtype, Dims{301}, Dims{stride * itemsize(dtype)});
      add(fmt::format("op {} {} stride {}", static_cast<int>(op), name(dtype), stride), c, {Fill::interesting}, 0);
    }
    Comparison unaligned = elementwise(program, Dims{301});
    unaligned.outputs[0] = make_array(dtype, Dims{301}, Dims{itemsize(dtype)}, itemsize(dtype));
    add("unaligned", unaligned, {Fill::interesting}, 0);
    // Two accesses of a thread.
    constexpr int64_t kMany = (int64_t{1} << 22) + (int64_t{1} << 18) + 3;
    Comparison many = elementwise(program, Dims{kMany});
    many.index_offset = Dims{4};
    const Plan& plan =
        add(fmt::format("op {} {} many", static_cast<int>(op), name(dtype)), many, {Fill::interesting}, 0);
    EXPECT_EQ(plan.lanes * itemsize(dtype), 16);
    EXPECT_EQ(plan.unroll, 2);
  }
  check();
}

// Samplers of constant parameters are prepared by every block, which takes more than one round of elements where there
// are many.
TEST_F(KernelsOnHostTest, PreparedSamplers) {
  const auto run = [&](Op op, DType dtype, const std::vector<Scalar>& parameters, int64_t count) {
    Program program;
    const ValueId seed = program.constant(Scalar(uint64_t{3}), DType::uint64);
    std::vector<ValueId> args{program.apply("random_bits"_op, std::array{program.index(0), seed, seed}, DType::uint64)};
    for (const Scalar& parameter : parameters) args.push_back(program.constant(parameter, dtype));
    program.output(program.apply(op, args, dtype));
    Comparison c = elementwise(program, Dims{count});
    const Plan& plan = add(fmt::format("op {} of {}", static_cast<int>(op), parameters[0].as_double()), c,
                           {Fill::interesting}, 0, {.force_wide = count == 1001});
    EXPECT_LE(plan.grid_x, 2112);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double shape : {2.5, 0.5, 0.0, -1.0}) {
    run("random_gamma"_op, DType::float64, {Scalar(shape)}, 1000);
    run("random_log_gamma"_op, DType::float64, {Scalar(shape)}, 1001);
  }
  for (const double mean : {4.0, 0.0, 9.9, 10.0, 400.0, 1e15, -1.0, nan})
    run("random_poisson"_op, DType::float64, {Scalar(mean)}, 3000);
  for (const auto& [n, p] : {std::pair{40.0, 0.3},
                             {40.0, 0.7},
                             {5.0, 0.3},
                             {0.0, 0.5},
                             {1e6, 0.4},
                             {1e15, 1e-15},
                             {10.0, 1.0},
                             {std::numeric_limits<double>::infinity(), 0.5}})
    run("random_binomial"_op, DType::float64, {Scalar(n), Scalar(p)}, 3000);
  const auto both = [](int64_t good, int64_t bad) { return Scalar(good << 32 | bad); };
  run("random_hypergeometric"_op, DType::int64, {both(20, 30), Scalar(int64_t{10})}, 3000);
  run("random_hypergeometric"_op, DType::int64, {both(30, 20), Scalar(int64_t{45})}, 3000);
  run("random_hypergeometric"_op, DType::int64, {both(30, 20), Scalar(int64_t{60})}, 300);
  run("random_hypergeometric"_op, DType::int64, {both(50000, 30000), Scalar(int64_t{70000})}, 3000);
  run("random_zipf"_op, DType::float64, {Scalar(2.0)}, 1000);
  run("random_von_mises"_op, DType::float64, {Scalar(4.0)}, 1000);
  run("random_poisson"_op, DType::float64, {Scalar(5.0)}, 2112 * 256 * 2 + 12345);
  check();
}

// Two samplers, one of them of an array, whose keys share blocks; parameters that are computed of constants.
TEST_F(KernelsOnHostTest, PreparedSamplersAmongOthers) {
  Program program;
  const ValueId x = program.input(DType::float64), seed = program.constant(Scalar(uint64_t{9}), DType::uint64);
  const auto key = [&](uint64_t stream) {
    return program.apply("random_bits"_op,
                         std::array{program.index(1), seed, program.constant(Scalar(stream), DType::uint64)},
                         DType::uint64);
  };
  const ValueId three = program.constant(Scalar(3.0), DType::float64);
  const ValueId six = program.apply("add"_op, std::array{three, three});
  const ValueId mean = program.apply("absolute"_op, std::array{x});
  const ValueId bounded = program.apply("minimum"_op, std::array{mean, six});
  program.output(program.apply("random_gamma"_op, std::array{key(1), six}, DType::float64));
  program.output(
      program.cast(program.apply("random_poisson"_op, std::array{key(2), six}, DType::float64), DType::int64));
  program.output(program.apply("random_poisson"_op, std::array{key(3), bounded}, DType::float64));
  for (const Dims& shape : {Dims{5, 33}, Dims{64, 64}, Dims{33, 5}}) {
    add(to_string(shape), elementwise(program, shape), {Fill::few}, 0);
    if (shape[0] == shape[1]) add("transposed", elementwise(program, shape, {{Dims{8, 64 * 8}}}), {Fill::few}, 0);
  }
  check();
}

// The index of an element in C order, of chunks that begin anywhere.
TEST_F(KernelsOnHostTest, RandomNumbersOfSeveralAxes) {
  for (const Dims& shape : {Dims{5, 33}, Dims{64, 64}, Dims{8, 512}, Dims{33, 5}, Dims{1, 100}, Dims{100, 1}}) {
    for (const int64_t columns : {512, 1001}) {
      Program program;
      const ValueId seed = program.constant(Scalar(uint64_t{5}), DType::uint64);
      const ValueId width = program.constant(Scalar(columns), DType::int64);
      const ValueId row = program.apply("multiply"_op, std::array{program.index(0), width});
      const ValueId index = program.apply("add"_op, std::array{row, program.index(1)});
      program.output(program.apply("random_normal"_op, std::array{index, seed, seed}, DType::float32));
      program.output(program.apply("random_uniform"_op, std::array{index, seed, seed}, DType::float64));
      // Two steps from lane to lane.
      const ValueId twice = program.apply("add"_op, std::array{index, program.index(1)});
      program.output(program.apply("random_bits"_op, std::array{twice, seed, seed}, DType::uint32));
      Comparison c = elementwise(program, shape);
      c.index_offset = Dims{7, 64};
      add(fmt::format("{} of {}", to_string(shape), columns), c, {Fill::interesting}, 0);
    }
  }
  check();
}

// Among other values, along axes where lanes have no successive indices, and as the keys of samples.
TEST_F(KernelsOnHostTest, RandomNumbersInPrograms) {
  for (const int axis : {0, 1}) {
    Program program;
    const ValueId x = program.input(DType::float64), index = program.index(axis);
    const auto draw = [&](Op op, DType dtype, uint64_t stream) {
      return program.apply(op,
                           std::array{index, program.constant(Scalar(uint64_t{5}), DType::uint64),
                                      program.constant(Scalar(stream), DType::uint64)},
                           dtype);
    };
    const ValueId normal = draw("random_normal"_op, DType::float64, 1);
    program.output(program.apply("add"_op, std::array{normal, x}));
    program.output(draw("random_uniform"_op, DType::float32, 2));
    program.output(program.apply(
        "random_poisson"_op,
        std::array{draw("random_bits"_op, DType::uint64, 3), program.constant(Scalar(4.0), DType::float64)},
        DType::float64));
    for (const Dims& shape : {Dims{5, 33}, Dims{64, 64}, Dims{33, 5}, Dims{1, 100}, Dims{100, 1}}) {
      Comparison c = elementwise(program, shape);
      c.index_offset = Dims{2, 6};
      add(fmt::format("along {}, {}", axis, to_string(shape)), c, {Fill::interesting}, 0);
    }
    add("transposed", elementwise(program, Dims{40, 33}, {{Dims{8, 40 * 8}}}), {Fill::interesting}, 0);
  }
  check();
}

// ---- Reductions ----

// A launch of reductions: shape, bits of the reduced axes, strides of the input in elements (empty: contiguous).
struct Reduced {
  Dims shape;
  uint32_t axes;
  Dims strides = {};
  int64_t misalignment = 0;  // in elements
  bool wide = false;

  std::string text() const {
    return fmt::format("{} axes {}{}{}{}", to_string(shape), axes,
                       strides.empty() ? "" : " strides " + to_string(strides), misalignment != 0 ? " unaligned" : "",
                       wide ? " 64-bit indices" : "");
  }
  Comparison comparison(const Program& program) const {
    Comparison c{.program = program, .shape = shape, .reduce_axes = axes, .inputs = {}, .outputs = {}};
    for (int i = 0; i < program.inputs(); ++i) {
      const DType dtype = program.input_dtype(i);
      const int64_t s = itemsize(dtype);
      Dims steps = contiguous_strides(shape, s);
      if (!strides.empty())
        for (int d = 0; d < shape.size(); ++d) steps[d] = strides[d] * s;
      c.inputs.push_back(make_array(dtype, shape, steps, misalignment * s));
    }
    for (const ValueId id : program.outputs()) c.outputs.push_back(make_array(program.dtype(id), shape));
    for (const ProgramReduction& reduction : program.reductions())
      for (const DType field : state_dtypes(reduction.reduction, reduction.accumulate))
        c.states.push_back(make_array(field, shape, state_strides(shape, axes, itemsize(field))));
    return c;
  }
};

// Whole rows and parts of them, columns, middle axes, all axes; merged by a second kernel where they are long.
const Reduced kForms[] = {
    {Dims{1003}, 1},  {Dims{20003}, 1},    {Dims{37, 301}, 2},  {Dims{40, 5}, 2},   {Dims{300, 37}, 1},
    {Dims{70, 3}, 1}, {Dims{5, 50, 9}, 2}, {Dims{4, 90, 5}, 5}, {Dims{5, 4099}, 1},
};
// Rarer ones, for some dtypes.
const Reduced kRareForms[] = {
    {Dims{}, 0},
    {Dims{1}, 1},
    {Dims{0}, 1},
    {Dims{5, 0}, 2},
    {Dims{20, 30}, 0},
    {Dims{6, 10, 11}, 7},
    {Dims{6, 10, 11}, 3},
    {Dims{3, 1, 500}, 6},
    {Dims{2000}, 1, Dims{-1}},
    {Dims{30, 200}, 2, Dims{401, 2}},
    {Dims{61, 70}, 2, Dims{1, 61}},
    {Dims{61, 70}, 1, Dims{1, 61}},
    {Dims{61, 70}, 2, Dims{-1, -61}},
    {Dims{30, 200}, 2, Dims{1, 0}},
    {Dims{30, 200}, 1, Dims{0, 1}},
    {Dims{9, 250}, 2, Dims{250, 1}, 1},
    {Dims{250, 21}, 1, Dims{21, 1}, 1},
    {Dims{20000}, 1, Dims{1}, 3},
    {Dims{37, 301}, 2, {}, 0, true},
    {Dims{300, 37}, 1, {}, 0, true},
};
bool is_rare_forms_dtype(DType dtype) {
  return dtype == DType::float32 || dtype == DType::int8 || dtype == DType::complex128;
}
std::vector<Reduced> forms_of(DType dtype) {
  std::vector<Reduced> forms(std::begin(kForms), std::end(kForms));
  if (is_rare_forms_dtype(dtype)) forms.insert(forms.end(), std::begin(kRareForms), std::end(kRareForms));
  return forms;
}

bool takes(Reduction reduction, DType dtype) {
  return std::string(info(reduction).kinds).find(kind(dtype) == 'u' ? 'i' : kind(dtype)) != std::string::npos;
}

// The position of an element among the reduced ones: along one axis, or of several in C order.
ValueId position_of(Program& program, const Reduced& form) {
  ValueId position = -1;
  for (int d = 0; d < form.shape.size(); ++d) {
    if ((form.axes >> d & 1u) == 0) continue;
    if (position < 0) {
      position = program.index(d);
      continue;
    }
    const ValueId extent = program.constant(Scalar(form.shape[d]), DType::int64);
    position = program.apply("add"_op,
                             std::array{program.apply("multiply"_op, std::array{position, extent}), program.index(d)});
  }
  return position < 0 ? program.constant(Scalar(int64_t{0}), DType::int64) : position;
}

class PositionsOnHost : public KernelsOnHostTest, public ::testing::WithParamInterface<DType> {};

// The first of equal ones, the first NaN, whatever form the kernel has.
TEST_P(PositionsOnHost, ArgminAndArgmax) {
  const DType dtype = GetParam();
  const std::vector<Fill> fills = {Fill::interesting, Fill::few,     Fill::equal,     Fill::ascending,
                                   Fill::descending,  Fill::zeros,   Fill::first_nan, Fill::last_nan,
                                   Fill::some_nans,   Fill::all_nan, Fill::extremes,  Fill::nans_and_extremes};
  for (const Reduced& form : forms_of(dtype)) {
    Program program;
    const ValueId x = program.input(dtype), position = position_of(program, form);
    program.reduce("argmin"_reduction, std::array{x, position}, dtype);
    program.reduce("argmax"_reduction, std::array{x, position}, dtype);
    // A zero of either sign is the same extreme.
    const Plan& plan =
        add("argmin, argmax " + form.text(), form.comparison(program), fills, 1e-9, {.force_wide = form.wide});
    if (form.shape == Dims{20003} || form.shape == Dims{300, 37}) {
      EXPECT_TRUE(plan.split);
    }
  }
  check();
}

INSTANTIATE_TEST_SUITE_P(Dtypes, PositionsOnHost, ::testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(name(info.param)); });

// Positions that are not those along the one reduced axis, in ascending order: along another, descending, given; of
// several axes; and such as begin elsewhere.
TEST_F(KernelsOnHostTest, OtherPositions) {
  for (const Reduced& form : {Reduced{Dims{37, 301}, 2}, Reduced{Dims{300, 37}, 1}, Reduced{Dims{30, 200}, 3}}) {
    const auto run = [&](const char* name, const std::vector<Fill>& fills, auto position_in) {
      Program program;
      const ValueId x = program.input(DType::float32);
      program.reduce("argmax"_reduction, std::array{x, position_in(program)}, DType::float32);
      Comparison c = form.comparison(program);
      c.index_offset = Dims{12345, int64_t{1} << 33};
      add(fmt::format("{}, {}", name, form.text()), c, fills, 1e-9);
    };
    const std::vector<Fill> fills = {Fill::few, Fill::equal, Fill::some_nans};
    run("along axis 0", fills, [](Program& program) { return program.index(0); });
    run("along axis 1", fills, [](Program& program) { return program.index(1); });
    run("descending", fills, [&](Program& program) {
      const ValueId last = program.constant(Scalar(int64_t{1} << 40), DType::int64);
      return program.apply("subtract"_op, std::array{last, program.index(form.axes == 2 ? 1 : 0)});
    });
    run("given", {Fill::ascending, Fill::descending}, [](Program& program) { return program.input(DType::int64); });
  }
  // Beside a sum of floats, whose levels keep partial states.
  for (const Reduced& form : {Reduced{Dims{3, 60000}, 2}, Reduced{Dims{9000, 3}, 1}}) {
    Program program;
    const ValueId x = program.input(DType::float32), position = position_of(program, form);
    program.reduce("argmax"_reduction, std::array{x, position}, DType::float32);
    program.reduce("sum"_reduction, std::array{x}, DType::float32);
    program.reduce("argmin"_reduction, std::array{program.apply("negative"_op, std::array{x}), position},
                   DType::float32);
    add("beside a sum " + form.text(), form.comparison(program), {Fill::few, Fill::equal, Fill::some_nans}, 1e-9);
  }
  // More parts than a warp merges.
  const Reduced form{Dims{1'200'000}, 1};
  Program program;
  program.reduce("argmax"_reduction, std::array{program.input(DType::int8), program.index(0)}, DType::int8);
  const Plan& plan = add("many parts", form.comparison(program), {Fill::few, Fill::last_nan}, 0);
  EXPECT_GT(plan.segments, 256);
  check();
}

class ReductionsOnHost : public KernelsOnHostTest, public ::testing::WithParamInterface<DType> {};

TEST_P(ReductionsOnHost, WholeNumbersAreExact) {
  const DType dtype = GetParam();
  for (const Reduced& form : forms_of(dtype)) {
    Program program;
    const ValueId x = program.input(dtype);
    for (const Reduction reduction : {"sum"_reduction, "min"_reduction, "max"_reduction, "any"_reduction,
                                      "all"_reduction, "count_nonzero"_reduction, "mean"_reduction})
      if (takes(reduction, dtype)) program.reduce(reduction, std::array{x}, accumulate_dtype(reduction, dtype));
    add("several " + form.text(), form.comparison(program), {Fill::few, Fill::equal}, 0, {.force_wide = form.wide});
  }
  check();
}

// Threads read several rows at a time where there are many short ones.
TEST_F(KernelsOnHostTest, ManyShortRows) {
  for (const int64_t columns : {1, 5, 8}) {
    const Reduced form{Dims{280'001, columns}, 2};
    Program program;
    const ValueId x = program.input(DType::float64);
    program.reduce("sum"_reduction, std::array{x}, DType::float64);
    program.reduce("argmax"_reduction, std::array{x, program.index(1)}, DType::float64);
    program.output(program.apply("negative"_op, std::array{x}));
    const Plan& plan = add("many short rows " + form.text(), form.comparison(program), {Fill::few}, 0);
    EXPECT_TRUE(plan.once);
    EXPECT_GT(plan.each * (columns == 1 ? 2 : 1), 1);
  }
  check();
}

// Few threads per row where states are dear to combine and the rows are many.
TEST_F(KernelsOnHostTest, ManyRowsOfStates) {
  const Reduced form{Dims{70'000, 271}, 2};
  Program program;
  const ValueId x = program.input(DType::float32);
  program.reduce("sum"_reduction, std::array{x}, DType::float32);
  program.reduce("argmax"_reduction, std::array{x, program.index(1)}, DType::float32);
  EXPECT_EQ(add("many rows", form.comparison(program), {Fill::few}, 0).group, 8);
  check();
}

TEST_P(ReductionsOnHost, SpecialValues) {
  const DType dtype = GetParam();
  for (const Reduced& form :
       {Reduced{Dims{20003}, 1}, Reduced{Dims{37, 301}, 2}, Reduced{Dims{300, 37}, 1}, Reduced{Dims{5, 50, 9}, 2}}) {
    Program program;
    const ValueId x = program.input(dtype);
    for (const Reduction reduction :
         {"min"_reduction, "max"_reduction, "any"_reduction, "all"_reduction, "count_nonzero"_reduction})
      if (takes(reduction, dtype)) program.reduce(reduction, std::array{x}, dtype);
    add("several " + form.text(), form.comparison(program),
        {Fill::interesting, Fill::zeros, Fill::first_nan, Fill::last_nan, Fill::all_nan, Fill::nans_and_extremes},
        1e-9);
  }
  check();
}

TEST_P(ReductionsOnHost, MomentsAndProducts) {
  const DType dtype = GetParam();
  for (const Reduced& form : {Reduced{Dims{20003}, 1}, Reduced{Dims{300, 37}, 1}, Reduced{Dims{5, 50, 9}, 2}}) {
    Program moments;
    const ValueId x = moments.input(dtype);
    for (const Reduction reduction : {"sum"_reduction, "mean"_reduction, "var"_reduction})
      moments.reduce(reduction, std::array{x}, accumulate_dtype(reduction, dtype));
    add("moments " + form.text(), form.comparison(moments), {Fill::moderate}, 500);
  }
  Program product;
  product.reduce("prod"_reduction, std::array{product.input(dtype)}, accumulate_dtype("prod"_reduction, dtype));
  const Reduced form{Dims{9, 30}, 2};
  add("product " + form.text(), form.comparison(product), {Fill::moderate, Fill::few}, 100);
  check();
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ReductionsOnHost,
                         ::testing::Values(DType::bool_, DType::int8, DType::uint32, DType::int64, DType::float16,
                                           DType::float32, DType::float64, DType::complex128),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_F(KernelsOnHostTest, ReductionsWithOutputs) {
  Program program;
  const ValueId x = program.input(DType::float32), y = program.input(DType::float32);
  const ValueId difference = program.apply("subtract"_op, std::array{x, y});
  program.output(difference);
  program.reduce("max"_reduction, std::array{difference}, DType::float32);
  program.reduce("sum"_reduction, std::array{program.apply("square"_op, std::array{difference})}, DType::float64);
  for (const Reduced& form : kForms) add("outputs " + form.text(), form.comparison(program), {Fill::few}, 1e-9);
  check();
}

// Launches that one kernel takes together have the bits of each alone.
TEST_F(KernelsOnHostTest, SeveralLaunchesAtOnce) {
  struct Group {
    std::string name;
    std::deque<Comparison> launches;
    std::vector<size_t> alone;
    size_t together = 0;
  };
  constexpr int kLaunches = 5;
  std::deque<Group> groups;
  const auto add_group = [&](const std::string& name, auto comparison) {
    Group& group = groups.emplace_back();
    group.name = name;
    std::vector<Launch> launches;
    for (int k = 0; k < kLaunches; ++k) {
      Comparison& c = group.launches.emplace_back(comparison());
      c.index_offset = Dims::filled(c.shape.size(), 1000 * k);
      group.alone.push_back(kernels_.add(c.program, launch_of(c)));
      launches.push_back(launch_of(c));
    }
    group.together = kernels_.add_several(group.launches[0].program, launches);
  };

  Program chain;
  const ValueId terms[] = {
      chain.apply("multiply"_op, std::array{chain.input(DType::float64), chain.constant(Scalar(2.5), DType::float64)}),
      chain.cast(chain.index(1), DType::float64)};
  chain.output(chain.apply("add"_op, terms));
  add_group("map", [&] { return elementwise(chain, Dims{37, 45}); });
  add_group("tiles", [&] { return elementwise(chain, Dims{67, 45}, {{Dims{8, 67 * 8}}}); });
  Program drawn;
  drawn.output(drawn.apply("random_normal"_op,
                           std::array{drawn.index(0), drawn.constant(Scalar(uint64_t{5}), DType::uint64),
                                      drawn.constant(Scalar(uint64_t{7}), DType::uint64)},
                           DType::float32));
  add_group("normals", [&] { return elementwise(drawn, Dims{1003}); });
  for (const Reduced& form : {Reduced{Dims{200'000}, 1}, Reduced{Dims{30, 400}, 2}, Reduced{Dims{400, 30}, 1},
                              Reduced{Dims{60'000, 3}, 1}, Reduced{Dims{20, 30, 40}, 5}}) {
    Program program;
    const ValueId x = program.input(DType::float32);
    program.reduce("sum"_reduction, std::array{x}, DType::float32);
    program.reduce("var"_reduction, std::array{x}, DType::float32);
    program.reduce("argmax"_reduction, std::array{x, position_of(program, form)}, DType::float32);
    add_group(form.text(), [&] { return form.comparison(program); });
  }

  try {
    kernels_.compile();
  } catch (const NotSupported& none) {
    GTEST_SKIP() << none.what();
  }
  int split = 0;
  for (Group& group : groups) {
    split += kernels_.plan(group.together).split ? 1 : 0;
    const auto results = [&] {
      std::vector<std::vector<char>> bytes;
      for (Comparison& c : group.launches) {
        for (auto* arrays : {&c.outputs, &c.states})
          for (const HostArray& array : *arrays) bytes.push_back(array.bytes);
        clear_results(c);
      }
      return bytes;
    };
    uint64_t seed = 0;
    for (Comparison& c : group.launches) {
      for (HostArray& input : c.inputs) fill_array(input, Fill::moderate, ++seed);
      clear_results(c);
    }
    for (const size_t number : group.alone) ASSERT_EQ(kernels_.run(number), "") << group.name;
    const auto expected = results();
    ASSERT_EQ(kernels_.run(group.together), "") << group.name;
    EXPECT_EQ(results(), expected) << group.name;
  }
  EXPECT_GE(split, 2);
}

// The vector's elements are the same for all lanes of a thread: as many rows are on their way as in a sum of the
// matrix.
TEST(KernelsOnHost, ARowVectorTimesAMatrix) {
  constexpr int64_t kRows = 700, kColumns = 130, kItem = sizeof(double);
  std::vector<double> vector(kRows), matrix(kRows * kColumns), product(kColumns), sums(kColumns);
  for (size_t i = 0; i < vector.size(); ++i) vector[i] = static_cast<double>(i % 13) - 6;
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<double>(i * 7 % 31) - 15;
  Program weighed, plain;
  const ValueId term[] = {weighed.input(DType::float64), weighed.input(DType::float64)};
  const ValueId value[] = {weighed.apply("multiply"_op, term)}, alone[] = {plain.input(DType::float64)};
  weighed.reduce("sum"_reduction, value, DType::float64);
  plain.reduce("sum"_reduction, alone, DType::float64);
  Launch launch;
  launch.shape = {kColumns, kRows};
  launch.reduce_axes = 2;
  launch.inputs = {{matrix.data(), Dims{kItem, kColumns * kItem}}};
  launch.states = {{sums.data(), Dims{kItem, 0}}};
  KernelsOnHost kernels;
  const size_t of_sums = kernels.add(plain, launch);
  launch.inputs.insert(launch.inputs.begin(), {vector.data(), Dims{0, kItem}});
  launch.states = {{product.data(), Dims{kItem, 0}}};
  const size_t of_products = kernels.add(weighed, launch);
  EXPECT_EQ(kernels.plan(of_products).kind, Plan::Kind::columns);
  EXPECT_EQ(kernels.plan(of_products).lanes, 2);
  EXPECT_EQ(kernels.plan(of_products).unroll, kernels.plan(of_sums).unroll);
  try {
    kernels.compile();
  } catch (const NotSupported&) {
    GTEST_SKIP() << "no compiler";
  }
  EXPECT_EQ(kernels.run(of_sums), "");
  EXPECT_EQ(kernels.run(of_products), "");
  for (int64_t c = 0; c < kColumns; ++c) {  // small integers: sums are exact
    double sum = 0, dot = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      const double x = matrix[static_cast<size_t>(r * kColumns + c)];
      sum += x, dot += vector[static_cast<size_t>(r)] * x;
    }
    EXPECT_EQ(sums[static_cast<size_t>(c)], sum);
    EXPECT_EQ(product[static_cast<size_t>(c)], dot);
  }
}

}  // namespace
}  // namespace quarry::local::cuda
