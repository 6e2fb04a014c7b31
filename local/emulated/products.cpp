#include "quarry/local/cpu/products.h"
#include "quarry/local/emulated/engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedProducts final : public Products {
 public:
  int64_t multiply_scratch_bytes(const MatrixProduct& product) override {
    return cpu_products().multiply_scratch_bytes(product);
  }
  void multiply(const MatrixProduct& product, const ExecContext& context) override {
    queue_emulated(context, multiply_scratch_bytes(product),
                   [product](const ExecContext& host) { cpu_products().multiply(product, host); });
  }
  int64_t slide_scratch_bytes(const SlidingProduct& product) override {
    return cpu_products().slide_scratch_bytes(product);
  }
  void slide(const SlidingProduct& product, const ExecContext& context) override {
    queue_emulated(context, slide_scratch_bytes(product),
                   [product](const ExecContext& host) { cpu_products().slide(product, host); });
  }
};

}  // namespace

Products& emulated_products() {
  static EmulatedProducts instance;
  return instance;
}

}  // namespace quarry::local
