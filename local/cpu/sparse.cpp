// Sparse matrices on the CPU. Work is cut into stretches of rows with about as many elements each, that depend on the
// matrix only, and every row is summed by one thread in the order of its elements.
#include "quarry/local/cpu/sparse.h"

#include <algorithm>
#include <complex>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/matrix.h"
#include "quarry/local/cpu/superlu.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local {
namespace cpu {
namespace {

constexpr int64_t kGrain = 1 << 15;  // rows and elements of a piece of work

// Without the checks for NaN that std::complex makes: one more rounding's worth of speed is all that they buy here.
template <class T>
inline T times(T a, T b) {
  if constexpr (is_complex_v<T>)
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  else
    return a * b;
}

template <class T, class I>
struct Rows {
  explicit Rows(const CompressedRows& a)
      : values(static_cast<const T*>(a.values)),
        indices(static_cast<const I*>(a.indices)),
        offsets(static_cast<const I*>(a.offsets)),
        count(a.rows),
        nonzeros(a.nonzeros) {}
  const T* values;
  const I* indices;
  const I* offsets;
  int64_t count, nonzeros;

  int64_t begin(int64_t row) const { return static_cast<int64_t>(offsets[row]); }
  int64_t end(int64_t row) const { return static_cast<int64_t>(offsets[row + 1]); }
  int64_t column(int64_t k) const { return static_cast<int64_t>(indices[k]); }

  // The first row of a stretch when rows plus elements are cut into `units` equal parts.
  int64_t first_row(int64_t unit, int64_t units) const {
    if (unit >= units) return count;
    const int64_t target = (count + nonzeros) / units * unit;
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (middle + begin(middle) < target)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  int64_t units() const { return std::max<int64_t>(1, (count + nonzeros) / kGrain); }
};

// Calls f<T, I>() with the C++ types of values and indices.
template <class F>
decltype(auto) with_types(const CompressedRows& a, F&& f) {
  return with_blas_type("a sparse product", a.dtype, [&]<class T>() -> decltype(auto) {
    if (a.index == DType::int32) return f.template operator()<T, int32_t>();
    return f.template operator()<T, int64_t>();
  });
}

template <class T, class I>
void multiply_vector(const Rows<T, I>& a, const MatrixView& b, const MatrixView& c, int64_t first, int64_t last) {
  const T* const x = static_cast<const T*>(b.data);
  T* const y = static_cast<T*>(c.data);
  int64_t k = a.begin(first);
  for (int64_t i = first; i < last; ++i) {
    T sum{};
    for (const int64_t end = a.end(i); k < end; ++k) sum += times(a.values[k], x[a.indices[k]]);
    y[i] = sum;
  }
}

// y += s x.
template <class T>
inline void add_scaled(T s, const T* x, T* y, int64_t count) {
  for (int64_t j = 0; j < count; ++j) y[j] += times(s, x[j]);
}

template <class T, class I>
void multiply_rows(const Rows<T, I>& a, const MatrixView& b, const MatrixView& c, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    T* const y = at<T>(c, i, 0);
    std::fill(y, y + c.columns, T{});
    for (int64_t k = a.begin(i); k < a.end(i); ++k) add_scaled(a.values[k], at<T>(b, a.column(k), 0), y, c.columns);
  }
}

// c[begin .. end of columns] = a^T b.
template <class T, class I>
void multiply_transposed(const Rows<T, I>& a, const MatrixView& b, const MatrixView& c, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < c.rows; ++i) std::fill(at<T>(c, i, begin), at<T>(c, i, begin) + (end - begin), T{});
  for (int64_t i = 0; i < a.count; ++i)
    for (int64_t k = a.begin(i); k < a.end(i); ++k)
      add_scaled(a.values[k], at<T>(b, i, begin), at<T>(c, a.column(k), begin), end - begin);
}

// The same of one column of b.
template <class T, class I>
void multiply_transposed_vector(const Rows<T, I>& a, const MatrixView& b, const MatrixView& c) {
  const T* const x = static_cast<const T*>(b.data);
  T* const y = static_cast<T*>(c.data);
  std::fill(y, y + c.rows, T{});
  int64_t k = a.begin(0);
  for (int64_t i = 0; i < a.count; ++i) {
    const T factor = x[i];
    for (const int64_t end = a.end(i); k < end; ++k) y[a.indices[k]] += times(a.values[k], factor);
  }
}

template <class T, class I>
void multiply(const SparseDenseProduct& p, int threads) {
  const Rows<T, I> a(p.a);
  if (p.transpose) {
    if (p.c.columns == 1) return multiply_transposed_vector(a, p.b, p.c);
    // Columns of c in parallel; one column is one thread's.
    constexpr int64_t kColumns = 8;
    const int64_t units = (p.c.columns + kColumns - 1) / kColumns;
    for_each_unit(units, slots_for(units, threads), [&](int64_t unit, int) {
      multiply_transposed(a, p.b, p.c, unit * kColumns, std::min(p.c.columns, (unit + 1) * kColumns));
    });
    return;
  }
  const int64_t units = a.units();
  for_each_unit(units, slots_for(units, threads), [&](int64_t unit, int) {
    const int64_t first = a.first_row(unit, units), last = a.first_row(unit + 1, units);
    if (first == last) return;
    if (p.c.columns == 1)
      multiply_vector(a, p.b, p.c, first, last);
    else
      multiply_rows(a, p.b, p.c, first, last);
  });
}

// ---- Sparse by sparse (Gustavson 1978): a row of the product is a sum of rows of b ----

// Where a column of the current row is: a mark per column that says in which row it was seen last.
template <class T, class I>
class RowProduct {
 public:
  RowProduct(const Rows<T, I>& a, const Rows<T, I>& b, int64_t columns, const ExecContext& context)
      : a_(a),
        b_(b),
        columns_(columns),
        scratch_(columns * static_cast<int64_t>(sizeof(int64_t) + sizeof(T)) + kAllocationAlignment, context) {
    marks_ = reinterpret_cast<int64_t*>(scratch_.data());
    sums_ = reinterpret_cast<T*>(marks_ + columns + columns % 2);  // 16-byte elements stay aligned
    std::fill(marks_, marks_ + columns, int64_t{-1});
  }

