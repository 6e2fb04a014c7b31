// What ADR 18 says of the notation: views that assign, indices, literals, conversions to numbers, typed access.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <sstream>
#include <type_traits>

#include "quarry/local/local.h"
#include "tests/support/on_devices.h"

namespace {

namespace ql = quarry::local;
using namespace quarry::names;

class Notation : public quarry::test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Notation);

void expect_text(const ql::NdArray& array, const char* text) { EXPECT_EQ(array.to_string(), text); }

// row = x[1] names another array where row is one; the view itself is no variable to be assigned to.
static_assert(!std::is_assignable_v<ql::View&, ql::NdArray>);
static_assert(!std::is_assignable_v<ql::View&, ql::View>);
static_assert(std::is_assignable_v<ql::View, double>);
static_assert(std::is_assignable_v<ql::View, ql::NdArray>);
static_assert(std::is_same_v<decltype(ql::NdArray()(0, _)), ql::View>);
static_assert(std::is_same_v<decltype(ql::NdArray()(ql::NdArray())), ql::Elements>);

TEST_P(Notation, OnlyTheExpressionThatMakesAViewAssigns) {
  const ql::NdArray x = ql::arange(6).reshape(2, 3);
  ql::NdArray row = x[0];
  row = x[1];
  expect_text(x, "[[0 1 2]\n [3 4 5]]");
  expect_text(row, "[3 4 5]");
  row[0] = 9;
  x(_, 2) = row("::2"_s);
  x[0] = x[1];
  expect_text(x, "[[9 4 5]\n [9 4 5]]");
  x(0, 1) += 1;
  x[1]["1:"_s] *= 2;
  expect_text(x, "[[ 9  5  5]\n [ 9  8 10]]");
  x[0] = 2.75;  // converted as astype() does
  expect_text(x[0], "[2 2 2]");
  x[{1, 0}] = -1;
  EXPECT_EQ(x(1, 0).item<int64_t>(), -1);
  EXPECT_THROW((x[0] = ql::arange(2)), ql::InvalidArgument);
  EXPECT_THROW(x(2, 0), ql::IndexError);
  EXPECT_THROW(x(0, 0, 0), ql::IndexError);
}

TEST_P(Notation, ElementsAreReadWhenUsedAndAssignedWithoutAGather) {
  const ql::NdArray x = ql::arange(6), mask = x > 2;
  expect_text(x[mask], "[3 4 5]");
  EXPECT_EQ(double{x[mask].sum()}, 12);
  expect_text(sqrt(x[x == 4]) + x[mask], "[5. 6. 7.]");
  x[mask] = 0.;
  expect_text(x, "[0 1 2 0 0 0]");
  x[std::vector<int64_t>{1, 1}] += 5;  // once
  expect_text(x, "[0 6 2 0 0 0]");
  x[ql::NdArray{0, 5}] = x[ql::NdArray{1, 2}];
  expect_text(x, "[6 6 2 0 0 2]");
  expect_text(x(ql::NdArray{0, 1}, newaxis), "[[6]\n [6]]");
  x[x < 0] = 1;  // nothing
  x[true] = 7;
  expect_text(x, "[7 7 7 7 7 7]");
  EXPECT_THROW(x[ql::NdArray{6}].value(), ql::IndexError);
}

TEST_P(Notation, Slices) {
  const ql::NdArray x = ql::arange(10);
  expect_text(x["2:-2:3"_s], "[2 5]");
  expect_text(x["::-3"_s], "[9 6 3 0]");
  expect_text(x[" : 3 "_s], "[0 1 2]");
  expect_text(x[slice(3)], "[0 1 2]");
  expect_text(x[slice(none, -8)], "[0 1]");
  expect_text(x["20:"_s], "[]");
  static_assert("-3:12:-1"_s.start == -3 && "-3:12:-1"_s.stop == 12 && "-3:12:-1"_s.step == -1);
  for (const std::string_view text : {"", "3", "1-", ":-", "a:b", "1:2:3:4", "--1:", "1 2"})
    EXPECT_THROW(static_cast<void>(quarry::names::operator""_s(text.data(), text.size())), ql::InvalidArgument) << text;
}

TEST_P(Notation, LiteralsAreArrays) {
  expect_text(ql::NdArray{1, 2}, "[1 2]");
  EXPECT_EQ((ql::NdArray{1, 2.5}).dtype(), f64);
  EXPECT_EQ((ql::NdArray{true, false}).dtype(), ql::bool_);
  EXPECT_EQ((ql::NdArray{true, 2}).dtype(), i64);
  EXPECT_EQ((ql::NdArray{1, std::complex<double>(0, 1)}).dtype(), c128);
  EXPECT_EQ((ql::NdArray{{1, 2, 3}, {4, 5, 6}}).shape(), (ql::Dims{2, 3}));
  EXPECT_EQ((ql::NdArray{{{1}, {2}}}).shape(), (ql::Dims{1, 2, 1}));
  EXPECT_EQ((ql::NdArray{1}).device().kind, GetParam());
  EXPECT_THROW((ql::NdArray{{1, 2}, {3}}), ql::InvalidArgument);
  EXPECT_THROW((ql::NdArray{{1, 2}, 3}), ql::InvalidArgument);
  const ql::NdArray x = ql::arange(3);
  EXPECT_EQ(ql::NdArray{x}.raw(), x.raw());  // a copy of the handle
  expect_text(ql::maximum(x, {1, 0, 5}), "[1 1 5]");
  expect_text(ql::add({1, 2}, {3, 4}), "[4 6]");
}

