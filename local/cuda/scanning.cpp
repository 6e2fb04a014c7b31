#include "local/cuda/scanning.h"

#include "local/base/error.h"

namespace quarry::local::cuda {
namespace {

class CudaScanning final : public Scanning {
 public:
  int64_t scan_scratch_bytes(const ScanLaunch&) override { return 0; }
  void scan(const ScanLaunch&, const ExecContext&) override { throw NotSupported("scans on a GPU are under way"); }
  void fold(const FoldLaunch&, const ExecContext&) override { throw NotSupported("folds on a GPU are under way"); }
};

}  // namespace

Scanning& cuda_scanning() {
  static CudaScanning instance;
  return instance;
}

}  // namespace quarry::local::cuda