  int64_t count(int64_t row) {
    int64_t found = 0;
    for (int64_t k = a_.begin(row); k < a_.end(row); ++k) {
      const int64_t middle = a_.column(k);
      for (int64_t l = b_.begin(middle); l < b_.end(middle); ++l) {
        int64_t& mark = marks_[b_.indices[l]];
        if (mark != row) ++found;
        mark = row;
      }
    }
    return found;
  }

  // After count() has seen every row of this object: marks of fill() are those of count() shifted.
  void fill(int64_t row, I* indices, T* values) {
    const int64_t seen = ~row - 1;
    I* end = indices;
    for (int64_t k = a_.begin(row); k < a_.end(row); ++k) {
      const int64_t middle = a_.column(k);
      const T factor = a_.values[k];
      for (int64_t l = b_.begin(middle); l < b_.end(middle); ++l) {
        const I column = b_.indices[l];
        const T term = times(factor, b_.values[l]);
        if (marks_[column] != seen) {
          marks_[column] = seen;
          sums_[column] = term;
          *end++ = column;
        } else {
          sums_[column] += term;
        }
      }
    }
    std::sort(indices, end);
    for (const I* at = indices; at != end; ++at) *values++ = sums_[*at];
  }

 private:
  const Rows<T, I>& a_;
  const Rows<T, I>& b_;
  const int64_t columns_;
  Scratch scratch_;
  int64_t* marks_ = nullptr;
  T* sums_ = nullptr;
};

template <class T, class I>
void multiply_sparse(const CompressedRows& left, const CompressedRows& right, I* offsets,
                     const AllocateCompressed& allocate, const ExecContext& context) {
  const Rows<T, I> a(left), b(right);
  const int64_t units = a.units();
  const int slots = slots_for(units, context.threads);
  std::vector<std::unique_ptr<RowProduct<T, I>>> products;
  for (int slot = 0; slot < slots; ++slot)
    products.push_back(std::make_unique<RowProduct<T, I>>(a, b, right.columns, context));
  const auto for_each_row = [&](const auto& body) {
    for_each_unit(units, slots, [&](int64_t unit, int slot) {
      const int64_t last = a.first_row(unit + 1, units);
      for (int64_t row = a.first_row(unit, units); row < last; ++row) body(row, *products[static_cast<size_t>(slot)]);
    });
  };
  std::vector<int64_t> counts(static_cast<size_t>(a.count));
  for_each_row([&](int64_t row, RowProduct<T, I>& product) { counts[static_cast<size_t>(row)] = product.count(row); });
  int64_t total = 0;
  for (int64_t row = 0; row < a.count; ++row) {
    offsets[row] = static_cast<I>(total);
    total += counts[static_cast<size_t>(row)];
  }
  if (total > std::numeric_limits<I>::max())
    throw NotSupported(
        fmt::format("the product of two sparse matrices has {} elements, too many for its index dtype", total));
  offsets[a.count] = static_cast<I>(total);
  const CompressedRoom room = allocate(total);
  for_each_row([&](int64_t row, RowProduct<T, I>& product) {
    product.fill(row, static_cast<I*>(room.indices) + offsets[row], static_cast<T*>(room.values) + offsets[row]);
  });
}

// ---- Rows to columns ----

// Stretches of rows whose elements are counted, and put into their columns, side by side.
int64_t stretches(const CompressedRows& a, int threads) {
  // Their counts of all columns must not be more work than the elements.
  const int64_t sensible = std::max<int64_t>(1, a.nonzeros / std::max<int64_t>(1, a.columns));
  return slots_for(std::min(std::max<int64_t>(1, (a.rows + a.nonzeros) / kGrain), sensible), threads);
}

template <class T, class I>
void transpose(const SparseTranspose& task, const ExecContext& context) {
  const Rows<T, I> a(task.a);
  const int64_t columns = task.a.columns, count = stretches(task.a, context.threads);
  const Scratch scratch(count * columns * static_cast<int64_t>(sizeof(I)), context);
  auto* const all_counts = reinterpret_cast<I*>(scratch.data());
  const auto for_each_stretch = [&](const auto& body) {
    for_each_unit(count, static_cast<int>(count), [&](int64_t unit, int) {
      body(all_counts + unit * columns, a.first_row(unit, count), a.first_row(unit + 1, count));
    });
  };
  for_each_stretch([&](I* counts, int64_t first, int64_t last) {
    std::fill(counts, counts + columns, I{0});
    for (int64_t k = a.begin(first); k < a.begin(last); ++k) ++counts[a.indices[k]];
  });
  auto* const offsets = static_cast<I*>(task.offsets);
  I total = 0;
  for (int64_t column = 0; column < columns; ++column) {
    offsets[column] = total;
    for (int64_t unit = 0; unit < count; ++unit) {
      I& place = all_counts[unit * columns + column];
      total += std::exchange(place, total);
    }
  }
  offsets[columns] = total;
  auto* const values = static_cast<T*>(task.values);
  auto* const indices = static_cast<I*>(task.indices);
  for_each_stretch([&](I* places, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      for (int64_t k = a.begin(row); k < a.end(row); ++k) {
        const I place = places[a.indices[k]]++;
        indices[place] = static_cast<I>(row);
        values[place] = a.values[k];
      }
    }
  });
}

