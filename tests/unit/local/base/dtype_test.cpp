// Promotion and casting against NumPy's tables are in oracle_test.cpp.
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/dtype_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quarry/local/base/error.h"
#include "quarry/local/base/shape.h"

namespace quarry::local {
namespace {

template <class T>
T stored(const Scalar& value) {
  T out;
  value.store(dtype_of_v<T>, &out);
  return out;
}

TEST(DTypes, NamesSizesKinds) {
  EXPECT_STREQ(name(DType::bool_), "bool");
  EXPECT_EQ(itemsize(DType::complex128), 16);
  EXPECT_EQ(kind(DType::bfloat16), 'f');
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    dispatch(dtype, [&]<class T>() { EXPECT_EQ(static_cast<int64_t>(sizeof(T)), itemsize(dtype)); });
  }
  EXPECT_EQ(parse_dtype("<f8"), DType::float64);
  EXPECT_EQ(parse_dtype("int"), DType::int64);
  EXPECT_EQ(parse_dtype("float128"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(DType, TextsWithAByteOrder) {
  EXPECT_EQ(parse_dtype_text(">i4")->dtype, DType::int32);
  EXPECT_TRUE(parse_dtype_text(">i4")->swapped);
  EXPECT_FALSE(parse_dtype_text("<i4")->swapped);
  EXPECT_FALSE(parse_dtype_text("|i4")->swapped);
  EXPECT_FALSE(parse_dtype_text(">u1")->swapped);  // one byte has no order
  EXPECT_FALSE(parse_dtype_text(">?")->swapped);
  EXPECT_EQ(parse_dtype_text(">d")->dtype, DType::float64);
  // Bytes of another order are no array's.
  EXPECT_EQ(parse_dtype(">i4"), std::nullopt);
  EXPECT_EQ(parse_dtype(">b1"), DType::bool_);
  EXPECT_EQ(parse_dtype("=c16"), DType::complex128);
  for (const char* unknown : {"<int32", ">float64", "<int", "<", "<<i4", "i3", " i4", "g", "S3", "O", "c"}) {
    EXPECT_FALSE(parse_dtype_text(unknown)) << unknown;
  }
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::bfloat16) continue;
    const char code = letter(dtype);
    EXPECT_EQ(parse_dtype(std::string_view(&code, 1)), dtype) << code;
  }
  EXPECT_EQ(letter(DType::bfloat16), 'E');
}

TEST(DTypes, PromotionIsCommutativeAndHasALeast) {
  for (int i = 0; i < kDTypeCount; ++i) {
    for (int j = 0; j < kDTypeCount; ++j) {
      const auto a = static_cast<DType>(i), b = static_cast<DType>(j);
      const DType both = promote_types(a, b);
      EXPECT_EQ(both, promote_types(b, a));
      EXPECT_EQ(promote_types(both, a), both) << name(a) << " " << name(b);
      EXPECT_TRUE(can_cast(a, both, Casting::safe));
    }
  }
}

TEST(DTypes, Bfloat16Promotes) {
  EXPECT_EQ(promote_types(DType::bfloat16, DType::float16), DType::float32);
  EXPECT_EQ(promote_types(DType::bfloat16, DType::int8), DType::bfloat16);
  EXPECT_EQ(promote_types(DType::bfloat16, DType::int32), DType::float64);
  EXPECT_EQ(promote_types(DType::bfloat16, DType::complex64), DType::complex64);
}

TEST(Scalars, WeakLiterals) {
  EXPECT_EQ(Scalar(true).dtype(), DType::bool_);
  EXPECT_EQ(Scalar(3).dtype(), DType::int64);
  EXPECT_EQ(Scalar(UINT64_MAX).dtype(), DType::uint64);
  EXPECT_EQ(Scalar(1.5f).dtype(), DType::float64);
  EXPECT_TRUE(Scalar(1.5f).weak());
  EXPECT_FALSE(Scalar::strong(3, DType::int8).weak());
  EXPECT_THROW(check_weak_fits(300, DType::uint8), InvalidArgument);
  EXPECT_THROW(check_weak_fits(-1, DType::uint64), InvalidArgument);
  EXPECT_THROW(check_weak_fits(Scalar(UINT64_MAX), DType::int64), InvalidArgument);
  EXPECT_NO_THROW(check_weak_fits(-128, DType::int8));
  EXPECT_NO_THROW(check_weak_fits(Scalar(UINT64_MAX), DType::uint64));
}

TEST(Scalars, ConvertAsAstype) {
  EXPECT_EQ(stored<int8_t>(300), 44);
  EXPECT_EQ(stored<uint8_t>(-1), 255);
  EXPECT_EQ(stored<int64_t>(-2.9), -2);
  EXPECT_EQ(stored<int64_t>(NAN), INT64_MIN);
  EXPECT_EQ(stored<uint64_t>(0x1p63), uint64_t{1} << 63);
  EXPECT_EQ(stored<bool>(NAN), true);
  EXPECT_EQ(stored<bool>(0.0), false);
  EXPECT_EQ(stored<float>(0.1), 0.1f);
  EXPECT_EQ(stored<uint16_t>(Scalar(std::complex<double>(3.9, 7))), 3);
  EXPECT_EQ(stored<std::complex<double>>(2.5), std::complex<double>(2.5));
  EXPECT_EQ(stored<uint64_t>(Scalar(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ(stored<double>(Scalar(UINT64_MAX)), 0x1p64);
  EXPECT_EQ(static_cast<float>(stored<float16>(1e6)), INFINITY);
}

TEST(Scalars, EveryTypeRoundTrips) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    alignas(16) unsigned char bytes[16] = {}, again[16] = {};
    Scalar(1).store(dtype, bytes);
    const Scalar loaded = Scalar::load(dtype, bytes);
    EXPECT_EQ(loaded.dtype(), dtype);
    EXPECT_FALSE(loaded.weak());
    EXPECT_EQ(loaded.as_double(), 1.0);
    loaded.store(dtype, again);
    EXPECT_TRUE(std::equal(bytes, bytes + 16, again)) << name(dtype);
  }
}

// NOLINTBEGIN(bugprone-use-after-move, clang-diagnostic-self-assign-overloaded): on purpose
TEST(Shapes, DimsBeyondTheInlineOnes) {
  Dims dims;
  for (int i = 0; i < kMaxDims; ++i) dims.push_back(i);
  EXPECT_THROW(dims.push_back(1), InvalidArgument);
  EXPECT_EQ(dims.size(), kMaxDims);
  Dims copy = dims, moved = std::move(dims);
  EXPECT_EQ(copy, moved);
  EXPECT_TRUE(dims.empty());
  for (int i = kMaxDims - 1; i > 2; --i) copy.erase(i);
  EXPECT_EQ(copy, (Dims{0, 1, 2}));
  copy.insert(1, 9);
  EXPECT_EQ(copy, (Dims{0, 9, 1, 2}));
  moved = copy;
  EXPECT_EQ(moved, copy);
  dims = Dims{5};
  dims.push_back(6);
  EXPECT_EQ(dims, (Dims{5, 6}));
  const Dims& itself = copy;
  copy = itself;
  EXPECT_EQ(copy, (Dims{0, 9, 1, 2}));
}

TEST(Shapes, MovedFromDimsWorkAgain) {
  Dims big = Dims::filled(20, 3);
  const Dims taken = std::move(big);
  EXPECT_EQ(taken.size(), 20);
  big.push_back(1);
  for (int i = 0; i < 10; ++i) big.push_back(i);
  EXPECT_EQ(big.size(), 11);
  EXPECT_EQ(big[10], 9);
}
// NOLINTEND(bugprone-use-after-move, clang-diagnostic-self-assign-overloaded)

TEST(Shapes, CountsAndBroadcasts) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0, int64_t{1} << 62}), 0);
  EXPECT_EQ(element_count({int64_t{1} << 31, 4}), int64_t{1} << 33);
  EXPECT_THROW(element_count({int64_t{1} << 32, int64_t{1} << 32}), InvalidArgument);
  EXPECT_EQ(broadcast_shapes({3, 1, 5}, {4, 1}), (Dims{3, 4, 5}));
  EXPECT_EQ(broadcast_shapes({0}, {1}), (Dims{0}));
  try {
    broadcast_shapes({3, 4}, {5});
    FAIL() << "no exception";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "operands could not be broadcast together with shapes (3, 4) (5,)");
  }
  EXPECT_THROW(broadcast_shapes({0}, {2}), InvalidArgument);
  EXPECT_EQ(contiguous_strides({2, 0, 3}, 8), (Dims{24, 24, 8}));
  EXPECT_EQ(contiguous_strides({0, int64_t{1} << 62}, 8)[1], 8);  // no elements: the other stride means nothing
  EXPECT_EQ(normalize_axis(-1, 3), 2);
  EXPECT_THROW(normalize_axis(3, 3), IndexError);
  EXPECT_THROW(normalize_axis(0, 0), IndexError);
}

}  // namespace
}  // namespace quarry::local
