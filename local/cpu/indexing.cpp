#include "local/cpu/indexing.h"

namespace quarry::local {
namespace {

class CpuIndexing final : public Indexing {};

}  // namespace

Indexing& cpu_indexing() {
  static CpuIndexing instance;
  return instance;
}

}  // namespace quarry::local
