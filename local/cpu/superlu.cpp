// The only file that sees SuperLU's headers: their macros and global names clash with most others.
#include "quarry/local/cpu/superlu.h"

#include <superlu/slu_cdefs.h>
#include <superlu/slu_ddefs.h>
#include <superlu/slu_sdefs.h>
#include <superlu/slu_zdefs.h>
#undef TRUE
#undef FALSE
#undef EMPTY
#undef ABORT

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/blas_threads.h"
#include "quarry/local/cpu/superlu_memory.h"

namespace quarry::local::cpu {
namespace {

// SuperLU's routines for an element type, under one name each.
template <class T>
struct Routines;
#define QUARRY_SUPERLU(type, letter, kind, element)                       \
  template <>                                                             \
  struct Routines<type> {                                                 \
    static constexpr auto kCreateColumns = letter##Create_CompCol_Matrix; \
    static constexpr auto kCreateDense = letter##Create_Dense_Matrix;     \
    static constexpr auto kFactorise = letter##gstrf;                     \
    static constexpr auto kFactoriseIncomplete = letter##gsitrf;          \
    static constexpr auto kSolve = letter##gstrs;                         \
    static constexpr Dtype_t kKind = kind;                                \
    using Element = element;                                              \
  };
QUARRY_SUPERLU(float, s, SLU_S, float)
QUARRY_SUPERLU(double, d, SLU_D, double)
QUARRY_SUPERLU(std::complex<float>, c, SLU_C, ::complex)
QUARRY_SUPERLU(std::complex<double>, z, SLU_Z, ::doublecomplex)
#undef QUARRY_SUPERLU

colperm_t column_permutation(const std::string& name) {
  if (name == "NATURAL") return NATURAL;
  if (name == "MMD_ATA") return MMD_ATA;
  if (name == "MMD_AT_PLUS_A") return MMD_AT_PLUS_A;
  if (name == "COLAMD") return COLAMD;
  throw InvalidArgument(
      fmt::format("permc_spec: '{}' is none of 'NATURAL', 'MMD_ATA', 'MMD_AT_PLUS_A', 'COLAMD'", name));
}

class Statistics {
 public:
  Statistics() { StatInit(&statistics_); }
  ~Statistics() { StatFree(&statistics_); }
  Statistics(const Statistics&) = delete;
  Statistics& operator=(const Statistics&) = delete;
  SuperLUStat_t* get() { return &statistics_; }

 private:
  SuperLUStat_t statistics_{};
};

// A matrix whose header is SuperLU's and whose arrays are released by `Release`.
template <void (*Release)(SuperMatrix*)>
class Matrix {
 public:
  Matrix() = default;
  ~Matrix() {
    if (matrix_.Store) Release(&matrix_);
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  SuperMatrix* get() const { return &matrix_; }
  template <class Store>
  const Store& store() const {
    return *static_cast<const Store*>(matrix_.Store);
  }

 private:
  mutable SuperMatrix matrix_{};
};
using Borrowed = Matrix<Destroy_SuperMatrix_Store>;

template <class T>
class Factors final : public LuFactors {
  using R = Routines<T>;
  using Element = typename R::Element;
  static_assert(sizeof(Element) == sizeof(T));

 public:
  Factors(const LuMatrix& a, const LuOptions& options)
      : n_(static_cast<int>(a.n)), row_order_(static_cast<size_t>(a.n)), column_order_(static_cast<size_t>(a.n)) {
    superlu_options_t settings;
    if (options.incomplete)
      ilu_set_default_options(&settings);
    else
      set_default_options(&settings);
    settings.ColPerm = column_permutation(options.column_order);
    settings.SymmetricMode = options.symmetric_mode ? YES : NO;
    settings.DiagPivotThresh = options.pivot_threshold;
    settings.PrintStat = NO;
    if (options.incomplete) {
      settings.ILU_DropTol = options.drop_tolerance;
      settings.ILU_FillFactor = options.fill_factor;
    }
    Borrowed matrix;
    const auto elements = static_cast<int>(a.offsets[a.n]);
    R::kCreateColumns(matrix.get(), n_, n_, elements, static_cast<Element*>(const_cast<void*>(a.values)),
                      const_cast<int32_t*>(a.rows), const_cast<int32_t*>(a.offsets), SLU_NC, R::kKind, SLU_GE);
    std::vector<int32_t> tree(static_cast<size_t>(n_));
    get_perm_c(settings.ColPerm, matrix.get(), column_order_.data());
    Matrix<Destroy_CompCol_Permuted> permuted;
    sp_preorder(&settings, matrix.get(), column_order_.data(), tree.data(), permuted.get());
    Statistics statistics;
    GlobalLU_t workspace{};
    int info = 0;
    const auto run = options.incomplete ? R::kFactoriseIncomplete : R::kFactorise;
    run(&settings, permuted.get(), sp_ienv(2), sp_ienv(1), tree.data(), nullptr, 0, column_order_.data(),
        row_order_.data(), lower_.get(), upper_.get(), &workspace, statistics.get(), &info);
    if (info > n_) throw OutOfMemory(fmt::format("SuperLU ran out of memory after {} bytes", info - n_));
    if (info > 0 && !options.incomplete)
      throw LinAlgError(fmt::format("a: the matrix is singular: pivot {} of its factor is exactly zero", info - 1));
    if (info < 0) throw InternalError(fmt::format("SuperLU: argument {} is wrong", -info));
  }

