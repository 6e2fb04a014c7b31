#include "quarry/local/cpu/decompositions.h"

// LAPACKE's C headers would bring C99's complex macros.
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <cblas.h>
#include <fmt/format.h>
#include <lapacke.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/blas_threads.h"
#include "quarry/local/cpu/linalg.h"
#include "quarry/local/cpu/matrix.h"
#include "quarry/local/cpu/strided.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local {
namespace cpu {
namespace {

// LAPACK's routine for T, on columns, with the caller's workspace.
#define QUARRY_LAPACK(routine, real_name, complex_name)                 \
  template <class T, class... Args>                                     \
  lapack_int routine(Args... args) {                                    \
    if constexpr (std::is_same_v<T, float>)                             \
      return LAPACKE_s##real_name##_work(LAPACK_COL_MAJOR, args...);    \
    else if constexpr (std::is_same_v<T, double>)                       \
      return LAPACKE_d##real_name##_work(LAPACK_COL_MAJOR, args...);    \
    else if constexpr (std::is_same_v<T, std::complex<float>>)          \
      return LAPACKE_c##complex_name##_work(LAPACK_COL_MAJOR, args...); \
    else                                                                \
      return LAPACKE_z##complex_name##_work(LAPACK_COL_MAJOR, args...); \
  }
QUARRY_LAPACK(getrf, getrf, getrf)
QUARRY_LAPACK(getrs, getrs, getrs)
QUARRY_LAPACK(getri, getri, getri)
QUARRY_LAPACK(potrf, potrf, potrf)
QUARRY_LAPACK(geqrf, geqrf, geqrf)
QUARRY_LAPACK(geqrt, geqrt, geqrt)
QUARRY_LAPACK(form_q, orgqr, ungqr)
QUARRY_LAPACK(gesdd, gesdd, gesdd)
QUARRY_LAPACK(eigh, syevd, heevd)
QUARRY_LAPACK(eigh_some, syevr, heevr)
QUARRY_LAPACK(geev, geev, geev)
QUARRY_LAPACK(gbsv, gbsv, gbsv)
QUARRY_LAPACK(pbsv, pbsv, pbsv)
QUARRY_LAPACK(sytrf, sytrf, sytrf)
QUARRY_LAPACK(hetrf, sytrf, hetrf)
QUARRY_LAPACK(gees, gees, gees)
#undef QUARRY_LAPACK

template <class T>
void trsm(CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE op, CBLAS_DIAG diag, int m, int n, const T* a, int lda,
          T* b, int ldb) {
  const T one(1);
  if constexpr (std::is_same_v<T, float>)
    cblas_strsm(CblasColMajor, side, uplo, op, diag, m, n, one, a, lda, b, ldb);
  else if constexpr (std::is_same_v<T, double>)
    cblas_dtrsm(CblasColMajor, side, uplo, op, diag, m, n, one, a, lda, b, ldb);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    cblas_ctrsm(CblasColMajor, side, uplo, op, diag, m, n, &one, a, lda, b, ldb);
  else
    cblas_ztrsm(CblasColMajor, side, uplo, op, diag, m, n, &one, a, lda, b, ldb);
}

lapack_int narrow(int64_t n) {
  if (n > INT_MAX) throw NotSupported(fmt::format("an extent of {} is beyond LAPACK's 32-bit sizes", n));
  return static_cast<lapack_int>(n);
}
template <class T>
T* matrix(const MatrixStack& stack, int64_t p) {
  return static_cast<T*>(stack.data) + p * stack.elements();
}
// LAPACK says in the first element of the workspace how many it wants, in T's precision.
template <class T>
int64_t wanted(T answer) {
  const double elements = static_cast<double>(std::real(answer));
  return std::max<int64_t>(1, static_cast<int64_t>(elements * (1 + 1e-6)));
}
lapack_int work_size(int64_t bytes, size_t item) { return narrow(bytes / static_cast<int64_t>(item)); }

// Bytes of a call's three workspaces.
using Pieces = std::array<int64_t, 3>;
using Work = std::array<char*, 3>;
template <class T>
int64_t bytes_of(int64_t elements) {
  return elements * static_cast<int64_t>(sizeof(T));
}

// Each task has pieces<T>(task), and run_one<T>(task, unit, ...) for each of units(task).

int64_t units(const auto& task) { return task.a.count; }

template <class T>
Pieces pieces(const Lu&) {
  return {};
}
template <class T>
void run_one(const Lu& task, int64_t p, const Pieces&, const Work&) {
  const lapack_int m = narrow(task.a.rows), n = narrow(task.a.columns);
  task.info[p] = getrf<T>(m, n, matrix<T>(task.a, p), narrow(task.a.leading()), task.pivots + p * std::min(m, n));
}

// Right-hand sides are solved in blocks of this many, so that threads share them.
constexpr int64_t kSides = 128;
int64_t blocks_of(int64_t sides) { return (sides + kSides - 1) / kSides; }
int64_t sides_of(const TriangularSolve& task) { return task.from_right ? task.b.rows : task.b.columns; }
int64_t units(const LuSolve& task) { return task.b.count * blocks_of(task.b.columns); }
int64_t units(const TriangularSolve& task) { return task.b.count * blocks_of(sides_of(task)); }
struct Sides {
  int64_t matrix, first;
  lapack_int count;
};
Sides sides(int64_t all, int64_t unit) {
  const int64_t first = unit % blocks_of(all) * kSides;
  return {unit / blocks_of(all), first, static_cast<lapack_int>(std::min(kSides, all - first))};
}

template <class T>
Pieces pieces(const LuSolve&) {
  return {};
}
template <class T>
void run_one(const LuSolve& task, int64_t unit, const Pieces&, const Work&) {
  constexpr char kOps[] = {'N', 'T', 'C'};
  const lapack_int n = narrow(task.lu.rows);
  const Sides part = sides(task.b.columns, unit);
  getrs<T>(kOps[static_cast<size_t>(task.op)], n, part.count, matrix<T>(task.lu, part.matrix), n,
           task.pivots + part.matrix * n, matrix<T>(task.b, part.matrix) + part.first * n, n);
}

template <class T>
Pieces pieces(const TriangularSolve&) {
  return {};
}
template <class T>
void run_one(const TriangularSolve& task, int64_t unit, const Pieces&, const Work&) {
  constexpr CBLAS_TRANSPOSE kOps[] = {CblasNoTrans, CblasTrans, CblasConjTrans};
  const lapack_int n = narrow(task.a.rows);
  const Sides part = sides(sides_of(task), unit);
  const lapack_int leading = narrow(task.b.leading());
  T* const b = matrix<T>(task.b, part.matrix) + (task.from_right ? part.first : part.first * leading);
  trsm<T>(task.from_right ? CblasRight : CblasLeft, task.triangle == Triangle::lower ? CblasLower : CblasUpper,
          kOps[static_cast<size_t>(task.op)], task.unit_diagonal ? CblasUnit : CblasNonUnit,
          task.from_right ? part.count : n, task.from_right ? n : part.count, matrix<T>(task.a, part.matrix),
          narrow(task.a.leading()), b, leading);
}

template <class T>
Pieces pieces(const Inverse& task) {
  const lapack_int n = narrow(task.a.rows);
  T answer(0);
  getri<T>(n, static_cast<T*>(nullptr), n, static_cast<const lapack_int*>(nullptr), &answer, -1);
  return {bytes_of<T>(wanted(answer)), bytes_of<lapack_int>(n), 0};
}
template <class T>
void run_one(const Inverse& task, int64_t p, const Pieces& sizes, const Work& work) {
  const lapack_int n = narrow(task.a.rows);
  T* const out = matrix<T>(task.out, p);
  std::memcpy(out, matrix<T>(task.a, p), static_cast<size_t>(bytes_of<T>(task.a.elements())));
  const auto pivots = reinterpret_cast<lapack_int*>(work[1]);
  task.info[p] = getrf<T>(n, n, out, n, pivots);
  if (task.info[p] == 0) getri<T>(n, out, n, pivots, reinterpret_cast<T*>(work[0]), work_size(sizes[0], sizeof(T)));
}

// OpenBLAS is faster by lower triangles, up to twice on small matrices: an upper one is exchanged with the lower one
// where the copies cost little. Rows become columns without conjugation: conj(a) = L L^H is a = U^H U with U = L^T.
bool by_exchange(const Cholesky& task) {
  constexpr int64_t kMost = 1024;
  return task.triangle == Triangle::upper && task.a.rows <= kMost;
}
template <class T>
Pieces pieces(const Cholesky& task) {
  return {by_exchange(task) ? bytes_of<T>(task.a.elements()) : 0, 0, 0};
}
template <class T>
void transpose_square(const T* from, T* to, int64_t n) {
  const auto size = static_cast<int64_t>(sizeof(T));
  copy_2d(reinterpret_cast<char*>(to), n * size, size, reinterpret_cast<const char*>(from), size, n * size, n, n, size);
}
template <class T>
void run_one(const Cholesky& task, int64_t p, const Pieces&, const Work& work) {
  const lapack_int n = narrow(task.a.rows);
  T* const a = matrix<T>(task.a, p);
  if (by_exchange(task)) {
    T* const exchanged = reinterpret_cast<T*>(work[0]);
    transpose_square(a, exchanged, n);
    task.info[p] = potrf<T>('L', n, exchanged, n);
    transpose_square(exchanged, a, n);
  } else {
    task.info[p] = potrf<T>(task.triangle == Triangle::lower ? 'L' : 'U', n, a, n);
  }
}

// Panels of large and tall matrices are decomposed by halves (geqrt), which is products where columns one after the
// other read the panel each time. The factors tau are the diagonals of its triangles.
constexpr int64_t kPanelColumns = 32;
bool by_panels(const Qr& task) {
  constexpr int64_t kLeast = 16, kLarge = 256, kTall = 4;
  const int64_t k = std::min(task.a.rows, task.a.columns);
  return k >= kLeast && (k >= kLarge || task.a.rows >= kTall * k);
}
template <class T>
Pieces pieces(const Qr& task) {
  const lapack_int m = narrow(task.a.rows), n = narrow(task.a.columns);
  if (by_panels(task))
    return {bytes_of<T>(kPanelColumns * task.a.columns), bytes_of<T>(kPanelColumns * std::min(m, n)), 0};
  T answer(0);
  geqrf<T>(m, n, static_cast<T*>(nullptr), m, static_cast<T*>(nullptr), &answer, -1);
  return {bytes_of<T>(wanted(answer)), 0, 0};
}
template <class T>
void run_one(const Qr& task, int64_t p, const Pieces& sizes, const Work& work) {
  const lapack_int m = narrow(task.a.rows), n = narrow(task.a.columns), k = std::min(m, n);
  T* const tau = static_cast<T*>(task.tau) + p * k;
  if (!by_panels(task)) {
    geqrf<T>(m, n, matrix<T>(task.a, p), narrow(task.a.leading()), tau, reinterpret_cast<T*>(work[0]),
             work_size(sizes[0], sizeof(T)));
    return;
  }
  const auto panel = static_cast<lapack_int>(std::min<int64_t>(kPanelColumns, k));
  T* const triangles = reinterpret_cast<T*>(work[1]);
  geqrt<T>(m, n, panel, matrix<T>(task.a, p), narrow(task.a.leading()), triangles, panel,
           reinterpret_cast<T*>(work[0]));
  for (lapack_int j = 0; j < k; ++j) tau[j] = triangles[int64_t{j} * panel + j % panel];
}

template <class T>
Pieces pieces(const FormQ& task) {
  const lapack_int m = narrow(task.a.rows), n = narrow(task.a.columns), k = narrow(task.reflectors);
  T answer(0);
  form_q<T>(m, n, k, static_cast<T*>(nullptr), m, static_cast<const T*>(nullptr), &answer, -1);
  return {bytes_of<T>(wanted(answer)), 0, 0};
}
template <class T>
void run_one(const FormQ& task, int64_t p, const Pieces& sizes, const Work& work) {
  const lapack_int m = narrow(task.a.rows), n = narrow(task.a.columns), k = narrow(task.reflectors);
  form_q<T>(m, n, k, matrix<T>(task.a, p), m, static_cast<const T*>(task.tau) + p * task.tau_step,
            reinterpret_cast<T*>(work[0]), work_size(sizes[0], sizeof(T)));
}

char svd_job(const Svd& task) { return task.u.data == nullptr ? 'N' : task.u.columns == task.u.rows ? 'A' : 'S'; }
// The work in T, the real work, the integers.
template <class T>
Pieces pieces(const Svd& task) {
  const lapack_int m = narrow(task.a.rows), n = narrow(task.a.columns);
  T answer(0);
  lapack_int none = 0;
  Real<T> reals[2] = {};
  T* const null = nullptr;
  if constexpr (is_complex_v<T>)
    gesdd<T>(svd_job(task), m, n, null, m, reals, null, m, null, n, &answer, -1, reals, &none);
  else
    gesdd<T>(svd_job(task), m, n, null, m, reals, null, m, null, n, &answer, -1, &none);
  const int64_t small = n, large = m;
  const int64_t real_work =
      !is_complex_v<T>         ? 0
      : task.u.data == nullptr ? 7 * small
                               : std::max(5 * small * small + 5 * small, 2 * large * small + 2 * small * small + small);
  return {bytes_of<T>(wanted(answer)), bytes_of<Real<T>>(real_work), bytes_of<lapack_int>(8 * small)};
}
template <class T>
void run_one(const Svd& task, int64_t p, const Pieces& sizes, const Work& work) {
  const lapack_int m = narrow(task.a.rows), n = narrow(task.a.columns), lwork = work_size(sizes[0], sizeof(T));
  const bool vectors = task.u.data != nullptr;
  T *const u = vectors ? matrix<T>(task.u, p) : nullptr, *const vh = vectors ? matrix<T>(task.vh, p) : nullptr;
  const auto values = static_cast<Real<T>*>(task.values) + p * n;
  const auto space = reinterpret_cast<T*>(work[0]);
  const auto integers = reinterpret_cast<lapack_int*>(work[2]);
  if constexpr (is_complex_v<T>)
    task.info[p] = gesdd<T>(svd_job(task), m, n, matrix<T>(task.a, p), m, values, u, m, vh, n, space, lwork,
                            reinterpret_cast<Real<T>*>(work[1]), integers);
  else
    task.info[p] = gesdd<T>(svd_job(task), m, n, matrix<T>(task.a, p), m, values, u, m, vh, n, space, lwork, integers);
}

template <class T>
char given_triangle(const Eigh& task) {
  return task.triangle == Triangle::lower && !reads_upper<T> ? 'L' : 'U';
}
// Puts the numbers of a matrix of the task there.
template <class T>
T* with_triangle(const Eigh& task, int64_t p) {
  const int64_t n = task.a.rows;
  T* const a = matrix<T>(task.a, p);
  if (task.triangle == Triangle::lower && reads_upper<T>)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = j + 1; i < n; ++i) a[i * n + j] = a[j * n + i];
  return a;
}

// Of a subset, by relatively robust representations or bisection: it makes vectors elsewhere than in the matrix.
template <class T>
struct SomeEigen {
  lapack_int n, first = 1, last = 0;  // numbers from 1
  Real<T> low = 0, high = 0;
  char job, range, triangle;
  int64_t most;

