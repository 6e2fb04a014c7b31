#include "quarry/local/cpu/sorting/sorting.h"
#include "quarry/local/emulated/engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedSorting final : public Sorting {
 public:
  int64_t sort_scratch_bytes(DType dtype, Rows rows) override { return cpu_sorting().sort_scratch_bytes(dtype, rows); }
  void sort(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) override {
    queue_emulated(context, sort_scratch_bytes(dtype, rows),
                   [=](const ExecContext& host) { cpu_sorting().sort(dtype, in, out, rows, host); });
  }
  int64_t argsort_scratch_bytes(DType dtype, Rows rows) override {
    return cpu_sorting().argsort_scratch_bytes(dtype, rows);
  }
  void argsort(DType dtype, const void* in, int64_t* out, Rows rows, const ExecContext& context) override {
    queue_emulated(context, argsort_scratch_bytes(dtype, rows),
                   [=](const ExecContext& host) { cpu_sorting().argsort(dtype, in, out, rows, host); });
  }
  int64_t partition_scratch_bytes(DType dtype, Rows rows) override {
    return cpu_sorting().partition_scratch_bytes(dtype, rows);
  }
  void partition(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
                 const ExecContext& context) override {
    queue_emulated(context, partition_scratch_bytes(dtype, rows),
                   [=](const ExecContext& host) { cpu_sorting().partition(dtype, in, out, rows, kth, host); });
  }
  int64_t argpartition_scratch_bytes(DType dtype, Rows rows) override {
    return cpu_sorting().argpartition_scratch_bytes(dtype, rows);
  }
  void argpartition(DType dtype, const void* in, int64_t* out, Rows rows, const std::vector<int64_t>& kth,
                    const ExecContext& context) override {
    queue_emulated(context, argpartition_scratch_bytes(dtype, rows),
                   [=](const ExecContext& host) { cpu_sorting().argpartition(dtype, in, out, rows, kth, host); });
  }
  int64_t select_scratch_bytes(DType dtype, Rows rows, int64_t positions) override {
    return cpu_sorting().select_scratch_bytes(dtype, rows, positions);
  }
  void select(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
              const ExecContext& context) override {
    queue_emulated(context, select_scratch_bytes(dtype, rows, static_cast<int64_t>(kth.size())),
                   [=](const ExecContext& host) { cpu_sorting().select(dtype, in, out, rows, kth, host); });
  }
  void searchsorted(DType dtype, const void* sorted, Rows rows, const void* values, int64_t values_per_row, bool right,
                    int64_t* out, const ExecContext& context) override {
    queue_emulated(context, 0, [=](const ExecContext& host) {
      cpu_sorting().searchsorted(dtype, sorted, rows, values, values_per_row, right, out, host);
    });
  }
  int64_t bincount_scratch_bytes(int64_t count, int64_t bins) override {
    return cpu_sorting().bincount_scratch_bytes(count, bins);
  }
  void bincount(const int64_t* positions, int64_t count, const double* weights, int64_t bins, void* out,
                const ExecContext& context) override {
    queue_emulated(context, bincount_scratch_bytes(count, bins), [=](const ExecContext& host) {
      cpu_sorting().bincount(positions, count, weights, bins, out, host);
    });
  }
  int64_t histogram_scratch_bytes(int64_t count, int64_t bins) override {
    return cpu_sorting().histogram_scratch_bytes(count, bins);
  }
  void histogram(DType dtype, const void* values, int64_t count, DType edges_dtype, const void* edges, int64_t bins,
                 bool uniform, const double* weights, void* out, const ExecContext& context) override {
    queue_emulated(context, histogram_scratch_bytes(count, bins), [=](const ExecContext& host) {
      cpu_sorting().histogram(dtype, values, count, edges_dtype, edges, bins, uniform, weights, out, host);
    });
  }
};

}  // namespace

Sorting& emulated_sorting() {
  static EmulatedSorting instance;
  return instance;
}

}  // namespace quarry::local
