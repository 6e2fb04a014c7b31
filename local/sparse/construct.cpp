#include "quarry/local/sparse/construct.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/sorting/sets.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/sparse/arithmetic.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse {
namespace {

SparseArray in_format(const SparseArray& a, OptionalFormat format) { return format ? a.asformat(*format) : a; }

DType common_dtype(const std::vector<DType>& dtypes) {
  DType result = dtypes.front();
  for (const DType dtype : dtypes) result = promote_types(result, dtype);
  return result;
}

// The part of the diagonals' matrix with that many columns that data's rows begin with.
NdArray offsets_array(const std::vector<int64_t>& offsets, const Dims& shape, Device device) {
  return cast(from_vector(offsets).to(device), index_dtype_for(shape, 0));
}

void check_unique(std::vector<int64_t> offsets) {
  std::sort(offsets.begin(), offsets.end());
  const auto twice = std::adjacent_find(offsets.begin(), offsets.end());
  if (twice != offsets.end()) throw InvalidArgument(fmt::format("offsets: {} occurs twice", *twice));
}

}  // namespace

SparseArray eye_array(int64_t m, std::optional<int64_t> n, int64_t k, DType dtype, OptionalFormat format) {
  const Dims shape{m, n.value_or(m)};
  check_shape(shape);
  check_dtype(dtype, "dtype");
  const ExecContext context = current_context();
  const int64_t length = std::max<int64_t>(0, std::min(m + k, shape[1]));
  const NdArray data({1, length}, dtype, context);
  data.fill(1, context);
  return in_format(SparseArray(Format::dia, shape, data, offsets_array({k}, shape, context.device), NdArray(), true),
                   format);
}
SparseMatrix eye(int64_t m, std::optional<int64_t> n, int64_t k, DType dtype, OptionalFormat format) {
  return SparseMatrix(eye_array(m, n, k, dtype, format));
}
SparseMatrix identity(int64_t n, DType dtype, OptionalFormat format) { return eye(n, n, 0, dtype, format); }

SparseArray diags_array(const std::vector<NdArray>& diagonals, const std::vector<int64_t>& offsets,
                        const std::optional<Dims>& given, OptionalFormat format, std::optional<DType> dtype) {
  if (diagonals.size() != offsets.size())
    throw InvalidArgument(fmt::format("diagonals and offsets: there are {} and {}", diagonals.size(), offsets.size()));
  if (diagonals.empty()) throw InvalidArgument("diagonals: there must be at least one");
  check_unique(offsets);
  const Device device = common_device(diagonals);
  std::vector<DType> dtypes;
  for (const NdArray& diagonal : diagonals) {
    if (diagonal.ndim() > 1)
      throw InvalidArgument(
          fmt::format("diagonals: one has shape {}, not one dimension", local::to_string(diagonal.shape())));
    dtypes.push_back(diagonal.dtype());
  }
  const DType type = dtype.value_or(common_dtype(dtypes));
  check_dtype(type, "dtype");
  const int64_t side = diagonals[0].size() + std::abs(offsets[0]);
  const Dims shape = given.value_or(Dims{side, side});
  check_shape(shape);
  int64_t width = 0;
  const auto length_of = [&](int64_t k) {
    return std::min(shape[0] + std::min<int64_t>(k, 0), shape[1] - std::max<int64_t>(k, 0));
  };
  for (const int64_t k : offsets) width = std::max(width, length_of(k) + std::max<int64_t>(0, k));
  const auto count = static_cast<int64_t>(diagonals.size());
  const NdArray data = zeros(count * width, type, device).reshape({count, width});
  for (size_t i = 0; i < diagonals.size(); ++i) {
    const int64_t k = offsets[i], length = length_of(k), begin = std::max<int64_t>(0, k);
    const int64_t size = diagonals[i].size();
    if (length < 0 || (length == 0 && size > 1))
      throw InvalidArgument(
          fmt::format("offsets: diagonal {} is out of a matrix of shape {}", k, local::to_string(shape)));
    if (size != length && size != 1)
      throw InvalidArgument(
          fmt::format("diagonals: number {} (offset {}) has {} elements, its length in shape {} is {}", i, k, size,
                      local::to_string(shape), length));
    if (length > 0)
      data[{static_cast<int64_t>(i), Slice{begin, begin + length, std::nullopt}}].assign(
          cast(diagonals[i].reshape({-1}), type), context_of(data));
  }
  return in_format(SparseArray(Format::dia, shape, data, offsets_array(offsets, shape, device), NdArray(), true),
                   format);
}
SparseMatrix diags(const std::vector<NdArray>& diagonals, const std::vector<int64_t>& offsets,
                   const std::optional<Dims>& shape, OptionalFormat format, std::optional<DType> dtype) {
  return SparseMatrix(diags_array(diagonals, offsets, shape, format, dtype));
}

SparseMatrix spdiags(const NdArray& data, const std::vector<int64_t>& offsets, int64_t m, int64_t n,
                     OptionalFormat format) {
  return SparseMatrix(in_format(dia_array(data, from_vector(offsets).to(data.device()), Dims{m, n}), format));
}

