#include "quarry/chunked/api/compose.h"

#include <fmt/format.h>

#include <limits>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/indexing/index_support.h"

namespace quarry::compose {

DType promoted(std::span<const Operand> operands) {
  std::vector<local::PromotionOperand> dtypes;
  for (const Operand& operand : operands) {
    if (operand.is_array())
      dtypes.push_back({operand.array().dtype(), false});
    else
      dtypes.push_back({operand.scalar().dtype(), operand.scalar().weak()});
  }
  return local::result_type(dtypes);
}

DType promoted(std::span<const Array> arrays) { return promoted(std::vector<Operand>(arrays.begin(), arrays.end())); }

Array as_array(const Operand& operand) {
  return operand.is_array() ? operand.array() : constant({}, operand.scalar(), operand.scalar().dtype());
}
Array as_array(const Operand& operand, DType dtype) {
  if (operand.is_array()) return operand.array().astype(dtype);
  local::check_literal(operand.scalar(), dtype);
  return constant({}, operand.scalar(), dtype);
}

Array positions(const Dims& shape, int axis, DType dtype) { return Array(expr::index(shape, axis)).astype(dtype); }
Array positions(int64_t count, DType dtype) { return positions({count}, 0, dtype); }
Array conjugated(const Array& x) { return local::is_complex(x.dtype()) ? conjugate(x) : x; }
Array adjoint(const Array& matrix) { return conjugated(matrix).T(); }

Array constant(const Dims& shape, const Scalar& value, DType dtype) {
  return Array(expr::constant(value, dtype, shape));
}

Array joined(const std::vector<Array>& parts, int axis) {
  std::vector<expr::NodePtr> nodes;
  for (const Array& part : parts)
    if (part.shape()[axis] > 0) nodes.push_back(part.node());
  if (nodes.empty()) return parts.front();
  return Array(algo::concatenate(std::move(nodes), axis));
}

Array along(const Array& x, int axis, int ndim) {
  uint32_t added = 0;
  for (int d = 0; d < ndim; ++d)
    if (d != axis) added |= uint32_t{1} << d;
  return Array(expr::insert_axes(x.node(), added));
}

Array with_axes(const Array& x, int axis) { return Array(expr::insert_axes(x.node(), uint32_t{1} << axis)); }

Dims with_extent(const Dims& shape, int axis, int64_t extent) {
  Dims result = shape;
  result[axis] = extent;
  return result;
}

Array gathered(const Array& x, int axis, std::span<const int64_t> positions) {
  std::vector<Array> parts;
  for (size_t i = 0; i < positions.size();) {
    size_t end = i + 1;
    const int64_t step = end < positions.size() ? positions[end] - positions[i] : 1;
    while (end < positions.size() && positions[end] - positions[end - 1] == step) ++end;
    // The last of an odd step may begin a longer run.
    if (end - i == 2 && step != 1 && step != 0) --end;
    const auto count = static_cast<int64_t>(end - i);
    const int64_t first = positions[i], last = positions[end - 1];
    if (count > 1 && step == 0) {
      const Array one = arrange::part(x, axis, first, 1);
      parts.push_back(broadcast_to(one, with_extent(x.shape(), axis, count)));
    } else if (count > 1 && step < 0) {
      const std::optional<int64_t> stop = last > 0 ? std::optional(last - 1) : std::nullopt;
      parts.push_back(arrange::sliced(x, axis, local::Slice{first, stop, step}));
    } else {
      parts.push_back(arrange::sliced(x, axis, local::Slice{first, last + 1, count > 1 ? step : 1}));
    }
    i = end;
  }
  if (parts.empty()) return arrange::part(x, axis, 0, 0);
  return joined(parts, axis);
}

void check_square(const Array& a) {
  if (a.ndim() < 2)
    throw local::LinAlgError(
        fmt::format("{}-dimensional array given. Array must be at least two-dimensional", a.ndim()));
  if (a.shape(-1) != a.shape(-2))
    throw local::LinAlgError(
        fmt::format("Last 2 dimensions of the array must be square, not {} by {}", a.shape(-2), a.shape(-1)));
}

Array with_chunks_within(const Array& x, int64_t bytes, std::optional<int> whole) {
  Dims chunk = x.chunks().largest();
  int64_t size = largest_chunk_bytes(x.chunks(), local::itemsize(x.dtype()));
  if (size <= bytes) return x;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d == whole) continue;
    const int64_t each = size / chunk[d];
    chunk[d] = std::clamp<int64_t>(bytes / each, 1, chunk[d]);
    size = each * chunk[d];
  }
  return x.rechunk(Grid::regular(x.shape(), chunk));
}

namespace {
constexpr int64_t kTasks = 2;  // that are to fit
}

Array in_fitting_chunks(const Array& x, int64_t bytes_per_element, std::optional<int> whole) {
  const int64_t room = Runtime::current().plan_bytes(), elements = local::element_count(x.chunks().largest());
  const int64_t task = elements * bytes_per_element;
  if (room == 0 || task <= room) return x;
  return with_chunks_within(x, elements * local::itemsize(x.dtype()) / (kTasks * task / room + 1), whole);
}

int64_t most_fitting(const Array& x, int64_t bytes_per_element, int axis) {
  const int64_t room = Runtime::current().plan_bytes();
  if (room == 0) return std::numeric_limits<int64_t>::max();
  Dims others = x.chunks().largest();
  others[axis] = 1;
  return std::max<int64_t>(room / (kTasks * bytes_per_element * std::max<int64_t>(local::element_count(others), 1)), 1);
}

int64_t most_on_every_rank() {
  constexpr int64_t kPart = 16;
  return std::min(target_chunk_bytes(chunk_policy().device), Runtime::current().plan_bytes() / kPart);
}

Array with_whole_axis(const Array& x, int axis) {
  if (x.chunks().axis(axis).count() == 1) return x;
  Dims others;
  for (int d = 0; d < x.ndim(); ++d)
    if (d != axis) others.push_back(x.shape()[d]);
  const int64_t itemsize = local::itemsize(x.dtype()), usual = largest_chunk_bytes(x.chunks(), itemsize);
  Dims chunk = auto_chunk(others, std::max<int64_t>(x.shape()[axis] * itemsize, 1), std::nullopt, usual);
  chunk.insert(axis, std::max<int64_t>(x.shape()[axis], 1));
  return x.rechunk(Grid::regular(x.shape(), chunk));
}

std::vector<int64_t> settled(const Array& x) { return local::to_vector<int64_t>(x.astype(DType::int64).to_host()); }

}  // namespace quarry::compose
