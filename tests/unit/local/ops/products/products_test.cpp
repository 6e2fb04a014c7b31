// Products against plain loops in every dtype and layout. NumPy's answers are in the oracle.
#include "quarry/local/ops/products/products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>

#include "quarry/local/api/creation.h"
#include "quarry/local/api/math.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class Products : public test::OnDevice {
 protected:
  // Small integers, so that sums are exact in every dtype.
  NdArray digits(const Dims& shape, DType dtype) {
    std::vector<std::complex<double>> values(static_cast<size_t>(element_count(shape)));
    for (auto& value : values) {
      const bool boolean = dtype == DType::bool_, negative = kind(dtype) != 'u' && !boolean;
      const auto draw = [&] {
        const auto number = static_cast<double>(random_() % (boolean ? 2 : 4));
        return negative ? number - 2 : number;
      };
      value = draw();
      if (is_complex(dtype)) value.imag(draw());
    }
    return from_vector(values, shape).astype(dtype);
  }
  std::mt19937 random_{7};
};
QUARRY_ON_EVERY_DEVICE(Products);

constexpr DType kDTypes[] = {
#define QUARRY_DTYPE(name, text, type, kind, compute) DType::name,
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
};

std::vector<std::complex<double>> wide(const NdArray& array) {
  return to_vector<std::complex<double>>(array.astype(DType::complex128));
}

// (m, k) by (k, n) as the result's dtype holds it.
std::vector<std::complex<double>> plain_product(const NdArray& a, const NdArray& b, DType dtype) {
  const auto x = wide(a), y = wide(b);
  const int64_t m = a.shape(0), k = a.shape(1), n = b.shape(1);
  std::vector<std::complex<double>> out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      std::complex<double> sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += x[static_cast<size_t>(i * k + l)] * y[static_cast<size_t>(l * n + j)];
      if (dtype == DType::bool_) sum = sum != 0.0 ? 1 : 0;
      // Integers wrap.
      if (kind(dtype) == 'u' || kind(dtype) == 'i')
        sum =
            Scalar::strong(Scalar::strong(Scalar(static_cast<int64_t>(sum.real())), dtype), DType::float64).as_double();
      out[static_cast<size_t>(i * n + j)] = sum;
    }
  return out;
}

TEST_P(Products, MatmulInEveryDtypeAndLayout) {
  for (const DType dtype : kDTypes) {
    for (const auto& [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{3, 4, 5},
                                  {70, 90, 66},
                                  {1, 30, 9},
                                  {9, 30, 1},
                                  {1, 50, 1},
                                  {5, 1, 3},
                                  {2, 0, 3},
                                  {0, 2, 2},
                                  {1, 1, 1}}) {
      for (int layout = 0; layout < 8; ++layout) {
        // Plain, transposed, every second column, reversed rows.
        const auto make = [&](int64_t rows, int64_t columns, int kind) -> NdArray {
          if (kind == 1) return digits({columns, rows}, dtype).T();
          if (kind == 2) return digits({rows, 2 * columns}, dtype)[{full_slice, Slice{{}, {}, 2}}];
          if (kind == 3) return digits({rows, columns}, dtype)[{Slice{{}, {}, -1}}];
          return digits({rows, columns}, dtype);
        };
        const NdArray a = make(m, k, layout % 4), b = make(k, n, (layout * 3 + layout / 4) % 4);
        const NdArray c = ops::matmul(a, b);
        ASSERT_EQ(c.dtype(), dtype);
        ASSERT_EQ(c.shape(), (Dims{m, n}));
        ASSERT_EQ(wide(c), plain_product(a, b, dtype))
            << name(dtype) << ' ' << m << 'x' << k << 'x' << n << " layout " << layout;
      }
    }
  }
}

