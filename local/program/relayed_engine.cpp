#include "quarry/local/program/relayed_engine.h"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "quarry/local/device/device.h"
#include "quarry/local/program/bit_generators.h"
#include "quarry/local/program/decompositions.h"
#include "quarry/local/program/indexing.h"
#include "quarry/local/program/products.h"
#include "quarry/local/program/scanning.h"
#include "quarry/local/program/sorting.h"
#include "quarry/local/program/transforms.h"

namespace quarry::local {
namespace {

// A family of the engine, `kPart` of the engine behind.
template <class Family, auto kPart>
class Relayed : public Family {
 public:
  explicit Relayed(Relay& relay) : relay_(relay) {}

 protected:
  Relay& relay() const { return relay_; }
  Family& behind() const { return (relay_.engine().*kPart)(); }
  // Issues method `kCall` of behind() with copies of these arguments.
  template <auto kCall, class... Arguments>
  void issue(const ExecContext& context, int64_t scratch_bytes, const Arguments&... arguments) const {
    relay_.issue(context, scratch_bytes, [&family = behind(), arguments...](const ExecContext& there) {
      (family.*kCall)(arguments..., there);
    });
  }

 private:
  Relay& relay_;
};

class RelayedDecompositions final : public Relayed<Decompositions, &Engine::decompositions> {
 public:
  using Relayed::Relayed;

  bool keep(const KeptTriangle& task, const ExecContext& context) override {
    issue<&Decompositions::keep>(context, 0, task);
    return true;
  }
  void run(const Decomposition& task, const ExecContext& context) override {
    issue<&Decompositions::run>(context, scratch_bytes(task), task);
  }
  int64_t scratch_bytes(const Decomposition& task) override { return behind().scratch_bytes(task); }
  int64_t host_scratch_bytes(const HostDecomposition& task) override { return behind().host_scratch_bytes(task); }
  void run_on_host(const HostDecomposition& task, const ExecContext& context) override {
    issue<&Decompositions::run_on_host>(context, host_scratch_bytes(task), task);
  }
  int64_t eigh_scratch_bytes(DType dtype, int64_t n) override { return behind().eigh_scratch_bytes(dtype, n); }
  void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors,
            const ExecContext& context) override {
    issue<&Decompositions::eigh>(context, eigh_scratch_bytes(dtype, a.rows), dtype, triangle, a, values, vectors);
    context.stream->synchronize();
  }
};

class RelayedIndexing final : public Relayed<Indexing, &Engine::indexing> {
 public:
  using Relayed::Relayed;

  int64_t gather_scratch_bytes(const IndexedElements& from, const Operand& to, int64_t itemsize) override {
    return behind().gather_scratch_bytes(from, to, itemsize);
  }
  void gather(const IndexedElements& from, const Operand& to, int64_t itemsize, const ExecContext& context) override {
    issue<&Indexing::gather>(context, gather_scratch_bytes(from, to, itemsize), from, to, itemsize);
    finish(from, context);
  }
  int64_t scatter_scratch_bytes(const IndexedElements& to, const Operand& from, int64_t itemsize) override {
    return behind().scatter_scratch_bytes(to, from, itemsize);
  }
  void scatter(const IndexedElements& to, const Operand& from, int64_t itemsize, const ExecContext& context) override {
    issue<&Indexing::scatter>(context, scatter_scratch_bytes(to, from, itemsize), to, from, itemsize);
    finish(to, context);
  }
  int64_t update_scratch_bytes(const IndexedElements& to, const Program& program, const Operand& value) override {
    return behind().update_scratch_bytes(to, program, value);
  }
  void update(const IndexedElements& to, const Program& program, const Operand& value,
              const ExecContext& context) override {
    issue<&Indexing::update>(context, update_scratch_bytes(to, program, value), to, program, value);
    finish(to, context);
  }
  int64_t count_scratch_bytes(const Mask& mask) override { return behind().count_scratch_bytes(mask); }
  void count(const Mask& mask, int64_t* offsets, const ExecContext& context) override {
    issue<&Indexing::count>(context, count_scratch_bytes(mask), mask, offsets);
  }
  void positions(const Mask& mask, int64_t* to, int64_t step, int64_t axis_step, const ExecContext& context) override {
    issue<&Indexing::positions>(context, 0, mask, to, step, axis_step);
  }
  void select(const Mask& mask, const Operand& from, void* to, int64_t itemsize, const ExecContext& context) override {
    issue<&Indexing::select>(context, 0, mask, from, to, itemsize);
  }
  void expand(const Mask& mask, const void* from, int64_t step, int64_t period, const Operand& to, int64_t itemsize,
              const ExecContext& context) override {
    issue<&Indexing::expand>(context, 0, mask, from, step, period, to, itemsize);
  }
  void copy_where(const Mask& mask, const Operand& from, const Operand& to, int64_t itemsize,
                  const ExecContext& context) override {
    issue<&Indexing::copy_where>(context, 0, mask, from, to, itemsize);
  }