  explicit SomeEigen(const Eigh& task)
      : n(narrow(task.a.rows)),
        job(task.vectors ? 'V' : 'N'),
        range(std::holds_alternative<ByIndex>(*task.subset) ? 'I' : 'V'),
        triangle(given_triangle<T>(task)),
        most(most_of(*task.subset, task.a.rows)) {
    if (const auto* by_index = std::get_if<ByIndex>(&*task.subset)) {
      first = narrow(by_index->first + 1), last = narrow(by_index->last + 1);
    } else {
      low = static_cast<Real<T>>(std::get<ByValue>(*task.subset).low);
      high = static_cast<Real<T>>(std::get<ByValue>(*task.subset).high);
    }
  }
  int64_t vector_bytes() const { return job == 'V' ? bytes_of<T>(n * most) : 0; }
  int64_t support() const { return 2 * std::max<int64_t>(most, 1); }  // of vectors: integers
  lapack_int run(T* a, lapack_int* found, Real<T>* values, T* vectors, lapack_int* supports, T* work, lapack_int lwork,
                 Real<T>* reals, lapack_int real_count, lapack_int* integers, lapack_int integer_count) const {
    const Real<T> by_default = 0;
    if constexpr (is_complex_v<T>)
      return eigh_some<T>(job, range, triangle, n, a, n, low, high, first, last, by_default, found, values, vectors, n,
                          supports, work, lwork, reals, real_count, integers, integer_count);
    else
      return eigh_some<T>(job, range, triangle, n, a, n, low, high, first, last, by_default, found, values, vectors, n,
                          supports, work, lwork, integers, integer_count);
  }
};
template <class T>
Pieces some_pieces(const Eigh& task) {
  const SomeEigen<T> some(task);
  T answer(0);
  Real<T> reals(0);
  lapack_int integers = 0, found = 0;
  some.run(nullptr, &found, nullptr, nullptr, nullptr, &answer, -1, &reals, -1, &integers, -1);
  const int64_t real_bytes = is_complex_v<T> ? bytes_of<Real<T>>(wanted(reals)) : 0;
  return {bytes_of<T>(wanted(answer)) + some.vector_bytes(), real_bytes,
          bytes_of<lapack_int>(integers + some.support())};
}
template <class T>
void run_some(const Eigh& task, int64_t p, const Pieces& sizes, const Work& work) {
  const SomeEigen<T> some(task);
  T* const a = with_triangle<T>(task, p);
  const auto vectors = reinterpret_cast<T*>(work[0]);
  const auto supports = reinterpret_cast<lapack_int*>(work[2]);
  lapack_int found = 0;
  task.info[p] = some.run(a, &found, static_cast<Real<T>*>(task.values) + p * some.n, vectors, supports,
                          vectors + some.vector_bytes() / static_cast<int64_t>(sizeof(T)),
                          work_size(sizes[0] - some.vector_bytes(), sizeof(T)), reinterpret_cast<Real<T>*>(work[1]),
                          work_size(sizes[1], sizeof(Real<T>)), supports + some.support(),
                          narrow(sizes[2] / static_cast<int64_t>(sizeof(lapack_int)) - some.support()));
  task.found[p] = found;
  if (task.vectors) std::copy(vectors, vectors + found * int64_t{some.n}, a);
}

template <class T>
Pieces pieces(const Eigh& task) {
  if (task.subset) return some_pieces<T>(task);
  const lapack_int n = narrow(task.a.rows);
  const char job = task.vectors ? 'V' : 'N', triangle = given_triangle<T>(task);
  T answer(0);
  T* const null = nullptr;
  Real<T>* const values = nullptr;
  lapack_int integers = 0;
  if constexpr (is_complex_v<T>) {
    Real<T> reals(0);
    eigh<T>(job, triangle, n, null, n, values, &answer, -1, &reals, -1, &integers, -1);
    return {bytes_of<T>(wanted(answer)), bytes_of<Real<T>>(wanted(reals)), bytes_of<lapack_int>(integers)};
  } else {
    eigh<T>(job, triangle, n, null, n, values, &answer, -1, &integers, -1);
    return {bytes_of<T>(wanted(answer)), 0, bytes_of<lapack_int>(integers)};
  }
}
template <class T>
void run_one(const Eigh& task, int64_t p, const Pieces& sizes, const Work& work) {
  if (task.subset) return run_some<T>(task, p, sizes, work);
  const lapack_int n = narrow(task.a.rows), lwork = work_size(sizes[0], sizeof(T));
  const char job = task.vectors ? 'V' : 'N', triangle = given_triangle<T>(task);
  const auto values = static_cast<Real<T>*>(task.values) + p * n;
  const auto space = reinterpret_cast<T*>(work[0]);
  const auto integers = reinterpret_cast<lapack_int*>(work[2]);
  const lapack_int integer_count = work_size(sizes[2], sizeof(lapack_int));
  if constexpr (is_complex_v<T>)
    task.info[p] =
        eigh<T>(job, triangle, n, with_triangle<T>(task, p), n, values, space, lwork,
                reinterpret_cast<Real<T>*>(work[1]), work_size(sizes[1], sizeof(Real<T>)), integers, integer_count);
  else
    task.info[p] =
        eigh<T>(job, triangle, n, with_triangle<T>(task, p), n, values, space, lwork, integers, integer_count);
}

template <class T>
Pieces pieces(const Eig& task) {
  const lapack_int n = narrow(task.a.rows);
  const char job = task.vectors.data != nullptr ? 'V' : 'N';
  T answer(0);
  T* const null = nullptr;
  Real<T> reals[2] = {};  // the query writes there
  if constexpr (is_complex_v<T>)
    geev<T>('N', job, n, null, n, null, null, n, null, n, &answer, -1, reals);
  else
    geev<T>('N', job, n, null, n, reals, reals, null, n, null, n, &answer, -1);
  return {bytes_of<T>(wanted(answer)), bytes_of<Real<T>>(2 * task.a.rows), 0};
}
template <class T>
void run_one(const Eig& task, int64_t p, const Pieces& sizes, const Work& work) {
  const lapack_int n = narrow(task.a.rows), lwork = work_size(sizes[0], sizeof(T));
  const bool wants_vectors = task.vectors.data != nullptr;
  const char job = wants_vectors ? 'V' : 'N';
  T* const vectors = wants_vectors ? matrix<T>(task.vectors, p) : nullptr;
  T* const null = nullptr;
  const auto values = static_cast<std::complex<Real<T>>*>(task.values) + p * n;
  const auto space = reinterpret_cast<T*>(work[0]);
  const auto reals = reinterpret_cast<Real<T>*>(work[1]);
  if constexpr (is_complex_v<T>) {
    task.info[p] = geev<T>('N', job, n, matrix<T>(task.a, p), n, values, null, n, vectors, n, space, lwork, reals);
  } else {
    task.info[p] = geev<T>('N', job, n, matrix<T>(task.a, p), n, reals, reals + n, null, n, vectors, n, space, lwork);
    for (lapack_int i = 0; i < n; ++i) values[i] = {reals[i], reals[n + i]};
  }
}

template <class T>
Pieces pieces(const BandedSolve& task) {
  return {bytes_of<lapack_int>(task.a.columns), 0, 0};
}
template <class T>
void run_one(const BandedSolve& task, int64_t p, const Pieces&, const Work& work) {
  const lapack_int n = narrow(task.a.columns);
  task.info[p] = gbsv<T>(n, narrow(task.lower), narrow(task.upper), narrow(task.b.columns), matrix<T>(task.a, p),
                         narrow(task.a.rows), reinterpret_cast<lapack_int*>(work[0]), matrix<T>(task.b, p), n);
}

template <class T>
Pieces pieces(const HermitianBandedSolve&) {
  return {};
}
template <class T>
void run_one(const HermitianBandedSolve& task, int64_t p, const Pieces&, const Work&) {
  const lapack_int n = narrow(task.a.columns), rows = narrow(task.a.rows);
  task.info[p] = pbsv<T>(task.triangle == Triangle::lower ? 'L' : 'U', n, rows - 1, narrow(task.b.columns),
                         matrix<T>(task.a, p), rows, matrix<T>(task.b, p), n);
}

int64_t units(const ToeplitzSolve& task) { return task.b.count; }
template <class T>
Pieces pieces(const ToeplitzSolve& task) {
  return {bytes_of<T>(2 * task.b.rows), 0, 0};
}
// Levinson's recursion (N. Levinson, J. Math. Phys. 25, 1946) with the first and the last column of the inverses of the
// leading minors.
template <class T>
void run_one(const ToeplitzSolve& task, int64_t p, const Pieces&, const Work& work) {
  const int64_t n = task.b.rows;
  const T *const column = static_cast<const T*>(task.column), *const row = static_cast<const T*>(task.row);
  T* const b = matrix<T>(task.b, p);
  T *const first = reinterpret_cast<T*>(work[0]), *const last = first + n;
  // The next row of a, without its diagonal, times x.
  const auto below = [&](const T* x, int64_t k) {
    T sum(0);
    for (int64_t i = 0; i < k; ++i) sum += column[k - i] * x[i];
    return sum;
  };
  task.info[p] = column[0] == T(0) ? 1 : 0;
  for (int64_t k = 0; k < n && task.info[p] == 0; ++k) {
    if (k == 0) {
      first[0] = last[0] = T(1) / column[0];
    } else {
      T beyond(0);
      for (int64_t i = 0; i < k; ++i) beyond += row[i + 1] * last[i];
      const T under = below(first, k), minor = T(1) - beyond * under;
      if (minor == T(0)) task.info[p] = static_cast<int32_t>(k + 1);
      first[k] = T(0);
      T previous(0);  // of `last`, moved on by one
      for (int64_t i = 0; i <= k; ++i) {
        const T f = first[i], l = previous;
        previous = i < k ? last[i] : T(0);
        first[i] = (f - under * l) / minor;
        last[i] = (l - beyond * f) / minor;
      }
    }
    for (int64_t side = 0; side < task.b.columns; ++side) {
      T* const x = b + side * n;
      const T missing = x[k] - below(x, k);
      x[k] = T(0);
      for (int64_t i = 0; i <= k; ++i) x[i] += missing * last[i];
    }
  }
}

// The work of the factorization; its pivots, the swap of each row and the size of the block that begins there.
template <class T>
lapack_int factor_ldl(const Ldl& task, T* a, lapack_int n, lapack_int* pivots, T* work, lapack_int size) {
  const char triangle = task.triangle == Triangle::lower ? 'L' : 'U';
  return task.hermitian ? hetrf<T>(triangle, n, a, n, pivots, work, size)
                        : sytrf<T>(triangle, n, a, n, pivots, work, size);
}
template <class T>
Pieces pieces(const Ldl& task) {
  T answer(0);
  factor_ldl<T>(task, nullptr, narrow(task.a.rows), nullptr, &answer, -1);
  return {bytes_of<T>(wanted(answer)), bytes_of<lapack_int>(3 * task.a.rows), 0};
}
template <class T>
void run_one(const Ldl& task, int64_t p, const Pieces& sizes, const Work& work) {
  const int64_t n = task.a.rows;
  const bool lower = task.triangle == Triangle::lower;
  T* const a = matrix<T>(task.a, p);
  T* const d = matrix<T>(task.d, p);
  int64_t* const order = task.order + p * n;
  const auto pivots = reinterpret_cast<lapack_int*>(work[1]);
  lapack_int *const swaps = pivots + n, *const blocks = swaps + n;
  // A singular D is a result like any other.
  factor_ldl<T>(task, a, narrow(n), pivots, reinterpret_cast<T*>(work[0]), work_size(sizes[0], sizeof(T)));
  std::fill(d, d + n * n, T(0));
  for (int64_t k = 0; k < n; ++k) d[k + k * n] = task.hermitian ? T(std::real(a[k + k * n])) : a[k + k * n];
  // Of a block of two, the row that lies further from where the elimination began was swapped.
  for (int64_t k = 0; k < n; ++k) {
    blocks[k] = 1;
    swaps[k] = pivots[k] - 1;
    if (pivots[k] > 0) continue;
    const lapack_int other = -pivots[lower ? k : k + 1] - 1;
    blocks[k] = 2, blocks[k + 1] = 0;
    swaps[k] = lower ? static_cast<lapack_int>(k) : other;
    swaps[k + 1] = lower ? other : static_cast<lapack_int>(k + 1);
    T& beside = lower ? a[k + 1 + k * n] : a[k + (k + 1) * n];
    T across = beside;
    if constexpr (is_complex_v<T>)
      if (task.hermitian) across = std::conj(beside);
    (lower ? d[k + 1 + k * n] : d[k + (k + 1) * n]) = beside;
    (lower ? d[k + (k + 1) * n] : d[k + 1 + k * n]) = across;
    beside = T(0);
    ++k;
  }
  for (int64_t j = 0; j < n; ++j) {
    a[j + j * n] = T(1);
    for (int64_t i = lower ? 0 : j + 1, end = lower ? j : n; i < end; ++i) a[i + j * n] = T(0);
  }
  // The swaps of all steps, the last one first, make of the triangle the factor.
  int64_t* const place = order;
  std::iota(place, place + n, int64_t{0});
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = lower ? n - 1 - step : step, other = swaps[i];
    if (other == i) continue;
    const int64_t first = lower ? (blocks[i] == 0 ? i - 1 : i) : 0;
    const int64_t end = lower ? n : (blocks[i] == 2 ? i + 2 : i + 1);
    for (int64_t j = first; j < end; ++j) std::swap(a[i + j * n], a[other + j * n]);
    std::swap(place[i], place[other]);
  }
  // From "row i of the factor is row place[i]" to its inverse.
  for (int64_t i = 0; i < n; ++i) swaps[place[i]] = static_cast<lapack_int>(i);
  for (int64_t i = 0; i < n; ++i) order[i] = swaps[i];
}

