#include "quarry/local/cpu/decompositions.h"
#include "quarry/local/emulated/engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedDecompositions final : public Decompositions {
 public:
  bool keep(const KeptTriangle& task, const ExecContext& context) override {
    queue_emulated(context, /*scratch_bytes=*/0,
                   [task](const ExecContext& host) { cpu_decompositions().keep(task, host); });
    return true;
  }
  void run(const Decomposition& task, const ExecContext& context) override {
    queue_emulated(context, cpu_decompositions().scratch_bytes(task),
                   [task](const ExecContext& host) { cpu_decompositions().run(task, host); });
  }
};

}  // namespace

Decompositions& emulated_decompositions() {
  static EmulatedDecompositions instance;
  return instance;
}

}  // namespace quarry::local
