// The engine of the emulated device: the CPU engine's calls, each queued on a stream with copies of its arguments.
#include "quarry/local/emulated/engine.h"

#include <vector>

#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/cpu/decompositions.h"
#include "quarry/local/cpu/indexing.h"
#include "quarry/local/cpu/kernels.h"
#include "quarry/local/cpu/products.h"
#include "quarry/local/cpu/scanning.h"
#include "quarry/local/cpu/sobol.h"
#include "quarry/local/cpu/sorting/sorting.h"
#include "quarry/local/cpu/sparse.h"
#include "quarry/local/cpu/transforms.h"

namespace quarry::local {
namespace {

// A family of the engine whose calls go to the CPU's family `host()`.
template <class Family, auto& host>
class Queued : public Family {
 protected:
  // Queues method `kCall` of host() with these arguments and a context of the CPU.
  template <auto kCall, class... Arguments>
  static void queue(const ExecContext& context, int64_t scratch_bytes, const Arguments&... arguments) {
    queue_emulated(context, scratch_bytes,
                   [arguments...](const ExecContext& on_host) { (host().*kCall)(arguments..., on_host); });
  }
};

class EmulatedDecompositions final : public Queued<Decompositions, cpu_decompositions> {
 public:
  bool keep(const KeptTriangle& task, const ExecContext& context) override {
    queue<&Decompositions::keep>(context, 0, task);
    return true;
  }
  void run(const Decomposition& task, const ExecContext& context) override {
    queue<&Decompositions::run>(context, cpu_decompositions().scratch_bytes(task), task);
  }
  int64_t eigh_scratch_bytes(DType dtype, int64_t n) override {
    return cpu_decompositions().eigh_scratch_bytes(dtype, n);
  }
  void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors,
            const ExecContext& context) override {
    queue<&Decompositions::eigh>(context, eigh_scratch_bytes(dtype, a.rows), dtype, triangle, a, values, vectors);
    context.stream->synchronize();
  }
};

class EmulatedIndexing final : public Queued<Indexing, cpu_indexing> {
 public:
  int64_t gather_scratch_bytes(const IndexedElements& from, const Operand& to, int64_t itemsize) override {
    return cpu_indexing().gather_scratch_bytes(from, to, itemsize);
  }
  void gather(const IndexedElements& from, const Operand& to, int64_t itemsize, const ExecContext& context) override {
    queue<&Indexing::gather>(context, gather_scratch_bytes(from, to, itemsize), from, to, itemsize);
    finish(from, context);
  }
  int64_t scatter_scratch_bytes(const IndexedElements& to, const Operand& from, int64_t itemsize) override {
    return cpu_indexing().scatter_scratch_bytes(to, from, itemsize);
  }
  void scatter(const IndexedElements& to, const Operand& from, int64_t itemsize, const ExecContext& context) override {
    queue<&Indexing::scatter>(context, scatter_scratch_bytes(to, from, itemsize), to, from, itemsize);
    finish(to, context);
  }
  int64_t update_scratch_bytes(const IndexedElements& to, const Program& program, const Operand& value) override {
    return cpu_indexing().update_scratch_bytes(to, program, value);
  }
  void update(const IndexedElements& to, const Program& program, const Operand& value,
              const ExecContext& context) override {
    queue<&Indexing::update>(context, update_scratch_bytes(to, program, value), to, program, value);
    finish(to, context);
  }
  int64_t count_scratch_bytes(const Mask& mask) override { return cpu_indexing().count_scratch_bytes(mask); }
  void count(const Mask& mask, int64_t* offsets, const ExecContext& context) override {
    queue<&Indexing::count>(context, count_scratch_bytes(mask), mask, offsets);
  }
  void positions(const Mask& mask, int64_t* to, int64_t step, int64_t axis_step, const ExecContext& context) override {
    queue<&Indexing::positions>(context, 0, mask, to, step, axis_step);
  }
  void select(const Mask& mask, const Operand& from, void* to, int64_t itemsize, const ExecContext& context) override {
    queue<&Indexing::select>(context, 0, mask, from, to, itemsize);
  }
  void expand(const Mask& mask, const void* from, int64_t step, int64_t period, const Operand& to, int64_t itemsize,
              const ExecContext& context) override {
    queue<&Indexing::expand>(context, 0, mask, from, step, period, to, itemsize);
  }
  void copy_where(const Mask& mask, const Operand& from, const Operand& to, int64_t itemsize,
                  const ExecContext& context) override {
    queue<&Indexing::copy_where>(context, 0, mask, from, to, itemsize);
  }

