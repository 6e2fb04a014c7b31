// Counting in bins on the CPU (Sorting::bincount and histogram).
#pragma once

#include <cstdint>

#include "quarry/local/base/dtype.h"

namespace quarry::local::cpu {

int64_t count_scratch_bytes(int64_t count, int64_t bins);
void bincount(const int64_t* positions, int64_t count, const double* weights, int64_t bins, void* out, char* scratch,
              int threads);
void histogram(DType dtype, const void* values, int64_t count, DType edges_dtype, const void* edges, int64_t bins,
               bool uniform, const double* weights, void* out, char* scratch, int threads);

}  // namespace quarry::local::cpu
