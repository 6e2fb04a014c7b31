// Iterative methods on several ranks: the iterates of one process, the bits of one rank, the same end on every rank.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/job_devices.h"
#include "tests/support/krylov_rows.h"
#include "tests/support/sparse_rows.h"

namespace quarry {
namespace {

using test::options_on;

TEST(SolversOnRanks, IterateAsThoseOfOneProcess) {
  static_cast<void>(test::job());
  for (const local::DeviceKind device : test::job_device_kinds()) {
    SCOPED_TRACE(local::name(device));
    const Runtime runtime(options_on(device));
    const local::DType dtype = device == local::DeviceKind::cpu ? local::DType::float64 : local::DType::complex64;
    for (const testing::KrylovRow& row : testing::krylov_rows()) testing::check_row(row, dtype);
  }
}

TEST(SolversOnRanks, HaveTheBitsOfOneRank) {
  for (const local::DeviceKind device : test::job_device_kinds()) {
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

TEST(SparseOnRanks, AreThoseOfOneProcess) {
  static_cast<void>(test::job());
  for (const local::DeviceKind device : test::job_device_kinds()) {
    SCOPED_TRACE(local::name(device));
    const Runtime runtime(options_on(device));
    testing::check_sparse(testing::sparse_matrix({23, 17}, local::DType::float64), 3);
    testing::check_sparse(testing::sparse_matrix({20, 6}, local::DType::complex64, 3, /*tangled=*/true), 4);
    testing::check_sparse(testing::sparse_matrix({1, 9}, local::DType::int64), 3);
  }
}

TEST(SparseOnRanks, HaveTheBitsOfOneRank) {
  const auto found = [] {
    const sparse::SparseArray a = sparse::csr_array(testing::laplacian(14), {.row_chunk = 15});
    const Array b = sin(arange(196.)).rechunk({15});
    sparse::linalg::SolveOptions options;
    options.rtol = 1e-5;
    options.M = sparse::linalg::block_jacobi(a);
    const Array x = sparse::linalg::cg(a, b, options).x, y = sparse::linalg::gmres(a, b, options).x;
    options.M = sparse::linalg::ilu(a);
    const Array z = sparse::linalg::bicgstab(a, b, options).x;
    const sparse::SparseArray taken = a.rows_at(Array({195, 0, 7, 7, 100})).columns_at(Array({3, 195, 7, 3}));
    const Array arrays[] = {x,
                            y,
                            z,
                            sparse::matmul(a.T(), b),
                            sparse::linalg::eigsh(a, 2).values,
                            taken.toarray(),
                            sparse::linalg::matrix_power(a, 3).data()};
    return to_host(arrays);
  };
  for (const local::DeviceKind device : test::job_device_kinds()) {
    SCOPED_TRACE(local::name(device));
    std::vector<local::NdArray> alone, together;
    {
      RuntimeOptions options = options_on(device);
      options.transport = "self";
      const Runtime runtime(options);
      alone = found();
    }
    {
      const Runtime runtime(options_on(device));
      together = found();
    }
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_EQ(std::memcmp(alone[i].raw(), together[i].raw(), static_cast<size_t>(alone[i].nbytes())), 0) << i;
  }
}

TEST(SpectraOnRanks, HaveTheBitsOfOneRank) {
  const auto found = [] {
    const Array a = testing::cut(testing::positive_definite(40, local::DType::float64));
    const Array tall = testing::cut(testing::random_matrix({60, 20}, local::DType::complex128));
    const auto [values, vectors] = sparse::linalg::eigsh(a, 3);
    const auto svds = sparse::linalg::svds(tall, 3);
    const auto few = linalg::svd_compressed(tall, 3, {.iterator = "QR", .n_power_iter = 1});
    sparse::linalg::LobpcgOptions options;
    options.maxiter = 5;
    const Array start = testing::cut(testing::random_matrix({40, 2}, local::DType::float64, 5));
    const auto blocks = sparse::linalg::lobpcg(a, start, options);
    const auto general = sparse::linalg::eigs(testing::cut(testing::random_matrix({40, 40}, local::DType::float64)), 3);
    const auto near = sparse::linalg::eigsh(a, 2, {.M = a + 2, .sigma = 0.9});
    const Array arrays[] = {values, vectors,        svds.u,         svds.values,     svds.vh,     few.u,       few.s,
                            few.v,  blocks.vectors, general.values, general.vectors, near.values, near.vectors};
    return to_host(arrays);
  };
  for (const local::DeviceKind device : test::job_device_kinds()) {
    SCOPED_TRACE(local::name(device));
    std::vector<local::NdArray> alone, together;
    {
      RuntimeOptions options = options_on(device);
      options.transport = "self";
      const Runtime runtime(options);
      alone = found();
    }
    {
      const Runtime runtime(options_on(device));
      together = found();
    }
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_EQ(std::memcmp(alone[i].raw(), together[i].raw(), static_cast<size_t>(alone[i].nbytes())), 0) << i;
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
  EXPECT_THROW(sparse::linalg::ilu(testing::cut(singular)), local::LinAlgError);
  singular(39, 39) = 1.;
  singular(38, 39) = singular(39, 38) = 1.;
  EXPECT_THROW(sparse::linalg::ilu(testing::cut(singular)), local::LinAlgError);
  EXPECT_THROW(sparse::csr_array(testing::cut(singular)).rows_at(Array({3, 40})), local::IndexError);
  EXPECT_EQ(sum(ones({10})).item<double>(), 10);  // the runtime goes on
}

}  // namespace
}  // namespace quarry
