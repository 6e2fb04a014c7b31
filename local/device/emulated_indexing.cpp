#include "local/cpu/indexing.h"
#include "local/device/emulated_engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedIndexing final : public Indexing {};

}  // namespace

Indexing& emulated_indexing() {
  static EmulatedIndexing instance;
  return instance;
}

}  // namespace quarry::local
