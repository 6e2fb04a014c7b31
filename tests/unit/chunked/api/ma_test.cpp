// Masked arrays of chunks: laziness, passes over the data, files. Values are the oracle's (chapter `ma`) and
// names.def's.
#include "quarry/chunked/api/ma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/io/dataset.h"
#include "quarry/local/local.h"
#include "tests/support/cuts.h"
#include "tests/support/memory_dataset.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using ::testing::HasSubstr;

size_t count_of(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// The reduction of data and that of the mask, and what makes the mask, are one stage that reads the file once.
TEST(ChunkedMaskedArray, AReductionIsOneStageThatReadsItsDataOnce) {
  const testing::CpuRuntime runtime;
  const Array data(expr::source(std::make_shared<testing::MemoryDataset>("/x", Dims{4000, 50}, DType::float64)));
  const ma::MaskedArray x = ma::masked_less(data, 0);
  for (const ma::MaskedArray& result : {x.sum(0), x.mean(0), x.max(1), x.ptp(0), x.all()}) {
    const std::string text = explain(std::vector<Array>{result.data(), result.mask()});
    EXPECT_EQ(count_of(text, "reads memory.h5:/x"), 1u) << text;
  }
  // The mean first, then the distances from it.
  const ma::MaskedArray var = x.var(0);
  EXPECT_EQ(count_of(explain(std::vector<Array>{var.data(), var.mask()}), "reads memory.h5:/x"), 2u);
}

TEST(ChunkedMaskedArray, BuildingComputesNothing) {
  const Array data = zeros({1000000, 1000000});
  const ma::MaskedArray x = ma::masked_equal(data, 0);
  EXPECT_EQ((x / 2 + ma::sqrt(x)).mean(0).shape(), (Dims{1000000}));
  EXPECT_THAT(x.repr(), HasSubstr("MaskedArray(shape=(1000000, 1000000)"));
  EXPECT_EQ(ma::MaskedArray(data).sum().mask_or_none(), std::nullopt);
}

TEST(ChunkedMaskedArray, AnAssignmentRebindsTheVariable) {
  const testing::CpuRuntime runtime;
  ma::MaskedArray x = ma::masked_greater(arange(6.).rechunk({4}), 4);
  const ma::MaskedArray before = x;
  x[0] = ma::masked;
  x(slice(1, 3)) = 9;
  x[x > 8] *= 2;
  EXPECT_TRUE(local::array_equal(ma::to_host(x).filled(-1), NdArray{-1., 18., 18., 3., 4., -1.}));
  EXPECT_TRUE(local::array_equal(ma::to_host(before).filled(-1), NdArray{0., 1., 2., 3., 4., -1.}));
}

TEST(ChunkedMaskedArray, PersistedAndRechunkedItIsTheSame) {
  const testing::CpuRuntime runtime;
  std::mt19937 random(5);
  const local::NdArray values = local::sin(local::arange(60.)).reshape(6, 10);
  for (const Array& cut : testing::cuts(values, random)) {
    const ma::MaskedArray x = ma::masked_inside(cut, -0.2, 0.3);
    const local::ma::MaskedArray expected = local::ma::masked_inside(values, -0.2, 0.3);
    for (const ma::MaskedArray& each : {x, ma::persist(x), ma::rechunk(x, {5, 3}), ma::from_local(ma::to_host(x))}) {
      EXPECT_TRUE(local::array_equal(ma::to_host(each).mask(), expected.mask()));
      EXPECT_TRUE(local::array_equal(ma::to_host(each).filled(0), expected.filled(0)));
    }
  }
}

TEST(ChunkedMaskedArray, FilesKeepTheFillValue) {
  const testing::CpuRuntime runtime;
  const test::TempDir folder;
  const std::string file = folder / "m.h5";
  for (const DType dtype : {DType::float64, DType::float32, DType::int16, DType::uint8}) {
    const NdArray values = NdArray{1., 2., 3., 4., 5.}.astype(dtype);
    ma::MaskedArray x = ma::masked_equal(from_array(values, Dims{2}), 3);
    x.set_fill_value(99);
    ma::to_hdf5(file, "/x", x, {.overwrite = true});
    const std::shared_ptr<io::Dataset> stored = io::Dataset::open(file, "/x");
    EXPECT_TRUE(stored->info().attributes.contains("_FillValue"));
    EXPECT_EQ(stored->info().dtype, dtype);
    EXPECT_TRUE(local::array_equal(open_hdf5(file, "/x").to_host(), NdArray{1, 2, 99, 4, 5}));
    const ma::MaskedArray again = ma::open_hdf5(file, "/x");
    EXPECT_EQ(again.fill_value().as_double(), 99);
    EXPECT_EQ(again.dtype(), dtype);
    EXPECT_TRUE(local::array_equal(ma::to_host(again).mask(), NdArray{false, false, true, false, false}));
  }
  ma::to_hdf5(file, "/plain", ma::MaskedArray(arange(3)), {});
  EXPECT_FALSE(io::Dataset::open(file, "/plain")->info().attributes.contains("_FillValue"));
  EXPECT_FALSE(ma::open_hdf5(file, "/plain").mask_or_none());
}

TEST(ChunkedMaskedArray, AttributesSayWhatIsMissing) {
  using Attributes = std::map<std::string, io::Attribute>;
  const ma::MissingValues all = ma::missing_values(Attributes{{"_FillValue", int64_t{-9}},
                                                              {"missing_value", std::vector<double>{1, 2}},
                                                              {"valid_min", 0.5},
                                                              {"valid_max", int64_t{7}},
                                                              {"units", std::string("K")}});
  EXPECT_EQ(all.values.size(), 3u);
  EXPECT_EQ(all.values[0].as_double(), -9);
  EXPECT_EQ(all.least->as_double(), 0.5);
  EXPECT_EQ(all.most->as_double(), 7);
  const ma::MissingValues range = ma::missing_values(Attributes{{"valid_range", std::vector<double>{-1, 1}}});
  EXPECT_EQ(range.least->as_double(), -1);
  EXPECT_EQ(range.most->as_double(), 1);
  EXPECT_FALSE(ma::missing_values(Attributes{{"_FillValue", std::string("none")}}).any());
}

// Bits do not depend on whether data and mask are computed together.
TEST(ChunkedMaskedArray, DataAndMaskTogetherOrApart) {
  const testing::CpuRuntime runtime;
  const Array x = arange(1000.).reshape(20, 50).rechunk({7, 9});
  const ma::MaskedArray m = ma::masked_where(x % 3 == 0., x / 7).std(0);
  const local::ma::MaskedArray together = ma::to_host(m);
  EXPECT_TRUE(local::array_equal(m.data().to_host(), together.data()));
  EXPECT_TRUE(local::array_equal(m.mask().to_host(), together.mask()));
}

}  // namespace
}  // namespace quarry
