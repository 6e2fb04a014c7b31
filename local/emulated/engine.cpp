// The engine of the emulated device: the CPU engine's calls, each queued on a stream with copies of its arguments.
#include "quarry/local/emulated/engine.h"

#include <utility>

#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/cpu/kernels.h"
#include "quarry/local/cpu/sparse.h"
#include "quarry/local/device/device.h"
#include "quarry/local/program/relayed_engine.h"

namespace quarry::local {
namespace {

class EmulatedSparse final : public SparseProducts {
 public:
  void multiply(const SparseDenseProduct& product, const ExecContext& context) override {
    queue_emulated(context, 0, [product](const ExecContext& on_host) { cpu_sparse().multiply(product, on_host); });
  }
  void multiply_sparse(const CompressedRows& a, const CompressedRows& b, void* offsets,
                       const AllocateCompressed& allocate, const ExecContext& context) override {
    context.stream->synchronize();
    ExecContext on_host = default_context(kCpu);
    on_host.threads = context.threads;
    cpu_sparse().multiply_sparse(a, b, offsets, allocate, on_host);
  }
  void transpose(const SparseTranspose& task, const ExecContext& context) override {
    queue_emulated(context, cpu_transpose_scratch_bytes(task, context.threads),
                   [task](const ExecContext& on_host) { cpu_sparse().transpose(task, on_host); });
  }
  void solve(const SparseTriangularSolve& task, const ExecContext& context) override {
    queue_emulated(context, 0, [task](const ExecContext& on_host) { cpu_sparse().solve(task, on_host); });
  }
  int64_t factorise_incomplete(const CompressedRows& a, void* values, const ExecContext& context) override {
    context.stream->synchronize();
    return cpu_sparse().factorise_incomplete(a, values, default_context(kCpu));
  }
};

class EmulatedRelay final : public Relay {
 public:
  Engine& engine() override { return cpu_engine(); }
  void issue(const ExecContext& context, int64_t scratch_bytes, std::function<void(const ExecContext&)> call) override {
    queue_emulated(context, scratch_bytes, std::move(call));
  }
  // What does not compile is told at once, as on a GPU.
  void prepare(const KernelCode& code, const KernelLaunch& launch) override { prepare_cpu_kernel(code, launch); }
  SparseProducts& sparse() override { return sparse_; }

 private:
  EmulatedSparse sparse_;
};

}  // namespace

Engine& emulated_engine() {
  // Never destroyed: work may end after static objects.
  static Engine& instance = *make_relayed_engine(*new EmulatedRelay).release();
  return instance;
}

}  // namespace quarry::local
