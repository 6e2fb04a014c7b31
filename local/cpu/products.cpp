#include "quarry/local/cpu/products.h"

#include <fmt/format.h>

#include <optional>

#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/blas_threads.h"
#include "quarry/local/cpu/linalg.h"
#include "quarry/local/cpu/matrix.h"
#include "quarry/local/cpu/sliding.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local {
namespace cpu {
namespace {

// A sum over k of few results is cut into this many terms, so that threads share it and errors grow less.
constexpr int64_t kSegment = 1 << 16;
constexpr int64_t kMostSegments = 64;
constexpr int64_t kFewResults = 4096;
// Multiplications that are worth handing out as a piece of work.
constexpr int64_t kGrain = 1 << 15;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t multiplications(const MatrixProduct& p) {
  const double count = static_cast<double>(p.c.matrix.rows) * static_cast<double>(p.c.matrix.columns) *
                       static_cast<double>(p.a.matrix.columns);
  return static_cast<int64_t>(std::clamp(count, 1.0, 1e18));
}
int64_t results(const MatrixProduct& p) { return element_count(p.batch) * p.c.matrix.rows * p.c.matrix.columns; }
int64_t segments(const MatrixProduct& p) {
  if (!is_float(p.dtype) && !is_complex(p.dtype)) return 1;
  if (results(p) > kFewResults) return 1;
  return std::clamp<int64_t>(p.a.matrix.columns / kSegment, 1, kMostSegments);
}

// ---- Positions of a batch ----

MatrixView matrix_at(const MatrixBatch& matrices, const Dims& position, int64_t item) {
  int64_t offset = 0;
  for (int d = 0; d < position.size(); ++d) offset += position[d] * matrices.strides[d];
  MatrixView view = matrices.matrix;
  view.data = static_cast<char*>(view.data) + offset * item;
  return view;
}
Dims position_of(int64_t index, const Dims& batch) {
  Dims position = Dims::filled(batch.size());
  for (int d = batch.size() - 1; d >= 0; --d) {
    position[d] = index % batch[d];
    index /= batch[d];
  }
  return position;
}
void advance(Dims& position, const Dims& batch) {
  for (int d = batch.size() - 1; d >= 0; --d) {
    if (++position[d] < batch[d]) return;
    position[d] = 0;
  }
}

// Calls body(a, b, c) for every output tile of every position, in pieces of work of at least kGrain multiplications.
template <class T, class Body>
void for_each_tile(const MatrixProduct& p, int threads, const Body& body) {
  const int64_t rows = p.c.matrix.rows, columns = p.c.matrix.columns, depth = p.a.matrix.columns;
  const int64_t tiles_m = ceil_div(rows, kMatrixTile), tiles_n = ceil_div(columns, kMatrixTile);
  const int64_t tiles = tiles_m * tiles_n, total = element_count(p.batch) * tiles;
  const int64_t group = std::max<int64_t>(1, kGrain * tiles / multiplications(p));
  const int64_t units = ceil_div(total, group);
  for_each_blas_unit(units, slots_for(units, threads), [&](int64_t unit, int) {
    const int64_t first = unit * group, last = std::min(first + group, total);
    Dims position = position_of(first / tiles, p.batch);
    for (int64_t at = first; at < last; ++at) {
      const int64_t tile = at % tiles, i = tile / tiles_n * kMatrixTile, j = tile % tiles_n * kMatrixTile;
      const int64_t m = std::min(kMatrixTile, rows - i), n = std::min(kMatrixTile, columns - j);
      body(block<T>(matrix_at(p.a, position, sizeof(T)), i, m, 0, depth),
           block<T>(matrix_at(p.b, position, sizeof(T)), 0, depth, j, n),
           block<T>(matrix_at(p.c, position, sizeof(T)), i, m, j, n));
      if (tile + 1 == tiles) advance(position, p.batch);
    }
  });
}

// What a product does with the matrices: alpha a b + beta c.
struct Factors {
  double alpha = 1, beta = 0;
  bool conjugate_a = false, conjugate_b = false;
};

// ---- Floating point ----

template <class T>
void float_products(const MatrixProduct& p, const Factors& how, int threads, char* scratch) {
  const auto& [alpha, beta, conjugate_a, conjugate_b] = how;
  const int64_t parts = segments(p), rows = p.c.matrix.rows, columns = p.c.matrix.columns;
  if (parts == 1) {
    for_each_tile<T>(p, threads, [&](const MatrixView& a, const MatrixView& b, const MatrixView& c) {
      tile_product<T>(conjugate_a, conjugate_b, static_cast<T>(alpha), a, b, static_cast<T>(beta), c);
    });
    return;
  }
  // Partial products of equal stretches of k, added up in order.
  const int64_t count = element_count(p.batch), depth = p.a.matrix.columns, stretch = ceil_div(depth, parts);
  T* partial = reinterpret_cast<T*>(scratch);
  for_each_blas_unit(count * parts, slots_for(count * parts, threads), [&](int64_t unit, int) {
    const Dims position = position_of(unit / parts, p.batch);
    const int64_t k = unit % parts * stretch, length = std::clamp<int64_t>(depth - k, 0, stretch);
    const MatrixView a = matrix_at(p.a, position, sizeof(T)), b = matrix_at(p.b, position, sizeof(T));
    const MatrixView part{partial + unit * rows * columns, rows, columns, columns, 1};
    for (int64_t i = 0; i < rows; i += kMatrixTile) {
      for (int64_t j = 0; j < columns; j += kMatrixTile) {
        const int64_t m = std::min(kMatrixTile, rows - i), n = std::min(kMatrixTile, columns - j);
        tile_product<T>(conjugate_a, conjugate_b, T(1), block<T>(a, i, m, k, length), block<T>(b, k, length, j, n),
                        T(0), block<T>(part, i, m, j, n));
      }
    }
  });
  Dims position = Dims::filled(p.batch.size());
  for (int64_t at = 0; at < count; ++at, advance(position, p.batch)) {
    const MatrixView c = matrix_at(p.c, position, sizeof(T));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        T sum{};
        for (int64_t part = 0; part < parts; ++part) sum += partial[((at * parts + part) * rows + i) * columns + j];
        T& out = *cpu::at<T>(c, i, j);
        out = static_cast<T>(alpha) * sum + (beta == 0 ? T(0) : static_cast<T>(beta) * out);
      }
    }
  }
}