 private:
  // The error of a position is the caller's.
  static void finish(const IndexedElements& elements, const ExecContext& context) {
    if (elements.mode == IndexMode::raise) context.stream->synchronize();
  }
};

class RelayedKernels final : public Relayed<UserKernels, &Engine::kernels> {
 public:
  using Relayed::Relayed;

  int64_t run_scratch_bytes(const KernelCode& code, const KernelLaunch& launch) override {
    return behind().run_scratch_bytes(code, launch);
  }
  void run(const KernelCode& code, const KernelLaunch& launch, const ExecContext& context) override {
    relay().prepare(code, launch);
    issue<&UserKernels::run>(context, run_scratch_bytes(code, launch), code, launch);
  }
  const RawCode& load(const RawSource& source, Device device) override { return behind().load(source, device); }
};

class RelayedProducts final : public Relayed<Products, &Engine::products> {
 public:
  using Relayed::Relayed;

  int64_t multiply_scratch_bytes(const MatrixProduct& product) override {
    return behind().multiply_scratch_bytes(product);
  }
  void multiply(const MatrixProduct& product, const ExecContext& context) override {
    issue<&Products::multiply>(context, multiply_scratch_bytes(product), product);
  }
  int64_t slide_scratch_bytes(const SlidingProduct& product) override { return behind().slide_scratch_bytes(product); }
  void slide(const SlidingProduct& product, const ExecContext& context) override {
    issue<&Products::slide>(context, slide_scratch_bytes(product), product);
  }
  int64_t gemm_scratch_bytes(const Gemm& task) override { return behind().gemm_scratch_bytes(task); }
  void gemm(const Gemm& task, const ExecContext& context) override {
    issue<&Products::gemm>(context, gemm_scratch_bytes(task), task);
  }
  int64_t syrk_scratch_bytes(const Syrk& task) override { return behind().syrk_scratch_bytes(task); }
  void syrk(const Syrk& task, const ExecContext& context) override {
    issue<&Products::syrk>(context, syrk_scratch_bytes(task), task);
  }
};

class RelayedRandomWords final : public Relayed<RandomWords, &Engine::random_words> {
 public:
  using Relayed::Relayed;

  void check(const BitGenerator& bits) override { behind().check(bits); }
  void fill(const BitGenerator& bits, void* words, int64_t count, const ExecContext& context) override {
    check(bits);
    issue<&RandomWords::fill>(context, 0, bits, words, count);
  }
};

class RelayedScanning final : public Relayed<Scanning, &Engine::scanning> {
 public:
  using Relayed::Relayed;

  int64_t scan_scratch_bytes(const ScanLaunch& launch) override { return behind().scan_scratch_bytes(launch); }
  void scan(const ScanLaunch& launch, const ExecContext& context) override {
    issue<&Scanning::scan>(context, scan_scratch_bytes(launch), launch);
  }
  void fold(const FoldLaunch& launch, const ExecContext& context) override {
    issue<&Scanning::fold>(context, 0, launch);
  }
};

class RelayedSorting final : public Relayed<Sorting, &Engine::sorting> {
 public:
  using Relayed::Relayed;

