// Elementwise work beside operators runs in their tasks, and data that several stages want is read once: values, bits
// and bytes with and without these passes.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/plan/passes.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/local/base/error.h"
#include "quarry/local/local.h"
#include "tests/support/evaluate.h"
#include "tests/support/on_devices.h"
#include "tests/support/operator_rows.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using testing::Choices;

// A file with an array in /x.
class File {
 public:
  explicit File(const std::function<Array()>& values) {
    const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu));
    store(path_, {{"/x", values()}});
  }
  const std::string& path() const { return path_; }

 private:
  const test::TempDir dir_;
  std::string path_ = dir_ / "x.h5";
};

class TaskFusion : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  struct Measured {
    std::vector<NdArray> values;
    int64_t read_bytes = 0;
    std::vector<std::string> kinds;  // of the stages
  };
  Measured measured(const char* off, const std::function<std::vector<Array>()>& make,
                    const char* memory = "64MiB") const {
    RuntimeOptions options = testing::runtime_on(GetParam(), memory);
    options.passes = off;
    const Runtime runtime(options);
    const std::vector<Array> arrays = make();
    Measured result;
    exec::Nodes nodes;
    for (const Array& array : arrays) nodes.push_back(array.node());
    for (const plan::Stage& stage : exec::make_plan(nodes).stages) result.kinds.emplace_back(stage.kind());
    const int64_t before = runtime.statistics().read_bytes;
    result.values = to_host(arrays);
    result.read_bytes = runtime.statistics().read_bytes - before;
    return result;
  }
  static void expect_same(const Measured& a, const Measured& b) {
    ASSERT_EQ(a.values.size(), b.values.size());
    for (size_t i = 0; i < a.values.size(); ++i) {
      ASSERT_EQ(a.values[i].shape(), b.values[i].shape());
      EXPECT_EQ(
          std::memcmp(a.values[i].copy().raw(), b.values[i].copy().raw(), static_cast<size_t>(a.values[i].nbytes())), 0)
          << i << "\n"
          << a.values[i].repr() << "\n"
          << b.values[i].repr();
    }
  }
};

using Kinds = std::vector<std::string>;

TEST_P(TaskFusion, WorkBeforeAndBehindAMapIsPartOfItsStage) {
  const File source([] { return sin(arange(6000.0)); });
  const std::string& file = source.path();
  const auto make = [&] {
    const Array x = open_hdf5(file, "/x").rechunk({1000});
    const Array sorted = map_blocks([](const NdArray& chunk) { return local::sort(chunk); }, exp(x) * 2 + 1, {},
                                    {.dtypes = {DType::float64}, .identity = 4});
    return std::vector<Array>{sum(sqrt(sorted)), sorted * 3};
  };
  const Measured both = measured("", make), before = measured("-epilogues", make),
                 none = measured("-prologues,-epilogues", make);
  EXPECT_EQ(both.kinds, Kinds{"reduce"});
  EXPECT_EQ(before.kinds.size(), 2u);
  EXPECT_EQ(none.kinds.size(), 3u);
  expect_same(both, none);
  expect_same(before, none);
  EXPECT_EQ(both.read_bytes, 6000 * 8);
}

// What a function gives is used where it lies, in whatever form it gives it.
TEST_P(TaskFusion, WorkBehindAMapReadsWhatTheFunctionGives) {
  using Function = std::function<NdArray(const NdArray&)>;
  const Function functions[] = {
      [](const NdArray& chunk) { return chunk; },
      [](const NdArray& chunk) { return local::add(chunk, 1); },
      [](const NdArray& chunk) { return local::flip(chunk); },
      [](const NdArray& chunk) { return local::flip(local::add(chunk, 1)); },
      [](const NdArray& chunk) {
        return local::concatenate({chunk, chunk})(local::slice(0, chunk.shape(0)));
      },
      [](const NdArray& chunk) {
        return local::concatenate({chunk, chunk})(local::slice(chunk.shape(0), {}));
      },
      [](const NdArray& chunk) { return local::broadcast_to(local::sum(chunk), chunk.shape()); },
  };
  int identity = 20;
  for (const Function& function : functions) {
    SCOPED_TRACE(identity);
    const auto make = [&] {
      const Array x = (arange(600.0).rechunk({100}) * 0.5).persist();
      const Array made = map_blocks(function, x, {}, {.dtypes = {DType::float64}, .identity = identity});
      const Array of_work = map_blocks(function, x * 2 + 1, {}, {.dtypes = {DType::float64}, .identity = identity + 1});
      return std::vector<Array>{made * 3, sum(sqrt(abs(of_work))), made + of_work};
    };
    expect_same(measured("", make), measured("-prologues,-epilogues", make));
    identity += 2;
  }
}