template <class T>
Pieces pieces(const Schur& task) {
  const lapack_int n = narrow(task.a.rows);
  lapack_int none = 0;
  T answer(0);
  T* const null = nullptr;
  Real<T> reals[2] = {};
  if constexpr (is_complex_v<T>)
    gees<T>('V', 'N', nullptr, n, null, n, &none, null, null, n, &answer, -1, reals, &none);
  else
    gees<T>('V', 'N', nullptr, n, null, n, &none, reals, reals, null, n, &answer, -1, &none);
  return {bytes_of<T>(wanted(answer)), bytes_of<T>(2 * task.a.rows), bytes_of<Real<T>>(task.a.rows)};
}
template <class T>
void run_one(const Schur& task, int64_t p, const Pieces& sizes, const Work& work) {
  const lapack_int n = narrow(task.a.rows), lwork = work_size(sizes[0], sizeof(T));
  lapack_int chosen = 0, none = 0;
  T *const a = matrix<T>(task.a, p), *const z = matrix<T>(task.vectors, p);
  T *const space = reinterpret_cast<T*>(work[0]), *const values = reinterpret_cast<T*>(work[1]);
  if constexpr (is_complex_v<T>)
    task.info[p] = gees<T>('V', 'N', nullptr, n, a, n, &chosen, values, z, n, space, lwork,
                           reinterpret_cast<Real<T>*>(work[2]), &none);
  else
    task.info[p] = gees<T>('V', 'N', nullptr, n, a, n, &chosen, values, values + n, z, n, space, lwork, &none);
}

