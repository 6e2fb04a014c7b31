// The trial device: shapes, dtypes and bytes of functions without their data. tests/unit/apps/language replays the
// oracle on it.
#include "quarry/local/ndarray/trial.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

#include "quarry/local/local.h"
#include "quarry/local/memory/adaptors.h"
#include "quarry/local/memory/allocation_count.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/program/sparse.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Arrays = std::span<const NdArray>;
using Results = std::vector<NdArray>;

// What is asked for whatever the arrays' size: scratch of short loops, for all threads.
constexpr int64_t kSmall = int64_t{64} << 10;

NdArray array_of(const ArraySpec& spec) {
  NdArray result(spec.shape, spec.dtype);
  result.fill(1);
  return result;
}

// The same function on the CPU, with ones.
Trial run_on_cpu(const TrialFunction& function, const std::vector<ArraySpec>& specs) {
  const DeviceScope scope(kCpu);
  Results arguments;
  for (const ArraySpec& spec : specs) arguments.push_back(array_of(spec));
  const AllocationCount counted(kCpu, /*also_cpu=*/true);
  Trial result;
  for (const NdArray& array : function(arguments)) result.results.push_back({array.shape(), array.dtype()});
  result.peak_bytes = counted.peak_bytes();
  result.allocations = counted.allocations();
  return result;
}

void expect_alike(const std::string& what, const TrialFunction& function, const std::vector<ArraySpec>& specs) {
  const Trial taken = run_on_cpu(function, specs);
  const Trial tried = trial(function, specs, DeviceKind::cpu);
  EXPECT_EQ(tried.results, taken.results) << what;
  EXPECT_GE(tried.peak_bytes, taken.peak_bytes) << what;
  EXPECT_LE(static_cast<double>(tried.peak_bytes), 1.1 * static_cast<double>(taken.peak_bytes) + kSmall) << what;
}

constexpr DType kDTypes[] = {DType::bool_,   DType::int32,   DType::uint64,    DType::float16,
                             DType::float32, DType::float64, DType::complex64, DType::complex128};

// What is given back between two pieces does not hold a larger one.
TEST(Trials, ExtentsCountGaps) {
  const auto pieces = [](std::span<const NdArray> given) {
    const int64_t bytes = given[0].nbytes();
    const ExecContext context = context_for(given[0].device());
    const Scratch first(bytes, context);
    auto gap = std::make_unique<Scratch>(bytes, context);
    const Scratch second(bytes, context);
    gap.reset();
    const Scratch larger(2 * bytes, context);
    return Results{};
  };
  const Trial tried = trial(pieces, {{{{1024}, DType::float64}}});
  EXPECT_EQ(tried.peak_bytes, 4 * 8192);
  EXPECT_EQ(tried.extent_bytes, 5 * 8192);
}

TEST(Trials, UfuncsAreAsTheCpus) {
  int tried = 0;
  for (int i = 0; i < op_count(); ++i) {
    if (info(static_cast<Op>(i)).rule == OpRule::cast) continue;  // no function
    const OpInfo& row = info(static_cast<Op>(i));
    for (const DType dtype : kDTypes) {
      const ArraySpec whole{{300, 200}, dtype}, line{{200}, dtype};
      const std::vector<ArraySpec> specs = row.arity == 1   ? std::vector{whole}
                                           : row.arity == 2 ? std::vector{whole, line}
                                                            : std::vector{whole, line, whole};
      const auto function = [&](Arrays x) {
        const std::vector<Arg> args(x.begin(), x.end());
        return Results{local::apply(static_cast<Op>(i), args)};
      };
      try {
        run_on_cpu(function, specs);
      } catch (const InvalidArgument&) {  // not for this dtype
        EXPECT_THROW(trial(function, specs), InvalidArgument) << row.name;
        continue;
      }
      ++tried;
      expect_alike(fmt::format("{} of {}", row.name, name(dtype)), function, specs);
    }
  }
  EXPECT_GT(tried, 300);
}

