// Products of batches of matrices, and sliding products of vectors.
// Part of Engine: the same contract (queued on context.stream, scratch from context.memory and at most what the
// *_scratch_bytes() function says, thread-safe for different streams).
#pragma once

#include "quarry/local/program/engine.h"
#include "quarry/local/program/precision.h"

namespace quarry::local {

// Whether one is the other's transpose, the same elements: their product is symmetric, and half of it is enough.
inline bool are_transposes(const MatrixView& a, const MatrixView& b) {
  return a.data == b.data && a.rows == b.columns && a.row_stride == b.column_stride && a.column_stride == b.row_stride;
}

// Matrices of one shape: the one at position p of a batch begins at matrix.data + sum p[d] * strides[d].
struct MatrixBatch {
  MatrixView matrix;
  Dims strides;  // in elements, one per axis of the batch, any sign; 0 repeats a matrix
};

// c[p] = a[p] b[p] for every position p of `batch`; c's matrices do not overlap each other or anything else; a has at
// least one column.
// bool and integers: any strides; bool multiplies by `and` and sums by `or`, integers wrap. Floating point: of the
// strides along a matrix's axes of more than one element, one is 1 and the other at least the length of a line
// (a vector may have any positive stride).
struct MatrixProduct {
  DType dtype;  // of a, b and c; float16 and bfloat16 accumulate in float32
  Dims batch;
  MatrixBatch a, b, c;
  bool conjugate = false;  // of a; only where a has one row
  Precision precision = Precision::exact;
};

// out[i] = sum over t of a[i + t - before] v[t], for i in [0, results) and those t in [0, taps) for which a has that
// element. All are contiguous; out overlaps nothing.
struct SlidingProduct {
  DType dtype;  // of a, v and out; not the 16-bit floats. bool multiplies by `and` and sums by `or`, integers wrap
  const void* a;
  int64_t elements;
  const void* v;
  int64_t taps;
  void* out;
  int64_t results;
  int64_t before;
};

// c = alpha a b + beta c; where b is a's conjugate transpose, the same elements, c is Hermitian and known by its lower
// triangle. dtype float32, float64, complex64, complex128 (float16 and bfloat16 accumulate in float32).
struct Gemm {
  DType dtype;
  double alpha;
  MatrixView a, b;
  double beta;
  MatrixView c;
  // Whether complex elements of a, or b, are conjugated first: only those of a matrix whose lines are rows where c's
  // are columns, or the other way round, so that a library sees a conjugate transpose.
  bool conjugate_a = false, conjugate_b = false;
  Precision precision = Precision::exact;
};

// c = alpha a^H a + beta c for Hermitian c: its lower triangle is read, both are filled.
struct Syrk {
  DType dtype;
  double alpha;
  MatrixView a;
  double beta;
  MatrixView c;
  Precision precision = Precision::exact;
};

class Products {
 public:
  virtual ~Products() = default;
  // Sums in an order that depends on shapes and strides only, and on whether a is b's transpose.
  virtual int64_t multiply_scratch_bytes(const MatrixProduct& product) = 0;
  virtual void multiply(const MatrixProduct& product, const ExecContext& context) = 0;
  // The order of a result's sum depends on its t and on the sizes only.
  virtual int64_t slide_scratch_bytes(const SlidingProduct& product) = 0;
  virtual void slide(const SlidingProduct& product, const ExecContext& context) = 0;

  // Sums along k in an order that depends on the shapes only.
  virtual int64_t gemm_scratch_bytes(const Gemm& task) = 0;
  virtual void gemm(const Gemm& task, const ExecContext& context) = 0;
  virtual int64_t syrk_scratch_bytes(const Syrk& task) = 0;
  virtual void syrk(const Syrk& task, const ExecContext& context) = 0;
};

}  // namespace quarry::local
