// Iterative methods on chunked arrays beside those of one process: a row each, for tests on one rank and on several.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "quarry/local/sparse/eigen.h"
#include "quarry/local/sparse/solvers.h"
#include "tests/support/evaluate.h"
#include "tests/support/tile_rows.h"

namespace quarry::testing {

namespace chunked_solvers = quarry::sparse::linalg;
namespace local_solvers = quarry::local::sparse::linalg;

// What a method found: the result, and the numbers by which it stopped.
struct Solved {
  NdArray x;
  std::vector<int64_t> counts;
  std::vector<double> norms;
  int64_t calls = 0;
};
struct KrylovSystem {
  NdArray a, b;
  // Chunked, in uneven chunks.
  Array matrix() const { return cut(a); }
  Array right() const { return Array::from_local(b); }
};
// `steps`: so many and no more; 0: to the accuracy that dtype allows.
struct KrylovRow {
  const char* name;
  KrylovSystem (*system)(DType dtype);
  Solved (*chunked)(const KrylovSystem& system, int64_t steps);
  Solved (*local)(const KrylovSystem& system, int64_t steps);
};

inline double accuracy(DType dtype) { return local::itemsize(local::real_type(dtype)) == 8 ? 1e-10 : 1e-5; }

template <class Options>
Options options_of(const KrylovSystem& system, int64_t steps, int64_t& calls) {
  Options options;
  options.rtol = steps > 0 ? 0 : accuracy(system.a.dtype());
  if (steps > 0) options.maxiter = steps;
  options.callback = [&calls](const auto&) { ++calls; };
  return options;
}
template <class S>
Solved solved(const S& solution, int64_t calls) {
  Solved result{{}, {solution.info}, {solution.residual}, calls};
  if constexpr (std::is_same_v<decltype(solution.x), NdArray>)
    result.x = solution.x;
  else
    result.x = solution.x.to_host();
  return result;
}

inline KrylovSystem definite_system(DType dtype) {
  return {positive_definite(53, dtype), random_matrix({53}, dtype, 7)};
}
inline KrylovSystem general_system(DType dtype) {
  const NdArray a = random_matrix({53, 53}, dtype, 11);
  return {(a * local::Scalar(0.3) + identity(53, dtype) * local::Scalar(5)).astype(dtype),
          random_matrix({53}, dtype, 7)};
}
inline KrylovSystem indefinite_system(DType dtype) {
  const NdArray a = random_matrix({53, 53}, dtype, 13);
  const NdArray sign = local::diag(local::where(local::arange(53) < 20, -9., 9.)).astype(dtype);
  return {((a + adjoint(a)) * local::Scalar(0.2) + sign).astype(dtype), random_matrix({53}, dtype, 7)};
}
inline KrylovSystem tall_system(DType dtype) {
  return {random_matrix({71, 29}, dtype, 17), random_matrix({71}, dtype, 7)};
}

#define QUARRY_KRYLOV_ROW(name, system, ...)                                                                        \
  KrylovRow {                                                                                                       \
#name, system,                                                                                                    \
        [](const KrylovSystem& s, int64_t steps) {                                                                \
          int64_t calls = 0;                                                                                      \
          const auto o = options_of<chunked_solvers::SolveOptions>(s, steps, calls);                              \
          const auto found = chunked_solvers::name(s.matrix(), s.right(), o __VA_OPT__(, ) __VA_ARGS__);          \
          return solved(found, calls);                                                                            \
        },                                                                                                        \
        [](const KrylovSystem& s, int64_t steps) {                                                                \
          int64_t calls = 0;                                                                                      \
          const auto o = options_of<local_solvers::SolveOptions>(s, steps, calls);                                \
          const auto found = local_solvers::name(s.a, s.b, o __VA_OPT__(, ) __VA_ARGS__);                         \
          return solved(found, calls);                                                                            \
        } \
  }

template <class Solver, class A, class B>
Solved solved_squares(const Solver& solver, const A& a, const B& b, DType dtype, int64_t steps) {
  const double tolerance = steps > 0 ? 0 : accuracy(dtype);
  const auto found = solver(a, b, tolerance, steps > 0 ? std::optional(steps) : std::nullopt);
  Solved result{{}, {found.istop, found.itn}, {}};
  if constexpr (requires { found.r1norm; })
    result.norms = {found.r1norm, found.r2norm, found.anorm, found.acond, found.xnorm};
  else
    result.norms = {found.normr, found.norma, found.conda, found.normx};
  if constexpr (std::is_same_v<B, NdArray>)
    result.x = found.x;
  else
    result.x = found.x.to_host();
  return result;
}

inline std::vector<KrylovRow> krylov_rows() {
  return {
      QUARRY_KRYLOV_ROW(cg, definite_system),
      QUARRY_KRYLOV_ROW(cgs, general_system),
      QUARRY_KRYLOV_ROW(bicgstab, general_system),
      QUARRY_KRYLOV_ROW(gmres, general_system, 6),
      QUARRY_KRYLOV_ROW(minres, indefinite_system, 0.25),
      {"lsqr", tall_system,
       [](const KrylovSystem& s, int64_t steps) {
         return solved_squares([](const auto& a, const auto& b, double tol,
                                  auto limit) { return chunked_solvers::lsqr(a, b, 0.1, tol, tol, 1e8, limit, true); },
                               s.matrix(), s.right(), s.a.dtype(), steps);
       },
       [](const KrylovSystem& s, int64_t steps) {
         return solved_squares([](const auto& a, const auto& b, double tol,
                                  auto limit) { return local_solvers::lsqr(a, b, 0.1, tol, tol, 1e8, limit, true); },
                               s.a, s.b, s.a.dtype(), steps);
       }},
      {"lsmr", tall_system,
       [](const KrylovSystem& s, int64_t steps) {
         return solved_squares([](const auto& a, const auto& b, double tol,
                                  auto limit) { return chunked_solvers::lsmr(a, b, 0, tol, tol, 1e8, limit); },
                               s.matrix(), s.right(), s.a.dtype(), steps);
       },
       [](const KrylovSystem& s, int64_t steps) {
         return solved_squares([](const auto& a, const auto& b, double tol,
                                  auto limit) { return local_solvers::lsmr(a, b, 0, tol, tol, 1e8, limit); },
                               s.a, s.b, s.a.dtype(), steps);
       }},
  };
}
#undef QUARRY_KRYLOV_ROW

inline constexpr DType kKrylovTypes[] = {DType::float32, DType::float64, DType::complex64, DType::complex128};

// The same iterates but for rounding, and the same decision to stop.
inline void check_row(const KrylovRow& row, DType dtype) {
  const KrylovSystem system = row.system(dtype);
  const double bound = local::itemsize(local::real_type(dtype)) == 8 ? 1e-9 : 2e-3;
  for (const int64_t steps : {1, 4, 0}) {
    SCOPED_TRACE(fmt::format("{} {} steps {}", row.name, local::name(dtype), steps));
    const Solved got = row.chunked(system, steps), expected = row.local(system, steps);
    EXPECT_EQ(got.x.dtype(), dtype);
    ASSERT_EQ(got.x.shape(), expected.x.shape());
    EXPECT_TRUE(close(got.x, expected.x, bound, bound)) << got.x.repr() << "\nexpected\n" << expected.x.repr();
    EXPECT_EQ(got.counts[0], expected.counts[0]);
    // Near the limit of the dtype the last steps are rounding.
    for (size_t i = 1; i < got.counts.size(); ++i) EXPECT_NEAR(got.counts[i], expected.counts[i], steps == 0 ? 1 : 0);
    EXPECT_NEAR(got.calls, expected.calls, steps == 0 ? 1 : 0);
    for (size_t i = 0; steps > 0 && i < got.norms.size(); ++i)
      EXPECT_NEAR(got.norms[i], expected.norms[i], bound * (1 + std::abs(expected.norms[i]))) << "number " << i;
  }
}

}  // namespace quarry::testing