  void solve(void* x, int64_t columns, char trans) const override {
    const OneThreadPerCall scope;
    const SuperLuScope memory;
    // Stretches of columns, because SuperLU counts elements in 32 bits.
    const int64_t most = std::max<int64_t>(1, std::numeric_limits<int32_t>::max() / std::max(1, n_) / 2);
    for (int64_t begin = 0; begin < columns; begin += most) {
      Borrowed right;
      R::kCreateDense(right.get(), n_, static_cast<int>(std::min(most, columns - begin)),
                      static_cast<Element*>(x) + begin * n_, n_, SLU_DN, R::kKind, SLU_GE);
      Statistics statistics;
      int info = 0;
      R::kSolve(trans == 'N'   ? NOTRANS
                : trans == 'T' ? TRANS
                               : CONJ,
                lower_.get(), upper_.get(), const_cast<int*>(column_order_.data()), const_cast<int*>(row_order_.data()),
                right.get(), statistics.get(), &info);
      if (info != 0) throw InternalError(fmt::format("SuperLU: argument {} of a solve is wrong", -info));
    }
  }

  const std::vector<int32_t>& row_order() const override { return row_order_; }
  const std::vector<int32_t>& column_order() const override { return column_order_; }

  // A supernode's block holds its columns of L and, on and above the diagonal, of U.
  LuFactor lower() const override {
    LuFactor result;
    result.offsets.push_back(0);
    const T one(1);
    for (int column = 0; column < n_; ++column) {
      for_each_in_block(column, [&](int row, const T& value) {
        if (row > column) append(result, row, value);
        if (row == column) append(result, row, one);
      });
      result.offsets.push_back(static_cast<int32_t>(result.rows.size()));
    }
    return result;
  }
  LuFactor upper() const override {
    const auto& store = upper_.template store<NCformat>();
    LuFactor result;
    result.offsets.push_back(0);
    for (int column = 0; column < n_; ++column) {
      for (int k = store.colptr[column]; k < store.colptr[column + 1]; ++k)
        append(result, store.rowind[k], static_cast<const T*>(store.nzval)[k]);
      for_each_in_block(column, [&](int row, const T& value) {
        if (row <= column) append(result, row, value);
      });
      result.offsets.push_back(static_cast<int32_t>(result.rows.size()));
    }
    return result;
  }
  int64_t nonzeros() const override {
    return int64_t{lower_.template store<SCformat>().nnz} + upper_.template store<NCformat>().nnz + n_;
  }

 private:
  static void append(LuFactor& factor, int row, const T& value) {
    factor.rows.push_back(row);
    const char* const bytes = reinterpret_cast<const char*>(&value);
    factor.values.insert(factor.values.end(), bytes, bytes + sizeof(T));
  }
  // Rows are numbered within their supernode's block by position: the first ones are the supernode's own columns.
  template <class F>
  void for_each_in_block(int column, const F& body) const {
    const auto& store = lower_.template store<SCformat>();
    const int first = store.sup_to_col[store.col_to_sup[column]];
    const int begin = store.rowind_colptr[first], count = store.rowind_colptr[first + 1] - begin;
    const T* const values = static_cast<const T*>(store.nzval) + store.nzval_colptr[column];
    for (int i = 0; i < count; ++i) body(store.rowind[begin + i], values[i]);
  }

  int n_;
  std::vector<int32_t> row_order_, column_order_;
  Matrix<Destroy_SuperNode_Matrix> lower_;
  Matrix<Destroy_CompCol_Matrix> upper_;
};

// A row for every column, each with an element there (Duff 1981): without such rows SuperLU would read past its arrays
// where a pivot should be. Returns the first column that gets none, -1 where all do.
class Matching {
 public:
  explicit Matching(const LuMatrix& a)
      : a_(a), column_of_(static_cast<size_t>(a.n), -1), next_(a.offsets, a.offsets + a.n), cheap_(next_) {}

  int64_t unmatched() {
    std::vector<bool> matched(static_cast<size_t>(a_.n));
    for (int32_t column = 0; column < a_.n; ++column) {  // the diagonal, where there is one
      const int32_t* const begin = a_.rows + a_.offsets[column];
      const int32_t* const end = a_.rows + a_.offsets[column + 1];
      if (!std::binary_search(begin, end, column)) continue;
      column_of(column) = column;
      matched[static_cast<size_t>(column)] = true;
    }
    std::vector<int32_t> seen(static_cast<size_t>(a_.n), -1);
    for (int32_t column = 0; column < a_.n; ++column)
      if (!matched[static_cast<size_t>(column)] && !augment(column, seen)) return column;
    return -1;
  }

