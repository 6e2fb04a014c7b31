// Masked arrays of one process: what the oracle's chapter `ma` does not see. Handles, assignment, errors, one program
// per reduction.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "quarry/local/local.h"
#include "quarry/local/memory/allocation_count.h"

namespace quarry::local {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MaskedArray, WithoutAMaskItIsItsData) {
  const NdArray x{{1., 2.}, {3., 4.}};
  const ma::MaskedArray m = x;
  EXPECT_FALSE(m.mask_or_none());
  EXPECT_EQ(m.data().buffer(), x.buffer());
  EXPECT_EQ(m.filled().buffer(), x.buffer());  // nothing is copied
  EXPECT_FALSE((m + 1).mask_or_none());
  EXPECT_FALSE(m.sum().mask_or_none());
  EXPECT_FALSE(m.mask().any());
}

TEST(MaskedArray, OperatorsTakeArraysAndNumbersOnEitherSide) {
  const NdArray x{1., 2., 3.};
  const ma::MaskedArray m(x, NdArray{false, true, false});
  EXPECT_TRUE(array_equal((x + m).filled(0), NdArray{2., 0., 6.}));
  EXPECT_TRUE(array_equal((m - x).filled(9), NdArray{0., 9., 0.}));
  EXPECT_TRUE(array_equal((1 / m).filled(0), 1 / NdArray{1., inf, 3.}));
  EXPECT_TRUE(array_equal((m > 2).filled(false), NdArray{false, false, true}));
  EXPECT_EQ((m * ma::masked).is_masked(), true);
  EXPECT_EQ((m.astype(DType::float32) * 1.5).dtype(), DType::float32);  // numbers are weak
}

TEST(MaskedArray, AssignmentsWriteTheDataAndTheirOwnMask) {
  const NdArray data{1., 2., 3., 4.};
  const NdArray mask{false, true, false, false};
  ma::MaskedArray x(data, mask);
  const ma::MaskedArray before = x;
  x[0] = ma::masked;
  x[1] = 7;
  x(slice(2, none)) += 1;
  EXPECT_TRUE(array_equal(x.mask(), NdArray{true, false, false, false}));
  EXPECT_TRUE(array_equal(data, NdArray{1., 7., 4., 5.}));  // the data is shared, as NdArray's
  EXPECT_TRUE(array_equal(before.mask(), NdArray{false, true, false, false}));
  EXPECT_TRUE(array_equal(mask, NdArray{false, true, false, false}));
  x[data > 4.5] = ma::masked;
  EXPECT_EQ(x.count().item<int64_t>(), 1);
  x[std::vector<int64_t>{0, 1}] = ma::MaskedArray(NdArray{8., 9.}, NdArray{false, true});
  EXPECT_TRUE(array_equal(x.filled(-1), NdArray{8., -1., 4., -1.}));
  ma::MaskedArray plain = NdArray{1, 2};
  plain[0] = 5;
  EXPECT_FALSE(plain.mask_or_none());
  plain[1] = ma::masked;
  EXPECT_TRUE(array_equal(plain.filled(0), NdArray{5, 0}));
}

TEST(MaskedArray, OneElementConvertsUnlessItIsMasked) {
  const ma::MaskedArray x(NdArray{1., 2., 3.}, NdArray{false, true, false});
  EXPECT_EQ(x.sum().item<double>(), 4.0);
  EXPECT_EQ(double{x.mean()}, 2.0);
  const ma::MaskedArray nothing(NdArray{1., 2.}, NdArray{true, true});
  EXPECT_TRUE(std::isnan(nothing.max().item<double>()));
  EXPECT_THAT(error_of([&] { nothing.astype(DType::int32).max().item<int>(); }), HasSubstr("is masked"));
  EXPECT_THAT(error_of([&] { x.item<double>(); }), HasSubstr("size 1"));
}