TEST_P(Products, MatmulBroadcastsBatches) {
  for (const DType dtype :
       {DType::bool_, DType::int8, DType::int64, DType::float16, DType::float64, DType::complex64}) {
    for (const auto& [left, right] : {std::pair<Dims, Dims>{{4, 3, 5}, {5, 2}},
                                      {{3, 5}, {4, 5, 2}},
                                      {{4, 1, 3, 5}, {6, 5, 2}},
                                      {{2, 3, 3, 5}, {2, 1, 5, 2}},
                                      {{7, 5}, {3, 5, 1}},
                                      {{3, 1, 5}, {1, 5, 4}},
                                      {{0, 3, 5}, {5, 2}}}) {
      const NdArray a = digits(left, dtype), b = digits(right, dtype), c = ops::matmul(a, b);
      const Dims batch = broadcast_shapes(Dims(left.begin(), left.end() - 2), Dims(right.begin(), right.end() - 2));
      Dims left_full = batch, right_full = batch;
      left_full.push_back(a.shape(-2)), left_full.push_back(a.shape(-1));
      right_full.push_back(b.shape(-2)), right_full.push_back(b.shape(-1));
      const int64_t count = element_count(batch);
      ASSERT_EQ(c.size(), count * a.shape(-2) * b.shape(-1));
      const NdArray as = a.broadcast_to(left_full).copy().reshape({count, a.shape(-2), a.shape(-1)});
      const NdArray bs = b.broadcast_to(right_full).copy().reshape({count, b.shape(-2), b.shape(-1)});
      const NdArray cs = c.reshape({count, c.shape(-2), c.shape(-1)});
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(wide(cs[{i}]), plain_product(as[{i}], bs[{i}], dtype));
      // The same from transposed stacks.
      std::vector<int64_t> order(static_cast<size_t>(a.ndim()));
      for (int d = 0; d < a.ndim(); ++d) order[static_cast<size_t>(d)] = a.ndim() - 1 - d;
      ASSERT_EQ(wide(ops::matmul(a.transpose(order).copy().transpose(order), b)), wide(c));
    }
  }
}

TEST_P(Products, MatrixByItsOwnTranspose) {
  for (const DType dtype : {DType::float32, DType::float64, DType::complex128, DType::int32}) {
    for (const auto& [m, k] : {std::pair<int64_t, int64_t>{70, 33}, {130, 1}, {600, 9}, {64, 64}}) {
      const NdArray rows = digits({m, k}, dtype), columns = digits({k, m}, dtype).T();
      for (const NdArray& a : {rows, columns}) {
        ASSERT_EQ(wide(ops::matmul(a, a.T())), plain_product(a, a.T(), dtype)) << name(dtype) << ' ' << m << 'x' << k;
        const NdArray out = NdArray({m, m}, dtype).T();
        ops::matmul(a, a.T(), out);
        ASSERT_EQ(wide(out), plain_product(a, a.T(), dtype));
      }
    }
  }
  const NdArray repeated = digits({90}, DType::float64).broadcast_to({70, 90});
  EXPECT_EQ(wide(ops::matmul(repeated, repeated.T())), plain_product(repeated, repeated.T(), DType::float64));
}

TEST_P(Products, LongSumsAreSplit) {
  const int64_t k = 300000;
  const NdArray a = digits({2, k}, DType::float64), b = digits({k, 3}, DType::float64);
  EXPECT_EQ(wide(ops::matmul(a, b)), plain_product(a, b, DType::float64));
  const NdArray x = digits({k}, DType::float16), ones = apply("equal"_op, {x, x}).astype(DType::float16);
  // float16 sums in float32: 300000 halves of small integers would stop growing at 2048.
  const double sum = ops::sum(x, {}, {.dtype = DType::float64}).item<double>();
  EXPECT_EQ(ops::dot(x, ones).item<double>(), Scalar::strong(Scalar(sum), DType::float16).as_double());
}