// The batch without the axes along which `matrices` repeats.
Dims stored_batch(const Dims& batch, const MatrixBatch& matrices) {
  Dims stored = batch;
  for (int d = 0; d < batch.size(); ++d)
    if (matrices.strides[d] == 0) stored[d] = 1;
  return stored;
}
int64_t wide_bytes(const Dims& batch, const MatrixBatch& matrices) {
  return align_up(element_count(stored_batch(batch, matrices)) * matrices.matrix.rows * matrices.matrix.columns *
                      static_cast<int64_t>(sizeof(float)),
                  kAllocationAlignment);
}
// Where the float32 copies of 16-bit matrices lie, packed.
MatrixBatch wide_batch(const Dims& batch, const MatrixBatch& matrices, char* scratch) {
  const int64_t rows = matrices.matrix.rows, columns = matrices.matrix.columns;
  MatrixBatch wide{{scratch, rows, columns, columns, 1}, Dims::filled(batch.size())};
  int64_t step = rows * columns;
  for (int d = batch.size() - 1; d >= 0; --d) {
    if (matrices.strides[d] == 0) continue;
    wide.strides[d] = step;
    step *= batch[d];
  }
  return wide;
}
// Calls body(narrow, wide) for blocks of rows of every stored matrix.
template <class Body>
void for_each_half(const Dims& batch, const MatrixBatch& matrices, const MatrixBatch& wide, int threads,
                   const Body& body) {
  const Dims stored = stored_batch(batch, matrices);
  const int64_t rows = matrices.matrix.rows, columns = matrices.matrix.columns;
  const int64_t chunk = std::clamp<int64_t>(kGrain / std::max<int64_t>(columns, 1), 1, std::max<int64_t>(rows, 1));
  const int64_t chunks = ceil_div(rows, chunk), units = element_count(stored) * chunks;
  for_each_unit(units, slots_for(units, threads), [&](int64_t unit, int) {
    const Dims position = position_of(unit / chunks, stored);
    const int64_t row = unit % chunks * chunk, count = std::min(chunk, rows - row);
    body(block<uint16_t>(matrix_at(matrices, position, sizeof(uint16_t)), row, count, 0, columns),
         block<float>(matrix_at(wide, position, sizeof(float)), row, count, 0, columns));
  });
}

