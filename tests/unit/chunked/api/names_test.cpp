// Every function of names.def gives for chunked arrays what it gives for arrays of one process, whatever the chunks:
// whole, of one element, and random uneven ones. Shapes and dtypes are equal; integers and bools exactly, others but
// for the order of sums.
#include <gtest/gtest.h>

#include <random>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/evaluate.h"
#include "tests/support/one_liners.h"

namespace {

namespace qy = quarry;
namespace ql = quarry::local;
using namespace quarry::names;
using quarry::test::LineValue;

struct Arrays {
  ql::NdArray x = ql::arange(12.).reshape(3, 4), y = ql::NdArray(x * 7 % 5) - 1, b = ql::NdArray(x) % 3 > 0.,
              i = (x * 5 % 7).astype(i64) - 2, q = (ql::arange(16.) * 7 % 11).reshape(4, 4) - 4,
              c = x + y * std::complex<double>(0, 1), t = ql::arange(24.).reshape(2, 3, 4) * 5 % 13 - 3;
  ql::NdArray v{3., 1., 2., 4., 0.5, 1.5, 2.5}, w{0.5, 1., 2., 0.25, 3., 4., 1.}, k{5, 2, 9, 0, 7, 5, 1},
      n{1., ql::nan, 3., ql::inf, -ql::inf};
  ql::NdArray u = ql::NdArray{5, 255, 0, 130, 17}.astype(u8), f = ql::NdArray{2., -1., 0.5, 4.}.astype(f32),
              s = ql::full(ql::Dims{}, 2.5), e = ql::zeros({0, 3}), o = ql::full({1, 1}, 3.);
  auto tie() const { return std::tie(x, y, b, i, q, c, t, v, w, k, n, u, f, s, e, o); }
};

using Results = std::vector<std::pair<std::string, LineValue>>;

// What a row throws is reported under its name.
template <class F>
void add(Results& results, const char* text, const F& make) {
  try {
    results.emplace_back(text, make());
  } catch (const std::exception& error) {
    ADD_FAILURE() << text << ": " << error.what();
    results.emplace_back(text, LineValue(false));
  }
}

// The parameters of the functions that run the rows.
#define ARRAYS                                                                                                 \
  const auto &x, const auto &y, const auto &b, const auto &i, const auto &q, const auto &c, const auto &t,     \
      const auto &v, const auto &w, const auto &k, const auto &n, const auto &u, const auto &f, const auto &s, \
      const auto &e, const auto &o

Results local_results() {
  const Arrays arrays;
  Results results;
  const auto run = [&](ARRAYS) {
#define N ql
#define ROW(text, ...) add(results, text, [&] { return LineValue(__VA_ARGS__); });
#include "tests/unit/chunked/api/names.def"
#undef ROW
#undef N
  };
  std::apply(run, arrays.tie());
  return results;
}

LineValue host_value(const qy::Array& array) { return array.to_host(); }
template <class T>
LineValue host_value(const T& value) {
  return value;
}

// Chunks of an array: number 0 is whole, 1 one element each, others are random.
qy::Array cut(const ql::NdArray& array, int chunks, std::mt19937& random) {
  qy::Array whole = qy::Array::from_local(array);
  if (chunks == 0) return whole;
  std::vector<quarry::AxisChunks> axes;
  for (const int64_t extent : array.shape()) {
    std::vector<int64_t> extents;
    for (int64_t left = extent; left > 0; left -= extents.back())
      extents.push_back(chunks == 1 ? 1 : std::uniform_int_distribution<int64_t>(1, left)(random));
    if (extents.empty()) extents.push_back(0);
    axes.emplace_back(extents);
  }
  return whole.rechunk(quarry::Grid(std::move(axes)));
}

Results chunked_results(int chunks, unsigned seed) {
  const Arrays arrays;
  std::mt19937 random(seed);
  const auto cut_all = [&](const auto&... each) { return std::tuple(cut(each, chunks, random)...); };
  Results results;
  const auto run = [&](ARRAYS) {
#define N qy
#define ROW(text, ...) add(results, text, [&] { return host_value(__VA_ARGS__); });
#include "tests/unit/chunked/api/names.def"
#undef ROW
#undef N
  };
  std::apply(run, std::apply(cut_all, arrays.tie()));
  return results;
}

#undef ARRAYS

class ChunkedNames : public testing::TestWithParam<ql::DeviceKind> {};

TEST_P(ChunkedNames, GiveWhatTheLocalOnesGive) {
  if (!ql::available(GetParam())) GTEST_SKIP() << "no such device here";
  const Results expected = local_results();
  qy::RuntimeOptions options;
  options.device = GetParam();
  options.memory = "64MiB";
  options.threads = 2;
  const qy::Runtime runtime(options);
  const int rounds = GetParam() == ql::DeviceKind::cpu ? 6 : 3;
  for (int round = 0; round < rounds; ++round) {
    const Results got = chunked_results(round, 17u + static_cast<unsigned>(round));
    ASSERT_EQ(got.size(), expected.size());
    for (size_t row = 0; row < got.size(); ++row) {
      const auto& [text, value] = expected[row];
      SCOPED_TRACE(text + ", chunks " + std::to_string(round));
      EXPECT_EQ(got[row].second.dtype, value.dtype);
      if (!value.dtype.empty()) continue;
      const ql::NdArray &a = got[row].second.array, &b = value.array;
      EXPECT_EQ(ql::name(a.dtype()), ql::name(b.dtype()));
      EXPECT_EQ(ql::to_string(a.shape()), ql::to_string(b.shape()));
      if (a.dtype() != b.dtype() || a.shape() != b.shape()) continue;
      const double bound = ql::itemsize(ql::real_type(a.dtype())) == 4 ? 1e-6 : 1e-13;
      EXPECT_TRUE(quarry::testing::close(a, b, bound, bound)) << ql::array_str(a) << "\nexpected\n" << ql::array_str(b);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChunkedNames, testing::Values(ql::DeviceKind::cpu, ql::DeviceKind::emulated),
                         [](const auto& info) { return std::string(ql::name(info.param)); });

}  // namespace