TEST(Trials, ReductionsAreAsTheCpus) {
  int tried = 0;
  for (int i = 0; i < reduction_count(); ++i) {
    const auto which = static_cast<Reduction>(i);
    for (const DType dtype : kDTypes) {
      for (const Axes& axes : {Axes(), Axes(0), Axes(1)}) {
        for (const bool transposed : {false, true}) {
          const auto function = [&](Arrays x) { return Results{reduce(which, transposed ? x[0].T() : x[0], axes)}; };
          const std::vector<ArraySpec> specs{{{600, 500}, dtype}};
          try {
            run_on_cpu(function, specs);
          } catch (const InvalidArgument&) {
            continue;
          }
          ++tried;
          expect_alike(fmt::format("{} of {}", info(which).name, name(dtype)), function, specs);
        }
      }
    }
  }
  EXPECT_GT(tried, 200);
}

TEST(Trials, Compositions) {
  const ArraySpec matrix{{300, 300}, DType::float64};
  const auto standardised = [](Arrays x) { return Results{(x[0] - mean(x[0], 0)) / std(x[0], 0)}; };
  expect_alike("standardised", standardised, {matrix});
  const auto views = [](Arrays x) { return Results{x[0].T()[Slice{{}, {}, 2}], x[0].reshape({-1})}; };
  expect_alike("views", views, {matrix});
  EXPECT_EQ(trial(views, {{matrix}}).peak_bytes, 0);
  const auto powers = [](Arrays x) {
    NdArray sum = x[0].copy(), term = x[0];
    for (int k = 2; k < 6; ++k) {
      term = matmul(term, x[0]) / k;
      sum += term;
    }
    return Results{sum};
  };
  expect_alike("powers", powers, {matrix});
  const auto fused = [](Arrays x) {
    return Results{fuse([](auto a, auto b) { return sqrt(a * a + b * b) + a; })(x[0], x[1])};
  };
  expect_alike("fused", fused, {matrix, matrix});
  const auto stacked = [](Arrays x) {
    return Results{concatenate({x[0], x[0].T()}, 1), stack({x[0], x[0]}), pad(x[0], 3), tile(x[0], {2, 2})};
  };
  expect_alike("stacked", stacked, {matrix});
}

TEST(Trials, AwkwardShapes) {
  for (const Dims& shape : {Dims{}, Dims{0}, Dims{1}, Dims{3, 0, 2}, Dims{1, 1, 1}}) {
    const auto function = [](Arrays x) {
      return Results{exp(x[0]), sum(x[0]), x[0].T().copy(), x[0].reshape({-1}), cumsum(x[0])};
    };
    expect_alike(to_string(shape), function, {{shape, DType::float32}});
  }
  EXPECT_EQ(trial([](Arrays) { return Results{arange(5)}; }, {}).results,
            (std::vector<ArraySpec>{{{5}, DType::int64}}));
  EXPECT_TRUE(trial([](Arrays) { return Results{}; }, {}).results.empty());
}

