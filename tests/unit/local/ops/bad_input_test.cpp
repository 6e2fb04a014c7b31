// What users get wrong: a typed error that names values, nothing lost, and the device usable afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "quarry/local/local.h"
#include "quarry/local/memory/adaptors.h"
#include "quarry/local/memory/slab_pool.h"
#include "quarry/local/ops/linalg/hermitian.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using ::testing::HasSubstr;

struct Mistake {
  const char* name;
  std::function<NdArray(const NdArray&)> call;  // of a 3 x 4 array of 0.5, 1.5 ...
  ErrorCode code;
  const char* message;  // a part of it
};

class BadInput : public test::OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    x_ = test::arange({3, 4}).astype(DType::float64) + 0.5;
  }

  void refuse(std::initializer_list<Mistake> mistakes) {
    for (const Mistake& mistake : mistakes) {
      try {
        mistake.call(x_);
        ADD_FAILURE() << mistake.name << " was accepted";
      } catch (const InvalidArgument& error) {
        EXPECT_EQ(error.code(), mistake.code) << mistake.name << ": " << error.what();
        EXPECT_THAT(error.what(), HasSubstr(mistake.message)) << mistake.name;
      }
      // The array is what it was, and the device works.
      EXPECT_EQ(ops::sum(x_).item<double>(), 72) << mistake.name;
    }
  }

  NdArray x_;
};
QUARRY_ON_EVERY_DEVICE(BadInput);

TEST_P(BadInput, AxesThatDoNotExist) {
  const auto index = ErrorCode::index_error;
  refuse({
      {"sum", [](const NdArray& x) { return ops::sum(x, 2); }, index, "axis 2"},
      {"mean", [](const NdArray& x) { return ops::mean(x, -3); }, index, "axis -3"},
      {"argmax", [](const NdArray& x) { return ops::argmax(x, 7); }, index, "axis 7"},
      {"cumsum", [](const NdArray& x) { return ops::cumsum(x, 2); }, index, "axis 2"},
      {"sort", [](const NdArray& x) { return ops::sort(x, 5); }, index, "axis 5"},
      {"flip",
       [](const NdArray& x) {
         return ops::flip(x, {0, 2});
       },
       index, "axis 2"},
      {"take", [](const NdArray& x) { return ops::take(x, x.astype(DType::int64), 2); }, index, "axis 2"},
      {"concatenate",
       [](const NdArray& x) {
         return ops::concatenate({x, x}, 2);
       },
       index, "axis 2"},
      {"stack",
       [](const NdArray& x) {
         return ops::stack({x, x}, 4);
       },
       index, "axis 4"},
      {"swapaxes", [](const NdArray& x) { return ops::swapaxes(x, 0, 2); }, index, "2"},
      {"median", [](const NdArray& x) { return ops::median(x, -4); }, index, "-4"},
      {"diff", [](const NdArray& x) { return ops::diff(x, 1, 2); }, index, "axis 2"},
      {"fft", [](const NdArray& x) { return ops::fft::fft(x, std::nullopt, 3); }, index, "axis 3"},
      {"subscript",
       [](const NdArray& x) {
         return x[{0, 4}];
       },
       index, "index 4 is out of bounds for axis 1 with size 4"},
      {"too many indices",
       [](const NdArray& x) {
         return x[{0, 0, 0}];
       },
       index, "2-dimensional"},
  });
}

TEST_P(BadInput, AxesTwice) {
  const auto value = ErrorCode::invalid_argument;
  refuse({
      {"sum",
       [](const NdArray& x) {
         return ops::sum(x, {0, -2});
       },
       value, "duplicate"},
      {"flip",
       [](const NdArray& x) {
         return ops::flip(x, {1, 1});
       },
       value, "repeated axis"},
      {"transpose",
       [](const NdArray& x) {
         return x.transpose(std::vector<int64_t>{0, 0});
       },
       value, "repeated axis"},
      {"moveaxis",
       [](const NdArray& x) {
         return ops::moveaxis(x, {0, 0}, {0, 1});
       },
       value, "repeated axis"},
      {"expand_dims",
       [](const NdArray& x) {
         return ops::expand_dims(x, {0, 0});
       },
       value, "repeated axis"},
      {"quantile",
       [](const NdArray& x) {
         return ops::quantile(x, 0.5, {0, 0});
       },
       value, "duplicate value"},
      {"rot90",
       [](const NdArray& x) {
         return ops::rot90(x, 1, {1, -1});
       },
       value, "Axes must be different"},
  });
}

