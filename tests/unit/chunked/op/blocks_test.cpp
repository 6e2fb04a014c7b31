// What functions of chunks see, and what is said about their mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/local.h"

namespace quarry {
namespace {

namespace ops = local::ops;
using local::InvalidArgument;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Array numbers(const Dims& shape, const Dims& chunk) {
  const int64_t n = local::element_count(shape);
  return Array::from_local(ops::arange(n).astype(DType::float64).reshape(shape)).rechunk(chunk);
}

NdArray same(const NdArray& a) { return a; }

RuntimeOptions in(const char* memory) {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = memory;
  options.threads = 2;
  return options;
}

TEST(MapBlocks, TellsTheFunctionItsPlace) {
  const Array x = numbers({5, 4}, {2, 3});
  const Array place = map_blocks(
      [](const NdArray& a, const ChunkPlace& place) {
        EXPECT_EQ(place.arguments[0].start, place.outputs[0].start);
        EXPECT_EQ(place.outputs[0].count, a.shape());
        EXPECT_EQ(place.chunk, place.coordinates[0] * place.counts[1] + place.coordinates[1]);
        return ops::full(a.shape(), static_cast<double>(place.chunk));
      },
      x);
  EXPECT_EQ(place.to_host().to_string(),
            "[[0. 0. 0. 1.]\n [0. 0. 0. 1.]\n [2. 2. 2. 3.]\n [2. 2. 2. 3.]\n [4. 4. 4. 5.]]");
}

TEST(MapBlocks, AFunctionThatThrowsIsNamedWithItsChunk) {
  const Array x = numbers({6}, {2});
  const Array y = map_blocks(
      [](const NdArray& a, const ChunkPlace& place) -> NdArray {
        if (place.chunk == 1) throw local::IndexError("no such element");
        return a;
      },
      x, {}, {.name = "picks", .dtypes = {DType::float64}});
  EXPECT_THAT([&] { y.to_host(); }, ThrowsMessage<local::IndexError>(AllOf(HasSubstr("picks"), HasSubstr("chunk (1,)"),
                                                                           HasSubstr("no such element"))));
}

TEST(MapBlocks, ResultsOfAnotherShapeOrDtypeAreRefusedWithBoth) {
  const Array x = numbers({6}, {2});
  const Array longer = map_blocks(
      [](const NdArray& a) {
        return ops::concatenate({a, a});
      },
      x, {}, {.name = "doubles", .dtypes = {DType::float64}});
  EXPECT_THAT([&] { longer.to_host(); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("doubles"), HasSubstr("(4,)"), HasSubstr("(2,)"))));
  const Array other = map_blocks(same, x, {}, {.dtypes = {DType::int64}});
  EXPECT_THAT([&] { other.to_host(); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("float64"), HasSubstr("int64"))));
}

TEST(MapBlocks, ADtypeThatCannotBeFoundHasToBeGiven) {
  const auto fails = [](const NdArray&) -> NdArray { throw InvalidArgument("only for long arrays"); };
  EXPECT_THAT([&] { map_blocks(fails, numbers({4}, {2}), {}, {.name = "picky"}); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("picky"), HasSubstr("only for long arrays"))));
}

TEST(MapBlocks, ShapesThatDoNotFitAreRefused) {
  EXPECT_THROW(map_blocks([](const NdArray& a, const NdArray&) { return a; }, {numbers({4}, {2}), numbers({5}, {2})}),
               InvalidArgument);
  EXPECT_THROW(map_blocks(same, numbers({4}, {2}), {.chunks = Grid::single({4})}), InvalidArgument);
  EXPECT_THROW(map_blocks([](const NdArray& a, const NdArray&) { return a; }, {numbers({4}, {2})}), InvalidArgument);
}

