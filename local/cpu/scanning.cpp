#include "local/cpu/scanning.h"

namespace quarry::local {
namespace {

class CpuScanning final : public Scanning {};

}  // namespace

Scanning& cpu_scanning() {
  static CpuScanning instance;
  return instance;
}

}  // namespace quarry::local