 private:
  // The error of a position is the caller's.
  static void finish(const IndexedElements& elements, const ExecContext& context) {
    if (elements.mode == IndexMode::raise) context.stream->synchronize();
  }
};

class EmulatedKernels final : public Queued<UserKernels, cpu_kernels> {
 public:
  int64_t run_scratch_bytes(const KernelCode& code, const KernelLaunch& launch) override {
    return cpu_kernels().run_scratch_bytes(code, launch);
  }
  void run(const KernelCode& code, const KernelLaunch& launch, const ExecContext& context) override {
    prepare_cpu_kernel(code, launch);  // what does not compile is told at once, as on a GPU
    queue<&UserKernels::run>(context, run_scratch_bytes(code, launch), code, launch);
  }
  const RawCode& load(const RawSource& source, Device device) override { return cpu_kernels().load(source, device); }
};

class EmulatedProducts final : public Queued<Products, cpu_products> {
 public:
  int64_t multiply_scratch_bytes(const MatrixProduct& product) override {
    return cpu_products().multiply_scratch_bytes(product);
  }
  void multiply(const MatrixProduct& product, const ExecContext& context) override {
    queue<&Products::multiply>(context, multiply_scratch_bytes(product), product);
  }
  int64_t slide_scratch_bytes(const SlidingProduct& product) override {
    return cpu_products().slide_scratch_bytes(product);
  }
  void slide(const SlidingProduct& product, const ExecContext& context) override {
    queue<&Products::slide>(context, slide_scratch_bytes(product), product);
  }
  int64_t gemm_scratch_bytes(DType dtype, const MatrixView& a, const MatrixView& b, const MatrixView& c) override {
    return cpu_products().gemm_scratch_bytes(dtype, a, b, c);
  }
  void gemm(DType dtype, double alpha, const MatrixView& a, const MatrixView& b, double beta, const MatrixView& c,
            const ExecContext& context) override {
    queue<&Products::gemm>(context, gemm_scratch_bytes(dtype, a, b, c), dtype, alpha, a, b, beta, c);
  }
  int64_t syrk_scratch_bytes(DType dtype, const MatrixView& a, const MatrixView& c) override {
    return cpu_products().syrk_scratch_bytes(dtype, a, c);
  }
  void syrk(DType dtype, double alpha, const MatrixView& a, double beta, const MatrixView& c,
            const ExecContext& context) override {
    queue<&Products::syrk>(context, syrk_scratch_bytes(dtype, a, c), dtype, alpha, a, beta, c);
  }
};

class EmulatedRandomWords final : public Queued<RandomWords, cpu_random_words> {
 public:
  void check(const BitGenerator& bits) override { cpu_random_words().check(bits); }
  void fill(const BitGenerator& bits, void* words, int64_t count, const ExecContext& context) override {
    check(bits);
    queue<&RandomWords::fill>(context, 0, bits, words, count);
  }
};

class EmulatedScanning final : public Queued<Scanning, cpu_scanning> {
 public:
  int64_t scan_scratch_bytes(const ScanLaunch& launch) override { return cpu_scanning().scan_scratch_bytes(launch); }
  void scan(const ScanLaunch& launch, const ExecContext& context) override {
    queue<&Scanning::scan>(context, scan_scratch_bytes(launch), launch);
  }
  void fold(const FoldLaunch& launch, const ExecContext& context) override {
    queue<&Scanning::fold>(context, 0, launch);
  }
};

class EmulatedSorting final : public Queued<Sorting, cpu_sorting> {
 public:
  int64_t sort_scratch_bytes(DType dtype, Rows rows) override { return cpu_sorting().sort_scratch_bytes(dtype, rows); }
  void sort(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) override {
    queue<&Sorting::sort>(context, sort_scratch_bytes(dtype, rows), dtype, in, out, rows);
  }
  int64_t sort_stably_scratch_bytes(DType dtype, Rows rows) override {
    return cpu_sorting().sort_stably_scratch_bytes(dtype, rows);
  }
  void sort_stably(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) override {
    queue<&Sorting::sort_stably>(context, sort_stably_scratch_bytes(dtype, rows), dtype, in, out, rows);
  }
  int64_t argsort_scratch_bytes(DType dtype, Rows rows) override {
    return cpu_sorting().argsort_scratch_bytes(dtype, rows);
  }
  void argsort(DType dtype, const void* in, int64_t* out, Rows rows, const ExecContext& context) override {
    queue<&Sorting::argsort>(context, argsort_scratch_bytes(dtype, rows), dtype, in, out, rows);
  }
  int64_t partition_scratch_bytes(DType dtype, Rows rows) override {
    return cpu_sorting().partition_scratch_bytes(dtype, rows);
  }
  void partition(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
                 const ExecContext& context) override {
    queue<&Sorting::partition>(context, partition_scratch_bytes(dtype, rows), dtype, in, out, rows, kth);
  }
  int64_t argpartition_scratch_bytes(DType dtype, Rows rows) override {
    return cpu_sorting().argpartition_scratch_bytes(dtype, rows);
  }
  void argpartition(DType dtype, const void* in, int64_t* out, Rows rows, const std::vector<int64_t>& kth,
                    const ExecContext& context) override {
    queue<&Sorting::argpartition>(context, argpartition_scratch_bytes(dtype, rows), dtype, in, out, rows, kth);
  }
  int64_t select_scratch_bytes(DType dtype, Rows rows, int64_t positions) override {
    return cpu_sorting().select_scratch_bytes(dtype, rows, positions);
  }
  void select(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
              const ExecContext& context) override {
    const int64_t bytes = select_scratch_bytes(dtype, rows, static_cast<int64_t>(kth.size()));
    queue<&Sorting::select>(context, bytes, dtype, in, out, rows, kth);
  }
  void searchsorted(DType dtype, const void* sorted, Rows rows, const void* values, int64_t values_per_row, bool right,
                    int64_t* out, const ExecContext& context) override {
    queue<&Sorting::searchsorted>(context, 0, dtype, sorted, rows, values, values_per_row, right, out);
  }
  void contains(DType dtype, const void* sorted, int64_t length, const void* values, int64_t count, bool invert,
                bool* out, const ExecContext& context) override {
    queue<&Sorting::contains>(context, 0, dtype, sorted, length, values, count, invert, out);
  }
  void interpolate(const Interpolation& task, const ExecContext& context) override {
    queue<&Sorting::interpolate>(context, 0, task);
  }
  int64_t bincount_scratch_bytes(int64_t count, int64_t bins) override {
    return cpu_sorting().bincount_scratch_bytes(count, bins);
  }
  void bincount(const int64_t* positions, int64_t count, const double* weights, int64_t bins, void* out,
                const ExecContext& context) override {
    queue<&Sorting::bincount>(context, bincount_scratch_bytes(count, bins), positions, count, weights, bins, out);
  }
  int64_t histogram_scratch_bytes(int64_t count, int64_t bins) override {
    return cpu_sorting().histogram_scratch_bytes(count, bins);
  }
  void histogram(DType dtype, const void* values, int64_t count, DType edges_dtype, const void* edges, int64_t bins,
                 bool uniform, const double* weights, void* out, const ExecContext& context) override {
    queue<&Sorting::histogram>(context, histogram_scratch_bytes(count, bins), dtype, values, count, edges_dtype, edges,
                               bins, uniform, weights, out);
  }
};

class EmulatedSparse final : public Queued<SparseProducts, cpu_sparse> {
 public:
  void multiply(const SparseDenseProduct& product, const ExecContext& context) override {
    queue<&SparseProducts::multiply>(context, 0, product);
  }
  void multiply_sparse(const CompressedRows& a, const CompressedRows& b, void* offsets,
                       const AllocateCompressed& allocate, const ExecContext& context) override {
    context.stream->synchronize();
    ExecContext on_host = default_context(kCpu);
    on_host.threads = context.threads;
    cpu_sparse().multiply_sparse(a, b, offsets, allocate, on_host);
  }
  void transpose(const SparseTranspose& task, const ExecContext& context) override {
    queue<&SparseProducts::transpose>(context, cpu_transpose_scratch_bytes(task, context.threads), task);
  }
  void solve(const SparseTriangularSolve& task, const ExecContext& context) override {
    queue<&SparseProducts::solve>(context, 0, task);
  }
};

class EmulatedTransforms final : public Queued<Transforms, cpu_transforms> {
 public:
  int64_t transform_scratch_bytes(const Transform& transform) override {
    return cpu_transforms().transform_scratch_bytes(transform);
  }
  void transform(const Transform& task, const ExecContext& context) override {
    queue<&Transforms::transform>(context, transform_scratch_bytes(task), task);
  }
};

class EmulatedEngine final : public Queued<Engine, cpu_engine> {
 public:
  int64_t run_scratch_bytes(const Program& program, const Launch& launch) override {
    return cpu_engine().run_scratch_bytes(program, launch);
  }
  void run(const Program& program, const Launch& launch, const ExecContext& context) override {
    queue<&Engine::run>(context, run_scratch_bytes(program, launch), program, launch);
  }
  Decompositions& decompositions() override { return decompositions_; }
  Indexing& indexing() override { return indexing_; }
  Products& products() override { return products_; }
  RandomWords& random_words() override { return random_words_; }
  Scanning& scanning() override { return scanning_; }
  Sorting& sorting() override { return sorting_; }
  UserKernels& kernels() override { return kernels_; }
  SparseProducts& sparse() override { return sparse_; }
  Transforms& transforms() override { return transforms_; }

 private:
  EmulatedDecompositions decompositions_;
  EmulatedIndexing indexing_;
  EmulatedProducts products_;
  EmulatedRandomWords random_words_;
  EmulatedScanning scanning_;
  EmulatedSorting sorting_;
  EmulatedKernels kernels_;
  EmulatedSparse sparse_;
  EmulatedTransforms transforms_;
};

}  // namespace

Engine& emulated_engine() {
  static EmulatedEngine& instance = *new EmulatedEngine;  // never destroyed: work may end after static objects
  return instance;
}

}  // namespace quarry::local
