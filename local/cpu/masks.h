// Selection by masks; the functions of the same purpose in local/program/indexing.h say what they do.
#pragma once

#include "quarry/local/cpu/matrix.h"
#include "quarry/local/program/indexing.h"

namespace quarry::local::cpu {

void count_mask(const Mask& mask, int64_t* offsets, int threads);
void mask_positions(const Mask& mask, int64_t* to, int64_t step, int64_t axis_step, int threads);
void select_masked(const Mask& mask, const Operand& from, void* to, int64_t itemsize, int threads);
void expand_masked(const Mask& mask, const void* from, int64_t step, int64_t period, const Operand& to,
                   int64_t itemsize, int threads);
void copy_where(const Mask& mask, const Operand& from, const Operand& to, int64_t itemsize, int threads);

}  // namespace quarry::local::cpu
