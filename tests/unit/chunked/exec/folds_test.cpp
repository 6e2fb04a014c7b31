// Folds per chunk are the reductions of the chunks, whatever is folded.
#include <gtest/gtest.h>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/local/local.h"
#include "tests/support/evaluate.h"
#include "tests/support/on_devices.h"
#include "tests/support/operator_rows.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using testing::Choices;

class Folds : public ::testing::TestWithParam<local::DeviceKind> {};

TEST_P(Folds, AreTheReductionsOfChunks) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Runtime runtime(testing::runtime_on(GetParam()));
    Choices choices(seed);
    const int ndim = static_cast<int>(choices.pick(1, 3));
    const NdArray values = choices.values(choices.shape(ndim), choices.dtype());
    const Grid grid = choices.grid(values.shape());
    const test::TempDir dir;
    store(dir / "x.h5", {{"/x", Array::from_local(values)}});
    Array x = choices.pick(0, 1) == 0 ? open_hdf5(dir / "x.h5", "/x") : Array::from_local(values);
    if (choices.pick(0, 1) == 0) x = x.rechunk(choices.grid(values.shape())).persist();
    x = x + 1;
    const auto axes = static_cast<uint32_t>(choices.pick(1, (1 << ndim) - 1));
    std::vector<int64_t> reduced;
    for (int d = 0; d < ndim; ++d)
      if (axes >> d & 1) reduced.push_back(d);
    const Array folds[] = {Array(expr::fold_chunks("sum"_reduction, x.node(), axes, grid)),
                           Array(expr::fold_chunks("mean"_reduction, x.node(), axes, grid)), x * 2,
                           Array(expr::fold_chunks("count_nonzero"_reduction, x.node(), axes, grid)) * 3};
    const std::vector<NdArray> got = to_host(folds);
    for (int64_t i = 0; i < grid.count(); ++i) {
      std::vector<local::IndexItem> chunk, place;
      const Region box = grid.chunk(i), at = folds[0].node()->grid.chunk(i);
      for (int d = 0; d < ndim; ++d) {
        chunk.emplace_back(local::Slice{box.start[d], box.start[d] + box.count[d], {}});
        place.emplace_back(local::Slice{at.start[d], at.start[d] + at.count[d], {}});
      }
      if (box.elements() == 0) continue;
      const NdArray part = local::add(values[chunk], 1);
      const auto same = [&](size_t number, const NdArray& expected) {
        const NdArray fold = got[number][place];
        EXPECT_TRUE(testing::close(fold, expected.reshape(fold.shape()).astype(fold.dtype()), 1e-5, 1e-5))
            << fold.repr() << "\n"
            << expected.repr();
      };
      same(0, local::sum(part, local::Axes(reduced)));
      same(1, local::mean(part, local::Axes(reduced)));
      same(3, local::multiply(local::count_nonzero(part, local::Axes(reduced)), 3));
    }
    if (HasFailure()) return;
  }
}

TEST_P(Folds, OfAMaskReadItsFileOnce) {
  constexpr int64_t n = 100000, kItem = 8;
  const Runtime runtime(testing::runtime_on(GetParam()));
  const test::TempDir dir;
  store(dir / "x.h5", {{"/x", sin(arange(static_cast<double>(n)))}});
  const Array x = open_hdf5(dir / "x.h5", "/x").rechunk({n / 8});
  const int64_t before = runtime.statistics().read_bytes;
  const Array some = x[square(x) > 0.25];
  EXPECT_EQ(runtime.statistics().read_bytes - before, n * kItem);
  EXPECT_EQ(some.size(), count_nonzero(square(x) > 0.25).item<int64_t>());
  // The mask is computed again from what is read for the elements, and nothing is stored.
  const plan::Plan plan = exec::make_plan({sum(some).node()});
  EXPECT_EQ(plan.stages.size(), 1u) << plan::describe(plan);
  const int64_t counted = runtime.statistics().read_bytes;
  const double expected = sum(where(square(x) > 0.25, x, 0.0)).item<double>();
  const int64_t summed = runtime.statistics().read_bytes;
  EXPECT_NEAR(sum(some).item<double>(), expected, 1e-9);
  EXPECT_EQ(summed - counted, n * kItem);
  EXPECT_EQ(runtime.statistics().read_bytes - summed, n * kItem);
}

QUARRY_ON_DEVICE_KINDS(Folds);

}  // namespace
}  // namespace quarry
