#include "local/cpu/sorting.h"
#include "local/device/emulated_engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedSorting final : public Sorting {};

}  // namespace

Sorting& emulated_sorting() {
  static EmulatedSorting instance;
  return instance;
}

}  // namespace quarry::local