template <class H>
void half_products(const MatrixProduct& p, const Factors& how, int threads, char* scratch) {
  MatrixProduct wide = p;
  wide.dtype = DType::float32;
  const auto widened = [](const MatrixView& from, const MatrixView& to) {
    widen<H>(from, static_cast<float*>(to.data));
  };
  for (auto [from, to] : {std::pair(&p.a, &wide.a), std::pair(&p.b, &wide.b), std::pair(&p.c, &wide.c)}) {
    *to = wide_batch(p.batch, *from, scratch);
    scratch += wide_bytes(p.batch, *from);
    if (from != &p.c || how.beta != 0) for_each_half(p.batch, *from, *to, threads, widened);
  }
  float_products<float>(wide, how, threads, scratch);
  for_each_half(p.batch, p.c, wide.c, threads,
                [](const MatrixView& to, const MatrixView& from) { narrow<H>(from, to); });
}

// ---- bool and integers ----

constexpr int64_t kWidth = 256;  // columns of c, and
constexpr int64_t kDepth = 64;   // rows of b that stay in the L2 cache while they are used
constexpr int64_t kRows = 4;     // rows of c that use a row of b at once

// One type per width: products of signed and unsigned integers wrap alike. Narrow ones are computed in uint32_t.
template <class T>
struct Wrapping {
  using Sum = std::conditional_t<sizeof(T) < 4, uint32_t, T>;
  static Sum multiply_add(Sum sum, Sum x, Sum y) { return sum + x * y; }
};
struct Boolean {
  using Sum = uint8_t;
  static Sum multiply_add(Sum sum, Sum x, Sum y) { return static_cast<Sum>(sum | (x & y)); }
};

template <class T, class Rule>
void integer_tile(int64_t alpha, const MatrixView& a, const MatrixView& b, int64_t beta, const MatrixView& c) {
  using Sum = typename Rule::Sum;
  alignas(64) Sum panel[kDepth][kWidth];
  alignas(64) Sum sums[kRows][kWidth];
  const int64_t depth = a.columns;
  for (int64_t j = 0; j < c.columns; j += kWidth) {
    const int64_t width = std::min(kWidth, c.columns - j);
    for (int64_t k = 0; k < std::max<int64_t>(depth, 1); k += kDepth) {
      const int64_t height = std::min(kDepth, depth - k);
      for (int64_t l = 0; l < height; ++l)
        for (int64_t s = 0; s < width; ++s) panel[l][s] = static_cast<Sum>(*at<T>(b, k + l, j + s));
      for (int64_t i = 0; i < c.rows; i += kRows) {
        const int64_t count = std::min(kRows, c.rows - i);
        for (int64_t r = 0; r < count; ++r)
          for (int64_t s = 0; s < width; ++s) {
            const Sum before = static_cast<Sum>(beta == 0 && k == 0 ? T(0) : *at<T>(c, i + r, j + s));
            sums[r][s] = k == 0 && beta != 1 ? static_cast<Sum>(static_cast<Sum>(beta) * before) : before;
          }
        for (int64_t l = 0; l < height; ++l) {
          Sum factor[kRows] = {};
          for (int64_t r = 0; r < count; ++r)
            factor[r] = static_cast<Sum>(static_cast<Sum>(alpha) * static_cast<Sum>(*at<T>(a, i + r, k + l)));
          for (int64_t s = 0; s < width; ++s) {
            const Sum x = panel[l][s];
            for (int64_t r = 0; r < kRows; ++r) sums[r][s] = Rule::multiply_add(sums[r][s], factor[r], x);
          }
        }
        for (int64_t r = 0; r < count; ++r)
          for (int64_t s = 0; s < width; ++s) *at<T>(c, i + r, j + s) = static_cast<T>(sums[r][s]);
      }
    }
  }
}

