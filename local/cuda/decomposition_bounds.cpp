#include "quarry/local/cuda/decomposition_bounds.h"

#include <algorithm>

#include "quarry/local/cuda/definite.h"
#include "quarry/local/cuda/linalg.h"
#include "quarry/local/cuda/small_matrices.h"
#include "quarry/local/cuda/solver_library.h"
#include "quarry/local/cuda/tall_lu.h"
#include "quarry/local/memory/pools.h"

namespace quarry::local::cuda {

using namespace solving;

namespace {

// The most scratch that Runner takes for a task, in the order of its methods.
class Bounds {
 public:
  explicit Bounds(const Library& library) : library_(library) {}

  int64_t of(const Lu& task) const {
    const int64_t m = task.a.rows, n = task.a.columns, count = task.a.count;
    if (by_stack_kernel(task) || by_small_kernel(task)) return 0;
    if (batched(task.a)) return addresses(count) + blas(task.dtype, n, n, n);
    return piece(count * std::min(m, n) * 8) + lu(task.dtype, m, n);
  }
  int64_t of(const LuSolve& task) const {
    const int64_t n = task.lu.rows, sides = task.b.columns, count = task.b.count;
    if (is_small(task)) return 0;
    if (batched(count, n)) return 2 * addresses(count) + blas(task.dtype, n, sides, n);
    return piece(count * n * 8) + piece(sizeof(int));
  }
  int64_t of(const Inverse& task) const {
    const int64_t n = task.a.rows, count = task.a.count;
    if (n <= most_small(task.dtype)) return 0;
    if (batched(count, n))
      return 2 * addresses(count) + piece(count * n * 4) + piece(count * 4) + blas(task.dtype, n, n, n);
    return piece(n * 8) + piece(sizeof(int)) + lu(task.dtype, n, n);
  }
  int64_t of(const Cholesky& task) const {
    const int64_t n = task.a.rows;
    if (batched(task.a.count, n)) return addresses(task.a.count);
    if (decomposes_by_strips(task)) return piece(definite_scratch_bytes(task)) + blas(task.dtype, n, n, n);
    return device(library_.cholesky(task.dtype, task.triangle, n));
  }
  int64_t of(const TriangularSolve& task) const {
    const int64_t n = task.a.rows, count = batched(task.b.count, n) ? task.b.count : 0;
    return 2 * addresses(count) + blas(task.dtype, task.b.rows, task.b.columns, n);
  }
  int64_t of(const Qr& task) const {
    const int64_t m = task.a.rows, n = task.a.columns;
    if (batched(task.a)) return 2 * addresses(task.a.count) + blas(task.dtype, m, n, std::min(m, n));
    return piece(sizeof(int)) + device(library_.qr(task.dtype, m, n));
  }
  int64_t of(const FormQ& task) const {
    if (batched(task.a)) return piece(task.a.count * task.a.elements() * itemsize(task.dtype));
    return q(task.dtype, task.a.rows, task.a.columns, task.reflectors);
  }
  int64_t of(const Svd& task) const {
    const int64_t m = task.a.rows, n = task.a.columns;
    if (by_jacobi(task)) return of_stack(task);
    const bool vectors = task.u.data != nullptr;
    if (!is_tall(m, n)) return of_one(task.dtype, m, n, vectors, task.u.columns);
    const int64_t item = itemsize(task.dtype), small = vectors ? piece(n * n * item) : 0;
    int64_t most = std::max(device(library_.qr(task.dtype, m, n)), small + of_one(task.dtype, n, n, vectors, n));
    if (vectors) {
      most = std::max({most, small + q(task.dtype, m, n, n), small + blas(task.dtype, m, n, n)});
      if (task.u.columns > n) most = std::max(most, small + q(task.dtype, m, m, n));
    }
    return piece(n * item) + piece(n * n * item) + piece(sizeof(int)) + most;
  }
  int64_t of(const Eigh& task) const {
    if (by_two_stages(task)) return piece(two_stage_scratch_bytes(task.dtype, task.a.rows, task.vectors));
    const int64_t most = at_once(task), rest = task.a.count % most;
    return std::max(device(library_.eigh(task, most)), rest == 0 ? 0 : device(library_.eigh(task, rest)));
  }
  int64_t of(const Eig& task) const {
    return device(library_.eig(task.dtype, task.a.rows, task.vectors.data != nullptr));
  }
  int64_t of(const RowOrder&) const { return 0; }
  int64_t of(const ReflectionSigns&) const { return 0; }

 private:
  static int64_t piece(int64_t bytes) { return bytes > 0 ? rounded_allocation(bytes) : 0; }
  static int64_t device(const WorkBytes& bytes) { return piece(static_cast<int64_t>(bytes.device)); }
  static int64_t addresses(int64_t count) { return piece(count * static_cast<int64_t>(sizeof(void*))); }
  static int64_t blas(DType dtype, int64_t m, int64_t n, int64_t k) { return piece(workspace_bytes(dtype, m, n, k)); }
  int64_t lu(DType dtype, int64_t m, int64_t n) const {
    if (is_tall_lu(dtype, m, n)) return piece(tall_lu_scratch_bytes(dtype, n)) + blas(dtype, m, n, n);
    return device(library_.lu(dtype, m, n));
  }
  int64_t q(DType dtype, int64_t m, int64_t n, int64_t reflectors) const {
    int64_t bytes = 0;
    with_type(dtype, [&]<class T>() {
      bytes = static_cast<int64_t>(library_.q<T>(m, n, reflectors)) * static_cast<int64_t>(sizeof(T));
    });
    return piece(bytes) + piece(sizeof(int));
  }
  int64_t of_one(DType dtype, int64_t m, int64_t n, bool vectors, int64_t u_columns) const {
    const auto iterated = [&](DType type, signed char job) { return device(library_.svd(type, job, m, n)); };
    if (!by_polar(vectors, u_columns, n)) return iterated(dtype, !vectors ? 'N' : u_columns == m ? 'A' : 'S');
    const DType wide = polar_type(dtype, n);
    const int64_t item = itemsize(wide), matrix = piece(m * n * item), square = piece(n * n * item);
    const int64_t products = std::max({blas(wide, m, n, n), blas(wide, n, n, m), blas(wide, n, 1, 1),
                                       blas(wide, m * n, 1, 1), blas(wide, n * n, 1, 1)});
    const int64_t measuring = matrix + matrix + square + products;
    const int64_t converted = wide != dtype ? matrix + piece(n * item) : 0;
    const int64_t own = wide != dtype || !vectors ? matrix + square : 0;
    return converted + own + matrix + square +
           std::max({iterated(wide, n == m ? 'A' : 'S'), device(library_.polar_svd(wide, m, n)), measuring});
  }
  int64_t of_stack(const Svd& task) const {
    const int64_t m = task.a.rows, n = task.a.columns, count = task.a.count, item = itemsize(task.dtype);
    if (task.u.data == nullptr) return piece(sizeof(int32_t));
    const int64_t completing =
        std::max(of(Qr{task.dtype, {task.u.data, count, m, n}, nullptr}), of(FormQ{task.dtype, task.u, n, nullptr, n}));
    return piece(count * n * n * item) + piece(sizeof(int32_t)) + piece(count * m * n * item) +
           2 * piece(count * n * item) + completing;
  }

  const Library& library_;
};

}  // namespace

int64_t scratch_bound(const Decomposition& task, cusolverDnHandle_t solver) {
  const Library library(solver);
  return std::visit([&](const auto& one) { return Bounds(library).of(one); }, task);
}

}  // namespace quarry::local::cuda
