// Arrays that no task holds are sorted by runs: as the local functions sort them, whatever the data, the chunks and the
// budget.
#include "quarry/chunked/api/ordering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/local.h"
#include "tests/support/beyond_memory.h"
#include "tests/support/chunked_values.h"
#include "tests/support/cuts.h"

namespace quarry {
namespace {

using local::NdArray;
using testing::expect_same;
using ::testing::HasSubstr;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const std::vector<DType>& dtypes() {
  static const std::vector<DType> all{DType::bool_,   DType::int8,      DType::uint8,     DType::int16,
                                      DType::uint16,  DType::int32,     DType::uint32,    DType::int64,
                                      DType::uint64,  DType::float16,   DType::bfloat16,  DType::float32,
                                      DType::float64, DType::complex64, DType::complex128};
  return all;
}

// Of a shape, by what makes sorting hard.
std::vector<std::pair<std::string, NdArray>> hard(const local::Ints& shape, DType dtype) {
  auto random = local::default_rng(7);
  NdArray wide = local::round(random.normal(0, 50, shape));
  if (!local::is_float(dtype) && !local::is_complex(dtype) && dtype != DType::int64) wide = local::abs(wide);
  std::vector<std::pair<std::string, NdArray>> all;
  all.emplace_back("random", wide.astype(dtype));
  all.emplace_back("all equal", local::full(wide.shape(), 3).astype(dtype));
  all.emplace_back("few values", local::remainder(local::abs(wide), 3.0).astype(dtype));
  all.emplace_back("ascending", local::sort(wide.astype(dtype)));
  all.emplace_back("descending", local::flip(local::sort(wide.astype(dtype))).copy());
  // One element between many others.
  NdArray skewed = local::full(wide.shape(), 1).astype(dtype);
  skewed.reshape({-1})[{local::Slice{0, 2, {}}}].fill(0);
  all.emplace_back("skewed", skewed);
  if (!local::is_float(dtype) && !local::is_complex(dtype)) return all;
  const NdArray kind = random.integers(0, 5, shape);
  const NdArray special =
      local::where(kind == 0, kNan, local::where(kind == 1, -0.0, local::where(kind == 2, 0.0, wide)));
  all.emplace_back("zeros and NaN", special.astype(dtype));
  all.emplace_back("NaN alone", local::full(wide.shape(), kNan).astype(dtype));
  if (local::is_complex(dtype))
    all.emplace_back("complex", (special + local::flip(special) * std::complex<double>(0, 1)).astype(dtype));
  return all;
}

class Ordering : public testing::OnDeviceKinds {
 protected:
  // Fewer on the pretended device, which waits a little for each call.
  static std::vector<std::pair<std::string, NdArray>> hard(const local::Ints& shape, DType dtype) {
    auto all = quarry::hard(shape, dtype);
    if (!on_cpu())
      std::erase_if(all, [](const auto& each) {
        return each.first != "random" && each.first != "skewed" && each.first != "zeros and NaN";
      });
    return all;
  }
};

TEST_P(Ordering, SortsAnyDtypeAndData) {
  QUARRY_SKIP_ON_CUDA("a GPU sorts lines of these lengths whole");
  const Runtime runtime(options("64MiB"));
  std::mt19937 random(1);
  for (const DType dtype : on_cpu() ? dtypes() : std::vector<DType>{DType::float32, DType::complex128}) {
    for (const auto& [name, x] : hard(on_cpu() ? 2000 : 600, dtype)) {
      const Array cut = testing::cut(x, random);
      const ChunkPolicyScope policy = testing::small_chunks(100 * local::itemsize(dtype) / (on_cpu() ? 1 : 2));
      const std::string what = name + ", " + local::name(dtype) + " of " + cut.repr();
      ASSERT_THAT(sort_method(cut), HasSubstr("sorted runs")) << what;
      expect_same(sort(cut), local::sort(x), "sort of " + what);
      expect_same(sort(cut, 0, "stable"), local::sort(x, 0, "stable"), "stable sort of " + what);
      expect_same(argsort(cut), local::argsort(x), "argsort of " + what);
    }
  }
}

TEST_P(Ordering, SortsLinesAlongAnyAxis) {
  QUARRY_SKIP_ON_CUDA("a GPU sorts lines of these lengths whole");
  const Runtime runtime(options("64MiB"));
  std::mt19937 random(2);
  std::vector<Dims> shapes{{2, 300, 2}, {3, 500}};
  if (on_cpu()) shapes.insert(shapes.end(), {{500, 3}, {1, 400}});
  for (const Dims& shape : shapes) {
    for (const auto& [name, x] : hard(local::Ints(shape), DType::float64)) {
      const Array cut = testing::cut(x, random);
      const ChunkPolicyScope policy = testing::small_chunks(256);
      const int axis = static_cast<int>(std::max_element(shape.begin(), shape.end()) - shape.begin());
      ASSERT_THAT(sort_method(cut, axis), HasSubstr("sorted runs"));
      expect_same(sort(cut, axis), local::sort(x, axis), name + cut.repr());
      expect_same(argsort(cut, axis), local::argsort(x, axis), name + cut.repr());
      expect_same(sort(cut, std::nullopt), local::sort(x, std::nullopt), name + cut.repr());
      const NdArray positive = local::where(x > 0, 1, 0);
      expect_same(lexsort({cut, Array::from_local(positive)}, axis), local::lexsort({x, positive}, axis),
                  name + cut.repr());
    }
  }
}

// Two runs at a time where chunks are tiny.
TEST_P(Ordering, MergesInLevels) {
  QUARRY_SKIP_ON_CUDA("one GPU sorts at once what fits");
  const Runtime runtime(options("64MiB"));
  for (const auto& [name, x] : hard(300, DType::float32)) {
    const Array cut = Array::from_local(x).rechunk({7});
    const ChunkPolicyScope policy = testing::small_chunks(24);
    const ordering::Layout layout = ordering::layout_of({.keys = {cut}});
    EXPECT_GT(layout.levels, on_cpu() ? 3 : 1);  // devices take longer runs
    expect_same(sort(cut), local::sort(x), name);
    expect_same(argsort(cut), local::argsort(x), name);
  }
}

TEST_P(Ordering, OneGpuSortsAtOnceWhatFits) {
  const Runtime runtime(options("64MiB"));
  const ChunkPolicyScope policy = testing::small_chunks(800);
  for (const auto& [name, x] : hard(1050, DType::float32)) {
    const Array cut = Array::from_local(x).rechunk({1000});
    ordering::Request request{.keys = {cut}};
    const ordering::Layout layout = ordering::layout_of(request);
    EXPECT_EQ(layout.levels == 0, GetParam() == local::DeviceKind::cuda);
    EXPECT_GT(layout.chunks.count(), 1);
    const Array sorted = ordering::ordered(request).keys[0];
    EXPECT_EQ(sorted.chunks().axis(0), layout.chunks);
    expect_same(sorted, local::sort(x, -1, "stable"), name);
  }
}

// Tasks for whole lines of narrow elements take eight bytes beside each.
TEST_P(Ordering, NarrowElementsFitTheBudget) {
  for (const int64_t millions : {1, 2, 3, 5, 8}) {
    const Runtime runtime(options("96MiB"));
    const NdArray x = local::default_rng(millions).integers(-100, 100, {millions * 1000000}).astype(DType::int8);
    expect_same(sort(Array::from_local(x).rechunk({1 << 18})), local::sort(x), std::to_string(millions));
  }
}

TEST_P(Ordering, GivesEqualChunks) {
  QUARRY_SKIP_ON_CUDA("a GPU sorts lines of these lengths whole");
  const Runtime runtime(options("64MiB"));
  const ChunkPolicyScope policy = testing::small_chunks(800);
  const Array sorted = sort(Array::from_local(local::arange(1050.)).rechunk({1000}));
  EXPECT_EQ(sorted.chunks().axis(0), AxisChunks(1050, 96));
  const Array lines = sort(Array::from_local(local::arange(2100.).reshape(1050, 2)).rechunk({1000, 1}), 0);
  EXPECT_EQ(lines.chunks().counts(), (Dims{11, 2}));
  EXPECT_EQ(lines.chunks().axis(0).size(0), 96);
}

TEST_P(Ordering, OfFewElementsOrNone) {
  const Runtime runtime(options("64MiB"));
  const ChunkPolicyScope policy = testing::small_chunks(8);
  for (const Dims& shape : {Dims{0}, Dims{1}, Dims{2}, Dims{0, 9}, Dims{9, 0}, Dims{1, 9}, Dims{9, 1}, Dims{17}}) {
    const NdArray x = local::remainder(local::arange(local::element_count(shape)) * 7, 5).reshape(shape);
    for (int axis = 0; axis < shape.size(); ++axis) {
      const Array cut = Array::from_local(x).rechunk(Dims::filled(shape.size(), 1));
      expect_same(sort(cut, axis), local::sort(x, axis), cut.repr());
      expect_same(argsort(cut, axis), local::argsort(x, axis), cut.repr());
      expect_same(partition(cut, 0, axis), local::sort(x, axis), cut.repr());
    }
  }
}

TEST_P(Ordering, PartitionsOfLongLinesAreSorted) {
  const Runtime runtime(options("64MiB"));
  const ChunkPolicyScope policy = testing::small_chunks(512);
  const NdArray x = local::default_rng(1).normal(0, 1, 1000);
  const Array cut = Array::from_local(x).rechunk({90});
  expect_same(partition(cut, 300), local::sort(x), "partition");
  expect_same(argpartition(cut, {5, -1}), local::argsort(x), "argpartition");
  EXPECT_THROW(partition(cut, 1000), local::InvalidArgument);
}

TEST_P(Ordering, RowsByAKey) {
  const Runtime runtime(options("64MiB"));
  const NdArray key =
      local::where(local::arange(700) % 11 == 3, kNan, local::remainder(local::arange(700.) * 31, 17.0));
  const NdArray rows = local::arange(2100).reshape(700, 3);
  const NdArray order = local::argsort(key);
  const ChunkPolicyScope policy = testing::small_chunks(512);
  const Array cut = Array::from_local(rows).rechunk({50, 2});
  expect_same(sort_by(cut, Array::from_local(key)), local::take(rows, order, 0), "ascending");
  const NdArray falling = 699 - local::flip(local::argsort(local::flip(key)));
  expect_same(sort_by(cut, Array::from_local(key), true), local::take(rows, falling, 0), "descending");
  EXPECT_THROW(sort_by(cut, Array::from_local(rows)), local::InvalidArgument);
  EXPECT_THROW(sort_by(cut, Array::from_local(key(slice(0, 5)))), local::InvalidArgument);
}

TEST_P(Ordering, LooksUpInTablesOfManyChunks) {
  const Runtime runtime(options("64MiB"));
  std::mt19937 random(3);
  for (const auto& [name, x] : hard(700, DType::float64)) {
    const NdArray table = local::sort(local::round(local::default_rng(8).normal(0, 20, 400)));
    const NdArray other = name == "zeros and NaN" ? local::sort(x) : table;  // all of them, and some
    const ChunkPolicyScope policy = testing::small_chunks(256);
    const Array cut = reshape(testing::cut(x, random), {70, 10}), sorted = Array::from_local(other).rechunk({30});
    const NdArray values = x.reshape({70, 10});
    for (const char* side : {"left", "right"})
      expect_same(searchsorted(sorted, cut, side), local::searchsorted(other, values, side), name + ", " + side);
    expect_same(isin(cut, sorted), local::isin(values, other), name);
    expect_same(isin(cut, sorted.astype(f32), false, true), local::isin(values, other.astype(f32), false, true), name);
  }
}

// The same values in any budget, of which nothing takes more.
TEST_P(Ordering, OfMoreThanMemory) {
  const int64_t n = on_cpu() ? 600000 : 100000;
  const NdArray x = local::round(local::default_rng(4).normal(0, 1e4, n));
  const NdArray expected = local::sort(x), order = local::argsort(x);
  testing::BeyondMemory arrays;
  arrays.write("x", x);
  for (const char* memory : {"1500KiB", "2MiB", "3MiB", "200MiB"}) {
    {
      const Runtime runtime(options(memory));
      const ChunkPolicyScope policy = testing::small_chunks(128 << 10);
      arrays.expect(sort(arrays.open("x")), expected, memory);
      arrays.expect(argsort(arrays.open("x")), order, memory);
      EXPECT_LE(runtime.statistics().peak_device_bytes, runtime.memory_bytes());
    }
    arrays.check();
  }
}

TEST_P(Ordering, IsNamedByExplain) {
  QUARRY_SKIP_ON_CUDA("a GPU sorts lines of these lengths whole");
  const Runtime runtime(options("64MiB"));
  const NdArray x = local::flip(local::arange(10000.));
  const Array cut = Array::from_local(x).rechunk({1000});
  EXPECT_THAT(sort_method(cut), HasSubstr("10,000 elements along axis 0: whole lines in a task"));
  EXPECT_THAT(explain(sort(cut)), ::testing::Not(HasSubstr("sort merge")));
  const ChunkPolicyScope policy = testing::small_chunks(8000);
  const std::string runs = on_cpu() ? "10 sorted runs, 10 at a time" : "4 sorted runs, 4 at a time";
  EXPECT_THAT(sort_method(cut), HasSubstr(runs + " merged to 10 chunks, in 1 level"));
  EXPECT_THAT(explain(sort(cut)), HasSubstr("sort merge"));
}

QUARRY_ON_DEVICE_KINDS(Ordering);

}  // namespace
}  // namespace quarry