TEST_P(Products, VectorsAndConjugation) {
  const std::vector<std::complex<double>> u = {{1, 2}, {3, -1}}, v = {{0, 1}, {2, 2}};
  const NdArray x = from_vector(u), y = from_vector(v);
  const std::complex<double> plain = u[0] * v[0] + u[1] * v[1],
                             conjugated = std::conj(u[0]) * v[0] + std::conj(u[1]) * v[1];
  EXPECT_EQ(ops::dot(x, y).item().as_complex(), plain);
  EXPECT_EQ(ops::matmul(x, y).item().as_complex(), plain);
  EXPECT_EQ(ops::inner(x, y).item().as_complex(), plain);
  EXPECT_EQ(ops::vdot(x, y).item().as_complex(), conjugated);
  EXPECT_EQ(ops::vecdot(x, y).item().as_complex(), conjugated);
  EXPECT_EQ(ops::vecdot(x, y, {}, {}, 0, true).shape(), (Dims{1}));
  const NdArray m = from_vector<std::complex<double>>({{1, 0}, {0, 1}, {2, 0}, {1, 1}, {5, 0}, {0, 2}}, {2, 3});
  EXPECT_EQ(wide(ops::vecmat(x, m)), wide(ops::matmul(apply("conjugate"_op, {x}), m)));
  EXPECT_EQ(wide(ops::matvec(m.T(), x)), wide(ops::matmul(m.T(), x)));
  EXPECT_EQ(wide(ops::matmul(x[{Slice{{}, {}, -1}}], m)), wide(ops::matmul(x[{Slice{{}, {}, -1}}].copy(), m)));
}

// Whole numbers, so that every order of a sum gives the same bits.
TEST_P(Products, ARowTimesALargeMatrix) {
  for (const DType dtype : {DType::float32, DType::float64, DType::complex64, DType::complex128, DType::float16}) {
    const NdArray m = digits({1030, 2050}, dtype), row = digits({2060}, dtype);
    const auto check = [&](const NdArray& x, const NdArray& y) {
      const NdArray want = reduce("sum"_reduction, {apply("multiply"_op, {x.reshape({-1, 1}), y})}, 0);
      EXPECT_EQ(wide(ops::matmul(x, y)), wide(want)) << name(dtype) << to_string(y.shape());
    };
    const NdArray x = row[{Slice{0, 1030, {}}}];
    if (dtype != DType::float16) {
      check(x, m);
      check(row[{Slice{{}, {}, 2}}], m);
      check(x[{Slice{{}, {}, -1}}], m);
      check(x, m[{full_slice, Slice{1, {}, {}}}]);
      check(row[{Slice{0, 2050, {}}}], m.T());
      check(x[{Slice{0, 515, {}}}], m[{Slice{{}, {}, 2}}]);
    }
    EXPECT_EQ(wide(ops::matmul(x.reshape({1, 1030}), m)), wide(ops::matmul(x, m)));
    if (is_complex(dtype)) {
      EXPECT_EQ(wide(ops::vecmat(x, m)), wide(ops::matmul(apply("conjugate"_op, {x}), m))) << name(dtype);
    }
  }
}

TEST_P(Products, OutMayOverlapAndConvert) {
  const NdArray a = digits({4, 4}, DType::float64);
  const std::vector<std::complex<double>> want = plain_product(a, a, DType::float64);
  const NdArray narrow({4, 4}, DType::float32);
  EXPECT_EQ(wide(ops::matmul(a, a, narrow)), want);
  EXPECT_EQ(wide(narrow), want);
  const NdArray strided = NdArray({4, 8}, DType::float64)[{full_slice, Slice{{}, {}, 2}}];
  ops::matmul(a, a, strided);
  EXPECT_EQ(wide(strided), want);
  const NdArray itself = a.copy();
  ops::matmul(itself, itself, itself);
  EXPECT_EQ(wide(itself), want);
  EXPECT_THROW(ops::matmul(a, a, NdArray({4, 4}, DType::int64)), TypeError);
  EXPECT_THROW(ops::matmul(a, a, NdArray({4, 3}, DType::float64)), InvalidArgument);
  EXPECT_THROW(ops::dot(a, a, narrow), InvalidArgument);
}

