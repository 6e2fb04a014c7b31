#include "quarry/local/cpu/sobol.h"
#include "quarry/local/emulated/engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedRandomWords final : public RandomWords {
 public:
  void check(const BitGenerator& bits) override { cpu_random_words().check(bits); }
  void fill(const BitGenerator& bits, void* words, int64_t count, const ExecContext& context) override {
    check(bits);
    queue_emulated(context, /*scratch_bytes=*/0,
                   [=](const ExecContext& host) { cpu_random_words().fill(bits, words, count, host); });
  }
};

}  // namespace

RandomWords& emulated_random_words() {
  static EmulatedRandomWords instance;
  return instance;
}

}  // namespace quarry::local