TEST(MaskedArray, ErrorsNameShapesAndValues) {
  const NdArray x{{1., 2.}, {3., 4.}};
  EXPECT_THAT(error_of([&] { ma::MaskedArray(x, NdArray{true, false}); }), HasSubstr("mask of shape (2,)"));
  EXPECT_THAT(error_of([&] { ma::MaskedArray(x, x); }), HasSubstr("bool, not float64"));
  EXPECT_THAT(error_of([&] {
                ma::masked_array(x, NdArray{true, false, true});
              }),
              HasSubstr("data size is 4, mask size is 3"));
  EXPECT_THAT(error_of([&] {
                ma::masked_where(NdArray{true, false, true}, x);
              }),
              HasSubstr("Inconsistent shape between the condition and the input (got (3,) and (2,2))"));
  EXPECT_THAT(error_of([&] { ma::masked_array(x.astype(DType::int8), none, none, 300); }),
              HasSubstr("Cannot convert fill_value 300 to dtype int8"));
  EXPECT_THAT(error_of([&] { ma::masked_array(x, none, none, std::complex<double>(0, 1)); }),
              HasSubstr("Cannot convert fill_value"));
  EXPECT_THAT(error_of([&] { ma::masked_array(x.astype(DType::int32), none, none, nan); }),
              HasSubstr("fill_value nan"));
  EXPECT_THAT(error_of([&] {
                ma::MaskedArray(x, x > 1).filled(NdArray{1., 2., 3.});
              }),
              HasSubstr("could not be broadcast"));
  EXPECT_THAT(error_of([&] { ma::MaskedArray(x, x > 1).sum(2); }), HasSubstr("axis 2 is out of bounds"));
  EXPECT_THAT(error_of([&] { ma::MaskedArray(zeros({0}), zeros({0}, DType::bool_)).min(); }), HasSubstr("zero-size"));
}

TEST(MaskedArray, PrintsAsNumPy) {
  std::ostringstream text;
  text << ma::MaskedArray(NdArray{1.5, 2., 3.}, NdArray{false, true, false});
  EXPECT_EQ(text.str(), "[1.5 -- 3.0]");
  EXPECT_EQ(ma::masked_equal(NdArray{1, 2}, 2).repr(),
            "masked_array(data=[1, --],\n             mask=[False,  True],\n       fill_value=2)");
}

TEST(MaskedArray, WhatADataSetCallsMissing) {
  ma::MissingValues missing;
  missing.values = {Scalar(-999.0), Scalar(-1e30), Scalar(nan)};
  missing.least = Scalar(0);
  missing.most = Scalar(100);
  const NdArray x = NdArray{1., -999., nan, 50., 200., -5.}.astype(DType::float32);
  EXPECT_TRUE(array_equal(ma::masked_missing(x, missing).mask(), NdArray{false, true, true, false, true, true}));
  EXPECT_EQ(ma::masked_missing(x, missing).fill_value().as_double(), -999);
  // Values that the dtype does not have mask nothing.
  missing = {};
  missing.values = {Scalar(300), Scalar(1.5), Scalar(nan)};
  EXPECT_FALSE(ma::masked_missing(NdArray{1, 44}.astype(DType::uint8), missing).mask_or_none());
  missing.values = {Scalar(255)};
  missing.most = Scalar(1000);
  EXPECT_TRUE(
      array_equal(ma::masked_missing(NdArray{1, 255}.astype(DType::uint8), missing).mask(), NdArray{false, true}));
  EXPECT_FALSE(ma::masked_missing(x, {}).mask_or_none());
}

// Where nothing is masked, a masked array gives what its data gives.
TEST(MaskedArray, AnEmptyMaskChangesNoValue) {
  const NdArray x = sin(arange(60.)).reshape(3, 4, 5);
  const ma::MaskedArray m(x, zeros({3, 4, 5}, DType::bool_));
  for (const Axes& axis : {Axes(), Axes(0), Axes(2), Axes({0, 2})}) {
    EXPECT_TRUE(array_equal(m.sum(axis).filled(), x.sum(axis)));
    EXPECT_TRUE(array_equal(m.max(axis).filled(), x.max(axis)));
    EXPECT_TRUE(allclose(m.mean(axis).filled(), x.mean(axis), 1e-14));
    EXPECT_TRUE(allclose(m.std(axis).filled(), x.std(axis), 1e-13));
  }
  EXPECT_TRUE(array_equal(ma::log(m).mask(), x <= 0));
  EXPECT_TRUE(array_equal(ma::exp(m).filled(), exp(x)));
  EXPECT_TRUE(array_equal(m.compressed(), ravel(x)));
}

// A reduction over data and mask makes no array of the data's size.
TEST(MaskedArray, AReductionIsOnePassOverDataAndMask) {
  const NdArray x = ones({1000, 1000});
  const ma::MaskedArray m(x, x > 2);
  m.sum();  // programs are made once
  const AllocationCount counted(kCpu, /*also_cpu=*/true);
  EXPECT_EQ(m.sum().item<double>(), 1e6);
  m.mean(1);
  m.var(1);
  m.argmax();
  m.ptp(1);
  EXPECT_LT(counted.peak_bytes(), x.size() / 2);  // half of what even a mask would take
}

}  // namespace
}  // namespace quarry::local
