#include "quarry/local/cpu/blas_threads.h"

#include <cblas.h>

#include <mutex>

namespace quarry::local::cpu {
namespace {

// The calls under way, of all threads, and the host program's number of OpenBLAS threads meanwhile.
std::mutex blas_mutex;
int blas_calls = 0;
int blas_threads = 1;

}  // namespace

OneThreadPerCall::OneThreadPerCall() {
  const std::lock_guard lock(blas_mutex);
  if (blas_calls++ > 0) return;
  blas_threads = openblas_get_num_threads();
  if (blas_threads != 1) openblas_set_num_threads(1);
}

OneThreadPerCall::~OneThreadPerCall() {
  const std::lock_guard lock(blas_mutex);
  if (--blas_calls == 0 && blas_threads != 1) openblas_set_num_threads(blas_threads);
}

}  // namespace quarry::local::cpu