TEST(MapBlocks, AFunctionThatTakesTooMuchIsToldHowMuchItHas) {
  const Array y = map_blocks([](const NdArray& a) { return ops::add(a, 1.0); }, numbers({1000}, {1000}), {},
                             {.name = "adds", .dtypes = {DType::float64}, .scratch_bytes = 512});
  EXPECT_THAT([&] { y.to_host(); },
              ThrowsMessage<local::OutOfMemory>(AllOf(HasSubstr("adds"), HasSubstr("8000 bytes"), HasSubstr("512"))));
}

// Twenty arrays at once are more than the estimate has; a trial finds them.
TEST(MapBlocks, ATrialFindsWhatTheFunctionTakes) {
  const Array x = numbers({300, 300}, {150, 300});
  const auto many = [](const NdArray& a) {
    std::vector<NdArray> all;
    for (int i = 0; i < 20; ++i) all.push_back(ops::add(a, i));
    NdArray sum = all[0];
    for (size_t i = 1; i < all.size(); ++i) sum = ops::add(sum, all[i]);
    return sum;
  };
  EXPECT_THROW(map_blocks(many, x).to_host(), local::OutOfMemory);
  const NdArray sums = map_blocks(many, x, {}, {.by_trial = true}).to_host();
  EXPECT_TRUE(ops::array_equal(sums, ops::add(ops::multiply(x.to_host(), 20), 190)));
  const Array arrays[] = {x};
  const auto like = [](std::span<const Array> given) {
    return std::vector<LocalResult>{{given[0].shape(), given[0].dtype()}};
  };
  const auto whole = [&](std::span<const NdArray> given) { return std::vector<NdArray>{many(given[0])}; };
  EXPECT_THROW(local_call("many", arrays, like, whole)[0].to_host(), local::OutOfMemory);
  EXPECT_TRUE(ops::array_equal(local_call("many", arrays, like, whole, {.by_trial = true})[0].to_host(), sums));
}

// What reads values cannot be tried: it gets the estimate.
TEST(MapBlocks, ATrialThatNeedsValuesIsAnEstimate) {
  const Array x = numbers({6}, {2});
  const Array y = map_blocks([](const NdArray& a) { return ops::multiply(a, ops::max(a).item<double>()); }, x, {},
                             {.by_trial = true});
  EXPECT_EQ(y.to_host().to_string(), "[ 0.  1.  6.  9. 20. 25.]");
}

TEST(MapBlocks, EqualIdentitiesAreComputedOnce) {
  const Array x = numbers({4}, {2});
  std::atomic<int> calls{0};
  const auto counts = [&calls](const NdArray& a, const ChunkPlace&) {
    ++calls;
    return a;
  };
  const BlockOptions known{.dtypes = {DType::float64}, .identity = 7};
  const std::vector<Array> equal{map_blocks(counts, x, {}, known), map_blocks(counts, x, {}, known)};
  EXPECT_EQ(equal[0].node()->hash, equal[1].node()->hash);
  to_host(equal);
  EXPECT_EQ(calls, 2);  // chunks
  const BlockOptions unknown{.dtypes = {DType::float64}};
  EXPECT_NE(map_blocks(counts, x, {}, unknown).node()->hash, map_blocks(counts, x, {}, unknown).node()->hash);
}

TEST(MapOverlap, TheDepthMayExceedChunks) {
  const Array x = numbers({9}, {1});
  const Array sums =
      map_overlap([](const NdArray& a) { return ops::sum(a, {}, {.keepdims = true}); }, x,
                  {.depth = {3}, .boundary = {{Edge::constant, 100}}, .trim = false}, {.dtypes = {DType::float64}});
  EXPECT_EQ(sums.to_host().to_string(), "[306. 210. 115.  21.  28.  35. 133. 230. 326.]");
}

