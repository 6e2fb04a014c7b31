#include "quarry/local/cpu/scanning.h"
#include "quarry/local/emulated/engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedScanning final : public Scanning {
 public:
  int64_t scan_scratch_bytes(const ScanLaunch& launch) override { return cpu_scanning().scan_scratch_bytes(launch); }
  void scan(const ScanLaunch& launch, const ExecContext& context) override {
    queue_emulated(context, scan_scratch_bytes(launch),
                   [launch](const ExecContext& host) { cpu_scanning().scan(launch, host); });
  }
  void fold(const FoldLaunch& launch, const ExecContext& context) override {
    queue_emulated(context, 0, [launch](const ExecContext& host) { cpu_scanning().fold(launch, host); });
  }
};

}  // namespace

Scanning& emulated_scanning() {
  static EmulatedScanning instance;
  return instance;
}

}  // namespace quarry::local
