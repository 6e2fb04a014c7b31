// What the compositions refuse, and what they say.
#include <gtest/gtest.h>

#include <filesystem>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/evaluate.h"

namespace {

namespace qy = quarry;
namespace ql = quarry::local;
using namespace quarry::names;

template <class F>
std::string message_of(F call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

qy::RuntimeOptions small_runtime() {
  qy::RuntimeOptions options;
  options.device = ql::DeviceKind::cpu;
  options.memory = "64MiB";
  options.threads = 1;
  return options;
}

class ChunkedNamesErrors : public testing::Test {
 protected:
  const qy::Runtime runtime_{small_runtime()};
  qy::Array x_ = qy::arange(12.).reshape(3, 4).rechunk({2, 3}), v_ = qy::arange(7).rechunk({3});
};

TEST_F(ChunkedNamesErrors, Shapes) {
  EXPECT_THROW(qy::zeros({2, -1}), ql::InvalidArgument);
  EXPECT_THROW(qy::vsplit(x_, 2), ql::InvalidArgument);
  EXPECT_THROW(qy::array_split(x_, 0), ql::InvalidArgument);
  EXPECT_THROW(qy::moveaxis(x_, {0, 0}, {0, 1}), ql::InvalidArgument);
  EXPECT_THROW(qy::rot90(x_, 1, {0, 2}), ql::InvalidArgument);
  EXPECT_THROW(qy::fliplr(v_), ql::InvalidArgument);
  EXPECT_THROW(qy::roll(x_, {1, 2, 3}, {0, 1}), ql::InvalidArgument);
  EXPECT_THROW(qy::roll(x_, 1, 2), ql::IndexError);
  EXPECT_THROW(qy::block({{x_, x_}, x_}), ql::InvalidArgument);
  EXPECT_THROW(qy::block({{x_, x_}, {x_, v_}}), ql::InvalidArgument);
  EXPECT_THROW(qy::from_blocks({{x_, x_(_, ":1"_s)}, {x_(_, ":1"_s), x_}}), ql::InvalidArgument);
  EXPECT_THROW(qy::diagonal(v_), ql::InvalidArgument);
  EXPECT_THROW(qy::diagonal(x_, 0, 1, 1), ql::InvalidArgument);
  EXPECT_THROW(qy::diag(qy::zeros({2, 2, 2})), ql::InvalidArgument);
  EXPECT_THROW(qy::fill_diagonal(qy::zeros({2, 2, 3}), 1), ql::InvalidArgument);
  EXPECT_THROW(qy::tril_indices_from(v_), ql::InvalidArgument);
  EXPECT_THROW(qy::meshgrid({v_}, true, false, "yx"), ql::InvalidArgument);
  EXPECT_THROW(qy::tile(v_, -1), ql::InvalidArgument);
  EXPECT_THROW(qy::broadcast_arrays(x_, v_), ql::InvalidArgument);
}

TEST_F(ChunkedNamesErrors, PositionsNameIndexAxisAndSize) {
  EXPECT_EQ(message_of([&] { qy::insert(v_, 8, 1); }), "index 8 is out of bounds for axis 0 with size 7");
  EXPECT_EQ(message_of([&] { qy::delete_(x_, {0, 4}, 1); }), "index 4 is out of bounds for axis 1 with size 4");
  EXPECT_EQ(message_of([&] { qy::delete_(v_, -8); }), "index -8 is out of bounds for axis 0 with size 7");
  EXPECT_THROW(qy::delete_(v_, qy::Array{true, false}), ql::InvalidArgument);
  EXPECT_THROW(qy::delete_(v_, qy::Array{1.5}), ql::IndexError);
  EXPECT_THROW(qy::repeat(v_, -1), ql::InvalidArgument);
  EXPECT_THROW(qy::repeat(v_, {1, 2}), ql::InvalidArgument);
  EXPECT_THROW(qy::repeat(v_, v_ - 1), ql::InvalidArgument);
  EXPECT_THROW(qy::choose(v_, {1, 2}), ql::InvalidArgument);
  EXPECT_THROW(qy::choose(v_, {1, 2}, "no"), ql::InvalidArgument);
  EXPECT_THROW(qy::choose(x_, {1, 2}), ql::TypeError);
  EXPECT_THROW(qy::unravel_index(v_, {2, 3}), ql::InvalidArgument);
  EXPECT_THROW(qy::ravel_multi_index({v_, v_}, {9, 6}), ql::InvalidArgument);
  EXPECT_THROW(qy::ravel_multi_index({v_}, {9, 6}), ql::InvalidArgument);
}

TEST_F(ChunkedNamesErrors, ValuesAndKeywords) {
  EXPECT_THROW(qy::geomspace(0, 1), ql::InvalidArgument);
  EXPECT_THROW(qy::geomspace(v_, 1), ql::InvalidArgument);
  EXPECT_THROW(qy::linspace(0, 1, -1), ql::InvalidArgument);
  EXPECT_THROW(qy::fft::fftfreq(0), ql::InvalidArgument);
  EXPECT_THROW(qy::isposinf(qy::zeros({2}, c128)), ql::TypeError);
  EXPECT_THROW(qy::select({v_}, {1}), ql::TypeError);
  EXPECT_THROW(qy::select({}, {}), ql::InvalidArgument);
  EXPECT_THROW(qy::piecewise(v_, {v_ < 2}, {1, 2, 3}), ql::InvalidArgument);
  EXPECT_THROW(qy::packbits(x_), ql::TypeError);
  EXPECT_THROW(qy::unpackbits(v_), ql::TypeError);
  EXPECT_THROW(qy::packbits(v_, none, "middle"), ql::InvalidArgument);
  EXPECT_THROW(qy::trim_zeros(v_, "fx"), ql::InvalidArgument);
  EXPECT_THROW(qy::pad(v_, -1), ql::InvalidArgument);
  EXPECT_THROW(qy::pad(v_, 1, "edgy"), ql::InvalidArgument);
  EXPECT_THROW(qy::pad(v_, 1, "edge", {.reflect_type = "odd"}), ql::InvalidArgument);
  EXPECT_THROW(qy::pad(qy::zeros({0}), 1, "edge"), ql::InvalidArgument);
  EXPECT_THROW(qy::diff(v_, -1), ql::InvalidArgument);
  EXPECT_THROW(qy::gradient(qy::zeros({1})), ql::InvalidArgument);
  EXPECT_THROW(qy::convolve(v_, qy::zeros({0})), ql::InvalidArgument);
  EXPECT_THROW(qy::convolve(v_, v_, "some"), ql::InvalidArgument);
  EXPECT_THROW(qy::interp(v_, {1, 2}, {3, 4, 5}), ql::InvalidArgument);
}

TEST_F(ChunkedNamesErrors, Products) {
  EXPECT_EQ(message_of([&] { qy::dot(x_, x_); }), message_of([] { ql::dot(ql::zeros({3, 4}), ql::zeros({3, 4})); }));
  EXPECT_EQ(message_of([&] { qy::einsum("ij,jk", x_, x_); }), message_of([] {
              ql::einsum("ij,jk", ql::zeros({3, 4}), ql::zeros({3, 4}));
            }));
  EXPECT_EQ(message_of([&] { qy::einsum("ij->i?", x_); }), message_of([] { ql::einsum("ij->i?", ql::zeros({3, 4})); }));
  EXPECT_THROW(qy::inner(x_, v_), ql::InvalidArgument);
  EXPECT_THROW(qy::vdot(x_, v_), ql::InvalidArgument);
  EXPECT_THROW(qy::vecdot(x_, v_), ql::InvalidArgument);
  EXPECT_THROW(qy::matvec(v_, v_), ql::InvalidArgument);
  EXPECT_THROW(qy::tensordot(x_, x_, {{0, 0}, {0, 0}}), ql::InvalidArgument);
  EXPECT_THROW(qy::tensordot(x_, v_, 2), ql::IndexError);
  EXPECT_THROW(qy::cross(x_, x_), ql::InvalidArgument);
  EXPECT_THROW(qy::linalg::matrix_power(x_, 2), ql::InvalidArgument);
  EXPECT_THROW(qy::linalg::norm(x_, "other"), ql::InvalidArgument);
  EXPECT_THROW(qy::linalg::norm(qy::zeros({2, 2, 2}), 1), ql::InvalidArgument);
  EXPECT_THROW(qy::linalg::multi_dot({x_}), ql::InvalidArgument);
}

TEST_F(ChunkedNamesErrors, NormOfOrderZeroCounts) { EXPECT_EQ(double{qy::linalg::norm(v_, 0)}, 6); }

TEST_F(ChunkedNamesErrors, FilledDiagonalsAreNewArrays) {
  const auto same = [](const qy::Array& got, const ql::NdArray& of, const ql::Arg& value, bool wrap = false) {
    const ql::NdArray expected = of.copy();
    ql::fill_diagonal(expected, value, wrap);
    EXPECT_TRUE(quarry::testing::close(got.to_host(), expected)) << ql::array_str(got.to_host());
  };
  const ql::NdArray x = ql::arange(12.).reshape(3, 4), tall = ql::arange(22.).reshape(11, 2);
  same(qy::fill_diagonal(x_, 9), x, 9);
  same(qy::fill_diagonal(x_, {7, 8}), x, {7, 8});
  const qy::Array cut = qy::Array::from_local(tall).rechunk({3, 1});
  same(qy::fill_diagonal(cut, -1), tall, -1);
  same(qy::fill_diagonal(cut, -1, true), tall, -1, true);
  same(qy::fill_diagonal(cut, {-1, -2, -3}, true), tall, {-1, -2, -3}, true);
  same(qy::fill_diagonal(qy::zeros({3, 3, 3}), {1, 2}), ql::zeros({3, 3, 3}), {1, 2});
}

TEST_F(ChunkedNamesErrors, ChunksAsAsked) {
  EXPECT_EQ(qy::from_array(ql::zeros({4, 6}), ql::Dims{2, -1}).chunks().counts(), (ql::Dims{2, 1}));
  const qy::Array whole = qy::from_blocks({{x_, x_(_, ":1"_s)}, {x_, x_(_, ":1"_s)}});
  EXPECT_EQ(whole.shape(), (ql::Dims{6, 5}));
  EXPECT_EQ(whole.chunks().counts(), (ql::Dims{2, 2}));
  EXPECT_TRUE(ql::array_equal(whole.to_host()[{ql::Slice{3, {}, {}}, ql::Slice{{}, 4, {}}}], x_.to_host()));
}

TEST_F(ChunkedNamesErrors, ToHdf5) {
  const std::string file = std::filesystem::temp_directory_path() / "quarry_names_test.h5";
  std::filesystem::remove(file);
  x_.to_hdf5(file, "/x");
  EXPECT_TRUE(ql::array_equal(qy::open_hdf5(file, "/x").to_host(), x_.to_host()));
  std::filesystem::remove(file);
}

TEST_F(ChunkedNamesErrors, EmptyArraysOfCutAxesAreReshaped) {
  const qy::Array x = qy::zeros({0, 3, 2}).rechunk({1, 1, 1});
  EXPECT_EQ((x + 1).reshape(0, 3).to_host().shape(), (ql::Dims{0, 3}));
  EXPECT_EQ((x > 0).reshape(2, 0, 5).to_host().dtype(), ql::DType::bool_);
  EXPECT_THROW(x.reshape(1, 3), ql::InvalidArgument);
}

// A triangle of more than 2^31 elements is made of positions alone.
TEST_F(ChunkedNamesErrors, LargeTriangles) {
  const int64_t n = 100000, k = 17;
  const auto [rows, columns] = qy::tril_indices(n, k);
  EXPECT_EQ(rows.size(), n * (n + 1) / 2 + (n - 1 - k) * k + k * (k + 1) / 2);
  const int64_t count = rows.size();
  // The first and the last elements of the rows around the end.
  EXPECT_EQ(static_cast<int64_t>(rows[count - 1]), n - 1);
  EXPECT_EQ(static_cast<int64_t>(columns[count - 1]), n - 1);
  EXPECT_EQ(static_cast<int64_t>(rows[count - n]), n - 1);
  EXPECT_EQ(static_cast<int64_t>(columns[count - n]), 0);
  EXPECT_EQ(static_cast<int64_t>(rows[count - n - 1]), n - 2);
}

}  // namespace
