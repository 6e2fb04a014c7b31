// CUDA C++ for a program run as a plan says.
#pragma once

#include <cstdint>
#include <string>

#include "quarry/local/base/detail.h"
#include "quarry/local/cuda/codegen/program_text.h"
#include "quarry/local/cuda/compiler.h"
#include "quarry/local/cuda/plan.h"

namespace quarry::local::cuda {

// Kernel 0 runs the program; kernel 1, where plan.split, merges partial states. The plan must have kept its names.
ModuleSource make_source(const Program& program, const Plan& plan);

// Suffix of the kernels' names, for several of them in one source (tests). Everything is in namespace
// quarry::local::k<suffix>.
ModuleSource make_source(const Program& program, const Plan& plan, const std::string& suffix);

// "QUARRY_FN T name(A a0, B a1) { ... }": the first output of an elementwise program without indexes and constants, of
// one element of each input.
std::string make_function(const Program& program, const std::string& name);
// Kernels of kernel/scan.cuh; last_...: what gives the last elements of the scan alone.
enum class ScanKernel : uint8_t {
  lines,
  warps,
  look,
  across,
  last_lines,
  last_warps,
  last_look,
  last_across,
  fold,
  fold_warp
};
// One of them, for a binary operation on `dtype` over values of `input`; folds are of `dtype`.
ModuleSource make_scan_source(ScanKernel kernel, Op op, DType input, DType dtype);

}  // namespace quarry::local::cuda