// Values are moved as words of their size.
template <class I>
void transpose_words(const SparseTranspose& task, const ExecContext& context) {
  switch (itemsize(task.a.dtype)) {
    case 1:
      return transpose<uint8_t, I>(task, context);
    case 2:
      return transpose<uint16_t, I>(task, context);
    case 4:
      return transpose<uint32_t, I>(task, context);
    case 8:
      return transpose<uint64_t, I>(task, context);
  }
  transpose<std::complex<double>, I>(task, context);
}

// ---- Triangular systems ----

// The elements of row `row` before (lower) or behind the diagonal, and where the diagonal is (-1: nowhere).
struct TriangleRow {
  int64_t begin, end, diagonal = -1;
};
template <class T, class I>
TriangleRow triangle_row(const Rows<T, I>& a, int64_t row, bool lower) {
  const I* const first = a.indices + a.begin(row);
  const I* const last = a.indices + a.end(row);
  const int64_t at = std::lower_bound(first, last, static_cast<I>(row)) - a.indices;
  TriangleRow result{a.begin(row), at};
  const bool found = at < a.end(row) && a.column(at) == row;
  if (found) result.diagonal = at;
  if (!lower) result = {at + (found ? 1 : 0), a.end(row), result.diagonal};
  return result;
}

template <class T, class I>
void solve_column(const SparseTriangularSolve& s, const T* b, T* x) {
  const Rows<T, I> a(s.a);
  const int64_t n = a.count;
  const bool lower = s.triangle == Triangle::lower;
  std::copy(b, b + n, x);
  const auto divide = [&](T& element, const TriangleRow& row) {
    if (!s.unit_diagonal) element /= row.diagonal < 0 ? T{} : a.values[row.diagonal];
  };
  // a^T of a lower triangle is an upper one, whose columns are the rows of a.
  const bool forwards = lower != s.transpose;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = forwards ? step : n - 1 - step;
    const TriangleRow row = triangle_row(a, i, lower);
    if (s.transpose) {
      divide(x[i], row);
      for (int64_t k = row.begin; k < row.end; ++k) x[a.column(k)] -= times(a.values[k], x[i]);
    } else {
      T sum = x[i];
      for (int64_t k = row.begin; k < row.end; ++k) sum -= times(a.values[k], x[a.column(k)]);
      x[i] = sum;
      divide(x[i], row);
    }
  }
}

