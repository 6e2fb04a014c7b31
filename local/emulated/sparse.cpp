#include "quarry/local/cpu/sparse.h"
#include "quarry/local/emulated/engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedSparse final : public SparseProducts {
 public:
  void multiply(const SparseDenseProduct& product, const ExecContext& context) override {
    queue_emulated(context, /*scratch_bytes=*/0,
                   [product](const ExecContext& host) { cpu_sparse().multiply(product, host); });
  }
  void multiply_sparse(const CompressedRows& a, const CompressedRows& b, void* offsets,
                       const AllocateCompressed& allocate, const ExecContext& context) override {
    context.stream->synchronize();
    ExecContext host = default_context(kCpu);
    host.threads = context.threads;
    cpu_sparse().multiply_sparse(a, b, offsets, allocate, host);
  }
  void transpose(const SparseTranspose& task, const ExecContext& context) override {
    queue_emulated(context, cpu_transpose_scratch_bytes(task, context.threads),
                   [task](const ExecContext& host) { cpu_sparse().transpose(task, host); });
  }
  void solve(const SparseTriangularSolve& solve, const ExecContext& context) override {
    queue_emulated(context, /*scratch_bytes=*/0, [solve](const ExecContext& host) { cpu_sparse().solve(solve, host); });
  }
};

}  // namespace

SparseProducts& emulated_sparse() {
  static EmulatedSparse instance;
  return instance;
}

}  // namespace quarry::local