TEST_P(BadInput, ShapesThatDoNotFit) {
  const auto value = ErrorCode::invalid_argument;
  refuse({
      {"add", [](const NdArray& x) { return x + x.T(); }, value, "(3, 4) (4, 3)"},
      {"where",
       [](const NdArray& x) {
         return ops::where(x > 1, x, x[{Slice{0, 2, {}}}]);
       },
       value, "(3, 4)"},
      {"matmul", [](const NdArray& x) { return ops::matmul(x, x); }, value, "mismatch"},
      {"dot", [](const NdArray& x) { return ops::dot(x, x); }, value, "(3,4)"},
      {"einsum",
       [](const NdArray& x) {
         return ops::einsum({std::string("ij,jk"), x, x});
       },
       value, "could not be broadcast"},
      {"concatenate",
       [](const NdArray& x) {
         return ops::concatenate({x, x.T()}, 0);
       },
       value, "size 3"},
      {"stack",
       [](const NdArray& x) {
         return ops::stack({x, x.T()});
       },
       value, "same shape"},
      {"broadcast_to",
       [](const NdArray& x) {
         return x.broadcast_to({3, 8});
       },
       value, "(3, 8)"},
      {"assign",
       [](const NdArray& x) {
         return x[{0}].assign(x[{ellipsis, 0}]), x;
       },
       value, "(3"},
      {"out", [](const NdArray& x) { return ops::sqrt(x, {.out = x.T()}); }, value, "(4, 3)"},
      {"reshape",
       [](const NdArray& x) {
         return x.reshape({5, 2});
       },
       value, "array of size 12 into shape (5, 2)"},
      {"two open extents",
       [](const NdArray& x) {
         return x.reshape({-1, -1});
       },
       value, "one unknown dimension"},
      {"does not divide",
       [](const NdArray& x) {
         return x.reshape({-1, 5});
       },
       value, "array of size 12"},
      {"negative extent",
       [](const NdArray& x) {
         return x.reshape({-2, 6});
       },
       value, "-2"},
      {"zeros",
       [](const NdArray&) {
         return ops::zeros({2, -3});
       },
       value, "negative"},
      {"full", [](const NdArray&) { return ops::full(-1, 0); }, value, "negative"},
      {"resize",
       [](const NdArray& x) {
         return ops::resize(x, {-1, 2});
       },
       value, "non-negative"},
      {"tile", [](const NdArray& x) { return ops::tile(x, -1); }, value, "negative"},
      {"repeat", [](const NdArray& x) { return ops::repeat(x, -1); }, value, "negative"},
      {"squeeze", [](const NdArray& x) { return ops::squeeze(x, 0); }, value, "size not equal to one"},
      {"too large",
       [](const NdArray&) {
         return ops::zeros({int64_t{1} << 40, int64_t{1} << 40});
       },
       value, ""},
  });
}

TEST_P(BadInput, CastsThatTheRuleForbids) {
  const auto type = ErrorCode::type_error;
  refuse({
      {"out", [](const NdArray& x) { return ops::add(x, x, {.out = x.astype(DType::int32)}); }, type, "'int32'"},
      {"dtype", [](const NdArray& x) { return ops::add(x, x, DType::int64); }, type, "'float64'"},
      {"casting", [](const NdArray& x) { return ops::add(x, 1, {.dtype = DType::float32, .casting = Casting::safe}); },
       type, "'safe'"},
      {"where", [](const NdArray& x) { return ops::sqrt(x, {.where = x}); }, type, "'bool'"},
      {"copyto", [](const NdArray& x) { return ops::copyto(x.astype(DType::int8), x), x; }, type, "'same_kind'"},
      {"putmask", [](const NdArray& x) { return ops::putmask(x.astype(DType::int8), x > 0, x), x; }, type, "'safe'"},
      {"concatenate",
       [](const NdArray& x) {
         return ops::concatenate({x, x}, 0, std::nullopt, DType::int32, "same_kind");
       },
       type, "'same_kind'"},
      {"invert", [](const NdArray& x) { return ~x; }, type, "float64"},
      {"shift", [](const NdArray& x) { return x << 1; }, type, "float64"},
      {"bincount", [](const NdArray& x) { return ops::bincount(x[{0}]); }, type, "'safe'"},
      {"take", [](const NdArray& x) { return ops::take(x, x); }, type, "'float64'"},
  });
}