TEST(Trials, ReadingAValueNamesTheFunction) {
  const ArraySpec spec{{4, 5}, DType::float64};
  const auto message = [&](const auto& function) -> std::string {
    try {
      trial([&](Arrays x) { return function(x[0]), Results{}; }, {{spec}});
    } catch (const NeedsValue& error) {
      EXPECT_EQ(error.code(), ErrorCode::needs_value);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([](const NdArray& x) { unique(x); }), StartsWith("unique / "));
  EXPECT_THAT(message([](const NdArray& x) { nonzero(x); }), HasSubstr("nonzero reads values"));
  EXPECT_THAT(message([](const NdArray& x) { NdArray(x[x > 0.]).copy(); }), HasSubstr("reads values"));
  EXPECT_THAT(message([](const NdArray& x) {
                linalg::eigvals(x[Slice{0, 4, 1}](_, Slice{0, 4, 1}));
              }),
              HasSubstr("eigvals reads values"));
  EXPECT_THAT(message([](const NdArray& x) { histogram(x); }), HasSubstr("histogram reads values"));
  EXPECT_THAT(message([](const NdArray& x) { static_cast<void>(double(mean(x))); }), HasSubstr("an element"));
  EXPECT_THAT(message([](const NdArray& x) { x.to(kCpu); }), HasSubstr("a copy to the host"));
  EXPECT_THAT(message([](const NdArray& x) { to_vector<double>(x); }), HasSubstr("a copy to the host"));
  EXPECT_THAT(message([](const NdArray& x) { x.to_string(); }), HasSubstr("reads values"));
  EXPECT_THAT(message([](const NdArray& x) {
                const Range range("my step");
                if (all(x > 0.)) return;
              }),
              HasSubstr("my step reads values"));
}

TEST(Trials, TheErrorTravels) {
  try {
    trial([](Arrays x) { return unique(x[0]), Results{}; }, {{{{4}, DType::int32}}});
    FAIL();
  } catch (const std::exception& error) {
    const ErrorRecord record = to_record(std::current_exception());
    EXPECT_THROW(throw_record(record), NeedsValue);
    EXPECT_EQ(record.message, error.what());
  }
}

TEST(Trials, ChecksOfValuesAreLeftOut) {
  const ArraySpec matrix{{50, 50}, DType::float64}, line{{50}, DType::int64};
  const auto solved = [](Arrays x) {
    return Results{linalg::solve(x[0], x[0]), linalg::cholesky(x[0]), linalg::inv(x[0]),         linalg::svdvals(x[0]),
                   power(x[1], x[1]),         take(x[0], x[1], 0),    choose(x[1], {x[1], x[1]})};
  };
  const Trial result = trial(solved, {{matrix, line}});
  EXPECT_EQ(result.results[0], matrix);
  EXPECT_EQ(result.results[3], (ArraySpec{{50}, DType::float64}));
  EXPECT_EQ(result.results[5], matrix);
}

// Widths, positions, quantiles: what a function itself makes of numbers has values until it is written to.
TEST(Trials, ConstantsAreKnown) {
  const auto function = [](Arrays x) {
    NdArray widths = {{1, 2}, {3, 4}};
    const NdArray list = from_vector<double>({0.25, 0.5});
    EXPECT_EQ(int64_t(widths(1, 1)), 4);
    EXPECT_EQ(to_vector<double>(list.copy()), (std::vector{0.25, 0.5}));
    Results results{pad(x[0], widths), quantile(x[0], list, 0)};
    widths += 1;
    EXPECT_THROW(static_cast<void>(int64_t(widths(1, 1))), NeedsValue);
    NdArray other = {1, 2};
    other.fill(3);
    EXPECT_EQ(int64_t(other(0)), 3);
    other.assign(x[0](0, Slice{0, 2, 1}).astype(DType::int64));
    EXPECT_THROW(other(0).item(), NeedsValue);
    NdArray third = {1, 2};
    third(0) = 5;
    EXPECT_THROW(third(1).item(), NeedsValue);
    EXPECT_THROW((list + 1.).item(), InvalidArgument);
    EXPECT_THROW(to_vector<double>(list + 1.), NeedsValue);
    return results;
  };
  const Trial result = trial(function, {{{{10, 10}, DType::float32}}});
  EXPECT_EQ(result.results, (std::vector<ArraySpec>{{{13, 17}, DType::float32}, {{2, 10}, DType::float64}}));
  // New memory at the address of a constant has no values.
  trial(
      [](Arrays) {
        for (int i = 0; i < 10; ++i) {
          from_vector<double>({1, 2, 3});
          EXPECT_THROW(NdArray({1}, DType::float64).item(), NeedsValue);
        }
        return Results{};
      },
      {});
}

TEST(Trials, MemoryIsGivenBackOnThrow) {
  ExecContext context = default_context(trial_of(DeviceKind::cpu));
  StatisticsResource counted(*context.memory);
  context.memory = &counted;
  {
    const DeviceScope scope(context);
    const NdArray x({1000, 1000}, DType::float64);
    EXPECT_EQ(counted.used_bytes(), 8'000'000);
    EXPECT_THROW(unique(sort(x + 1., 0)), NeedsValue);
    EXPECT_THROW(linalg::solve(x, x(Slice{0, 3, 1})), InvalidArgument);
    EXPECT_EQ(counted.used_bytes(), 8'000'000);
    EXPECT_GT(counted.peak_bytes(), 24'000'000);
  }
  EXPECT_EQ(counted.used_bytes(), 0);
  // An out-of-memory of the resource is passed on.
  LimitResource limit(*default_context(trial_of(DeviceKind::cpu)).memory, 1 << 20);
  context.memory = &limit;
  const DeviceScope scope(context);
  EXPECT_THROW(NdArray({1000, 1000}, DType::float64), OutOfMemory);
  EXPECT_EQ(limit.used_bytes(), 0);
}

TEST(Trials, HugeArraysCostNothing) {
  constexpr int64_t kElements = 1'000'000'000'000;
  const ArraySpec line{{kElements}, DType::float64}, matrix{{1'000'000, 1'000'000}, DType::float32};
  const auto function = [](Arrays x) {
    const NdArray sorted = sort(x[0]);
    return Results{cumsum(x[0] * 2. + 1.),
                   sum(x[1], 0),
                   matmul(x[1], x[1]),
                   argsort(sorted),
                   linalg::qr(x[1], linalg::r_only),
                   x[1][Slice{{}, {}, 2}].copy(),
                   median(x[1], 1)};
  };
  trial(function, {{line, matrix}});
  const std::clock_t begin = std::clock();
  const Trial result = trial(function, {{line, matrix}});
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 0.05);
  EXPECT_GT(result.peak_bytes, 5 * 8 * kElements);
  EXPECT_EQ(result.results[1], (ArraySpec{{1'000'000}, DType::float32}));
  EXPECT_THROW(trial([](Arrays x) { return Results{outer(x[0], x[0])}; }, {{line}}), std::exception);
}

