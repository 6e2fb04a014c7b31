// Indexing on a GPU: one thread per element or 16 bytes of a row. Positions are checked where they are read: the first
// bad one goes to a record of 8 bytes, which the host reads before the call returns.
#pragma once

#include "quarry/local/cuda/compiler.h"
#include "quarry/local/program/indexing.h"

namespace quarry::local::cuda {

Indexing& cuda_indexing();

// Everything that changes the code of an element kernel.
struct ElementKernel {
  enum class Kind : uint8_t {
    gather,
    gather_lines,
    scatter,
    claim,
    check,
    update,
    update_shared,
    update_keys,
    update_in_order
  };
  Kind kind = Kind::gather;
  int width = 8;  // bytes of what a thread moves
  int axes = 1, indices = 1;
  IndexMode mode = IndexMode::raise;
  bool wide = false;                 // 64-bit index arithmetic
  bool wide_rank = false;            // winners, or points in order, in 64 bits
  bool wide_key = false;             // update_keys, update_in_order: elements in 64 bits
  bool hashed = false;               // winners by hash table
  bool distinct = false;             // update: no element twice
  const Program* program = nullptr;  // update

  std::string key() const;
  ModuleSource source() const;
};

// Everything that changes the code of a mask kernel.
struct MaskKernel {
  enum class Kind : uint8_t { count, scan, positions, select, expand, copy_where };
  Kind kind = Kind::count;
  int width = 8;
  bool halves = false;  // 16 bytes that are aligned to 8 only
  int axes = 1;
  bool wide = false;

  std::string key() const;
  ModuleSource source() const;
};

void count_mask(const Mask& mask, int64_t* offsets, const ExecContext& context);
void mask_positions(const Mask& mask, int64_t* to, int64_t step, int64_t axis_step, const ExecContext& context);
void select_masked(const Mask& mask, const Operand& from, void* to, int64_t itemsize, const ExecContext& context);
void expand_masked(const Mask& mask, const void* from, int64_t step, int64_t period, const Operand& to,
                   int64_t itemsize, const ExecContext& context);
void copy_where(const Mask& mask, const Operand& from, const Operand& to, int64_t itemsize, const ExecContext& context);

// Positions of a space fit 31 bits: the divisions of kernels are by multiplication.
inline bool needs_wide(int64_t points) { return points >= int64_t{1} << 31; }
// An extent to divide positions by (divide_by() in kernel/support.cuh).
int64_t position_divider(int64_t extent, bool wide);

}  // namespace quarry::local::cuda
