// Iterative solvers and what finds a few eigenvalues in the language of chunked arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quarry/apps/binding/local_values.h"
#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/display.h"
#include "quarry/apps/quarry/script.h"

namespace quarry::apps::expression {
namespace {

using ::testing::HasSubstr;

// What is printed, or the error, where a is a definite 6 x 6 matrix in chunks of 4, b = a 1, t its first two columns, d
// a without the elements beside the diagonal, and s that as a sparse matrix.
std::string shown(const std::string& text) {
  Environment environment;
  environment.other = {&local_library(), "there it is"};
  const auto value_of = [&](const std::string& part) {
    const Source source{part, "", 0};
    return evaluate(source, *parse(source), environment);
  };
  try {
    environment.variables.emplace("a", value_of("(eye(6) * arange(2.0, 8.0) + 0.1).rechunk(4)"));
    environment.variables.emplace("b", value_of("a @ ones(6)"));
    environment.variables.emplace("t", value_of("a[:, :2]"));
    environment.variables.emplace("d", value_of("a * (abs(arange(6)[:, newaxis] - arange(6)) != 1)"));
    environment.variables.emplace("s", value_of("sparse.csr_array(d)"));
    const Value value = value_of(text);
    return display(std::span(&value, 1))[0];
  } catch (const local::Error& error) {
    return error.what();
  }
}

TEST(IterativeRows, TakeSparseMatrices) {
  const auto is_true = [](const std::string& text) { EXPECT_THAT(shown(text), HasSubstr("True")) << text; };
  for (const char* solver : {"cg", "cgs", "bicgstab", "gmres", "minres"}) {
    for (const char* more :
         {"", ", M='jacobi'", ", M='block_jacobi'", ", M='ilu'", ", M=sparse.csr_array(linalg.inv(d))"})
      is_true(std::string("abs(d @ sparse.linalg.") + solver + "(s, b, rtol=1e-12" + more + ")[0] - b).max() < 1e-8");
    EXPECT_THAT(shown(std::string("linalg.") + solver + "(s[:2], b)"), HasSubstr("expected a square operator"));
  }
  is_true("abs(d @ sparse.linalg.lsqr(s, b, atol=1e-12, btol=1e-12)[0] - b).max() < 1e-8");
  is_true("abs(d @ sparse.linalg.lsmr(s, b, atol=1e-12, btol=1e-12)[0] - b).max() < 1e-8");
  is_true("abs(sparse.linalg.eigsh(s, 2)[0] - linalg.eigvalsh(d)[4:]).max() < 1e-10");
  is_true("abs(scipy.sparse.linalg.svds(s, 2)[1] - linalg.eigvalsh(d)[4:]).max() < 1e-8");
  is_true("abs(sort(real(sparse.linalg.eigs(s, 2)[0])) - linalg.eigvalsh(d)[4:]).max() < 1e-10");
  is_true("abs(sparse.linalg.lobpcg(s, t, maxiter=60, tol=1e-8)[0] - linalg.eigvalsh(d)[:3:-1]).max() < 1e-6");
  is_true(
      "abs(sparse.linalg.lobpcg(s, t, B=2 * sparse.csr_array(eye(6)), maxiter=60, tol=1e-8)[0] - "
      "linalg.eigvalsh(d)[:3:-1] / 2).max() < 1e-6");
}

TEST(IterativeRows, EigenvaluesOfGeneralMatrices) {
  EXPECT_THAT(shown("abs(linalg.eigs(a, 1, which='SR', ncv=6)[0] - linalg.eigvalsh(a)[0]).max() < 1e-8"),
              HasSubstr("True"));
  EXPECT_THAT(shown("abs(linalg.eigs(a, 1, None, None, 'LM', ncv=6)[0] - linalg.eigvalsh(a)[5]).max() < 1e-8"),
              HasSubstr("True"));
  EXPECT_THAT(shown("linalg.eigs(a, 1, which='XX')"), HasSubstr("XX"));
}

TEST(IterativeRows, SolveWithScipysArguments) {
  for (const char* solver : {"cg", "cgs", "bicgstab", "gmres", "minres"}) {
    const std::string call = std::string("linalg.") + solver;
    EXPECT_THAT(shown("abs(" + call + "(a, b, rtol=1e-10)[0] - 1).max() < 1e-8"), HasSubstr("True")) << solver;
    EXPECT_THAT(shown(call + "(a, b, rtol=1e-10, M='jacobi')[1]"), HasSubstr("0")) << solver;
    EXPECT_THAT(shown(call + "(a, b, rtol=1e-10, M='block_jacobi')[1]"), HasSubstr("0")) << solver;
    EXPECT_THAT(shown(call + "(a, b, rtol=1e-10, M='ilu')[1]"), HasSubstr("0")) << solver;
    EXPECT_THAT(shown(call + "(a, b, ones(6), rtol=1e-10, M=linalg.inv(a))[1]"), HasSubstr("0")) << solver;
    EXPECT_THAT(shown(call + "(a, b, M='none')"), HasSubstr("M: 'none' is none of")) << solver;
    EXPECT_THAT(shown(call + "(t, b)"), HasSubstr("expected a square operator")) << solver;
  }
  EXPECT_THAT(shown("linalg.cg(a, b, rtol=1e-12, maxiter=1)[1]"), HasSubstr("1"));
  EXPECT_THAT(shown("linalg.gmres(a, b, rtol=1e-10, restart=2, maxiter=1)[1]"), HasSubstr("1"));
  EXPECT_THAT(shown("abs(linalg.minres(a, b - ones(6), shift=1, rtol=1e-10)[0] - 1).max() < 1e-8"), HasSubstr("True"));
  EXPECT_THAT(shown("abs(linalg.lsqr(t, t @ [2.0, 3.0])[0] - [2, 3]).max() < 1e-5"), HasSubstr("True"));
  EXPECT_THAT(shown("abs(linalg.lsmr(t, t @ [2.0, 3.0])[0] - [2, 3]).max() < 1e-5"), HasSubstr("True"));
  EXPECT_THAT(shown("len(linalg.lsqr(t, b))"), HasSubstr("10"));
  EXPECT_THAT(shown("len(linalg.lsmr(t, b))"), HasSubstr("8"));
}

TEST(IterativeRows, FindAFewValues) {
  EXPECT_THAT(shown("abs(linalg.eigsh(a, 2)[0] - linalg.eigvalsh(a)[4:]).max() < 1e-10"), HasSubstr("True"));
  EXPECT_THAT(shown("abs(linalg.eigsh(a, k=2, which='SA')[0] - linalg.eigvalsh(a)[:2]).max() < 1e-10"),
              HasSubstr("True"));
  EXPECT_THAT(shown("abs(linalg.lobpcg(a, t, maxiter=60, tol=1e-8)[0] - linalg.eigvalsh(a)[:3:-1]).max() < 1e-6"),
              HasSubstr("True"));
  EXPECT_THAT(shown("abs(linalg.svds(t, 1)[1] - linalg.svdvals(t)[0]).max() < 1e-10"), HasSubstr("True"));
  EXPECT_THAT(shown("abs(linalg.svd_compressed(a, 3, seed=2)[1] - linalg.svdvals(a)[:3]).max() < 1e-10"),
              HasSubstr("True"));
  EXPECT_THAT(shown("abs(linalg.tsqr(a)[0] @ linalg.tsqr(a)[1] - a).max() < 1e-12"), HasSubstr("True"));
  EXPECT_THAT(shown("abs(linalg.tsqr(a, compute_svd=True)[1] - linalg.svdvals(a)).max() < 1e-12"), HasSubstr("True"));
  EXPECT_THAT(shown("abs(linalg.sfqr(a[:3])[0] @ linalg.sfqr(a[:3])[1] - a[:3]).max() < 1e-12"), HasSubstr("True"));
  EXPECT_THAT(shown("linalg.svd_compressed(a, 7)"), HasSubstr("k: 7 is not between 1 and 6"));
}

}  // namespace
}  // namespace quarry::apps::expression
