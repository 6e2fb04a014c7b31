// Views of one array that begin elsewhere are read together: values, bits and bytes with and without the pass.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/local/base/error.h"
#include "quarry/local/local.h"
#include "tests/support/cuts.h"
#include "tests/support/evaluate.h"
#include "tests/support/on_devices.h"
#include "tests/support/operator_rows.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using local::full_slice;
using local::Slice;
using testing::Choices;

RuntimeOptions on(local::DeviceKind device, const char* off, const char* memory = "64MiB") {
  RuntimeOptions options;
  options.device = device;
  options.memory = memory;
  if (device != local::DeviceKind::cpu) options.host_memory = memory;
  options.threads = 2;
  options.passes = off;
  return options;
}

struct Measured {
  std::vector<NdArray> values;
  int64_t read_bytes = 0, planned_bytes = 0;  // small gaps between rows are read, too
};
using Make = std::function<std::vector<Array>()>;
Measured measured(const RuntimeOptions& options, const Make& make) {
  const Runtime runtime(options);
  const std::vector<Array> arrays = make();
  const int64_t before = runtime.statistics().read_bytes;
  exec::Nodes nodes;
  for (const Array& array : arrays) nodes.push_back(array.node());
  Measured result;
  result.planned_bytes = exec::summarize(nodes, /*write=*/false).read_bytes;
  result.values = to_host(arrays);
  result.read_bytes = runtime.statistics().read_bytes - before;
  return result;
}

void expect_same(const std::vector<NdArray>& a, const std::vector<NdArray>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].shape(), b[i].shape());
    ASSERT_EQ(a[i].dtype(), b[i].dtype());
    EXPECT_EQ(std::memcmp(a[i].copy().raw(), b[i].copy().raw(), static_cast<size_t>(a[i].nbytes())), 0)
        << "result " << i << "\n"
        << a[i].repr() << "\n"
        << b[i].repr();
  }
}

// A file with the array in /x.
class File {
 public:
  explicit File(const NdArray& x) {
    const Runtime runtime(on(local::DeviceKind::cpu, ""));
    store(path(), {{"/x", Array::from_local(x)}});
  }
  std::string path() const { return dir_ / "x.h5"; }
  Array open() const { return open_hdf5(path(), "/x"); }

 private:
  test::TempDir dir_;
};

class Windows : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no device of kind " << local::name(GetParam());
  }
};

TEST_P(Windows, OfAnAxisAreReadOnceAndTheirHalos) {
  constexpr int64_t n = 10000, kChunk = 1000, kItem = 8;
  const NdArray values = local::sin(local::arange(static_cast<double>(n)));
  const File file(values);
  const Make make = [&] {
    const Array x = file.open().rechunk({kChunk});
    return std::vector{x[{Slice{{}, -2, {}}}] - 2.0 * x[{Slice{1, -1, {}}}] + x[{Slice{2, {}, {}}}]};
  };
  const Measured shared = measured(on(GetParam(), ""), make), apart = measured(on(GetParam(), "-offsets"), make);
  EXPECT_EQ(shared.read_bytes, (n - 2 + 2 * (n / kChunk)) * kItem);
  EXPECT_EQ(apart.read_bytes, 3 * (n - 2) * kItem);
  expect_same(shared.values, apart.values);
}

TEST_P(Windows, OfThreeAxesAreReadOnceAndTheirHalos) {
  constexpr int64_t n = 40, kItem = 8;
  const NdArray values = local::sin(local::arange(static_cast<double>(n * n * n))).reshape({n, n, n});
  const File file(values);
  const Slice inner{1, -1, {}}, low{{}, -2, {}}, high{2, {}, {}};
  const Make make = [&] {
    const Array x = file.open().rechunk({10, n, n});
    Array sum = -6.0 * x[{inner, inner, inner}];
    for (const Slice& side : {low, high})
      sum = sum + x[{side, inner, inner}] + x[{inner, side, inner}] + x[{inner, inner, side}];
    return std::vector{sum};
  };
  const Measured shared = measured(on(GetParam(), ""), make), apart = measured(on(GetParam(), "-offsets"), make);
  EXPECT_EQ(shared.read_bytes, (n + 3 * 2) * n * n * kItem);
  EXPECT_GT(apart.read_bytes, 6 * 38 * 38 * 38 * kItem);
  expect_same(shared.values, apart.values);
}