TEST_P(TaskFusion, ScansReadExpressionsWithoutStoringThem) {
  const File source([] { return sin(arange(6000.0)); });
  const std::string& file = source.path();
  const auto make = [&] { return std::vector<Array>{cumsum(exp(open_hdf5(file, "/x").rechunk({1000})), 0)}; };
  const Measured fused = measured("", make), stored = measured("-prologues,-epilogues", make);
  EXPECT_EQ(fused.kinds, (Kinds{"add.accumulate totals", "add.accumulate carries", "add.accumulate"}));
  EXPECT_EQ(fused.read_bytes, 2 * 6000 * 8);
  expect_same(fused, stored);
}

TEST_P(TaskFusion, LinesThatEveryTaskReadsAreStored) {
  const auto make = [] {
    const Array x = arange(400.0).rechunk({100}) * 0.5;
    const Array every[] = {
        blockwise([](const NdArray& part, const NdArray& all) { return local::add(part, local::sum(all)); }, "i",
                  {{x, "i"}, {exp(x * 1e-3).rechunk({100}), "j"}}, {}, {.dtypes = {DType::float64}, .identity = 5})};
    return std::vector<Array>{every[0]};
  };
  expect_same(measured("", make), measured("-prologues,-epilogues", make));
}

TEST_P(TaskFusion, RandomMapsHaveTheSameBits) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto make = [&] {
      Choices choices(seed);
      const int ndim = static_cast<int>(choices.pick(1, 3));
      const NdArray values = choices.values(choices.shape(ndim), DType::float64);
      const Grid grid = choices.grid(values.shape());
      Array x = Array::from_local(values).rechunk(grid);
      if (choices.pick(0, 1) == 0) x = x.rechunk(choices.grid(values.shape())).persist().rechunk(grid);
      Array y = sqrt(abs(x)) + 1;
      if (choices.pick(0, 2) == 0) y = y.rechunk(choices.grid(values.shape()));
      Array made;
      switch (choices.pick(0, 2)) {
        case 0:
          made = map_blocks([](const NdArray& a, const NdArray& b) { return local::multiply(a, b); }, {y, x * 2 - 1},
                            {}, {.identity = 6});
          break;
        case 1:
          made = map_overlap([](const NdArray& a) { return local::multiply(a, 2); }, y,
                             {.depth = {choices.pick(0, 3)}, .boundary = {{Edge::reflect}}}, {.identity = 7});
          break;
        default:
          made = cumsum(y, choices.pick(0, ndim - 1));
      }
      const Array behind = made * 0.5 + x;
      return std::vector<Array>{behind, sum(behind, 0), max(made - 1), made};
    };
    const auto some = [&] {
      std::vector<Array> arrays = make();
      arrays.pop_back();
      return arrays;
    };
    try {
      expect_same(measured("", make), measured("-prologues,-epilogues", make));
      expect_same(measured("", some), measured("-prologues,-epilogues", some));
      expect_same(measured("", some, "2MiB"), measured("-prologues,-epilogues", some));
    } catch (const local::InvalidArgument&) {
      continue;  // the largest element of nothing
    }
    if (HasFailure()) return;
  }
}

TEST_P(TaskFusion, ReductionsOverSeveralAxesReadOnce) {
  const File source([] { return reshape(arange(60000.0), {300, 200}); });
  const std::string& file = source.path();
  const auto make = [&] {
    const Array x = open_hdf5(file, "/x").rechunk({50, 200});
    return std::vector<Array>{sum(x, 0), mean(x, 1), var(x), max(x * 2)};
  };
  const Measured once = measured("", make), often = measured("-reads", make);
  EXPECT_EQ(once.read_bytes, 60000 * 8);
  EXPECT_EQ(often.read_bytes, 3 * 60000 * 8);
  for (size_t i = 0; i < once.values.size(); ++i)
    EXPECT_TRUE(testing::close(once.values[i], often.values[i], 1e-12, 1e-12)) << i;
  // What waits for another one reads again.
  const auto wait = [&] {
    const Array x = open_hdf5(file, "/x").rechunk({50, 200});
    return std::vector<Array>{sum(square(x - mean(x, 0)), 1)};
  };
  EXPECT_EQ(measured("", wait).read_bytes, 2 * 60000 * 8);
}

TEST_P(TaskFusion, MeanAndVarianceReadOnce) {
  const File source([] { return reshape(arange(60000.0), {300, 200}); });
  const std::string& file = source.path();
  const auto make = [&] {
    const Array x = open_hdf5(file, "/x").rechunk({50, 200});
    return std::vector<Array>{mean(x, 0), var(x, 0), sum(sqrt(x), 0) / std(x, 0)};
  };
  EXPECT_EQ(measured("", make).read_bytes, 60000 * 8);
}

