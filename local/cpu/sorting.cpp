#include "local/cpu/sorting.h"

namespace quarry::local {
namespace {

class CpuSorting final : public Sorting {};

}  // namespace

Sorting& cpu_sorting() {
  static CpuSorting instance;
  return instance;
}

}  // namespace quarry::local