// Every element of a times every element of b: an outer product of values and of coordinates.
SparseArray kron(const SparseArray& a, const SparseArray& b, OptionalFormat format) {
  Dims shape = Dims::filled(2);
  for (int d = 0; d < 2; ++d)
    if (__builtin_mul_overflow(a.shape()[d], b.shape()[d], &shape[d]))
      throw InvalidArgument("the extents of kron(a, b) exceed 64 bits");
  const Triplets x = row_triplets(a), y = row_triplets(b);
  const auto joined = [](const NdArray& outer, const NdArray& inner, int64_t extent) {
    Fused f;
    const auto high = f.cast(f.input(outer.reshape({-1, 1})), DType::int64);
    const auto low = f.cast(f.input(inner.reshape({1, -1})), DType::int64);
    return f.run(f("add"_op, f("multiply"_op, high, extent), low)).reshape({-1});
  };
  const NdArray values = (x.data.reshape({-1, 1}) * y.data.reshape({1, -1})).reshape({-1});
  const DType index = index_dtype_for(shape, values.size());
  const SparseArray coo(Format::coo, shape, values, cast(joined(x.major, y.major, b.rows()), index),
                        cast(joined(x.minor, y.minor, b.columns()), index));
  return coo.asformat(format.value_or(Format::csr));
}

SparseArray kronsum(const SparseArray& a, const SparseArray& b, OptionalFormat format) {
  if (a.rows() != a.columns()) throw InvalidArgument("a is not square: " + local::to_string(a.shape()));
  if (b.rows() != b.columns()) throw InvalidArgument("b is not square: " + local::to_string(b.shape()));
  const DType dtype = promote_types(a.dtype(), b.dtype());
  const auto unit = [&](int64_t n) { return eye_array(n, n, 0, dtype).to(a.device()); };
  return in_format(kron(unit(b.rows()), a) + kron(b, unit(a.rows())), format);
}

SparseArray block_array(const std::vector<BlockRow>& blocks, OptionalFormat format, std::optional<DType> dtype) {
  if (blocks.empty() || blocks[0].empty()) throw InvalidArgument("blocks: there must be at least one");
  const size_t across = blocks[0].size();
  std::vector<int64_t> heights(blocks.size(), -1), widths(across, -1);
  std::vector<DType> dtypes;
  const auto fit = [](int64_t& extent, int64_t found, size_t i, size_t j, const char* what) {
    if (extent >= 0 && extent != found)
      throw InvalidArgument(
          fmt::format("blocks[{}][{}] has {} {}, others beside it have {}", i, j, found, what, extent));
    extent = found;
  };
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].size() != across)
      throw InvalidArgument(fmt::format("blocks[{}] has {} entries, blocks[0] has {}", i, blocks[i].size(), across));
    for (size_t j = 0; j < across; ++j) {
      if (!blocks[i][j]) continue;
      fit(heights[i], blocks[i][j]->rows(), i, j, "rows");
      fit(widths[j], blocks[i][j]->columns(), i, j, "columns");
      dtypes.push_back(blocks[i][j]->dtype());
    }
  }
  const auto check = [](const std::vector<int64_t>& extents, const char* what) {
    const auto unknown = std::find(extents.begin(), extents.end(), -1);
    if (unknown != extents.end())
      throw InvalidArgument(fmt::format("blocks: {} {} has no block", what, unknown - extents.begin()));
  };
  check(heights, "row");
  check(widths, "column");
  const DType type = dtype.value_or(common_dtype(dtypes));
  std::vector<NdArray> data, major, minor;
  Dims shape{0, 0};
  for (size_t i = 0; i < blocks.size(); shape[0] += heights[i++]) {
    shape[1] = 0;
    for (size_t j = 0; j < across; shape[1] += widths[j++]) {
      if (!blocks[i][j]) continue;
      const Triplets t = row_triplets(*blocks[i][j]);
      data.push_back(cast(t.data, type));
      major.push_back(cast(t.major, DType::int64) + Scalar(shape[0]));
      minor.push_back(cast(t.minor, DType::int64) + Scalar(shape[1]));
    }
  }
  common_device(data);
  const NdArray values = ops::concatenate(data);
  const DType index = index_dtype_for(shape, values.size());
  const SparseArray coo(Format::coo, shape, values, cast(ops::concatenate(major), index),
                        cast(ops::concatenate(minor), index));
  return in_format(coo, format);
}
SparseArray bmat(const std::vector<BlockRow>& blocks, OptionalFormat format, std::optional<DType> dtype) {
  return block_array(blocks, format, dtype);
}

SparseArray block_diag(const std::vector<SparseArray>& matrices, OptionalFormat format, std::optional<DType> dtype) {
  std::vector<BlockRow> blocks(matrices.size(), BlockRow(matrices.size()));
  for (size_t i = 0; i < matrices.size(); ++i) blocks[i][i] = matrices[i];
  return block_array(blocks, format, dtype);
}