TEST_P(TaskFusion, SumsOfProductsAreProductsOfMatrices) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Choices choices(seed);
    const int64_t batch = choices.pick(1, 3), m = choices.pick(0, 9), k = choices.pick(0, 9), n = choices.pick(1, 9);
    const NdArray a = choices.values({batch, m, 1, k}, DType::float64), b = choices.values({n, k}, DType::float64);
    const NdArray c = choices.values({batch, k, n}, DType::float64);
    const uint64_t cuts = seed;
    const auto make = [&] {
      Choices again(cuts);
      const Array x = again.cut(a), y = again.cut(b), z = again.cut(c);
      return std::vector<Array>{sum(x * y, -1), sum(reshape(x, {batch, m, k, 1}) * expand_dims(z, 1), 2),
                                sum(x * (y + 1), -1, {.keepdims = true}), sum(x * y, {2, 3})};
    };
    const Measured products = measured("", make), plain = measured("-contractions", make);
    for (size_t i = 0; i < plain.values.size(); ++i) {
      EXPECT_EQ(products.values[i].shape(), plain.values[i].shape());
      EXPECT_TRUE(testing::close(products.values[i], plain.values[i], 1e-9, 1e-9)) << i;
    }
    if (HasFailure()) return;
  }
}

// Values as those of the selection made first, where the array and the mask are cut alike.
TEST_P(TaskFusion, ReductionsOverSelectionsReadTheArrayWhereItLies) {
  using Make = std::function<Array(const Array& x, const Array& m)>;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::pair<const char*, Make>> rows = {
      {"sum", [](const Array& x, const Array& m) { return sum(x[m]); }},
      {"sum of columns", [](const Array& x, const Array& m) { return sum(x[m], 0); }},
      {"mean", [](const Array& x, const Array& m) { return mean(x[m]); }},
      {"mean of columns, kept", [](const Array& x, const Array& m) { return mean(x[m], 0, {.keepdims = true}); }},
      {"mean of float32", [](const Array& x, const Array& m) { return mean(x[m].astype(DType::float32)); }},
      {"prod", [](const Array& x, const Array& m) { return prod(x[m] / 20, 0); }},
      {"min", [](const Array& x, const Array& m) { return min(x[m], 0); }},
      {"max of integers", [](const Array& x, const Array& m) { return max(x[m].astype(DType::int32) - 900, 0); }},
      {"any", [](const Array& x, const Array& m) { return any(x[m] > 38.); }},
      {"all", [](const Array& x, const Array& m) { return all(x[m] < 39., 0); }},
      {"count", [](const Array& x, const Array& m) { return count_nonzero(x[m]); }},
      {"sum of complex", [](const Array& x, const Array& m) { return sum(x[m].astype(DType::complex128)); }},
      {"squares",
       [](const Array& x, const Array& m) {
         const Array s = x[m];
         return sum(square(s) - 2 * s);
       }},
      {"missing elsewhere", [nan](const Array& x, const Array& m) { return sum(where(m, x.T(), nan).T()[m]); }},
      {"missing", [nan](const Array& x, const Array& m) { return max(where(x > 35., nan, x)[m], 0); }},
      {"two of them", [](const Array& x, const Array& m) { return mean(x[m]) + max(x[m]); }},
      {"along rows too",
       [](const Array& x, const Array& m) {
         return sum(x[m], {0, 1});
       }},
      {"of columns", [](const Array& x, const Array& m) { return sum(compress(m, x.T(), 1), 1); }},
  };
  const auto has_selection = [](const Array& array) {
    const plan::Plan plan = exec::make_plan({array.node()});
    return std::ranges::any_of(plan.stages,
                               [](const plan::Stage& s) { return s.label.find("compress") != s.label.npos; });
  };
  for (const auto& [name, make] : rows) {
    SCOPED_TRACE(name);
    RuntimeOptions options = testing::runtime_on(GetParam(), "64MiB");
    std::vector<NdArray> values;
    for (const char* off : {"", "-selections"}) {
      options.passes = off;
      const Runtime runtime(options);
      const Array x = (arange(240.0).reshape({60, 4}) % 39.).rechunk({7, 3}).persist();
      const Array result = make(x, (arange(60) % 3 != 1).rechunk({7}));
      EXPECT_EQ(has_selection(result), *off != 0);
      values.push_back(result.to_host());
    }
    EXPECT_EQ(values[0].dtype(), values[1].dtype());
    EXPECT_EQ(values[0].shape(), values[1].shape());
    EXPECT_TRUE(testing::close(values[0], values[1], 1e-6, 1e-9)) << values[0].repr() << values[1].repr();
  }
  // Where the selection is needed anyway, or some chunks need not be read, it is made.
  const Runtime runtime(testing::runtime_on(GetParam(), "64MiB"));
  const Array x = arange(60.0).rechunk({7}).persist(), chosen = x[x % 3. != 1.];
  EXPECT_TRUE(has_selection(sum(chosen) + chosen));
  EXPECT_TRUE(has_selection(var(chosen)));
  EXPECT_TRUE(has_selection(sum(x[x < 20.])));
  EXPECT_TRUE(has_selection(sum(chosen + arange(40.0))));
  EXPECT_EQ(sum(x[x < 0.]).to_host().item().as_double(), 0);
}

QUARRY_ON_DEVICE_KINDS(TaskFusion);

}  // namespace
}  // namespace quarry
