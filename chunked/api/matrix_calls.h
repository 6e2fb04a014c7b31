// What the functions of matrices share: calls of local functions on whole matrices, stacks cut along their other axes.
// Private to this folder.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/op/hash.h"
#include "quarry/local/ndarray/trial.h"
#include "quarry/local/program/subset.h"
#include "quarry/local/program/triangle.h"

namespace quarry::linalg::calls {

using Arrays = std::span<const NdArray>;
using Results = std::vector<NdArray>;

// An argument and how many of its last axes a task has whole; the others are the stack's, and broadcast.
struct Argument {
  Array array;
  int core = 2;
  int loops() const { return std::max(array.ndim() - core, 0); }
};
inline constexpr int kMatrix = 2, kVector = 1, kNumber = 0;  // cores

// A function of local arrays that reads no values.
struct Call {
  std::string name;
  std::vector<Argument> arguments;
  op::Hash parameters = {};
  std::function<Results(Arrays)> function;
};
// The shapes and dtypes of the results, found on one matrix of each stack. Throws the function's errors of them.
std::vector<local::ArraySpec> results_of(const Call& call);
std::vector<Array> applied(Call call);

inline DType inexact(DType dtype) { return compose::is_inexact(dtype) ? dtype : DType::float64; }
// What solvers compute in: results of 16-bit floats are converted back.
inline DType computed_in(DType dtype) { return local::is_half(dtype) ? DType::float32 : inexact(dtype); }
inline Array computed(const Array& a) { return a.astype(computed_in(a.dtype())); }
// Whether a is decomposed by tiles (tiled.h).
bool is_large(const Array& a);
// The same for a decomposition whose results have so many elements.
bool is_large_with(const Array& a, int64_t elements);
// The array, whose computation throws InvalidArgument where it is not finite. Itself unless `wanted`.
Array finite(const Array& a, bool wanted);

// The Hermitian matrix of which one triangle is given: of the diagonal, the real parts.
Array both_triangles(const Array& a, local::Triangle triangle);

}  // namespace quarry::linalg::calls