TEST_P(Notation, ArraysOfOneElementAreNumbers) {
  const ql::NdArray x = ql::arange(4);
  const double mean = x.mean();
  EXPECT_EQ(mean, 1.5);
  const int largest = x.max();
  EXPECT_EQ(largest, 3);
  if (x.sum() == 6)
    SUCCEED();
  else
    FAIL();
  EXPECT_FALSE(static_cast<bool>((x > 3).any()));
  const std::complex<double> z = (x * std::complex<double>(0, 1)).sum();
  EXPECT_EQ(z, std::complex<double>(0, 6));
  EXPECT_THROW(static_cast<void>(static_cast<double>(x)), ql::InvalidArgument);
  if (ql::NdArray{5})
    SUCCEED();
  else
    FAIL();
  // Numbers beside arrays of one element stay arrays.
  static_assert(std::is_same_v<decltype(x + 1), ql::NdArray>);
  static_assert(std::is_same_v<decltype(1.5 < x), ql::NdArray>);
  static_assert(std::is_same_v<decltype(std::complex<float>(1) * x), ql::NdArray>);
  EXPECT_EQ((x.astype(f32) + 1).dtype(), f32);
}

// C's functions of the same names take double.
TEST_P(Notation, FunctionsWithoutANamespaceAreThoseOfArrays) {
  const ql::NdArray x = ql::NdArray{1., 4.}, one = ql::NdArray{4.};
  expect_text(sqrt(x), "[1. 2.]");
  expect_text(pow(x, 2), "[ 1. 16.]");
  expect_text(fmax(2, x), "[2. 4.]");
  expect_text(round(x / 3, 1), "[0.3 1.3]");
  static_assert(std::is_same_v<decltype(abs(one)), ql::NdArray>);
  static_assert(std::is_same_v<decltype(log(one[0])), ql::NdArray>);
  static_assert(std::is_same_v<decltype(hypot(one, 3)), ql::NdArray>);
}

TEST_P(Notation, OptionsInNumPysOrder) {
  const ql::NdArray x = ql::arange(12.).reshape(3, 4);
  EXPECT_EQ(x.sum({.axis = 0, .keepdims = true}).shape(), (ql::Dims{1, 4}));
  EXPECT_EQ(x.sum({.axis = {0, 1}}).ndim(), 0);
  EXPECT_EQ(x.sum({0, 1}).ndim(), 0);
  EXPECT_EQ(x.sum({}).ndim(), 0);
  EXPECT_EQ(x.sum(std::vector<int64_t>{}).shape(), x.shape());
  EXPECT_EQ(double{x.std({.ddof = 1})}, double{ql::std(x, {}, {.ddof = 1})});
  EXPECT_EQ(double{ql::max(x, {.initial = 50})}, 50);
  EXPECT_EQ(double{x.sum({.where = x > 10})}, 11);
  EXPECT_THROW(x.sum(0, {.axis = 0}), ql::TypeError);
  EXPECT_THROW(x.argmax({.ddof = 1}), ql::TypeError);
}

TEST_P(Notation, WhatDependsOnArguments) {
  const ql::NdArray x{3, 1, 3};
  const auto [values, index, counts] = ql::unique(x, ql::return_counts, ql::return_index);  // in NumPy's order
  expect_text(index, "[1 0]");
  expect_text(counts, "[1 2]");
  const auto [u, s, vh] = ql::linalg::svd(ql::eye(2));
  expect_text(s, "[1. 1.]");
  const auto [q, r] = ql::linalg::qr(ql::eye(3, 2), ql::linalg::complete);
  EXPECT_EQ(q.shape(), (ql::Dims{3, 3}));
  const auto [p, l, upper] = ql::linalg::lu(ql::NdArray{{0., 1.}, {2., 3.}});
  expect_text(upper, "[[2. 3.]\n [0. 1.]]");
  const auto [rows, columns] = ql::meshgrid(ql::arange(2), ql::arange(3));
  EXPECT_EQ(rows.shape(), (ql::Dims{3, 2}));
  const ql::NdArray slope = ql::gradient(ql::arange(4.));
  expect_text(slope, "[1. 1. 1. 1.]");
  EXPECT_THROW(static_cast<void>(static_cast<ql::NdArray>(ql::gradient(ql::zeros({2, 2})))), ql::InvalidArgument);
  EXPECT_EQ(ql::default_rng(3).normal(0, 1, {5, 2}).shape(), (ql::Dims{5, 2}));
  EXPECT_EQ(ql::default_rng(3).normal().ndim(), 0);
  EXPECT_EQ(ql::dtype("<f4"), f32);
  EXPECT_THROW(static_cast<void>(ql::dtype("float33")), ql::TypeError);
}

TEST_P(Notation, TypedAccess) {
  const ql::NdArray x = ql::arange(6).reshape(2, 3);
  const auto v = ql::host<int64_t, 2>(x.T());
  EXPECT_EQ(v.extent(0), 3);
  EXPECT_EQ(v(2, 1), 5);
  int64_t sum = 0;
  for (const int64_t value : ql::values<int64_t>(x["::-1"_s])) sum = sum * 10 + value;
  EXPECT_EQ(sum, 345012);
  EXPECT_EQ(ql::values<double>(x), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_THROW((ql::host<double, 2>(x)), ql::TypeError);
  EXPECT_THROW((ql::host<int64_t, 1>(x)), ql::InvalidArgument);
  if (GetParam() == ql::DeviceKind::cpu) {
    ql::host<int64_t, 2>(x)(1, 2) = 50;
    EXPECT_EQ(x(1, 2).item<int64_t>(), 50);
  }
  std::ostringstream text;
  text << x[0] << ' ' << x.max();
  EXPECT_EQ(text.str(), GetParam() == ql::DeviceKind::cpu ? "[0 1 2] 50" : "[0 1 2] 5");
}

}  // namespace
