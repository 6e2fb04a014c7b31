#include "local/cpu/scanning.h"
#include "local/device/emulated_engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedScanning final : public Scanning {};

}  // namespace

Scanning& emulated_scanning() {
  static EmulatedScanning instance;
  return instance;
}

}  // namespace quarry::local
