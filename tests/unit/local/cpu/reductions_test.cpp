// Every reduction of every dtype against the plain definition, and states merged by combine_program().
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/program/reduction_enum.h"

namespace quarry::local {
namespace {

using Bytes = std::vector<unsigned char>;
using Wide = std::complex<long double>;

ExecContext context() {
  ExecContext c;
  c.memory = &default_pool(kCpu);
  return c;
}

Wide wide(DType dtype, const unsigned char* p) {
  const Scalar s = Scalar::load(dtype, p);
  if (kind(dtype) == 'u') return static_cast<long double>(s.as_uint64());
  if (kind(dtype) == 'i') return static_cast<long double>(s.as_int64());
  const std::complex<double> z = s.as_complex();
  return {z.real(), z.imag()};
}

// The states of elements [begin, end) of a vector whose positions start at `begin`.
std::vector<Bytes> reduce(Reduction reduction, DType dtype, DType accumulate, const Bytes& x, int64_t begin,
                          int64_t end) {
  Program program;
  std::vector<ValueId> args = {program.input(dtype)};
  if (info(reduction).has_position) args.push_back(program.index(0));
  program.reduce(reduction, args, accumulate);
  Launch launch;
  launch.shape = {end - begin};
  launch.index_offset = {begin};
  launch.inputs = {{const_cast<unsigned char*>(x.data()) + begin * itemsize(dtype), {itemsize(dtype)}}};
  launch.reduce_axes = 1;
  std::vector<Bytes> states;
  for (DType field : state_dtypes(reduction, accumulate)) states.emplace_back(static_cast<size_t>(itemsize(field)));
  for (Bytes& state : states) launch.states.push_back({state.data(), {0}});
  cpu_engine().run(program, launch, context());
  return states;
}

std::vector<Bytes> run_on_states(const Program& program, std::vector<Bytes> inputs, const std::vector<DType>& outputs) {
  Launch launch;
  for (Bytes& state : inputs) launch.inputs.push_back({state.data(), {}});
  std::vector<Bytes> results;
  for (DType dtype : outputs) results.emplace_back(static_cast<size_t>(itemsize(dtype)));
  for (Bytes& result : results) launch.outputs.push_back({result.data(), {}});
  cpu_engine().run(program, launch, context());
  return results;
}

Wide finalized(Reduction reduction, DType accumulate, double ddof, const std::vector<Bytes>& states) {
  const DType out = result_dtype(reduction, accumulate);
  const Program program = finalize_program(reduction, accumulate, ddof);
  EXPECT_EQ(program.dtype(program.outputs()[0]), out);
  return wide(out, run_on_states(program, states, {out})[0].data());
}

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 2e-3;
    case DType::bfloat16:
      return 2e-2;
    case DType::float32:
    case DType::complex64:
      return 2e-6;
    default:
      return 1e-13;
  }
}

class CpuReductions : public testing::TestWithParam<int> {
 protected:
  DType dtype() const { return static_cast<DType>(GetParam()); }
  // Small numbers, so that sums and products of 16-bit formats make sense.
  Bytes values(int64_t n) const {
    Bytes x(static_cast<size_t>(n * itemsize(dtype())));
    for (int64_t i = 0; i < n; ++i) {
      const double v =
          kind(dtype()) == 'u' ? static_cast<double>((i * 37) % 11) : static_cast<double>((i * 37) % 13) / 4 - 1;
      unsigned char* out = x.data() + i * itemsize(dtype());
      if (is_complex(dtype()))
        Scalar(std::complex<double>(v, 0.5 * v - 1)).store(dtype(), out);
      else
        Scalar(v).store(dtype(), out);
    }
    return x;
  }
};

TEST_P(CpuReductions, DirectAndMergedAgreeWithTheDefinition) {
  const int64_t n = 1000;
  const Bytes x = values(n);
  for (int r = 0; r < reduction_count(); ++r) {
    const Reduction reduction = static_cast<Reduction>(r);
    const DType accumulate = accumulate_dtype(reduction, dtype());
    std::vector<Wide> v;
    const int64_t count = reduction == Reduction::prod ? 20 : n;
    for (int64_t i = 0; i < count; ++i) v.push_back(wide(dtype(), x.data() + i * itemsize(dtype())));
    const auto less = [](Wide a, Wide b) {
      return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
    };
    Wide sum = 0, product = 1, nonzero = 0;
    for (Wide z : v) sum += z, product *= z, nonzero += z != Wide(0);
    long double m2 = 0;
    for (Wide z : v) m2 += std::norm(z - sum / static_cast<long double>(count));
    Wide expected;
    switch (reduction) {
      case Reduction::sum:
        expected = sum;
        break;
      case Reduction::prod:
        expected = product;
        break;
      case Reduction::min:
        expected = *std::min_element(v.begin(), v.end(), less);
        break;
      case Reduction::max:
        expected = *std::max_element(v.begin(), v.end(), less);
        break;
      case Reduction::any:
        expected = nonzero != Wide(0) ? 1 : 0;
        break;
      case Reduction::all:
        expected = nonzero == Wide(count) ? 1 : 0;
        break;
      case Reduction::argmin:
        expected = static_cast<long double>(std::min_element(v.begin(), v.end(), less) - v.begin());
        break;
      case Reduction::argmax:
        expected = static_cast<long double>(std::max_element(v.begin(), v.end(), less) - v.begin());
        break;
      case Reduction::count_nonzero:
        expected = nonzero;
        break;
      case Reduction::mean:
        expected = sum / static_cast<long double>(count);
        break;
      case Reduction::var:
        expected = m2 / static_cast<long double>(count - 1);
        break;
      case Reduction::std:
        expected = std::sqrt(m2 / static_cast<long double>(count - 1));
        break;
    }
    const std::vector<DType> fields = state_dtypes(reduction, accumulate);
    const Wide direct = finalized(reduction, accumulate, 1, reduce(reduction, dtype(), accumulate, x, 0, count));
    const Program combine = combine_program(reduction, accumulate);
    // Two and three parts, an empty one among them.
    std::vector<Bytes> merged = reduce(reduction, dtype(), accumulate, x, 0, 0);
    for (int64_t begin = 0; begin < count;) {
      const int64_t end = std::min(count, begin + (begin == 0 ? 7 : 400));
      std::vector<Bytes> both = merged;
      for (Bytes& state : reduce(reduction, dtype(), accumulate, x, begin, end)) both.push_back(std::move(state));
      merged = run_on_states(combine, both, fields);
      begin = end;
    }
    const Wide joined = finalized(reduction, accumulate, 1, merged);
    const long double bound = tolerance(is_float(accumulate) || is_complex(accumulate) ? accumulate : DType::float64) *
                              std::max(1.0L, std::abs(expected));
    EXPECT_LE(std::abs(direct - expected), bound) << info(reduction).name << ' ' << name(dtype());
    EXPECT_LE(std::abs(joined - expected), bound) << info(reduction).name << ' ' << name(dtype()) << " merged";
  }
}