// On a device with room, neighbours' chunks are read where they are: no task copies. In less of it, rims are copied.
TEST_P(Windows, OfStoredArraysAreReadInPlace) {
  constexpr int64_t n = 30;
  const NdArray values = local::sin(local::arange(static_cast<double>(n * n * n))).reshape({n, n, n});
  const Slice inner{1, -1, {}}, low{{}, -2, {}}, high{2, {}, {}};
  const auto stencil = [&](const auto& x) {
    auto sum = -6.0 * x[{inner, inner, inner}];
    for (const Slice& side : {low, high})
      sum = sum + x[{side, inner, inner}] + x[{inner, side, inner}] + x[{inner, inner, side}];
    return sum;
  };
  const NdArray expected = stencil(values);
  struct Run {
    const char* memory;
    std::vector<int64_t> rows;  // of the chunks
    bool in_place;
  };
  for (const Run& run : {Run{"64MiB", {6, 6, 6, 6, 6}, true}, Run{"64MiB", {10, 1, 2, 7, 10}, true},
                         Run{"64MiB", {15, 15}, true}, Run{"512KiB", {6, 6, 6, 6, 6}, false}}) {
    SCOPED_TRACE(std::string(run.memory) + ", " + std::to_string(run.rows.size()) + " chunks");
    const Runtime runtime(on(GetParam(), "", run.memory));
    const Grid grid({AxisChunks(run.rows), AxisChunks(n, n), AxisChunks(n, n)});
    const Array x = Array::from_local(values).rechunk(grid).persist();
    const int64_t before = runtime.statistics().tasks;
    const Array y = stencil(x).persist();
    const int64_t tasks = runtime.statistics().tasks - before;
    if (GetParam() != local::DeviceKind::cpu) {
      if (run.in_place)
        EXPECT_EQ(tasks, y.chunks().count());
      else
        EXPECT_GT(tasks, y.chunks().count());
    }
    expect_same({y.to_host()}, {expected});
  }
}

// Launches of a thread keep the memory of those before them: none of a reduction's states may stay.
TEST_P(Windows, FollowReductionsOfOneRun) {
  const NdArray values = local::sin(local::arange(90.));
  const auto change = [](const auto& x) { return x[{Slice{1, {}, {}}}] - x[{Slice{{}, -1, {}}}]; };
  const NdArray expected = change(values) * local::max(values);
  RuntimeOptions options = on(GetParam(), "");
  options.threads = 1;
  const Runtime runtime(options);
  const Array x = Array::from_local(values).rechunk({25}).persist();
  expect_same({(change(x) * max(x)).to_host()}, {expected});
}

// Planes that are large enough are boxes of one shape.
TEST_P(Windows, OfLargePlanesAreReadInPlace) {
  constexpr int64_t n = 14, kRows = 520, kColumns = 510;
  const NdArray positions = local::arange(static_cast<double>(n * kRows * kColumns));
  const NdArray values = local::sin(positions).reshape({n, kRows, kColumns});
  const auto change = [](const auto& x) {
    return x[{Slice{{}, -2, {}}}] - 2.0 * x[{Slice{1, -1, {}}}] + x[{Slice{2, {}, {}}}];
  };
  const NdArray expected = change(values);
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{4, 4, 4, 2}, std::vector<int64_t>{7, 7}}) {
    const Runtime runtime(on(GetParam(), "", "256MiB"));
    const Grid grid({AxisChunks(rows), AxisChunks(kRows, kRows), AxisChunks(kColumns, kColumns)});
    const Array x = Array::from_local(values).rechunk(grid).persist();
    const int64_t before = runtime.statistics().tasks;
    const Array y = change(x).persist();
    if (GetParam() != local::DeviceKind::cpu) {
      EXPECT_EQ(runtime.statistics().tasks - before, y.chunks().count());
    }
    expect_same({y.to_host()}, {expected});
  }
}