// A column of results: each is a sum along k, which lies along a's rows.
template <class T, class Rule>
void integer_column(int64_t alpha, const MatrixView& a, const MatrixView& b, int64_t beta, const MatrixView& c) {
  using Sum = typename Rule::Sum;
  for (int64_t i = 0; i < c.rows; ++i) {
    Sum sum{};
    const T *x = at<T>(a, i, 0), *y = static_cast<T*>(b.data);
    if (a.column_stride == 1 && b.row_stride == 1) {
      for (int64_t k = 0; k < a.columns; ++k)
        sum = Rule::multiply_add(sum, static_cast<Sum>(x[k]), static_cast<Sum>(y[k]));
    } else {
      for (int64_t k = 0; k < a.columns; ++k)
        sum = Rule::multiply_add(sum, static_cast<Sum>(x[k * a.column_stride]), static_cast<Sum>(y[k * b.row_stride]));
    }
    T& out = *at<T>(c, i, 0);
    const Sum before = beta == 0 ? Sum(0) : static_cast<Sum>(out);
    out = static_cast<T>(static_cast<Sum>(static_cast<Sum>(alpha) * sum + static_cast<Sum>(beta) * before));
  }
}

template <class T, class Rule>
void integer_products(const MatrixProduct& p, const Factors& how, int threads) {
  const auto factor = static_cast<int64_t>(how.alpha), addend = static_cast<int64_t>(how.beta);
  for_each_tile<T>(p, threads, [&](const MatrixView& a, const MatrixView& b, const MatrixView& c) {
    if (c.columns == 1)
      integer_column<T, Rule>(factor, a, b, addend, c);
    else if (c.rows == 1 && b.column_stride != 1)
      integer_column<T, Rule>(factor, transposed(b), transposed(a), addend, transposed(c));
    else
      integer_tile<T, Rule>(factor, a, b, addend, c);
  });
}

int64_t scratch_bytes(const MatrixProduct& p) {
  int64_t bytes = 0;
  const bool half = is_half(p.dtype);
  if (half) bytes += wide_bytes(p.batch, p.a) + wide_bytes(p.batch, p.b) + wide_bytes(p.batch, p.c);
  const int64_t parts = segments(p);
  if (parts > 1) bytes += align_up(parts * results(p) * (half ? int64_t{4} : itemsize(p.dtype)), kAllocationAlignment);
  return bytes;
}

void check(const MatrixBatch& m, const Dims& batch) {
  check_lines(m.matrix);
  QUARRY_CHECK(m.strides.size() == batch.size());
}

bool is_symmetric(const MatrixProduct& p) {
  constexpr int64_t kWorthwhile = 64;
  return (p.dtype == DType::float32 || p.dtype == DType::float64) && are_transposes(p.a.matrix, p.b.matrix) &&
         p.a.matrix.rows >= kWorthwhile && element_count(p.batch) == 1 && segments(p) == 1;
}

