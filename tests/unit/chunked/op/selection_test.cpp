// Scans and selections at their edges: mistakes, sizes, and what is computed when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/local/local.h"

namespace quarry {
namespace {

namespace ops = local::ops;
using local::IndexError;
using local::InvalidArgument;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Array numbers(int64_t n, int64_t chunk) { return Array::from_local(ops::arange(n)).rechunk({chunk}); }

TEST(Select, WrongMasksAreRefusedBeforeAnythingRuns) {
  const Array x = numbers(6, 2);
  EXPECT_THAT([&] { x[numbers(5, 2) > 2]; },
              ThrowsMessage<IndexError>(AllOf(HasSubstr("axis 0"), HasSubstr("is 6"), HasSubstr("is 5"))));
  EXPECT_THROW(boolean_index(x, numbers(6, 2)), local::TypeError);
  EXPECT_THROW(boolean_index(x, reshape(x, {2, 3}) > 1), IndexError);
  EXPECT_THROW(compress(reshape(x, {2, 3}) > 1, x), InvalidArgument);
  EXPECT_THAT([&] { compress(numbers(9, 2) > 7, x); },
              ThrowsMessage<IndexError>(AllOf(HasSubstr("index 8"), HasSubstr("size 6"))));
  EXPECT_THROW(nonzero(numbers(6, 2)[0]), InvalidArgument);
}

TEST(Select, SizesAreKnownAndResultsLazy) {
  const Array x = numbers(100, 7);
  const Array some = x[x % 10 == 3];
  EXPECT_EQ(some.shape(), (Dims{10}));
  EXPECT_EQ((some * 2).to_host().to_string(), "[  6  26  46  66  86 106 126 146 166 186]");
  const Array none = x[x < 0];
  EXPECT_EQ(none.shape(), (Dims{0}));
  EXPECT_EQ(none.to_host().shape(), (Dims{0}));
  EXPECT_EQ(none.dtype(), DType::int64);
}

TEST(Select, FewElementsOfManyChunksAreJoined) {
  const Array x = numbers(4000, 10);
  const Array some = x[x % 400 == 0];
  EXPECT_EQ(some.size(), 10);
  EXPECT_LE(some.chunks().count(), 2);
  EXPECT_EQ(sum(some).to_host().item<int64_t>(), 400 * 45);
}

TEST(Take, PositionsOutsideAreNamed) {
  const Array x = numbers(6, 2);
  EXPECT_THAT([&] { take(x, ops::full({2}, int64_t{-7}), 0); },
              ThrowsMessage<IndexError>(HasSubstr("index -7 is out of bounds for axis 0 with size 6")));
  EXPECT_THAT([&] { x[numbers(8, 3)]; }, ThrowsMessage<IndexError>(HasSubstr("index 6")));
  EXPECT_THROW(take(x, ops::full({2}, 1.5)), local::TypeError);
  EXPECT_THROW(take(x, ops::full({2}, int64_t{0}), 1), IndexError);
  EXPECT_THROW(take_along_axis(reshape(x, {2, 3}), numbers(3, 3)), InvalidArgument);
  EXPECT_THAT([&] { take_along_axis(x, numbers(8, 3), 0).to_host(); },
              ThrowsMessage<IndexError>(AllOf(HasSubstr("6"), HasSubstr("take_along_axis"))));
}

// What a chunk of the result reads are its own elements, wherever they are.
TEST(Take, PositionsInAnyOrderNeedNoWholeLine) {
  constexpr int64_t n = 1000;
  const NdArray positions = ops::remainder(ops::multiply(ops::arange(n), 79), n);
  const Array x = arange(n).rechunk({100}), taken = take(x, positions, 0);
  EXPECT_EQ(sum(taken != Array::from_local(positions)).item<int64_t>(), 0);
  const auto* applied = taken.node()->as<expr::Apply>();
  ASSERT_NE(applied, nullptr);
  const op::Call call{expr::specs_of(applied->args), applied->outputs};
  for (int64_t chunk = 0; chunk < taken.chunks().count(); ++chunk) {
    std::vector<op::Need> needs;
    applied->op->needs(call, chunk, needs);
    int64_t elements = 0;
    for (const op::Need& need : needs) elements += need.box.elements();
    EXPECT_EQ(elements, taken.chunks().chunk_elements(chunk));
  }
}

TEST(Take, ReadsOnlyTheChunksThatItNeeds) {
  // A function that counts its chunks stands before it.
  std::atomic<int> chunks{0};
  const Array x = map_blocks(
      [&chunks](const NdArray& a) {
        ++chunks;
        return a;
      },
      numbers(100, 10), {}, {.dtypes = {DType::int64}});
  const Array kept = x.persist();
  EXPECT_EQ(chunks, 10);
  EXPECT_EQ(take(kept, NdArray{3, 95, 4, 95}, 0).to_host().to_string(), "[ 3 95  4 95]");
  EXPECT_EQ(chunks, 10);
}

TEST(Settle, GivesValuesAndKeepsArraysInOnePlan) {
  std::atomic<int> chunks{0};
  const Array x = map_blocks(
      [&chunks](const NdArray& a) {
        ++chunks;
        return a;
      },
      numbers(6, 2), {}, {.dtypes = {DType::int64}, .identity = 3});
  const Array values[] = {sum(x), x[{local::Slice{{}, {}, 2}}]};
  const Settled settled = settle(values, std::span(&x, 1));
  EXPECT_EQ(settled.values[0].item<int64_t>(), 15);
  EXPECT_EQ(settled.values[1].to_string(), "[0 2 4]");
  EXPECT_EQ(settled.kept[0].to_host().to_string(), "[0 1 2 3 4 5]");
  EXPECT_EQ(chunks, 3);
}

TEST(Scan, AxesAndDtypesAreChecked) {
  const Array x = numbers(6, 2);
  EXPECT_THROW(cumsum(x, 1), IndexError);
  EXPECT_THROW(cumulative_sum(reshape(x, {2, 3})), InvalidArgument);
  EXPECT_THROW(push(x, -1), InvalidArgument);
  EXPECT_EQ(cumsum(x[0]).shape(), (Dims{1}));
  EXPECT_EQ(cumsum(x > 2).dtype(), DType::int64);
  EXPECT_EQ(cumsum(x, 0, DType::float32).dtype(), DType::float32);
}

TEST(Scan, TheFirstChunkKeepsItsBits) {
  const Array x = Array::from_local(local::from_vector<double>({-0.0, -0.0, -0.0, 1})).rechunk({2});
  EXPECT_TRUE(std::signbit(cumsum(x).to_host().copy().data<const double>()[0]));
  EXPECT_TRUE(std::signbit(cumsum(x).to_host().copy().data<const double>()[2]));
}

class ScanOn : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no device of kind " << local::name(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(All, ScanOn,
                         ::testing::Values(local::DeviceKind::cpu, local::DeviceKind::emulated,
                                           local::DeviceKind::cuda),
                         [](const auto& info) { return std::string(local::name(info.param)); });

// Totals are the last elements of the chunks' scans, whatever makes them; carries are their scan. Bit for bit.
TEST_P(ScanOn, BitsAreThoseOfTheChunksScans) {
  struct Case {
    Dims shape;
    int axis;
    std::vector<int64_t> ends;
    DType from, dtype;
    bool products = false, backwards = false;
  };
  const Case cases[] = {
      {{100000}, 0, {1, 40000, 40070, 99000, 100000}, DType::float64, DType::float64},
      {{100000}, 0, {1, 40000, 40070, 99000, 100000}, DType::float64, DType::float64, false, true},
      {{90000}, 0, {80000, 80001, 90000}, DType::float32, DType::float64},
      {{3000}, 0, {64, 1500, 3000}, DType::float16, DType::float16},
      {{900, 33}, 0, {1, 300, 365, 900}, DType::float64, DType::float64},
      {{900, 33}, 0, {1, 300, 365, 900}, DType::float32, DType::float32, true},
      {{33, 900}, 1, {1, 300, 365, 900}, DType::float64, DType::float64},
      {{4, 700, 5}, 1, {100, 650, 700}, DType::complex128, DType::complex128},
      {{5, 40000}, 1, {39000, 40000}, DType::float64, DType::float32, true},
  };
  RuntimeOptions options;
  options.device = GetParam();
  options.memory = "64MiB";
  const Runtime runtime(options);
  const auto bits = [](const NdArray& a) {
    return local::to_vector<uint8_t>(a.copy().view(DType::uint8).reshape({-1}));
  };
  const local::DeviceScope scope(local::Device{GetParam(), 0});
  for (const Case& c : cases) {
    SCOPED_TRACE(local::to_string(c.shape) + (c.products ? " products" : " sums") + (c.backwards ? " backwards" : ""));
    const NdArray positions = ops::arange(local::element_count(c.shape)).astype(DType::float64).reshape(c.shape);
    NdArray x = (ops::sin(positions) * 0.01 + (c.products ? 1.0 : 0.0)).astype(c.from);
    if (c.from == DType::float64 && !c.products) x.reshape({-1})[{local::Slice{-7, -6, {}}}].fill(local::nan);
    if (c.backwards) x = x[{local::Slice{{}, {}, -1}}];
    const auto part = [axis = c.axis](const NdArray& a, int64_t start, int64_t stop) {
      std::vector<local::IndexItem> index(static_cast<size_t>(axis), local::IndexItem(local::full_slice));
      index.emplace_back(local::Slice{start, stop, {}});
      return a[index];
    };
    const auto scan = [&c](const NdArray& a) {
      return c.products ? ops::cumprod(a, c.axis, c.dtype) : ops::cumsum(a, c.axis, c.dtype);
    };
    std::vector<NdArray> scans, totals;
    int64_t start = 0;
    for (const int64_t end : c.ends) {
      scans.push_back(scan(part(x, start, end).copy()));
      totals.push_back(part(scans.back(), end - start - 1, end - start));
      start = end;
    }
    const NdArray carries = scan(ops::concatenate(totals, c.axis));
    for (size_t i = 1; i < scans.size(); ++i) {
      const auto at = static_cast<int64_t>(i) - 1;
      scans[i] = local::apply(c.products ? "multiply"_op : "add"_op, {part(carries, at, at + 1), scans[i]}, c.dtype);
    }
    const NdArray expected = ops::concatenate(scans, c.axis);

    std::vector<AxisChunks> axes;
    for (const int64_t extent : c.shape) axes.emplace_back(extent, extent);
    std::vector<int64_t> lengths;
    for (size_t i = 0; i < c.ends.size(); ++i) lengths.push_back(c.ends[i] - (i > 0 ? c.ends[i - 1] : 0));
    axes[static_cast<size_t>(c.axis)] = AxisChunks(lengths);
    const Array chunked = Array::from_local(x).rechunk(Grid(axes));
    const NdArray got = (c.products ? cumprod(chunked, c.axis, c.dtype) : cumsum(chunked, c.axis, c.dtype)).to_host();
    ASSERT_EQ(got.dtype(), expected.dtype());
    EXPECT_EQ(bits(got), bits(expected));
  }
}

// Large chunks are scanned in segments on a device: whole numbers, so that every grouping gives the same.
TEST_P(ScanOn, LargeChunksGiveTheScan) {
  struct Case {
    Dims shape;
    int axis;
    std::vector<int64_t> ends;
    DType from, dtype;
  };
  const int64_t n = 1 << 18;
  const Case cases[] = {
      {{2 * n + 77}, 0, {n, 2 * n, 2 * n + 77}, DType::float64, DType::float64},
      {{2 * n + 77}, 0, {n + 1, 2 * n + 77}, DType::int32, DType::int64},
      {{9001, 64}, 0, {4096, 4097, 9001}, DType::float32, DType::float64},
      {{3, 2 * n + 5}, 1, {n, 2 * n, 2 * n + 5}, DType::float64, DType::float64},
      {{3, 5000, 40}, 1, {2500, 5000}, DType::float64, DType::float64},
  };
  RuntimeOptions options;
  options.device = GetParam();
  options.memory = "256MiB";
  const Runtime runtime(options);
  const local::DeviceScope scope(local::Device{GetParam(), 0});
  for (const Case& c : cases) {
    SCOPED_TRACE(local::to_string(c.shape) + ", axis " + std::to_string(c.axis));
    const NdArray positions = ops::arange(local::element_count(c.shape)).reshape(c.shape);
    const NdArray x = ((positions * 7919) % 101 - 40).astype(c.from);
    std::vector<AxisChunks> axes;
    for (const int64_t extent : c.shape) axes.emplace_back(extent, extent);
    std::vector<int64_t> lengths;
    for (size_t i = 0; i < c.ends.size(); ++i) lengths.push_back(c.ends[i] - (i > 0 ? c.ends[i - 1] : 0));
    axes[static_cast<size_t>(c.axis)] = AxisChunks(lengths);
    const Array chunked = Array::from_local(x).rechunk(Grid(axes)).persist();
    const NdArray got = cumsum(chunked, c.axis, c.dtype).to_host();
    EXPECT_EQ(got.dtype(), c.dtype);
    EXPECT_TRUE(ops::array_equal(got, ops::cumsum(x, c.axis, c.dtype).to(got.device())));
  }
}

TEST(Scan, InfinitiesThatCancelBetweenChunksAreNan) {
  const Array x = Array::from_local(local::from_vector<double>({local::inf, -local::inf, 1, local::nan})).rechunk({1});
  const NdArray whole = ops::nancumsum(local::from_vector<double>({local::inf, -local::inf, 1, local::nan}));
  EXPECT_EQ(nancumsum(x).to_host().to_string(), whole.to_string());
}

// Positions are eight times as large as these elements, and count as scratch.
TEST(Select, PositionsOfNarrowElementsHaveTheirScratch) {
  constexpr int64_t n = 1 << 20;
  const NdArray whole = ops::remainder(ops::arange(n), 100).astype(DType::int8);
  const Array x = Array::from_local(whole).rechunk({n});
  EXPECT_EQ(x[x == 3].persist().size(), n / 100 + 1);
  EXPECT_EQ(flatnonzero(x != 3).persist().size(), n - n / 100 - 1);
  EXPECT_EQ(take(x, ops::arange(n - 1, -1, -1), 0)[n - 4].item<int64_t>(), 3);
  EXPECT_EQ(take_along_axis(x, Array::from_local(ops::arange(n)), 0)[3].item<int64_t>(), 3);
  EXPECT_EQ(push(x.astype(DType::float16))[3].item<double>(), 3);
  EXPECT_EQ(push(x.astype(DType::float32).rechunk({n / 2}))[3].item<double>(), 3);
}

TEST(OperatorHash, EveryParameterCounts) {
  const Array x = Array::from_local(ops::ones({4, 4})).rechunk({2, 2});
  const NdArray forward{0, 1, 2}, backward{2, 1, 0};
  const Array taps = Array::from_local(forward);
  const std::vector<Array> calls{
      reshape(x, {2, 8}),
      reshape(x, {8, 2}),
      concatenate({x, x}, 0),
      concatenate({x, x}, 1),
      linalg::eigh(x, local::Triangle::lower).eigenvalues,
      linalg::eigh(x, local::Triangle::lower).eigenvectors,
      linalg::eigh(x, local::Triangle::upper).eigenvalues,
      cumsum(x, 0),
      cumsum(x, 1),
      cumsum(x, 0, DType::float32),
      cumprod(x, 0),
      nancumsum(x, 0),
      push(x, {}, 0),
      push(x, {}, 1),
      take(x, forward, 0),
      assigned(x, {Slice{0, 2, {}}}, ops::ones({2, 4})),
      assigned(x, {Slice{1, 3, {}}}, ops::ones({2, 4})),
      assigned(x, {Slice{0, 4, 2}}, ops::ones({2, 4})),
      assigned(x, {forward}, ops::ones({3, 4})),
      assigned(x, {NdArray{0, 1, 3}}, ops::ones({3, 4})),
      assigned(x, {Slice{}, forward}, ops::ones({4, 3})),
      put_along_axis(x, Array::from_local(ops::zeros({4, 1}, DType::int64)), 1, 1),
      put_along_axis(x, Array::from_local(ops::zeros({1, 4}, DType::int64)), 1, 0),
      reshape_blockwise(x, {16}),
      reshape_blockwise(x, {4, 4}, Grid::regular({4, 4}, {2, 2})),
      take(x, backward, 0),
      take(x, forward, 1),
      sliding_window_view(x, {2}, 0),
      sliding_window_view(x, {2}, 1),
      sliding_window_view(x, {3}, 1),
      sort(x, 0),
      sort(x, 1),
      sort(x, 0, "stable"),
      argsort(x, 0),
      partition(x, 1, 0),
      partition(x, 2, 0),
      argpartition(x, 1, 0),
      lexsort({x}, 0),
      lexsort({x}, 1),
      lexsort({x, x}, 0),
      topk(x, 1, 0),
      topk(x, 2, 0),
      topk(x, 1, 1),
      topk(x, -1, 0),
      argtopk(x, 1, 0),
      interp(x, taps, taps),
      interp(x, taps, taps, 1.0),
      interp(x, taps, taps, {}, 1.0),
      interp(x, taps, taps, {}, {}, 1.0),
      isin(x, arange(40)),
      isin(x, arange(40), false, true),
      searchsorted(arange(40), x),
      searchsorted(arange(40), x, "right"),
      convolve(x[0], taps, "full"),
      convolve(x[0], taps, "same"),
      convolve(x[0], taps, "valid"),
      correlate(x[0], taps, "valid"),
  };
  std::set<uint64_t> hashes;
  for (const Array& call : calls) EXPECT_TRUE(hashes.insert(call.node()->hash).second) << expr::to_string(call.node());
  EXPECT_EQ(cumsum(x, 0).node()->hash, cumsum(x, 0).node()->hash);
  EXPECT_EQ(take(x, forward, 0).node()->hash, take(x, forward, 0).node()->hash);
}

}  // namespace
}  // namespace quarry
