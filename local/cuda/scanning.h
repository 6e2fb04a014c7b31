// The GPU engine's family of local/program/scanning.h.
#pragma once

#include <vector>

#include "quarry/local/cuda/codegen/codegen.h"
#include "quarry/local/program/scanning.h"

namespace quarry::local::cuda {

// One launch of a scan's kernel (tests run it on the host). The kernel is that of the launch's dtypes.
struct ScanCall {
  ScanKernel kernel = ScanKernel::lines;
  int64_t blocks = 0;
  std::vector<int64_t> slots;
  int64_t chain_bytes = 0;  // that must be zeros: what blocks publish, and their ticket
  // Where those bytes are.
  void set_chain(const void* data);
};
// Of a launch with elements, whose input lies the way its output does or would.
ScanCall make_scan_call(const ScanLaunch& launch);

Scanning& cuda_scanning();

}  // namespace quarry::local::cuda