// Row after row, each minus multiples of those above it: one thread.
template <class T, class I>
int64_t factorise_incomplete(const CompressedRows& matrix, T* values) {
  const Rows<T, I> a(matrix);
  const auto n = static_cast<size_t>(a.count);
  std::vector<int64_t> diagonal(n), place(n, -1);  // of the row's columns among the elements
  for (int64_t i = 0; i < a.count; ++i) {
    const TriangleRow row = triangle_row(a, i, /*lower=*/true);
    if (row.diagonal < 0) return i;
    diagonal[static_cast<size_t>(i)] = row.diagonal;
    for (int64_t k = a.begin(i); k < a.end(i); ++k) place[static_cast<size_t>(a.column(k))] = k;
    for (int64_t k = row.begin; k < row.end; ++k) {
      const int64_t pivot = diagonal[static_cast<size_t>(a.column(k))];
      values[k] /= values[pivot];
      for (int64_t other = pivot + 1; other < a.end(a.column(k)); ++other)
        if (const int64_t at = place[static_cast<size_t>(a.column(other))]; at >= 0)
          values[at] -= times(values[k], values[other]);
    }
    for (int64_t k = a.begin(i); k < a.end(i); ++k) place[static_cast<size_t>(a.column(k))] = -1;
    if (values[row.diagonal] == T{}) return i;
  }
  return -1;
}

class CpuSparse final : public SparseProducts {
 public:
  void multiply(const SparseDenseProduct& p, const ExecContext& context) override {
    with_types(p.a, [&]<class T, class I>() { cpu::multiply<T, I>(p, context.threads); });
  }
  void multiply_sparse(const CompressedRows& a, const CompressedRows& b, void* offsets,
                       const AllocateCompressed& allocate, const ExecContext& context) override {
    with_types(
        a, [&]<class T, class I>() { cpu::multiply_sparse<T, I>(a, b, static_cast<I*>(offsets), allocate, context); });
  }
  void transpose(const SparseTranspose& task, const ExecContext& context) override {
    if (task.a.index == DType::int32)
      transpose_words<int32_t>(task, context);
    else
      transpose_words<int64_t>(task, context);
  }
  void solve(const SparseTriangularSolve& s, const ExecContext& context) override {
    with_types(s.a, [&]<class T, class I>() {
      for_each_unit(s.x.columns, slots_for(s.x.columns, context.threads),
                    [&](int64_t column, int) { solve_column<T, I>(s, at<T>(s.b, 0, column), at<T>(s.x, 0, column)); });
    });
  }
  int64_t factorise_incomplete(const CompressedRows& a, void* values, const ExecContext&) override {
    return with_types(a,
                      [&]<class T, class I>() { return cpu::factorise_incomplete<T, I>(a, static_cast<T*>(values)); });
  }
  std::unique_ptr<LuFactors> factorise(const LuMatrix& a, const LuOptions& options) override {
    return cpu::factorise(a, options);
  }
};

}  // namespace
}  // namespace cpu

int64_t cpu_transpose_scratch_bytes(const SparseTranspose& task, int threads) {
  return cpu::stretches(task.a, threads) * task.a.columns * itemsize(task.a.index);
}

SparseProducts& cpu_sparse() {
  static cpu::CpuSparse& instance = *new cpu::CpuSparse;  // never destroyed: work may end after static objects
  return instance;
}

}  // namespace quarry::local