TEST(Trials, AnArrayMayBeKept) {
  NdArray kept;
  const auto function = [&](Arrays x) {
    kept = x[0] + 1.;
    return Results{};
  };
  EXPECT_GE(trial(function, {{{{10}, DType::float64}}}).peak_bytes, 80);
  EXPECT_EQ(kept.shape(), Dims{10});
  EXPECT_EQ(kept.device(), trial_of(DeviceKind::cpu));
  EXPECT_THROW(kept.to(kCpu), NeedsValue);
}

TEST(Trials, WorkBesideTheDeviceIsRefused) {
  const ArraySpec spec{{4}, DType::float64};
  // Arrays of two devices, as anywhere.
  const NdArray here = ones({4});
  EXPECT_THROW(trial([&](Arrays x) { return Results{x[0] + here}; }, {{spec}}), InvalidArgument);
  EXPECT_THROW(trial([](Arrays x) { return to_dlpack(x[0]), Results{}; }, {{spec}}), NotSupported);
  EXPECT_THROW(trial([](Arrays x) { return Results{x[0]}; }, {{spec}}, DeviceKind::trial), InvalidArgument);
  EXPECT_FALSE(parse_device_kind("trial").has_value());
  EXPECT_EQ(to_string(trial_of(DeviceKind::cuda)), "trial:cuda");
}

class TrialsOfDevices : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(TrialsOfDevices);