TEST_P(Products, ErrorsNameShapes) {
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  const NdArray a = digits({2, 3}, DType::float64), scalar = digits({}, DType::float64);
  EXPECT_EQ(message([&] { ops::matmul(a, a); }),
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            "(n?,k),(k,m?)->(n?,m?) (size 2 is different from 3)");
  EXPECT_EQ(message([&] { ops::matmul(a, scalar); }),
            "matmul: Input operand 1 does not have enough dimensions (has 0, gufunc core with signature "
            "(n?,k),(k,m?)->(n?,m?) requires 1)");
  EXPECT_EQ(message([&] { ops::dot(a, a); }), "shapes (2,3) and (2,3) not aligned: 3 (dim 1) != 2 (dim 0)");
  EXPECT_EQ(message([&] { ops::tensordot(a, a, 1); }), "shape-mismatch for sum");
  EXPECT_EQ(message([&] {
              ops::matmul(digits({2, 3, 4}, DType::float64), digits({3, 4, 5}, DType::float64));
            }),
            "operands could not be broadcast together with remapped shapes [original->remapped]: "
            "(2,3,4)->(2,newaxis,newaxis) (3,4,5)->(3,newaxis,newaxis)  and requested shape (3,5)");
}

TEST_P(Products, TensorsAndCross) {
  const NdArray a = digits({3, 4, 5}, DType::int32), b = digits({4, 3, 2}, DType::int32);
  const NdArray c = ops::tensordot(a, b, std::vector<Ints>{{1, 0}, {0, 1}});
  ASSERT_EQ(c.shape(), (Dims{5, 2}));
  const NdArray flat_a = a.transpose(std::vector<int64_t>{2, 1, 0}).reshape({5, 12}), flat_b = b.reshape({12, 2});
  EXPECT_EQ(wide(c), plain_product(flat_a, flat_b, DType::int32));
  EXPECT_EQ(ops::tensordot(a, b, 0).shape(), (Dims{3, 4, 5, 4, 3, 2}));
  const NdArray x = from_vector<double>({1, 2, 3}), y = from_vector<double>({4, 5, 6});
  EXPECT_EQ(to_vector<double>(ops::cross(x, y)), (std::vector<double>{-3, 6, -3}));
  EXPECT_EQ(to_vector<double>(ops::cross(x[{Slice{0, 2, 1}}], y)), (std::vector<double>{12, -6, -3}));
  EXPECT_EQ(ops::cross(x[{Slice{0, 2, 1}}], y[{Slice{0, 2, 1}}]).item<double>(), -3);
  EXPECT_EQ(to_vector<double>(ops::kron(x, from_vector<double>({1, 10}))), (std::vector<double>{1, 10, 2, 20, 3, 30}));
}