TEST_P(BadInput, LiteralsThatDoNotFit) {
  const auto value = ErrorCode::invalid_argument;
  refuse({
      {"add", [](const NdArray& x) { return x.astype(DType::uint8) + 300; }, value, "300 out of bounds for uint8"},
      {"subtract", [](const NdArray& x) { return x.astype(DType::int8) - 1000; }, value, "1000 out of bounds for int8"},
      {"full", [](const NdArray&) { return ops::full(2, -1, DType::uint16); }, value, "-1 out of bounds for uint16"},
      {"fill", [](const NdArray& x) { return ops::fill(x.astype(DType::int8), 1e3), x; }, value, "1000 out of bounds"},
      {"set", [](const NdArray& x) { return ops::set(x.astype(DType::uint8), {int64_t{0}}, 256), x; }, value, "256"},
      {"nan", [](const NdArray& x) { return ops::fill(x.astype(DType::int8), NAN), x; }, value, "NaN"},
      {"infinity", [](const NdArray& x) { return ops::put(x.astype(DType::int8), ops::arange(1), INFINITY), x; }, value,
       "infinity"},
      {"initial", [](const NdArray& x) { return ops::max(x.astype(DType::uint8), {}, {.initial = -1}); }, value, "-1"},
      {"ldexp", [](const NdArray& x) { return ops::ldexp(x, int64_t{1} << 40); }, value, "int32"},
  });
  refuse({{"complex", [](const NdArray& x) { return ops::fill(x, std::complex<double>(1, 2)), x; },
           ErrorCode::type_error, "complex"}});
}

TEST_P(BadInput, OverlappingOperandsInPlace) {
  const auto counted = [] { return test::arange({6, 5}).astype(DType::int32); };
  const NdArray original = counted();
  // Shifted, backwards and transposed views of the memory that is written.
  NdArray x = counted();
  ops::add(x[{Slice{0, 5, {}}}], x[{Slice{1, 6, {}}}], {.out = x[{Slice{1, 6, {}}}]});
  EXPECT_TRUE(ops::array_equal(x[{Slice{1, 6, {}}}], original[{Slice{0, 5, {}}}] + original[{Slice{1, 6, {}}}]));
  x = counted();
  const NdArray backwards = x[{Slice{{}, {}, -1}, Slice{{}, {}, -1}}];
  ops::subtract(x, backwards, {.out = x});
  EXPECT_TRUE(ops::array_equal(x, original - original[{Slice{{}, {}, -1}, Slice{{}, {}, -1}}]));
  x = counted();
  const NdArray square = x[{Slice{0, 5, {}}}];
  ops::multiply(square, square.T(), {.out = square});
  const NdArray before = original[{Slice{0, 5, {}}}];
  EXPECT_TRUE(ops::array_equal(square, before * before.T()));
  x = counted();
  x[{Slice{1, 6, {}}}].assign(x[{Slice{0, 5, {}}}]);
  EXPECT_TRUE(ops::array_equal(x[{Slice{1, 6, {}}}], original[{Slice{0, 5, {}}}]));
  x = counted();
  ops::cumsum(x[{ellipsis, Slice{0, 4, {}}}], 0, std::nullopt, x[{ellipsis, Slice{1, 5, {}}}]);
  EXPECT_TRUE(ops::array_equal(x[{ellipsis, Slice{1, 5, {}}}],
                               ops::cumsum(original[{ellipsis, Slice{0, 4, {}}}], 0).astype(DType::int32)));
  x = counted();
  ops::sum(x, 0, {.out = x[{0}]});
  EXPECT_TRUE(ops::array_equal(x[{0}], ops::sum(original, 0)));
}

TEST_P(BadInput, OutOfMemoryLosesNothing) {
  const Device device{GetParam(), 0};
  const auto stream = backend(GetParam()).create_stream(0, StreamRole::compute);
  const auto pool = SlabPool::fixed(device, int64_t{4} << 20);
  {
    const DeviceScope scope(ExecContext{device, stream.get(), pool.get(), 0});
    const NdArray x = ops::ones({int64_t{1} << 17});  // a quarter of the pool
    const int64_t used = pool->used_bytes();
    const std::function<NdArray()> calls[] = {
        [&] { return ops::outer(x, x); },
        [&] { return ops::tile(x, 8); },
        [&] { return ops::zeros({int64_t{1} << 20}); },
        [&] {
          return ops::concatenate({x, x, x, x});
        },
        [&] { return ops::pad(x, from_vector(std::vector<int64_t>{1 << 20})); },
        [&] { return ops::sort(ops::repeat(x, 3)); },
        [&] {
          return linalg::matmul(x.reshape({-1, 1}), x.reshape({1, -1}));
        },
    };
    for (const auto& call : calls) {
      EXPECT_THROW(call(), OutOfMemory);
      stream->synchronize();
      EXPECT_EQ(pool->used_bytes(), used);
      EXPECT_EQ(ops::sum(x + 1).item<double>(), 1 << 18);
    }
  }
  stream->synchronize();
  EXPECT_EQ(pool->used_bytes(), 0);
}

}  // namespace
}  // namespace quarry::local
