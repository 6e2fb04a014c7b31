// ScaLAPACK's side of scripts/bench/linalg, which builds it where Debian's libscalapack-openmpi-dev is installed: a
// random float64 matrix of n rows and columns, with n on its diagonal, in square blocks dealt to a grid of all ranks.
//
// usage: mpirun -n R plain_scalapack matmul|cholesky|solve|qr N BLOCK CALLS; rank 0 prints {"seconds": [of each call]}.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridinfo(int context, int* rows, int* columns, int* row, int* column);
int numroc_(const int* n, const int* block, const int* process, const int* source, const int* processes);
void descinit_(int* descriptor, const int* m, const int* n, const int* row_block, const int* column_block,
               const int* row_source, const int* column_source, const int* context, const int* rows, int* info);
void pdgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n, const int* k,
             const double* alpha, const double* a, const int* ia, const int* ja, const int* descriptor_a,
             const double* b, const int* ib, const int* jb, const int* descriptor_b, const double* beta, double* c,
             const int* ic, const int* jc, const int* descriptor_c);
void pdpotrf_(const char* triangle, const int* n, double* a, const int* ia, const int* ja, const int* descriptor,
              int* info);
void pdgesv_(const int* n, const int* sides, double* a, const int* ia, const int* ja, const int* descriptor,
             int* pivots, double* b, const int* ib, const int* jb, const int* descriptor_b, int* info);
void pdgeqrf_(const int* m, const int* n, double* a, const int* ia, const int* ja, const int* descriptor, double* tau,
              double* work, const int* work_size, int* info);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string what = argv[1];
  const int n = std::atoi(argv[2]), block = std::atoi(argv[3]), calls = std::atoi(argv[4]);
  MPI_Init(&argc, &argv);
  int ranks = 0, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // The most square grid, with no more rows than columns.
  int rows = 1;
  for (int r = 1; r * r <= ranks; ++r)
    if (ranks % r == 0) rows = r;
  int columns = ranks / rows, context = 0, row = 0, column = 0;
  Cblacs_get(-1, 0, &context);
  Cblacs_gridinit(&context, "Row", rows, columns);
  Cblacs_gridinfo(context, &rows, &columns, &row, &column);
  const int zero = 0, one = 1;
  const int local_rows = numroc_(&n, &block, &row, &zero, &rows),
            local_columns = numroc_(&n, &block, &column, &zero, &columns);
  const int leading = std::max(local_rows, 1);
  int descriptor[9], sides[9], info = 0;
  descinit_(descriptor, &n, &n, &block, &block, &zero, &zero, &context, &leading, &info);
  descinit_(sides, &n, &one, &block, &block, &zero, &zero, &context, &leading, &info);
  const size_t elements = static_cast<size_t>(leading) * static_cast<size_t>(std::max(local_columns, 1));
  std::vector<double> given(elements);
  std::mt19937_64 random(static_cast<uint64_t>(rank));
  std::uniform_real_distribution<double> uniform;
  for (double& x : given) x = uniform(random);
  for (int j = 0; j < local_columns; ++j)
    for (int i = 0; i < local_rows; ++i) {
      const int global_i = (i / block * rows + row) * block + i % block,
                global_j = (j / block * columns + column) * block + j % block;
      if (global_i == global_j)
        given[static_cast<size_t>(j) * static_cast<size_t>(leading) + static_cast<size_t>(i)] += n;
    }
  std::vector<double> result(what == "matmul" ? elements : 0), right(static_cast<size_t>(leading)),
      tau(static_cast<size_t>(n));
  std::vector<int> pivots(static_cast<size_t>(local_rows + block));
  std::vector<double> seconds;
  for (int call = 0; call < calls; ++call) {
    std::vector<double> a = given;
    std::ranges::fill(right, 1);
    std::vector<double> work(1);
    int work_size = -1;
    if (what == "qr") {
      pdgeqrf_(&n, &n, a.data(), &one, &one, descriptor, tau.data(), work.data(), &work_size, &info);
      work_size = static_cast<int>(work[0]);
      work.resize(static_cast<size_t>(work_size));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime(), unit = 1, none = 0;
    if (what == "matmul") {
      pdgemm_("N", "N", &n, &n, &n, &unit, a.data(), &one, &one, descriptor, a.data(), &one, &one, descriptor, &none,
              result.data(), &one, &one, descriptor);
    } else if (what == "cholesky") {
      pdpotrf_("L", &n, a.data(), &one, &one, descriptor, &info);
    } else if (what == "solve") {
      pdgesv_(&n, &one, a.data(), &one, &one, descriptor, pivots.data(), right.data(), &one, &one, sides, &info);
    } else if (what == "qr") {
      pdgeqrf_(&n, &n, a.data(), &one, &one, descriptor, tau.data(), work.data(), &work_size, &info);
    } else {
      info = 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    seconds.push_back(MPI_Wtime() - begin);
    if (info != 0) {
      std::fprintf(stderr, "%s: info %d\n", what.c_str(), info);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  if (rank == 0) {
    std::printf("{\"seconds\": [");
    for (size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.6f", i > 0 ? ", " : "", seconds[i]);
    std::printf("]}\n");
  }
  MPI_Finalize();
  return 0;
}
