// Factorisations by tiles on several ranks: the bits of the loop on whole arrays, wherever tiles are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "quarry/chunked/api/spectral.h"
#include "tests/support/evaluate.h"
#include "tests/support/job_devices.h"
#include "tests/support/spectra.h"
#include "tests/support/tile_rows.h"

namespace quarry {
namespace {

using test::options_on;

bool same_bits(const local::NdArray& a, const local::NdArray& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.copy().raw(), static_cast<size_t>(a.nbytes())) == 0;
}

class TilePrograms : public ::testing::TestWithParam<testing::TileRow> {};
INSTANTIATE_TEST_SUITE_P(Rows, TilePrograms, ::testing::ValuesIn(testing::tile_rows()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(TilePrograms, HaveTheBitsOfTheLoopOnRanks) {
  static_cast<void>(test::job());
  for (const local::DeviceKind device : {local::DeviceKind::cpu, local::DeviceKind::emulated}) {
    const Runtime runtime(options_on(device));
    const ChunkPolicyScope small(testing::small_tiles(device));
    for (const auto& [m, n] : testing::tile_sizes()) {
      SCOPED_TRACE(fmt::format("{}, {} x {}", local::name(device), m, n));
      const testing::TileCase tried = GetParam().make(m, n, local::DType::float64);
      const std::vector<local::NdArray> values = to_host(tried.chunked);
      tried.check(values);
      for (size_t i = 0; testing::is_exact(GetParam(), m, n) && i < values.size(); ++i)
        EXPECT_TRUE(same_bits(values[i], testing::evaluate(tried.chunked[i].node()))) << "result " << i;
    }
  }
}

// Also where sums beside those of tiles are split among ranks, and on GPUs, there in more dtypes.
TEST_P(TilePrograms, HaveTheBitsOfOneRank) {
  if (test::job().size() == 1) return;
  using local::DType;
  constexpr std::pair<int64_t, int64_t> kSizes[] = {{33, 33}, {40, 24}, {5, 41}, {70, 1}};
  for (const local::DeviceKind device : test::job_device_kinds()) {
    const bool on_gpu = device == local::DeviceKind::cuda;
    for (const DType dtype :
         on_gpu ? std::vector{DType::float64, DType::float32, DType::complex64} : std::vector{DType::complex64}) {
      for (const auto& [m, n] : kSizes) {
        SCOPED_TRACE(fmt::format("{}, {}, {} x {}", local::name(device), local::name(dtype), m, n));
        const auto values_of = [&, m = m, n = n](const char* transport) {
          const Runtime runtime(options_on(device, transport));
          const ChunkPolicyScope small(testing::small_tiles(device));
          const testing::TileCase tried = GetParam().make(m, n, dtype);
          std::vector<local::NdArray> values = to_host(tried.chunked);
          tried.check(values);
          return values;
        };
        const std::vector<local::NdArray> alone = values_of("self"), together = values_of("auto");
        for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(same_bits(together[i], alone[i])) << "result " << i;
      }
    }
  }
}

// Matrices that no rank decomposes by itself.
TEST(SpectraOnRanks, AreDividedByAllOfThem) {
  static_cast<void>(test::job());
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "1MiB";
  options.threads = 1;
  const Runtime runtime(options);
  const ChunkPolicyScope policy({local::DeviceKind::cpu, {}, /*target_bytes=*/16384});
  constexpr int64_t n = 150;
  ASSERT_FALSE(linalg::spectral::eigh_fits(n, local::DType::float64));
  const local::NdArray a = testing::hermitian_matrices(n, local::DType::float64)[0].second;
  const auto [values, vectors] = linalg::eigh(testing::cut(a));
  testing::expect_eigen(a, values.to_host(), vectors.to_host());
  const auto [some, some_vectors] = linalg::eigh(testing::cut(a), linalg::ByIndex{n - 9, n - 2});
  testing::expect_small(some.to_host() - local::linalg::eigvalsh(a)(local::Slice{n - 9, n - 1, 1}), local::absolute(a),
                        "a part of the eigenvalues");
  const local::NdArray v = some_vectors.to_host();
  testing::expect_small(local::matmul(a, v) - v * some.to_host(), local::absolute(a), "A V - V W");
  const local::NdArray x = testing::random_matrix({n, n}, local::DType::float64);
  const auto [u, s, vh] = linalg::svd(testing::cut(x), /*full_matrices=*/false);
  testing::expect_svd(x, u.to_host(), s.to_host(), vh.to_host());
}

// An error of one rank's tile is that of all.
TEST(TileErrorsOnRanks, ReachEveryRank) {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "64MiB";
  const Runtime runtime(options);
  const ChunkPolicyScope small(testing::small_tiles(local::DeviceKind::cpu));
  local::NdArray a = testing::positive_definite(50, local::DType::float64);
  a(33, 33) = -1.;
  try {
    linalg::cholesky(testing::cut(a)).persist();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const local::LinAlgError& error) {
    EXPECT_NE(std::string(error.what()).find("its leading minor of order 34 is not"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(sum(ones({10})).item<double>(), 10);  // the runtime goes on
}

}  // namespace
}  // namespace quarry
