// Iterative methods on several ranks: the iterates of one process, the bits of one rank, the same end on every rank.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/krylov_rows.h"
#include "tests/support/mpi_job.h"

namespace quarry {
namespace {

RuntimeOptions options_on(local::DeviceKind device) {
  RuntimeOptions options;
  options.device = device;
  options.memory = "64MiB";
  options.threads = 1;
  return options;
}

TEST(SolversOnRanks, IterateAsThoseOfOneProcess) {
  static_cast<void>(test::job());
  for (const local::DeviceKind device : {local::DeviceKind::cpu, local::DeviceKind::emulated}) {
    SCOPED_TRACE(local::name(device));
    const Runtime runtime(options_on(device));
    const local::DType dtype = device == local::DeviceKind::cpu ? local::DType::float64 : local::DType::complex64;
    for (const testing::KrylovRow& row : testing::krylov_rows()) testing::check_row(row, dtype);
  }
}

TEST(SolversOnRanks, HaveTheBitsOfOneRank) {
  for (const local::DeviceKind device : {local::DeviceKind::cpu, local::DeviceKind::emulated}) {
    for (const testing::KrylovRow& row : testing::krylov_rows()) {
      SCOPED_TRACE(std::string(row.name) + " " + local::name(device));
      const testing::KrylovSystem system = row.system(local::DType::float64);
      testing::Solved alone, together;
      {
        RuntimeOptions options = options_on(device);
        options.transport = "self";
        const Runtime runtime(options);
        ASSERT_EQ(runtime.size(), 1);
        alone = row.chunked(system, 0);
      }
      {
        const Runtime runtime(options_on(device));
        together = row.chunked(system, 0);
      }
      EXPECT_EQ(alone.counts, together.counts);
      EXPECT_EQ(alone.norms, together.norms);
      EXPECT_EQ(alone.calls, together.calls);
      EXPECT_EQ(std::memcmp(alone.x.raw(), together.x.raw(), static_cast<size_t>(alone.x.nbytes())), 0);
    }
  }
}

// What goes wrong on the rank that has the values goes wrong on all.
TEST(SolversOnRanks, EndAlikeOnBadInput) {
  const Runtime runtime(options_on(local::DeviceKind::cpu));
  local::NdArray a = testing::positive_definite(40, local::DType::float64);
  a(37, 37) = std::nan("");
  const Array matrix = testing::cut(a), b = ones({40});
  EXPECT_EQ(sparse::linalg::cg(matrix, b).info, -1);
  EXPECT_THROW(sparse::linalg::lsqr(matrix, b), local::InvalidArgument);
  local::NdArray singular = local::eye(40);
  singular(39, 39) = 0.;
  EXPECT_THROW(sparse::linalg::block_jacobi(testing::cut(singular)), local::LinAlgError);
  EXPECT_THROW(sparse::linalg::jacobi(testing::cut(singular)), local::LinAlgError);
  EXPECT_EQ(sum(ones({10})).item<double>(), 10);  // the runtime goes on
}

}  // namespace
}  // namespace quarry