 private:
  int32_t& column_of(int32_t row) { return column_of_[static_cast<size_t>(row)]; }
  // Along alternating paths from `start` to a free row; the matches on the way move up by one.
  bool augment(int32_t start, std::vector<int32_t>& seen) {
    path_.assign(1, start);
    next_[static_cast<size_t>(start)] = a_.offsets[start];
    seen[static_cast<size_t>(start)] = start;
    while (!path_.empty()) {
      const int32_t column = path_.back();
      const auto at = static_cast<size_t>(column);
      for (int32_t& k = cheap_[at]; k < a_.offsets[column + 1]; ++k) {  // rows stay matched: seen once is enough
        if (column_of(a_.rows[k]) >= 0) continue;
        int32_t row = a_.rows[k];
        while (!path_.empty()) {
          const int32_t owner = path_.back();
          path_.pop_back();
          column_of(row) = owner;
          if (!path_.empty()) row = a_.rows[next_[static_cast<size_t>(path_.back())] - 1];
        }
        return true;
      }
      bool descended = false;
      for (int32_t& k = next_[at]; k < a_.offsets[column + 1] && !descended;) {
        const int32_t other = column_of(a_.rows[k++]);
        if (seen[static_cast<size_t>(other)] == start) continue;
        seen[static_cast<size_t>(other)] = start;
        next_[static_cast<size_t>(other)] = a_.offsets[other];
        path_.push_back(other);
        descended = true;
      }
      if (!descended) path_.pop_back();
    }
    return false;
  }

  const LuMatrix& a_;
  std::vector<int32_t> column_of_, next_, cheap_, path_;
};

}  // namespace

namespace {

// SuperLU counts the elements of a^T a in 32 bits and writes past its arrays where they are more. Their number is at
// least the square of the longest row's length and at most the sum of the squares; between the two it is counted.
void check_normal_matrix(const LuMatrix& a) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto n = static_cast<size_t>(a.n);
  std::vector<int64_t> row_begin(n + 1, 0);
  const int64_t elements = a.offsets[a.n];
  for (int64_t k = 0; k < elements; ++k) ++row_begin[static_cast<size_t>(a.rows[k]) + 1];
  double longest = 0, most = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto length = static_cast<double>(row_begin[i + 1]);
    longest = std::max(longest, length);
    most += length * length;
    row_begin[i + 1] += row_begin[i];
  }
  if (most <= static_cast<double>(kMost)) return;
  int64_t found = longest * longest > static_cast<double>(kMost) ? kMost + 1 : 0;
  std::vector<int32_t> columns(static_cast<size_t>(elements)), seen(n, -1);
  std::vector<int64_t> next(row_begin.begin(), row_begin.end() - 1);
  for (int32_t column = 0; column < a.n; ++column) {
    for (int32_t k = a.offsets[column]; k < a.offsets[column + 1]; ++k)
      columns[static_cast<size_t>(next[static_cast<size_t>(a.rows[k])]++)] = column;
  }
  for (int32_t column = 0; column < a.n && found <= kMost; ++column) {
    for (int32_t k = a.offsets[column]; k < a.offsets[column + 1]; ++k) {
      const auto row = static_cast<size_t>(a.rows[k]);
      for (int64_t at = row_begin[row]; at < row_begin[row + 1]; ++at) {
        int32_t& mark = seen[static_cast<size_t>(columns[static_cast<size_t>(at)])];
        found += mark != column ? 1 : 0;
        mark = column;
      }
    }
  }
  if (found > kMost)
    throw NotSupported("permc_spec: 'MMD_ATA' makes a^T a, which has more elements than 32 bits count; use 'COLAMD'");
}

}  // namespace

std::unique_ptr<LuFactors> factorise(const LuMatrix& a, const LuOptions& options) {
  const OneThreadPerCall scope;
  const SuperLuScope memory;
  if (column_permutation(options.column_order) == MMD_ATA) check_normal_matrix(a);
  const int64_t unmatched = Matching(a).unmatched();
  if (unmatched >= 0)
    throw LinAlgError(
        fmt::format("a: the matrix is singular whatever its values: no pivot is left for column {}", unmatched));
  if (a.dtype == DType::float32) return std::make_unique<Factors<float>>(a, options);
  if (a.dtype == DType::float64) return std::make_unique<Factors<double>>(a, options);
  if (a.dtype == DType::complex64) return std::make_unique<Factors<std::complex<float>>>(a, options);
  if (a.dtype == DType::complex128) return std::make_unique<Factors<std::complex<double>>>(a, options);
  throw TypeError(fmt::format("a sparse factorisation is not supported for dtype {}", name(a.dtype)));
}

}  // namespace quarry::local::cpu
