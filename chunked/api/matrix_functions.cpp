#include "quarry/chunked/api/matrix_functions.h"

#include <cmath>
#include <limits>

#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/matrix_calls.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/linalg/exponential.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/linalg/support.h"

namespace quarry::linalg {
namespace {

using namespace compose;
using namespace calls;
namespace ops = local::ops;

struct Matrices {
  using Array = quarry::Array;
  static Array product(const Array& a, const Array& b) { return matmul(a, b); }
  static Array sum(const Array& a, const Array& b) { return a + b; }
  static Array scaled(const Array& a, double factor) { return a * factor; }
  static Array ones(const Array& like) { return eye(like.shape(0), std::nullopt, 0, like.dtype()); }
};

// Of one large matrix, in the dtype that it is computed in.
Array large_exponential(const Array& given) {
  const Array norm = max(quarry::sum(absolute(given), Axes(0)));
  const Settled known = settle(std::span(&norm, 1), std::span(&given, 1));
  const double size = known.values[0].item().as_double();
  if (!std::isfinite(size)) return known.kept[0] * std::numeric_limits<double>::quiet_NaN();
  const local::linalg::Pade& pade = local::linalg::approximant(size, given.dtype());
  const int squarings = std::max(0, static_cast<int>(std::ceil(std::log2(size / pade.bound(given.dtype())))));
  const Array a = squarings > 0 ? known.kept[0] * std::exp2(-squarings) : known.kept[0];
  const auto [u, v] = local::linalg::pade_terms<Matrices>(a, pade);
  Array result = solve(v - u, v + u);
  for (int i = 0; i < squarings; ++i) result = matmul(result, result);
  return result;
}

}  // namespace

Array expm(const Array& A) {
  if (!is_large(A)) return applied({"expm", {{A}}, {}, [](Arrays given) { return Results{ops::expm(given[0])}; }})[0];
  check_square(A);
  return large_exponential(computed(A)).astype(inexact(A.dtype()));
}

Array sqrtm(const Array& A) {
  check_square(A);
  const Array a = computed(A);
  const DType result = inexact(A.dtype());
  if (A.size() == 0) return a.astype(result);
  const EigResult parts = eigh(a);
  const std::vector<Array> numbers{max(absolute(a)), max(absolute(a - matrix_transpose(conjugated(a)))),
                                   min(parts.eigenvalues)};
  const Settled known = settle(numbers, {{parts.eigenvalues, parts.eigenvectors}});
  const auto number = [&](size_t i) { return known.values[i].item().as_double(); };
  const double rounding = static_cast<double>(A.shape(-1)) * local::linalg::epsilon_of(result) * number(0);
  if (number(1) > rounding) throw InvalidArgument("sqrtm takes symmetric or Hermitian matrices only");
  const Array& vectors = known.kept[1];
  // Rounding makes small negative values of zeros.
  Array values = where(logical_and(absolute(known.kept[0]) <= rounding, known.kept[0] < 0), 0, known.kept[0]);
  const bool is_complex = number(2) < -rounding;
  if (is_complex) values = values.astype(local::linalg::complex_type(a.dtype()));
  return matmul(vectors * expand_dims(sqrt(values), -2), matrix_transpose(conjugated(vectors)))
      .astype(is_complex ? local::linalg::complex_type(result) : result);
}

Array block_diag(const std::vector<Array>& arrs) {
  if (arrs.empty()) return quarry::zeros({1, 0});
  std::vector<Array> blocks;
  Dims stack;
  int64_t columns = 0;
  for (const Array& given : arrs) {
    blocks.push_back(given.ndim() == 0 ? reshape(given, {1, 1}) : given.ndim() == 1 ? expand_dims(given, 0) : given);
    const Dims& shape = blocks.back().shape();
    stack = local::broadcast_shapes(stack, Dims(shape.begin(), shape.end() - 2));
    columns += shape[shape.size() - 1];
  }
  const DType dtype = promoted(blocks);
  std::vector<Array> rows;
  int64_t column = 0;
  for (const Array& block : blocks) {
    Dims shape = stack;
    shape.push_back(block.shape(-2));
    const auto zeros_of = [&](int64_t count) {
      Dims extents = shape;
      extents.push_back(count);
      return constant(extents, 0, dtype);
    };
    const int64_t width = block.shape(-1);
    Dims whole = shape;
    whole.push_back(width);
    rows.push_back(
        joined({zeros_of(column), broadcast_to(block.astype(dtype), whole), zeros_of(columns - column - width)},
               shape.size()));
    column += width;
  }
  return joined(rows, stack.size());
}

Array toeplitz(const Array& c, const std::optional<Array>& r) {
  const Array column = reshape(c, {c.size()}), row = r ? reshape(*r, {r->size()}) : conjugated(column);
  const DType dtype = promoted({column, row});
  const int64_t m = column.size(), n = row.size();
  if (m == 0 || n == 0) return constant({m, n}, 0, dtype);
  // Element (i, j) is number m - 1 - i + j of the column upwards and then the row.
  const Array line = joined({flip(column.astype(dtype)), arrange::part(row.astype(dtype), 0, 1, n - 1)}, 0);
  const auto chunk = [m](std::span<const NdArray> arrays, const ChunkPlace& place) {
    const Region& box = place.outputs[0];
    const int64_t first = m - 1 - box.start[0] + box.start[1];
    const NdArray& line = arrays[2];
    const NdArray below = line[{local::Slice{first - box.count[0] + 1, first + 1, 1}}];
    return Results{ops::toeplitz(ops::flip(below), line[{local::Slice{first, first + box.count[1], 1}}])};
  };
  BlockOptions options;
  options.name = "linalg.toeplitz";
  options.identity = op::Hash().add(std::string_view(options.name)).add(m).value;
  options.dtypes = {dtype};
  const Grid grid = constant({m, n}, 0, dtype).chunks();
  const auto cut = [&](int64_t count, int axis) { return positions(count).rechunk(Grid({grid.axis(axis)})); };
  const Indexed arguments[] = {{cut(m, 0), "i"}, {cut(n, 1), "j"}, {line, "k"}};
  return blockwise(detail::block_function(chunk), "ij", arguments, {}, options);
}

Array tensorinv(const Array& a, int64_t ind) {
  const local::linalg::TensorMatrix parts = local::linalg::inverse_of_tensor(a.shape(), ind);
  return reshape(inv(reshape(a, parts.matrix)), parts.result);
}
Array tensorsolve(const Array& a, const Array& b, const std::optional<local::Ints>& axes) {
  const local::linalg::TensorMatrix parts = local::linalg::system_of_tensor(a.shape(), b.ndim(), axes);
  return reshape(solve(reshape(transpose(a, parts.order), parts.matrix), reshape(b, {b.size()})), parts.result);
}

}  // namespace quarry::linalg