namespace {

// SciPy's choice: the format whose lines are stacked, where all have it.
OptionalFormat stacked_format(const std::vector<SparseArray>& blocks, Format lines, OptionalFormat format) {
  const bool all = std::all_of(blocks.begin(), blocks.end(), [&](const SparseArray& a) { return a.format() == lines; });
  return format || !all ? format : lines;
}

}  // namespace

SparseArray hstack(const std::vector<SparseArray>& blocks, OptionalFormat format, std::optional<DType> dtype) {
  return block_array({BlockRow(blocks.begin(), blocks.end())}, stacked_format(blocks, Format::csc, format), dtype);
}
SparseArray vstack(const std::vector<SparseArray>& blocks, OptionalFormat format, std::optional<DType> dtype) {
  std::vector<BlockRow> rows;
  for (const SparseArray& block : blocks) rows.push_back({block});
  return block_array(rows, stacked_format(blocks, Format::csr, format), dtype);
}

namespace {

// `count` distinct numbers below `total`, in no order that matters.
NdArray distinct_numbers(Generator& rng, int64_t total, int64_t count) {
  if (count > total / 8) return rng.choice(total, Ints(count), /*replace=*/false);
  // Of somewhat more draws than needed those that differ, until they are enough; then a random part of them.
  NdArray found = ops::unique_values(rng.integers(0, total, Ints(count + count / 4 + 16)));
  while (found.size() < count)
    found = ops::unique_values(ops::concatenate({found, rng.integers(0, total, Ints(count))}));
  return slice(rng.permutation(found), 0, count);
}

NdArray random_values(Generator& rng, int64_t count, DType dtype) {
  if (is_float(dtype)) return rng.random(Ints(count), dtype);
  if (is_complex(dtype)) {
    const DType part = real_type(dtype);
    NdArray values({count}, dtype, current_context());
    values.real().assign(rng.random(Ints(count), part));
    values.imag().assign(rng.random(Ints(count), part));
    return values;
  }
  if (dtype == DType::bool_) return rng.integers(0, 2, Ints(count), dtype);
  const NdArray words = rng.integers(0, 256, Ints{count, itemsize(dtype)}, DType::uint8);
  return ops::view(words, dtype).reshape({-1});
}

}  // namespace

SparseArray random_array(const Dims& shape, double density, Format format, DType dtype, std::optional<Generator> rng) {
  check_shape(shape);
  check_dtype(dtype, "dtype");
  if (!(density >= 0 && density <= 1))
    throw InvalidArgument(fmt::format("density: {} is not between 0 and 1", density));
  Generator generator = rng ? *rng : default_rng();
  const int64_t total = element_count(shape);
  const auto count = static_cast<int64_t>(std::llround(density * static_cast<double>(total)));
  if (count == 0) return SparseArray(format, shape, dtype);
  const NdArray at = distinct_numbers(generator, total, count);
  const DType index = index_dtype_for(shape, count);
  const SparseArray coo(Format::coo, shape, random_values(generator, count, dtype),
                        cast(apply("floor_divide"_op, {at, Scalar(shape[1])}), index),
                        cast(apply("remainder"_op, {at, Scalar(shape[1])}), index));
  return coo.asformat(format);
}
SparseMatrix random(int64_t m, int64_t n, double density, Format format, DType dtype, std::optional<Generator> rng) {
  return SparseMatrix(random_array({m, n}, density, format, dtype, std::move(rng)));
}
SparseMatrix rand(int64_t m, int64_t n, double density, Format format, DType dtype, std::optional<Generator> rng) {
  return random(m, n, density, format, dtype, std::move(rng));
}

namespace {

SparseArray triangle(const SparseArray& a, int64_t k, OptionalFormat format, Op inside) {
  const Triplets t = row_triplets(a);
  Fused f;
  const auto row = f.cast(f.input(t.major), DType::int64), column = f.cast(f.input(t.minor), DType::int64);
  const NdArray mask = f.run(f(inside, f("subtract"_op, column, row), k));
  const std::vector<NdArray> kept = keep(mask, {t.data, t.major, t.minor});
  const DType index = index_dtype_for(a.shape(), kept[0].size());
  return in_format(SparseArray(Format::coo, a.shape(), kept[0], cast(kept[1], index), cast(kept[2], index)), format);
}

}  // namespace

SparseArray tril(const SparseArray& a, int64_t k, OptionalFormat format) {
  return triangle(a, k, format, "less_equal"_op);
}
SparseArray triu(const SparseArray& a, int64_t k, OptionalFormat format) {
  return triangle(a, k, format, "greater_equal"_op);
}

Found find(const SparseArray& a) {
  SparseArray summed = canonical(a, Format::csr);
  summed.eliminate_zeros();
  const Triplets t = row_triplets(summed);
  return {t.major, cast(t.minor, DType::int64), t.data};
}

}  // namespace quarry::local::sparse
