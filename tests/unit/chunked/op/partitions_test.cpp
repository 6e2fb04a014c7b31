// Chunks by their numbers, points, and chunks reshaped one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"

namespace quarry {
namespace {

namespace ops = local::ops;
using local::IndexError;
using local::InvalidArgument;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

AxisChunks cuts(const std::vector<int64_t>& extents) { return AxisChunks(extents); }

TEST(Vindex, AxesOfArraysComeFirst) {
  const Array x = reshape(Array::from_local(ops::arange(60)), {3, 4, 5}).rechunk({2, 3, 4});
  const NdArray whole = ops::arange(60).reshape(3, 4, 5);
  const NdArray i{0, 2}, j{1, 3};
  EXPECT_EQ(vindex(x, {Slice{}, i, j}).shape(), (Dims{2, 3}));
  EXPECT_EQ(vindex(x, {Slice{}, i, j}).to_host().to_string(), NdArray(whole(Slice{}, i, j)).T().copy().to_string());
  EXPECT_EQ(vindex(x, {i, Slice{}, j}).to_host().to_string(), NdArray(whole(i, Slice{}, j)).to_string());
  EXPECT_EQ(vindex(x, {0, Slice{1, 2, {}}}).shape(), (Dims{1, 5}));
  EXPECT_THROW(vindex(x, {Slice{}, NdArray{4}, NdArray{0}}), IndexError);
}

TEST(Blocks, AreChosenByNumbersOfChunks) {
  const Array x = reshape(Array::from_local(ops::arange(42)), {6, 7}).rechunk(Grid({cuts({1, 3, 2}), cuts({4, 3})}));
  const NdArray whole = ops::arange(42).reshape(6, 7);
  EXPECT_EQ(blocks(x, {1}).to_host().to_string(), NdArray(whole("1:4"_s)).to_string());
  EXPECT_EQ(blocks(x, {-1, 0}).to_host().to_string(), NdArray(whole("4:"_s, ":4"_s)).to_string());
  EXPECT_EQ(blocks(x, {local::ellipsis, 1}).shape(), (Dims{6, 3}));
  const Array turned = blocks(x, {Slice{{}, {}, -1}});
  EXPECT_EQ(turned.chunks().axis(0), cuts({2, 3, 1}));
  EXPECT_EQ(turned.to_host().to_string(),
            ops::concatenate({whole("4:"_s), whole("1:4"_s), whole(":1"_s)}, 0).to_string());
  const Array listed = blocks(x, {NdArray{0, 2, 2, 0}, Slice{0, 1, {}}});
  EXPECT_EQ(listed.chunks().axis(0), cuts({1, 2, 2, 1}));
  EXPECT_EQ(listed.shape(), (Dims{6, 4}));
  EXPECT_EQ(partitions(x, {NdArray{true, false, true}}).shape(), (Dims{3, 7}));
  EXPECT_EQ(blocks(x, {Slice{2, 1, {}}}).shape(), (Dims{0, 7}));
  EXPECT_THAT(
      [&] {
        blocks(x, {0, 2});
      },
      ThrowsMessage<IndexError>(HasSubstr("index 2 is out of bounds for axis 1 with 2 chunks")));
  EXPECT_THROW(blocks(x, {0, 0, 0}), IndexError);
  EXPECT_THROW(blocks(x, {NdArray{0}, NdArray{0}}), IndexError);
  EXPECT_THROW(blocks(x, {local::newaxis}), IndexError);
}

TEST(ReshapeBlockwise, KeepsEveryElementInItsChunk) {
  const Array x = reshape(Array::from_local(ops::arange(12)), {3, 4}).rechunk({2, 3});
  const Array flat = reshape_blockwise(x, {12});
  EXPECT_EQ(flat.chunks().axis(0), cuts({6, 2, 3, 1}));
  EXPECT_EQ(flat.to_host().to_string(), "[ 0  1  2  4  5  6  3  7  8  9 10 11]");
  EXPECT_EQ(reshape_blockwise(flat, {3, 4}, x.chunks()).to_host().to_string(), x.to_host().to_string());
  EXPECT_EQ(reshape_blockwise(zeros({0, 3}).rechunk({1, 1}), {0}).shape(), (Dims{0}));
  EXPECT_THROW(reshape_blockwise(x, {6, 2}), InvalidArgument);
  EXPECT_THROW(reshape_blockwise(x, {13}), InvalidArgument);
  EXPECT_THROW(reshape_blockwise(x, {12}, Grid::single({12})), InvalidArgument);
}

}  // namespace
}  // namespace quarry