void multiply(const MatrixProduct& p, const Factors& how, int threads, void* scratch) {
  QUARRY_CHECK(p.a.matrix.rows == p.c.matrix.rows && p.a.matrix.columns == p.b.matrix.rows &&
               p.b.matrix.columns == p.c.matrix.columns);
  QUARRY_CHECK(!p.conjugate || p.a.matrix.rows == 1);
  if (results(p) == 0) return;
  if (p.dtype == DType::bool_) return integer_products<uint8_t, Boolean>(p, how, threads);
  if (is_integer(p.dtype)) {
    switch (itemsize(p.dtype)) {
      case 1:
        return integer_products<uint8_t, Wrapping<uint8_t>>(p, how, threads);
      case 2:
        return integer_products<uint16_t, Wrapping<uint16_t>>(p, how, threads);
      case 4:
        return integer_products<uint32_t, Wrapping<uint32_t>>(p, how, threads);
      default:
        return integer_products<uint64_t, Wrapping<uint64_t>>(p, how, threads);
    }
  }
  const OneThreadPerCall scope;
  for (const MatrixBatch* m : {&p.a, &p.b, &p.c}) check(*m, p.batch);
  if (is_symmetric(p)) return syrk(p.dtype, how.alpha, p.b.matrix, how.beta, p.c.matrix, threads, nullptr);
  char* const space = static_cast<char*>(scratch);
  if (p.dtype == DType::float16) return half_products<float16>(p, how, threads, space);
  if (p.dtype == DType::bfloat16) return half_products<bfloat16>(p, how, threads, space);
  with_blas_type("matrix product", p.dtype, [&]<class T>() { float_products<T>(p, how, threads, space); });
}

MatrixProduct one_product(DType dtype, const MatrixView& a, const MatrixView& b, const MatrixView& c) {
  return {dtype, Dims{}, {a, Dims{}}, {b, Dims{}}, {c, Dims{}}};
}

class CpuProducts final : public Products {
 public:
  int64_t multiply_scratch_bytes(const MatrixProduct& product) override { return scratch_bytes(product); }
  void multiply(const MatrixProduct& product, const ExecContext& context) override {
    const int64_t bytes = scratch_bytes(product);
    std::optional<Buffer> scratch;
    if (bytes > 0) scratch.emplace(bytes, *context.memory, context.stream);
    cpu::multiply(product, {.conjugate_a = product.conjugate}, context.threads, scratch ? scratch->data() : nullptr);
  }
  int64_t slide_scratch_bytes(const SlidingProduct&) override { return 0; }
  void slide(const SlidingProduct& product, const ExecContext& context) override {
    const SlidingLoop loop = sliding_loop(cpu_level(), product.dtype);
    QUARRY_CHECK(loop != nullptr);
    // Results of one piece of work, which leave room for a stretch of a in the L2 cache.
    constexpr int64_t kStep = 256, kMost = 16384;
    const int64_t enough = ceil_div(8 * kGrain, std::max<int64_t>(product.taps, 1));
    const int64_t piece = std::min(ceil_div(enough, kStep) * kStep, kMost), units = ceil_div(product.results, piece);
    for_each_unit(units, slots_for(units, context.threads), [&](int64_t unit, int) {
      loop(product, unit * piece, std::min((unit + 1) * piece, product.results));
    });
  }
  int64_t gemm_scratch_bytes(const Gemm& task) override {
    return cpu::gemm_scratch_bytes(task.dtype, task.a, task.b, task.c);
  }
  void gemm(const Gemm& task, const ExecContext& context) override {
    const Scratch scratch(cpu::gemm_scratch_bytes(task.dtype, task.a, task.b, task.c), context);
    cpu::gemm(task, context.threads, scratch.data());
  }
  int64_t syrk_scratch_bytes(const Syrk& task) override { return cpu::syrk_scratch_bytes(task.dtype, task.a, task.c); }
  void syrk(const Syrk& task, const ExecContext& context) override {
    const Scratch scratch(syrk_scratch_bytes(task), context);
    cpu::syrk(task.dtype, task.alpha, task.a, task.beta, task.c, context.threads, scratch.data());
  }
};

}  // namespace

int64_t gemm_scratch_bytes(DType dtype, const MatrixView& a, const MatrixView& b, const MatrixView& c) {
  return scratch_bytes(one_product(dtype, a, b, c));
}
void gemm(const Gemm& task, int threads, void* scratch) {
  multiply(one_product(task.dtype, task.a, task.b, task.c), {task.alpha, task.beta, task.conjugate_a, task.conjugate_b},
           threads, scratch);
}

}  // namespace cpu

Products& cpu_products() {
  static cpu::CpuProducts instance;
  return instance;
}

}  // namespace quarry::local