// Every way to ask for a product in less than float32's precision: within its bounds on a GPU, exact elsewhere.
TEST_P(Products, PrecisionRoundsOnGpusAlone) {
  constexpr int64_t m = 70, k = 190, n = 50;
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto random = [&](const Dims& shape) {
    std::vector<float> values(static_cast<size_t>(element_count(shape)));
    for (float& value : values) value = uniform(random_);
    return from_vector(values, shape);
  };
  const NdArray a = random({m, k}), b = random({k, n}), stack = random({3, m, k});
  using Way = std::function<NdArray(Precision)>;
  const std::pair<const char*, Way> ways[] = {
      {"matmul", [&](Precision p) { return matmul(a, b, p); }},
      {"matmul by columns", [&](Precision p) { return matmul(b.T(), a.T(), p); }},
      {"matmul with itself", [&](Precision p) { return matmul(a, a.T(), p); }},
      {"matmul of a stack", [&](Precision p) { return matmul(stack, b, p); }},
      {"matmul of stacks", [&](Precision p) { return matmul(stack, stack.transpose(0, 2, 1), p); }},
      {"dot", [&](Precision p) { return dot(a, b, p); }},
      {"inner", [&](Precision p) { return inner(a, b.T(), p); }},
      {"tensordot", [&](Precision p) { return tensordot(stack, b, 1, p); }},
      {"einsum", [&](Precision p) { return einsum(p, "ij,jk->ki", a, b); }}};
  // 1 + 2^-13 is no TF32 and the sum of two bfloat16.
  const NdArray fine = full({m, k}, 1 + 0x1p-13f, DType::float32);
  const bool on_gpu = GetParam() == DeviceKind::cuda;
  for (const auto& [precision, of_term] : {std::pair(Precision::tf32, 0x1p-9), {Precision::bf16x3, 0x1p-16}}) {
    for (const auto& [what, way] : ways) {
      SCOPED_TRACE(std::string(what) + " " + std::string(name(precision)));
      const std::vector<double> exact = test::doubles(way(Precision::exact)), got = test::doubles(way(precision));
      if (!on_gpu) {
        EXPECT_EQ(got, exact);
        continue;
      }
      double worst = 0;
      for (size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, std::abs(got[i] - exact[i]));
      // Terms are at most 1, and the roundings of the two float32 sums.
      EXPECT_LE(worst, static_cast<double>(k) * (of_term + 2 * static_cast<double>(k) * 0x1p-24));
    }
    const NdArray sums = matmul(fine, full({k, n}, 1.F, DType::float32), precision);
    const bool is_rounded = std::abs(test::doubles(sums)[0] - k * (1 + 0x1p-13)) > k * 0x1p-15;
    EXPECT_EQ(is_rounded, on_gpu && precision == Precision::tf32);
    // Other dtypes, and vectors, are what they are without.
    const NdArray wide_a = a.astype(DType::float64), wide_b = b.astype(DType::float64);
    EXPECT_EQ(test::doubles(matmul(wide_a, wide_b, precision)), test::doubles(matmul(wide_a, wide_b)));
    EXPECT_EQ(test::doubles(matmul(fine, fine[{int64_t{0}}], precision)),
              test::doubles(matmul(fine, fine[{int64_t{0}}])));
    EXPECT_EQ(matmul(a[{Slice{0, 0, {}}}], b, precision).shape(), (Dims{0, n}));
    EXPECT_EQ(test::doubles(matmul(a[{full_slice, Slice{0, 0, {}}}], b[{Slice{0, 0, {}}}], precision))[0], 0);
  }
}

// An infinite element is the sum of pieces too.
TEST_P(Products, PrecisionKeepsInfinitiesAndNaN) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float large = 1e38F;  // TF32 may round the largest float to infinity
  const NdArray a = from_vector(std::vector<float>{inf, 1, -inf, 1, nan, 1, large, 0, inf, inf, 0, 1}, {6, 2});
  const NdArray b = from_vector(std::vector<float>{1, 3.3F, 0, inf, 1, 1, 1, 1}, {2, 4});
  const std::vector<double> exact = test::doubles(matmul(a, b));
  for (const Precision precision : {Precision::tf32, Precision::bf16x3}) {
    const std::vector<double> got = test::doubles(matmul(a, b, precision));
    for (size_t i = 0; i < exact.size(); ++i) {
      if (std::isfinite(exact[i]))
        EXPECT_NEAR(got[i], exact[i], std::abs(exact[i]) * 0x1p-8) << i;
      else
        EXPECT_TRUE(got[i] == exact[i] || (std::isnan(got[i]) && std::isnan(exact[i]))) << i << ": " << got[i];
    }
  }
}

TEST(ProductPrecision, NamesAreParsed) {
  for (const Precision precision : {Precision::exact, Precision::tf32, Precision::bf16x3})
    EXPECT_EQ(parse_precision(name(precision)), precision);
  for (const char* text : {"", "TF32", "bf16", "highest"}) {
    try {
      parse_precision(text);
      ADD_FAILURE() << text;
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(std::string(error.what()),
                "precision must be 'exact', 'tf32' or 'bf16x3', not '" + std::string(text) + "'");
    }
  }
}

TEST_P(Products, BitsDoNotDependOnThreads) {
  const NdArray a = digits({300, 700}, DType::float64), b = digits({700, 5}, DType::float64);
  ExecContext one = current_context();
  one.threads = 1;
  const NdArray many = ops::matmul(a, b), long_many = ops::vdot(a, a);
  const DeviceScope scope(one);
  EXPECT_EQ(to_vector<double>(ops::matmul(a, b)), to_vector<double>(many));
  EXPECT_EQ(ops::vdot(a, a).item<double>(), long_many.item<double>());
}

}  // namespace
}  // namespace quarry::local
