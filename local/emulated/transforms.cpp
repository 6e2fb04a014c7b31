#include "quarry/local/cpu/transforms.h"
#include "quarry/local/emulated/engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedTransforms final : public Transforms {
 public:
  int64_t transform_scratch_bytes(const Transform& transform) override {
    return cpu_transforms().transform_scratch_bytes(transform);
  }
  void transform(const Transform& transform, const ExecContext& context) override {
    queue_emulated(context, transform_scratch_bytes(transform),
                   [transform](const ExecContext& host) { cpu_transforms().transform(transform, host); });
  }
};

}  // namespace

Transforms& emulated_transforms() {
  static EmulatedTransforms instance;
  return instance;
}

}  // namespace quarry::local