template <class T>
Pieces pieces(const ReflectionSigns&) {
  return {};
}
// By panels: of each first the square on the diagonal, then the rows below and the columns to the right.
template <class T>
void run_one(const ReflectionSigns& task, int64_t p, const Pieces&, const Work&) {
  constexpr int64_t kPanel = 32;
  const int64_t n = task.a.rows;
  const auto signs = static_cast<Real<T>*>(task.signs) + p * n;
  const MatrixView a{matrix<T>(task.a, p), n, n, 1, n};
  for (int64_t first = 0; first < n; first += kPanel) {
    const int64_t end = std::min(n, first + kPanel), rest = n - end;
    for (int64_t k = first; k < end; ++k) {
      signs[k] = std::real(*at<T>(a, k, k)) < 0 ? Real<T>(1) : Real<T>(-1);
      *at<T>(a, k, k) -= signs[k];
      const T pivot = *at<T>(a, k, k);
      for (int64_t i = k + 1; i < n; ++i) *at<T>(a, i, k) /= pivot;
      // The panel's other columns in all rows; of those to the right the panel's rows.
      for (int64_t j = k + 1; j < n; ++j) {
        const T factor = *at<T>(a, k, j);
        T* const column = at<T>(a, 0, j);
        const T* const left = at<T>(a, 0, k);
        for (int64_t i = k + 1, last = j < end ? n : end; i < last; ++i) column[i] -= left[i] * factor;
      }
    }
    for (int64_t i = end; i < n; i += kMatrixTile) {
      for (int64_t j = end; j < n; j += kMatrixTile) {
        const int64_t rows = std::min(kMatrixTile, n - i), columns = std::min(kMatrixTile, n - j);
        if (rest > 0)
          tile_product<T>(false, false, T(-1), block<T>(a, i, rows, first, end - first),
                          block<T>(a, first, end - first, j, columns), T(1), block<T>(a, i, rows, j, columns));
      }
    }
  }
}

