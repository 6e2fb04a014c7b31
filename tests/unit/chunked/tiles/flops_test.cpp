// What tasks count in the trace: together the additions and multiplications that the plan has.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "quarry/chunked/runtime/run.h"
#include "quarry/local/base/trace.h"
#include "tests/support/runtime_on.h"
#include "tests/support/tile_rows.h"

namespace quarry {
namespace {

using testing::DType;

class TileFlops : public testing::OnEveryRuntime {};
QUARRY_ON_EVERY_DEVICE(TileFlops);

TEST_P(TileFlops, OfAPlanAreTheSumOverItsTasks) {
  const ChunkPolicyScope small({GetParam(), {}, /*target_bytes=*/4096});
  for (const DType dtype : {DType::float64, DType::complex64}) {
    const auto random = [&](int64_t m, int64_t n) { return testing::cut(testing::random_matrix({m, n}, dtype)); };
    const Array definite = testing::cut(testing::positive_definite(130, dtype)), square = random(130, 130),
                tall = random(150, 90), wide = random(90, 150), very_tall = random(3000, 11);
    const std::vector<std::pair<const char*, Array>> arrays = {
        {"cholesky", linalg::cholesky(definite)},
        {"cholesky, upper", linalg::cholesky(definite, /*upper=*/true)},
        {"solve", linalg::solve(square, random(130, 5))},
        {"solve of many", linalg::solve(square, random(130, 140))},
        {"solve_triangular", linalg::solve_triangular(definite, random(130, 70))},
        {"lu of tall", linalg::lu(tall, linalg::permute_l).second},
        {"lu of wide", linalg::lu(wide, linalg::permute_l).second},
        {"qr of tall", linalg::qr(tall).Q},
        {"qr of wide", linalg::qr(wide).R},
        {"tsqr", linalg::tsqr(very_tall).Q},
        {"product", matmul(tall, wide)},
        {"product with its own transpose", matmul(tall.T(), tall)},
    };
    for (const auto& [what, x] : arrays) {
      SCOPED_TRACE(what);
      const double of_plan = exec::summarize({x.node()}, /*write=*/false).flops;
      local::start_tracing();
      x.to_host();
      double of_tasks = 0;
      std::map<std::string, int> kernels;
      for (const local::TraceEvent& event : local::stop_tracing()) {
        of_tasks += event.flops;
        if (event.flops > 0) ++kernels[event.detail];
      }
      EXPECT_GT(of_plan, 0);
      EXPECT_NEAR(of_tasks / of_plan, 1, 1e-12);
      EXPECT_FALSE(kernels.contains(""));
      int tasks = 0;
      for (const auto& [kernel, count] : kernels) tasks += count;
      EXPECT_GT(tasks, 1);
    }
  }
}

}  // namespace
}  // namespace quarry