TEST(MapOverlap, RefusesADepthThatTheBoundaryForbids) {
  EXPECT_THAT([] { map_overlap(same, numbers({3}, {1}), {.depth = {4}, .boundary = {{Edge::periodic}}}); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("depth 4"), HasSubstr("3 elements"))));
  EXPECT_THROW(map_overlap(same, numbers({3}, {1}), {.depth = {-1}}), InvalidArgument);
  EXPECT_THROW(map_overlap(same, numbers({3, 3}, {1, 1}), {.depth = {1, 1, 1}}), InvalidArgument);
}

TEST(Gufunc, SignaturesAreReadWithThePlaceOfErrors) {
  const Array x = numbers({4, 3}, {2, 2});
  const auto call = [&](const char* signature) { apply_gufunc(same, signature, {x}); };
  EXPECT_THAT([&] { call("(i)->(i"); }, ThrowsMessage<InvalidArgument>(HasSubstr("position 7 of '(i)->(i'")));
  EXPECT_THAT([&] { call("i->()"); }, ThrowsMessage<InvalidArgument>(HasSubstr("position 0")));
  EXPECT_THAT([&] { call("(i)>()"); }, ThrowsMessage<InvalidArgument>(HasSubstr("position 3")));
  EXPECT_THAT([&] { call("(i),(j)->()"); }, ThrowsMessage<InvalidArgument>(HasSubstr("2 arrays")));
  EXPECT_THAT([&] { call("(i,i)->()"); }, ThrowsMessage<InvalidArgument>(HasSubstr("4 and 3 elements")));
  EXPECT_THAT([&] { call("(i)->(k)"); }, ThrowsMessage<InvalidArgument>(HasSubstr("output_sizes")));
}

TEST(Blockwise, IndicesAreChecked) {
  const Array x = numbers({4, 3}, {2, 2});
  EXPECT_THROW(blockwise(same, "ij", {{x, "i"}}), InvalidArgument);
  EXPECT_THROW(blockwise(same, "ik", {{x, "ij"}}), InvalidArgument);
  EXPECT_THROW(blockwise(same, "ii", {{x, "ij"}}), InvalidArgument);
  EXPECT_THROW(blockwise([](const NdArray& a, const NdArray&) { return a; }, "ij", {{x, "ij"}, {x, "ji"}}),
               InvalidArgument);
}

std::vector<Array> flipped(const Array& x) {
  return local_call(
      "flips", std::span(&x, 1),
      [](std::span<const Array> given) {
        return std::vector<LocalResult>{{given[0].shape(), given[0].dtype()}};
      },
      [](std::span<const NdArray> given) { return std::vector<NdArray>{ops::flip(given[0])}; });
}

TEST(LocalCall, TakesSeveralChunksThatFitATask) {
  const Runtime runtime(in("64MiB"));
  EXPECT_EQ(flipped(numbers({5}, {2}))[0].to_host().to_string(), "[4. 3. 2. 1. 0.]");
  EXPECT_EQ(flipped(numbers({5}, {2})[{local::Slice{4, {}, -2}}])[0].to_host().to_string(), "[0. 2. 4.]");
}

TEST(LocalCall, SaysThatLargerArraysAreForLater) {
  const Runtime runtime(in("8MiB"));
  EXPECT_THAT([] { flipped(zeros({1 << 20}).rechunk({1 << 15}))[0].to_host(); },
              ThrowsMessage<local::NotSupported>(
                  AllOf(HasSubstr("flips works on arrays of one chunk for now"), HasSubstr("16.0 MiB"))));
}

TEST(Plan, NamesTheOperatorOfAStage) {
  const Array y = map_blocks(same, numbers({6}, {2}), {}, {.name = "same", .dtypes = {DType::float64}});
  const plan::Plan plan = plan::make_plan({y.node()}, {});
  EXPECT_THAT(plan::describe(plan), HasSubstr("same"));
  ASSERT_EQ(plan.stages.size(), 1u) << plan::describe(plan);  // it reads the stored array as it is
  EXPECT_FALSE(plan.stages[0].is_barrier(0));
}

}  // namespace
}  // namespace quarry