TEST_P(Windows, OfAnExpressionReadWhatItReadsOnce) {
  constexpr int64_t n = 4000, kItem = 8;
  const File file(local::sin(local::arange(static_cast<double>(n))));
  const Make make = [&] {
    const Array x = exp(file.open().rechunk({500})) * 3.0;
    return std::vector{sum(square(x[{Slice{1, {}, {}}}] - x[{Slice{{}, -1, {}}}]))};
  };
  const Measured shared = measured(on(GetParam(), ""), make), apart = measured(on(GetParam(), "-offsets"), make);
  EXPECT_EQ(shared.read_bytes, (n - 1 + 8) * kItem);
  EXPECT_EQ(apart.read_bytes, 2 * (n - 1) * kItem);
  EXPECT_TRUE(testing::close(shared.values[0], apart.values[0], 1e-12, 0));
}

TEST_P(Windows, OfStepsAndFixedPositionsAreOneBox) {
  constexpr int64_t n = 60, kWidth = 9000, kItem = 8;
  const File file(local::arange(static_cast<double>(n * kWidth)).reshape({n, kWidth}));
  const Make make = [&] {
    const Array x = file.open().rechunk({10, kWidth});
    const Slice even{{}, {}, 2}, odd{1, {}, 2};
    return std::vector{x[{even}] + x[{odd}], x[{full_slice, 0}] * 2.0 + x[{full_slice, 1}]};
  };
  const Measured shared = measured(on(GetParam(), ""), make), apart = measured(on(GetParam(), "-offsets"), make);
  EXPECT_EQ(shared.read_bytes, (n * kWidth + n * 2) * kItem);
  EXPECT_EQ(apart.read_bytes, (n * kWidth + n * 2) * kItem);
  expect_same(shared.values, apart.values);
}

// Random shifts, steps and cuts, offsets longer than chunks among them, of files, stored arrays, expressions and
// results of other stages.
TEST_P(Windows, HaveTheValuesOfSeparateViews) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Choices choices(seed);
    const int ndim = static_cast<int>(choices.pick(1, 3));
    Dims extents, shape;
    std::vector<int64_t> steps;
    for (int d = 0; d < ndim; ++d) {
      shape.push_back(choices.pick(0, 9) == 0 ? choices.pick(0, 1) : choices.pick(2, 9));
      steps.push_back(choices.pick(0, 2) == 0 ? choices.pick(0, 1) == 0 ? -choices.pick(1, 3) : choices.pick(2, 3) : 1);
      extents.push_back(shape[d] * std::abs(steps.back()) + choices.pick(0, 6));
    }
    const NdArray values = choices.values(extents, choices.dtype());
    const File file(values);
    const Grid grid = choices.grid(extents);
    const int64_t source = choices.pick(0, 4);
    if (choices.pick(0, 2) == 0)
      for (int d = 0; d < ndim; ++d) steps[static_cast<size_t>(d)] = 1;
    std::vector<std::vector<local::IndexItem>> views(static_cast<size_t>(choices.pick(2, 5)));
    for (auto& view : views) {
      for (int d = 0; d < ndim; ++d) {
        const int64_t step = steps[static_cast<size_t>(d)], length = std::max<int64_t>(shape[d], 1);
        const int64_t span = (length - 1) * std::abs(step), room = std::max<int64_t>(extents[d] - 1 - span, 0);
        const int64_t low = choices.pick(0, room);
        const int64_t start = step > 0 ? low : low + span, stop = start + step * shape[d];
        view.emplace_back(Slice{start, stop < 0 ? std::optional<int64_t>() : stop, step});
        if (shape[d] == 0) view.back() = Slice{0, 0, {}};
      }
    }
    const auto combined = [&](const auto& x) {
      auto total = x[views[0]] * 2;
      for (size_t v = 1; v < views.size(); ++v) total = total + x[views[v]] * static_cast<int64_t>(v);
      return total;
    };
    const Make make = [&] {
      Array x = file.open();
      if (source == 1) x = Array::from_local(values);
      x = x.rechunk(grid);
      if (source == 2) x = x.persist();
      if (source == 3) x = x * 3;
      if (source == 4) x = map_blocks([](const NdArray& chunk) { return local::multiply(chunk, 3); }, x);
      const Array total = combined(x);
      if (seed % 2 == 0) return std::vector<Array>{total};
      return std::vector<Array>{total, sum(total, 0), sum(total), x[views[0]]};
    };
    const NdArray x = source >= 3 ? local::multiply(values, 3) : values;
    const NdArray total = combined(x);
    const std::vector<NdArray> expected{total, local::sum(total, 0), local::sum(total), x[views[0]]};
    const Measured shared = measured(on(GetParam(), ""), make), apart = measured(on(GetParam(), "-offsets"), make);
    EXPECT_LE(shared.planned_bytes, apart.planned_bytes);
    expect_same(shared.values, apart.values);
    for (size_t i = 0; i < shared.values.size(); ++i)
      EXPECT_TRUE(testing::close(shared.values[i], expected[i].astype(shared.values[i].dtype()), 1e-6, 1e-6))
          << i << "\n"
          << shared.values[i].repr() << "\n"
          << expected[i].repr();
    if (HasFailure()) return;
  }
}