// What each kind of device really takes is what its trial says: of decompositions in all the ways that stacks and
// shapes choose, and of the other primitives.
TEST_P(TrialsOfDevices, AreWhatTheyTake) {
  const Device device{GetParam(), 0};
  using Function = NdArray (*)(const NdArray&);
  const std::pair<const char*, Function> functions[] = {
      {"inv", [](const NdArray& a) { return linalg::inv(a); }},
      {"det", [](const NdArray& a) { return linalg::det(a); }},
      {"solve", [](const NdArray& a) { return linalg::solve(a, a); }},
      {"cholesky", [](const NdArray& a) { return linalg::cholesky(a); }},
      {"eigh", [](const NdArray& a) { return linalg::eigh(a).eigenvectors; }},
      {"eigvalsh", [](const NdArray& a) { return linalg::eigvalsh(a); }},
      {"svd", [](const NdArray& a) { return linalg::svd(a).U; }},
      {"svd, reduced", [](const NdArray& a) { return linalg::svd(a, false).U; }},
      {"svdvals", [](const NdArray& a) { return linalg::svdvals(a); }},
      {"qr", [](const NdArray& a) { return linalg::qr(a).Q; }},
      {"qr, complete", [](const NdArray& a) { return linalg::qr(a, linalg::complete).Q; }},
      {"matmul", [](const NdArray& a) { return matmul(a, a.transpose().copy().reshape(a.shape())); }},
      {"sort", [](const NdArray& a) { return sort(a, -2); }},
      {"argsort", [](const NdArray& a) { return argsort(a); }},
      {"median", [](const NdArray& a) { return median(a, -1); }},
      {"cumsum", [](const NdArray& a) { return cumsum(a, -1); }},
      {"mean", [](const NdArray& a) { return mean(a, 0); }},
      {"fft", [](const NdArray& a) { return fft::fft2(a); }},
  };
  // One matrix, small and large; few and many of them; tall ones.
  const Dims shapes[] = {{30, 30},       {140, 140},    {300, 300}, {3, 20, 20},
                         {20, 140, 140}, {2, 520, 520}, {700, 100}, {20, 90, 30}};
  constexpr int64_t kMostComplex = 1 << 17;  // elements
  int tried = 0;
  for (const auto& [what, function] : functions) {
    for (const Dims& shape : shapes) {
      for (const DType dtype : {DType::float64, DType::complex64}) {
        if (is_complex(dtype) && element_count(shape) > kMostComplex) continue;
        NdArray x = random::default_rng(3).random(Ints(std::vector<int64_t>(shape.begin(), shape.end())));
        if (x.shape(-1) == x.shape(-2)) x = matmul(swapaxes(x, -1, -2), x) + eye(x.shape(-1));
        x = x.astype(dtype);
        int64_t taken = 0;
        try {
          const AllocationCount counted(device, GetParam() == DeviceKind::cpu);
          function(x);
          context_for(device).stream->synchronize();
          taken = counted.peak_bytes();
        } catch (const InvalidArgument&) {  // not for this shape or dtype
          continue;
        }
        ++tried;
        const auto call = [&, &function = function](Arrays arrays) { return Results{function(arrays[0])}; };
        const int64_t told = trial(call, {{{shape, dtype}}}, GetParam()).peak_bytes;
        const std::string text = fmt::format("{} of {}{}", what, name(dtype), to_string(shape));
        EXPECT_GE(told, taken) << text;
        // A GPU's singular values are found in one way, and by another one, with memory of its own, where they are not.
        const bool gpu = GetParam() == DeviceKind::cuda;
        EXPECT_LE(static_cast<double>(told),
                  gpu ? 2.0 * static_cast<double>(taken) + (1 << 20) : 1.1 * static_cast<double>(taken) + kSmall)
            << text;
      }
    }
  }
  EXPECT_GT(tried, 120);
}

TEST(Trials, OfSparseMatricesAreRefused) {
  const ExecContext context = default_context(trial_of(DeviceKind::cpu));
  SparseProducts& products = engine(context.device).sparse();
  try {
    products.multiply({}, context);
    FAIL();
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("products of sparse matrices cannot be tried"));
  }
  EXPECT_THROW(products.transpose({}, context), NotSupported);
  EXPECT_THROW(products.solve({}, context), NotSupported);
  const auto whole = [](Arrays x) { return Results{sparse::csr_array(x[0]).dot(x[0])}; };
  EXPECT_THROW(trial(whole, {{{{4, 4}, DType::float64}}}), InvalidArgument);
}

TEST(Trials, OfADeviceThatIsNotHere) {
  if (available(DeviceKind::cuda)) GTEST_SKIP() << "there is one";
  const auto function = [](Arrays x) { return Results{x[0] + x[0]}; };
  EXPECT_THROW(trial(function, {{{{4}, DType::float64}}}, DeviceKind::cuda), DeviceError);
}

}  // namespace
}  // namespace quarry::local