void run_row_order(const RowOrder& task) {
  for (int64_t p = 0; p < task.count; ++p) {
    const int32_t* const pivots = task.pivots + p * task.swaps;
    int64_t* const order = task.order + p * task.rows;
    std::iota(order, order + task.rows, int64_t{0});
    for (int64_t i = 0; i < task.swaps; ++i) {
      const int64_t other = pivots[i] - 1;
      if (other >= 0 && other < task.rows) std::swap(order[i], order[other]);  // NaN can leave anything
    }
  }
}

// Of the rows of all matrices.
void keep_rows(const KeptTriangle& task, int64_t begin, int64_t end) {
  const int64_t item = itemsize(task.dtype), columns = task.columns;
  alignas(16) char one[16];
  Scalar(1).store(task.dtype, one);
  const bool lower = task.triangle == Triangle::lower;
  for (int64_t row = begin; row < end; ++row) {
    char* const elements = static_cast<char*>(task.data) + row * columns * item;
    const int64_t place = std::min(row % task.rows, columns);  // on the diagonal, or behind the row
    const int64_t first = lower ? std::min(place + 1, columns) : 0, last = lower ? columns : place;
    std::memset(elements + first * item, 0, static_cast<size_t>((last - first) * item));
    if (task.unit_diagonal && place < columns) std::memcpy(elements + place * item, one, static_cast<size_t>(item));
  }
}

