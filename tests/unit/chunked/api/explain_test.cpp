// explain(), to_svg() and visualize() tell what a plan would do and how an array is cut.
#include "quarry/chunked/api/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"
#include "tests/support/cpu_chunks.h"
#include "tests/support/memory_dataset.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Explain : public testing::CpuChunks {};

size_t count_of(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST_F(Explain, NamesStagesWhatTheyReadAndWhatWaits) {
  const Array x = ones({1000, 8}).rechunk({100, 8});
  const Array z = x - mean(x, 0);
  const std::string text = explain(std::vector<Array>{matmul(z.T(), z), z});
  EXPECT_THAT(text, HasSubstr("result Array(shape=(8, 8), dtype=float64"));
  EXPECT_THAT(text, HasSubstr("result Array(shape=(1000, 8)"));
  EXPECT_THAT(text, HasSubstr("syrk"));
  EXPECT_THAT(text, HasSubstr("stage 0 reads nothing; what follows waits for all of its chunks"));
  EXPECT_THAT(text, HasSubstr("stage 1 reads stage 0"));
  for (const char* word :
       {"chunks: ", "tasks: ", "reads: ", "writes: ", "passes: cse ", "least budget: ", "given budget: "})
    EXPECT_THAT(text, HasSubstr(word));
}

TEST_F(Explain, SaysWhatPassesChanged) {
  const Array x = ones({1000, 8}).rechunk({100, 8}), y = map_blocks([](const NdArray&chunk) { return chunk; }, x + 1);
  const std::string text = explain(y[{Slice{1, {}, {}}}] - y[{Slice{{}, -1, {}}}] + 0 * (x[0] + x[0]));
  EXPECT_THAT(text, HasSubstr("\npass cse: "));
  EXPECT_THAT(text, HasSubstr("\npass offsets: 2 views that begin elsewhere are read in windows, "));
  EXPECT_THAT(text, HasSubstr("\npass prologues: 1 elementwise stage runs in the tasks of the operators that read it"));
}

TEST_F(Explain, ProductsReadPersistedArraysWhereTheyLie) {
  const Array x = arange(8000.).reshape({1000, 8}), kept = x.persist();
  const std::string text = explain(std::vector<Array>{matmul(kept.T(), kept), matmul(kept, ones({8, 3}).persist())});
  EXPECT_THAT(text, HasSubstr("  0  syrk "));
  EXPECT_THAT(text, HasSubstr("  1  matmul "));
  EXPECT_THAT(text, HasSubstr("stage 0 reads stored (1000, 8)"));
  EXPECT_THAT(matmul(kept.T(), kept).to_host().to_string(), matmul(x.T(), x).to_host().to_string());
}

TEST_F(Explain, AnArrayThatNoMemoryHolds) {
  const Array x = zeros({1000000, 1000000});
  EXPECT_EQ(x.size(), 1000000000000);
  EXPECT_THAT(explain(x[{Slice{0, 10, {}}}] + 1), HasSubstr("(10, 1000000) in "));
  const std::string drawing = to_svg(x);
  EXPECT_THAT(drawing, HasSubstr("1000000"));
  EXPECT_LT(drawing.size(), 20000u);
}

TEST_F(Explain, DrawsTheChunksOfAnArray) {
  const std::string square = to_svg(zeros({6, 4}).rechunk({2, 4}), 100);
  EXPECT_TRUE(square.starts_with("<svg xmlns"));
  EXPECT_EQ(count_of(square, "<polygon"), 1u);
  EXPECT_EQ(count_of(square, "<line"), 2u);  // two cuts of the rows
  EXPECT_THAT(square, HasSubstr("3 chunks"));
  const std::string cube = to_svg(zeros({4, 6, 8}).rechunk({2, 2, 8}));
  EXPECT_EQ(count_of(cube, "<polygon"), 3u);
  EXPECT_EQ(count_of(cube, "<line"), 2u + 3u + 1u);  // front: rows; side: both; top: depth
  EXPECT_THAT(to_svg(zeros({2, 3, 4, 5, 6})), HasSubstr("(2, 3) such boxes"));
  // Awkward ones.
  EXPECT_THAT(to_svg(zeros({})), HasSubstr("1 chunk<"));
  EXPECT_THAT(to_svg(zeros({0, 3})), HasSubstr("1 chunk<"));
  EXPECT_THAT(to_svg(zeros({5}, DType::int8).rechunk({1})), HasSubstr("5 chunks"));
  EXPECT_EQ(count_of(to_svg(zeros({100000}).rechunk({1})), "<line"), 39u);
  EXPECT_THROW(to_svg(zeros({2}), 0), local::InvalidArgument);
}

TEST_F(Explain, DrawsThePlan) {
  const test::TempDir folder;
  const Array x = ones({1000, 8}).rechunk({100, 8});
  const std::string file = folder / "plan.svg";
  visualize((x < 3) & (x - mean(x, 0) > 0), file);
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(text, plan_svg(std::vector<Array>{(x < 3) & (x - mean(x, 0) > 0)}));
  EXPECT_EQ(count_of(text, "<polygon"), 2u);
  EXPECT_EQ(count_of(text, "<line"), 1u);
  EXPECT_EQ(count_of(text, "stroke-width=\"3\""), 1u);  // the mean is waited for
  const Array data(expr::source(std::make_shared<testing::MemoryDataset>("/a<b", Dims{8}, DType::float64)));
  const std::string drawing = plan_svg(std::vector<Array>{data + 1});
  EXPECT_EQ(count_of(drawing, "<polygon"), 2u);
  EXPECT_THAT(drawing, HasSubstr("/a&lt;b"));
  EXPECT_THAT(drawing, Not(HasSubstr("a<b")));
  EXPECT_THROW(visualize(x, folder / "no/such/folder.svg"), local::IoError);
  EXPECT_FALSE(std::filesystem::exists(file + ".partial"));
}

}  // namespace
}  // namespace quarry