  int64_t sort_scratch_bytes(DType dtype, Rows rows) override { return behind().sort_scratch_bytes(dtype, rows); }
  void sort(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) override {
    issue<&Sorting::sort>(context, sort_scratch_bytes(dtype, rows), dtype, in, out, rows);
  }
  int64_t sort_stably_scratch_bytes(DType dtype, Rows rows) override {
    return behind().sort_stably_scratch_bytes(dtype, rows);
  }
  void sort_stably(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) override {
    issue<&Sorting::sort_stably>(context, sort_stably_scratch_bytes(dtype, rows), dtype, in, out, rows);
  }
  int64_t merge_scratch_bytes(DType dtype, int64_t count, bool stably) override {
    return behind().merge_scratch_bytes(dtype, count, stably);
  }
  void merge(DType dtype, const void* in, void* out, const std::vector<int64_t>& lengths, bool stably,
             const ExecContext& context) override {
    const int64_t count = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    issue<&Sorting::merge>(context, merge_scratch_bytes(dtype, count, stably), dtype, in, out, lengths, stably);
  }
  int64_t argsort_scratch_bytes(DType dtype, Rows rows) override { return behind().argsort_scratch_bytes(dtype, rows); }
  void argsort(DType dtype, const void* in, int64_t* out, Rows rows, const ExecContext& context) override {
    issue<&Sorting::argsort>(context, argsort_scratch_bytes(dtype, rows), dtype, in, out, rows);
  }
  int64_t partition_scratch_bytes(DType dtype, Rows rows) override {
    return behind().partition_scratch_bytes(dtype, rows);
  }
  void partition(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
                 const ExecContext& context) override {
    issue<&Sorting::partition>(context, partition_scratch_bytes(dtype, rows), dtype, in, out, rows, kth);
  }
  int64_t argpartition_scratch_bytes(DType dtype, Rows rows) override {
    return behind().argpartition_scratch_bytes(dtype, rows);
  }
  void argpartition(DType dtype, const void* in, int64_t* out, Rows rows, const std::vector<int64_t>& kth,
                    const ExecContext& context) override {
    issue<&Sorting::argpartition>(context, argpartition_scratch_bytes(dtype, rows), dtype, in, out, rows, kth);
  }
  int64_t select_scratch_bytes(DType dtype, Rows rows, int64_t positions) override {
    return behind().select_scratch_bytes(dtype, rows, positions);
  }
  void select(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
              const ExecContext& context) override {
    const int64_t bytes = select_scratch_bytes(dtype, rows, static_cast<int64_t>(kth.size()));
    issue<&Sorting::select>(context, bytes, dtype, in, out, rows, kth);
  }
  std::optional<int64_t> ends_scratch_bytes(DType dtype, Rows rows, int64_t k) override {
    return behind().ends_scratch_bytes(dtype, rows, k);
  }
  bool ends(DType dtype, const void* in, int64_t* out, Rows rows, int64_t k, bool last,
            const ExecContext& context) override {
    const std::optional<int64_t> bytes = ends_scratch_bytes(dtype, rows, k);
    if (bytes) issue<&Sorting::ends>(context, *bytes, dtype, in, out, rows, k, last);
    return bytes.has_value();
  }
  void searchsorted(DType dtype, const void* sorted, Rows rows, const void* values, int64_t values_per_row, bool right,
                    int64_t* out, const ExecContext& context) override {
    issue<&Sorting::searchsorted>(context, 0, dtype, sorted, rows, values, values_per_row, right, out);
  }
  void contains(DType dtype, const void* sorted, int64_t length, const void* values, int64_t count, bool invert,
                bool* out, const ExecContext& context) override {
    issue<&Sorting::contains>(context, 0, dtype, sorted, length, values, count, invert, out);
  }
  void interpolate(const Interpolation& task, const ExecContext& context) override {
    issue<&Sorting::interpolate>(context, 0, task);
  }
  int64_t bincount_scratch_bytes(int64_t count, int64_t bins) override {
    return behind().bincount_scratch_bytes(count, bins);
  }
  void bincount(const int64_t* positions, int64_t count, const double* weights, int64_t bins, void* out,
                const ExecContext& context) override {
    issue<&Sorting::bincount>(context, bincount_scratch_bytes(count, bins), positions, count, weights, bins, out);
  }
  int64_t histogram_scratch_bytes(int64_t count, int64_t bins) override {
    return behind().histogram_scratch_bytes(count, bins);
  }
  void histogram(DType dtype, const void* values, int64_t count, DType edges_dtype, const void* edges, int64_t bins,
                 bool uniform, const double* weights, void* out, const ExecContext& context) override {
    issue<&Sorting::histogram>(context, histogram_scratch_bytes(count, bins), dtype, values, count, edges_dtype, edges,
                               bins, uniform, weights, out);
  }
};

class RelayedTransforms final : public Relayed<Transforms, &Engine::transforms> {
 public:
  using Relayed::Relayed;

  int64_t transform_scratch_bytes(const Transform& transform) override {
    return behind().transform_scratch_bytes(transform);
  }
  void transform(const Transform& task, const ExecContext& context) override {
    issue<&Transforms::transform>(context, transform_scratch_bytes(task), task);
  }
};

class RelayedEngine final : public Engine {
 public:
  explicit RelayedEngine(Relay& relay)
      : relay_(relay),
        decompositions_(relay),
        indexing_(relay),
        kernels_(relay),
        products_(relay),
        random_words_(relay),
        scanning_(relay),
        sorting_(relay),
        transforms_(relay) {}

  int64_t run_scratch_bytes(const Program& program, const Launch& launch) override {
    return relay_.engine().run_scratch_bytes(program, launch);
  }
  void run(const Program& program, const Launch& launch, const ExecContext& context) override {
    relay_.issue(
        context, run_scratch_bytes(program, launch),
        [&behind = relay_.engine(), program, launch](const ExecContext& there) { behind.run(program, launch, there); });
  }
  Decompositions& decompositions() override { return decompositions_; }
  Indexing& indexing() override { return indexing_; }
  Products& products() override { return products_; }
  RandomWords& random_words() override { return random_words_; }
  Scanning& scanning() override { return scanning_; }
  Sorting& sorting() override { return sorting_; }
  SparseProducts& sparse() override { return relay_.sparse(); }
  UserKernels& kernels() override { return kernels_; }
  Transforms& transforms() override { return transforms_; }

 private:
  Relay& relay_;
  RelayedDecompositions decompositions_;
  RelayedIndexing indexing_;
  RelayedKernels kernels_;
  RelayedProducts products_;
  RelayedRandomWords random_words_;
  RelayedScanning scanning_;
  RelayedSorting sorting_;
  RelayedTransforms transforms_;
};

}  // namespace

std::unique_ptr<Engine> make_relayed_engine(Relay& relay) { return std::make_unique<RelayedEngine>(relay); }

}  // namespace quarry::local