int64_t total(const Pieces& sizes) {
  int64_t sum = 0;
  for (const int64_t bytes : sizes) sum += rounded_allocation(bytes);
  return sum;
}

class LapackDecompositions final : public Decompositions {
 public:
  bool keep(const KeptTriangle& task, const ExecContext& context) override {
    constexpr int64_t kElements = 1 << 15;  // of a piece of work
    const int64_t rows = task.count * task.rows,
                  step = std::max<int64_t>(1, kElements / std::max<int64_t>(1, task.columns));
    const int64_t pieces = (rows + step - 1) / step;
    for_each_unit(pieces, slots_for(pieces, context.threads),
                  [&](int64_t piece, int) { keep_rows(task, piece * step, std::min(rows, (piece + 1) * step)); });
    return true;
  }
  int64_t scratch_bytes(const Decomposition& request) override { return bytes_of_any(request); }
  int64_t host_scratch_bytes(const HostDecomposition& request) override { return bytes_of_any(request); }

  void run(const Decomposition& request, const ExecContext& context) override { run_any(request, context); }
  void run_on_host(const HostDecomposition& request, const ExecContext& context) override { run_any(request, context); }
  int64_t eigh_scratch_bytes(DType dtype, int64_t n) override { return cpu::eigh_scratch_bytes(dtype, n); }
  void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors,
            const ExecContext& context) override {
    const Scratch scratch(cpu::eigh_scratch_bytes(dtype, a.rows), context);
    cpu::eigh(dtype, triangle, a, values, vectors, scratch.data());
  }

 private:
  // In one piece.
  template <class Request>
  static int64_t bytes_of_any(const Request& request) {
    return std::visit(
        []<class Task>(const Task& task) {
          if constexpr (std::is_same_v<Task, RowOrder>)
            return int64_t{0};
          else
            return with_blas_type("linalg", task.dtype, [&]<class T>() {
              const OneThreadPerCall scope;
              return total(pieces<T>(task)) * slots_for(units(task), 0);
            });
        },
        request);
  }
  template <class Request>
  static void run_any(const Request& request, const ExecContext& context) {
    std::visit(
        [&]<class Task>(const Task& task) {
          if constexpr (std::is_same_v<Task, RowOrder>)
            return run_row_order(task);
          else
            with_blas_type("linalg", task.dtype, [&]<class T>() {
              const OneThreadPerCall scope;
              const int64_t count = units(task);
              const int slots = std::min(slots_for(count, context.threads), slots_for(count, 0));
              const Pieces sizes = pieces<T>(task);
              const Scratch scratch(total(sizes) * slots, context);
              // Several small matrices are one piece of work.
              const int64_t runs = std::min<int64_t>(count, 16 * static_cast<int64_t>(slots));
              for_each_blas_unit(runs, slots, [&](int64_t run, int slot) {
                Work work;
                char* next = scratch.at(total(sizes) * slot);
                for (size_t i = 0; i < work.size(); ++i) {
                  work[i] = next;
                  next += rounded_allocation(sizes[i]);
                }
                for (int64_t unit = run * count / runs; unit < (run + 1) * count / runs; ++unit)
                  run_one<T>(task, unit, sizes, work);
              });
            });
        },
        request);
  }
};

}  // namespace
}  // namespace cpu

Decompositions& cpu_decompositions() {
  static cpu::LapackDecompositions instance;
  return instance;
}

}  // namespace quarry::local
