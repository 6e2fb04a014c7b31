// Elementwise work on stacks of matrices around the libraries' calls, as programs of the engine.
#pragma once

#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::local::cuda {

// to = from over `shape`, conjugated or converted where asked; strides in elements of each.
void copy_strided(DType from_type, DType to_type, const Dims& shape, const void* from, const Dims& from_strides,
                  void* to, const Dims& to_strides, bool conjugate, const ExecContext& context);
void convert(DType from_type, const void* from, DType to_type, void* to, int64_t count, const ExecContext& context);
// Upper triangles of from.count matrices of columns x columns, zeros below: R of what Qr left.
void copy_upper(DType dtype, const MatrixStack& from, void* to, const ExecContext& context);
void write_identities(DType dtype, const MatrixStack& to, const ExecContext& context);
// Over `shape` = (matrix, column, row) of matrices `step` elements apart: to = a times a real number per column.
void scale_columns(DType dtype, const Dims& shape, const void* a, int64_t step, const void* factors, DType real,
                   void* to, const ExecContext& context);
// a times f / |f|, where f, one per column, has about the length 1 or 0; those of 0 leave their column alone.
void turn_columns(DType dtype, const Dims& shape, void* a, int64_t step, const void* factors,
                  const ExecContext& context);
// to[p] = base + p * step_bytes, for p in [0, count).
void write_addresses(const void* base, int64_t step_bytes, int64_t count, void* to, const ExecContext& context);

// The addresses of a stack's matrices in device memory, as batched routines want them.
class Addresses {
 public:
  Addresses(const void* base, int64_t step_bytes, int64_t count, const ExecContext& context)
      : scratch_(count * static_cast<int64_t>(sizeof(void*)), context) {
    if (count > 0) write_addresses(base, step_bytes, count, scratch_.data(), context);
  }
  Addresses(const MatrixStack& stack, int64_t count, DType dtype, const ExecContext& context)
      : Addresses(stack.data, stack.elements() * itemsize(dtype), count, context) {}
  Addresses(const MatrixStack& stack, DType dtype, const ExecContext& context)
      : Addresses(stack, stack.count, dtype, context) {}
  template <class T>
  T** of() const {
    return reinterpret_cast<T**>(scratch_.data());
  }

 private:
  Scratch scratch_;
};

}  // namespace quarry::local::cuda