TEST_P(Windows, ABudgetThatIsTooSmallIsRefusedWithOneThatWorks) {
  constexpr int64_t n = 200000;
  const Make make = [] {
    const Array x = (arange(static_cast<double>(n)) * 0.5).rechunk({n / 4}).persist();
    return std::vector{sum(square(x[{Slice{2, {}, {}}}] - x[{Slice{{}, -2, {}}}]))};
  };
  const Measured enough = measured(on(GetParam(), ""), make);
  const char* memory = GetParam() == local::DeviceKind::cpu ? "900KiB" : "1MiB";
  int64_t least = 0;
  try {
    expect_same(measured(on(GetParam(), "", memory), make).values, enough.values);
  } catch (const local::BudgetError& error) {
    least = error.least_bytes();
  }
  if (least == 0) return;  // it is enough
  RuntimeOptions options = on(GetParam(), "");
  options.memory = std::to_string(least);
  expect_same(measured(options, make).values, enough.values);
}

// Of chunks that are so small that rounding makes most of what they cost: those that could share a task do not.
TEST_P(Windows, TheBudgetThatARefusalNamesWorks) {
  const NdArray a = local::reshape(local::arange(15), {5, 3}).astype(DType::int64);
  const NdArray b = local::multiply(a, a);
  for (unsigned seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    const Make make = [&] {
      std::mt19937 random(seed);
      const Array x = testing::cut(a, random).persist(), y = testing::cut(b, random).persist();
      return std::vector{cross(x, y)};
    };
    int64_t memory = 1;
    std::vector<int64_t> refused;
    constexpr size_t kMost = 6;  // storing the arrays is refused first
    for (bool works = false; !works && refused.size() < kMost;) {
      RuntimeOptions options = on(GetParam(), "");
      options.memory = std::to_string(memory);
      try {
        expect_same(measured(options, make).values, {local::cross(a, b)});
        works = true;
      } catch (const local::BudgetError& error) {
        refused.push_back(memory);
        memory = error.least_bytes();
      }
    }
    EXPECT_LT(refused.size(), kMost) << ::testing::PrintToString(refused);
  }
}

QUARRY_ON_EVERY_DEVICE(Windows);

}  // namespace
}  // namespace quarry
