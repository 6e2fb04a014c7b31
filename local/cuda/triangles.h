// Solves by large triangles: products do almost all of it, and a kernel of quarry's own what they leave.
#pragma once

#include "quarry/local/cuda/matrix.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::local::cuda {

// Whether it pays: the others are for cuBLAS's own routine.
bool solves_by_products(const TriangularSolve& task);

// M x = b in place, for a triangle M of views whose lines are rows or columns.
struct Triangular {
  DType dtype;
  MatrixView m, b;
  bool is_lower, unit_diagonal;
  bool conjugates = false;  // M: as Gemm's conjugate_a
};
// Of matrix p of the stacks.
Triangular triangular(const TriangularSolve& task, int64_t p);
// By halves: x1, then b2 -= M21 x1, then x2, down to blocks of rows that are substituted. By the handle's stream, with
// the handle's workspace.
void solve_by_products(const Triangular& task, cublasHandle_t handle);

}  // namespace quarry::local::cuda