INSTANTIATE_TEST_SUITE_P(AllDTypes, CpuReductions, testing::Range(0, kDTypeCount),
                         [](const auto& param) { return std::string(name(static_cast<DType>(param.param))); });

TEST(CpuReductionsOfNaN, PropagateAndFirstPositionWins) {
  for (int64_t n : {5, 40, 3000}) {
    std::vector<double> x(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = static_cast<double>((i * 7) % 5);
    x[3] = x[static_cast<size_t>(n - 1)] = NAN;
    Bytes bytes(x.size() * 8);
    std::memcpy(bytes.data(), x.data(), bytes.size());
    for (Reduction r : {Reduction::min, Reduction::max, Reduction::sum}) {
      const Bytes state = reduce(r, DType::float64, DType::float64, bytes, 0, n)[0];
      EXPECT_TRUE(std::isnan(Scalar::load(DType::float64, state.data()).as_double())) << info(r).name;
    }
    for (Reduction r : {Reduction::argmin, Reduction::argmax}) {
      const std::vector<Bytes> a = reduce(r, DType::float64, DType::float64, bytes, 0, 4);
      EXPECT_EQ(Scalar::load(DType::int64, a[1].data()).as_int64(), 3);
      std::vector<Bytes> both = a;
      for (Bytes& b : reduce(r, DType::float64, DType::float64, bytes, 4, n)) both.push_back(b);
      const std::vector<Bytes> merged =
          run_on_states(combine_program(r, DType::float64), both, {DType::float64, DType::int64});
      EXPECT_EQ(Scalar::load(DType::int64, merged[1].data()).as_int64(), 3);
      const std::vector<Bytes> later = reduce(r, DType::float64, DType::float64, bytes, 0, n);
      EXPECT_EQ(Scalar::load(DType::int64, later[1].data()).as_int64(), 3);
    }
  }
}

TEST(CpuReductionsAccuracy, SumIsAtLeastPairwise) {
  // 0.1 a million times, and numbers that cancel.
  const int64_t n = 1000003;
  Bytes bytes(static_cast<size_t>(n) * 4);
  for (int64_t i = 0; i < n; ++i) Scalar(0.1).store(DType::float32, bytes.data() + 4 * i);
  const Bytes state = reduce(Reduction::sum, DType::float32, DType::float32, bytes, 0, n)[0];
  const double exact = static_cast<double>(0.1f) * static_cast<double>(n);
  EXPECT_NEAR(Scalar::load(DType::float32, state.data()).as_double(), exact, 4 * 0x1p-24 * exact);
}

TEST(CpuReductionsAccuracy, VarianceOfLargeMean) {
  const int64_t n = 100000;
  Bytes bytes(static_cast<size_t>(n) * 8);
  for (int64_t i = 0; i < n; ++i) Scalar(1e9 + static_cast<double>(i % 2)).store(DType::float64, bytes.data() + 8 * i);
  const Wide var =
      finalized(Reduction::var, DType::float64, 0, reduce(Reduction::var, DType::float64, DType::float64, bytes, 0, n));
  EXPECT_NEAR(static_cast<double>(var.real()), 0.25, 1e-9);
}

TEST(CpuReductionsOfNothing, FinaliseAsNumPy) {
  const Bytes none;
  EXPECT_EQ(
      finalized(Reduction::sum, DType::float64, 0, reduce(Reduction::sum, DType::float64, DType::float64, none, 0, 0)),
      Wide(0));
  EXPECT_TRUE(std::isnan(
      finalized(Reduction::mean, DType::float64, 0, reduce(Reduction::mean, DType::float64, DType::float64, none, 0, 0))
          .real()));
  EXPECT_TRUE(std::isnan(
      finalized(Reduction::var, DType::float64, 0, reduce(Reduction::var, DType::float64, DType::float64, none, 0, 0))
          .real()));
}

}  // namespace
}  // namespace quarry::local
