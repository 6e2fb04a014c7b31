// Positions of elements: of the non-zero ones, of triangles, diagonals and grids, flat ones and back.
#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/device/range.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/arrange.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::local::ops {
namespace {

ArrayTuple columns(const NdArray& rows) {
  ArrayTuple result;
  for (int64_t d = 0; d < rows.shape()[1]; ++d) result.push_back(rows[{full_slice, d}]);
  return result;
}

// position along axis 1 <= position along axis 0 + k, or the opposite.
NdArray triangle(int64_t n, int64_t m, int64_t k, bool lower) {
  const ExecContext context = current_context();
  NdArray result({std::max<int64_t>(n, 0), std::max<int64_t>(m, 0)}, DType::bool_, context);
  Program program;
  const ValueId shifted[] = {program.index(0), program.constant(k, DType::int64)};
  const ValueId both[] = {program.index(1), program.apply("add"_op, shifted)};
  program.output(program.apply(lower ? "less_equal"_op : "greater_equal"_op, both));
  const NdArray* out[] = {&result};
  run_elementwise(program, {}, out, context);
  return result;
}

void check_matrix(const NdArray& array) {
  if (array.ndim() != 2) throw InvalidArgument("input array must be 2-d");
}

void check_order(std::string_view order) {
  if (order != "C" && order != "F") throw InvalidArgument("only 'C' or 'F' order is permitted");
}

void check_integers(const NdArray& array) {
  if (!is_integer(array.dtype())) throw TypeError("only int indices permitted");
}

bool all_within(const NdArray& positions, int64_t extent) {
  return positions.size() == 0 ||
         (item_or(ops::min(positions), 0).as_int64() >= 0 && item_or(ops::max(positions), 0).as_int64() < extent);
}

}  // namespace

ArrayTuple nonzero(const NdArray& a) {
  const Range named("nonzero");
  if (a.ndim() == 0) {
    throw InvalidArgument("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.");
  }
  CountedMask mask(a);
  if (a.ndim() == 1) {
    ArrayTuple result;
    result.push_back(mask.positions());
    return result;
  }
  return columns(mask.coordinates());
}

NdArray flatnonzero(const NdArray& a) {
  const Range named("flatnonzero");
  return CountedMask(a).positions();
}

NdArray argwhere(const NdArray& a) {
  const Range named("argwhere");
  return CountedMask(a).coordinates();
}

std::variant<NdArray, ArrayTuple> where_or_nonzero(const Arg& condition, const std::optional<Arg>& x,
                                                   const std::optional<Arg>& y) {
  const Range named("where");
  if (x.has_value() != y.has_value()) throw InvalidArgument("either both or neither of x and y should be given");
  if (!x) return nonzero(plain_array(condition, current_context().device));
  return apply("where"_op, {condition, *x, *y});
}

ArrayTuple ix_(const std::vector<NdArray>& args) {
  const Range named("ix_");
  ArrayTuple result;
  for (size_t i = 0; i < args.size(); ++i) {
    NdArray one = args[i];
    if (one.ndim() != 1) throw InvalidArgument("Cross index must be 1 dimensional");
    if (one.size() == 0) one = one.astype(DType::int64, context_for(one.device()));
    if (one.dtype() == DType::bool_) one = CountedMask(one).positions();
    Dims shape = Dims::filled(static_cast<int>(args.size()), 1);
    shape[static_cast<int>(i)] = one.size();
    result.push_back(one.reshape(shape));
  }
  return result;
}

ArrayTuple unravel_index(const NdArray& indices, const Dims& shape, std::string_view order) {
  const Range named("unravel_index");
  check_order(order);
  check_integers(indices);
  const NdArray flat = indices.astype(DType::int64, context_for(indices.device()));
  const int64_t size = element_count(shape);
  if (!all_within(flat, size)) {
    for (const int64_t value : to_vector<int64_t>(flat))
      if (value < 0 || value >= size)
        throw InvalidArgument(fmt::format("index {} is out of bounds for array with size {}", value, size));
  }
  const Dims strides = arrange::element_strides(shape, order);
  ArrayTuple result;
  for (int d = 0; d < shape.size(); ++d)
    result.push_back(apply("remainder"_op, {apply("floor_divide"_op, {flat, strides[d]}), shape[d]}));
  return result;
}

NdArray ravel_multi_index(const std::vector<NdArray>& multi_index, const Dims& dims,
                          const std::variant<std::string, std::vector<std::string>>& mode, std::string_view order) {
  const Range named("ravel_multi_index");
  check_order(order);
  const int ndim = dims.size();
  if (static_cast<int>(multi_index.size()) != ndim)
    throw InvalidArgument(fmt::format("parameter multi_index must be a sequence of length {}", ndim));
  std::vector<IndexMode> modes;
  if (const auto* one = std::get_if<std::string>(&mode))
    modes.assign(multi_index.size(), parse_index_mode(*one));
  else
    for (const std::string& each : std::get<std::vector<std::string>>(mode)) modes.push_back(parse_index_mode(each));
  if (static_cast<int>(modes.size()) != ndim)
    throw InvalidArgument(fmt::format("incorrect number of modes: {} for {} dimensions", modes.size(), ndim));
  element_count(dims);  // must fit
  const Dims strides = arrange::element_strides(dims, order);
  std::optional<NdArray> sum;
  for (int d = 0; d < ndim; ++d) {
    const NdArray& given = multi_index[static_cast<size_t>(d)];
    check_integers(given);
    NdArray at = given.astype(DType::int64, context_for(given.device()));
    switch (modes[static_cast<size_t>(d)]) {
      case IndexMode::raise:
      case IndexMode::unchecked:
        if (!all_within(at, dims[d])) throw InvalidArgument("invalid entry in coordinates array");
        break;
      case IndexMode::wrap:
        at = apply("remainder"_op, {at, dims[d]});
        break;
      case IndexMode::clip:
        at = apply("clip"_op, {at, 0, dims[d] - 1});
        break;
    }
    at = apply("multiply"_op, {at, strides[d]});
    sum = sum ? apply("add"_op, {*sum, at}) : at;
  }
  if (!sum) return plain_array(0, current_context().device);
  return *sum;
}

ArrayTuple diag_indices(int64_t n, int64_t ndim) {
  const Range named("diag_indices");
  ArrayTuple result;
  const NdArray one = counting_array(std::max<int64_t>(n, 0), current_context().device);
  for (int64_t d = 0; d < ndim; ++d) result.push_back(one);
  return result;
}

ArrayTuple diag_indices_from(const NdArray& arr) {
  const Range named("diag_indices_from");
  if (arr.ndim() < 2) throw InvalidArgument("input array must be at least 2-d");
  for (const int64_t extent : arr.shape())
    if (extent != arr.shape()[0]) throw InvalidArgument("All dimensions of input must be of equal length");
  const DeviceScope scope(context_for(arr.device()));
  return diag_indices(arr.shape()[0], arr.ndim());
}

ArrayTuple mask_indices(int64_t n, const ArrayFunction& mask_func, const Arg& k) {
  const Range named("mask_indices");
  const ExecContext context = current_context();
  NdArray ones({n, n}, DType::int64, context);
  ones.fill(1, context);
  const NdArray args[] = {ones, plain_array(k, context.device)};
  return nonzero(mask_func(args));
}

ArrayTuple tril_indices(int64_t n, int64_t k, std::optional<int64_t> m) {
  const Range named("tril_indices");
  return nonzero(triangle(n, m.value_or(n), k, /*lower=*/true));
}
ArrayTuple triu_indices(int64_t n, int64_t k, std::optional<int64_t> m) {
  const Range named("triu_indices");
  return nonzero(triangle(n, m.value_or(n), k, /*lower=*/false));
}
ArrayTuple tril_indices_from(const NdArray& arr, int64_t k) {
  const Range named("tril_indices_from");
  check_matrix(arr);
  const DeviceScope scope(context_for(arr.device()));
  return tril_indices(arr.shape()[0], k, arr.shape()[1]);
}
ArrayTuple triu_indices_from(const NdArray& arr, int64_t k) {
  const Range named("triu_indices_from");
  check_matrix(arr);
  const DeviceScope scope(context_for(arr.device()));
  return triu_indices(arr.shape()[0], k, arr.shape()[1]);
}

std::variant<NdArray, ArrayTuple> indices(const Dims& dimensions, DType dtype, bool sparse) {
  const Range named("indices");
  const ExecContext context = current_context();
  const int ndim = dimensions.size();
  const auto write = [&](const NdArray& to, int axis) {
    Program program;
    program.output(program.cast(program.index(axis), dtype));
    const NdArray* out[] = {&to};
    run_elementwise(program, {}, out, context);
  };
  if (sparse) {
    ArrayTuple result;
    for (int d = 0; d < ndim; ++d) {
      Dims shape = Dims::filled(ndim, 1);
      shape[d] = dimensions[d];
      result.emplace_back(shape, dtype, context);
      write(result.back(), d);
    }
    return result;
  }
  Dims shape{ndim};
  for (const int64_t extent : dimensions) shape.push_back(extent);
  NdArray result(shape, dtype, context);
  for (int d = 0; d < ndim; ++d) write(result[{d}], d);
  return result;
}

}  // namespace quarry::local::ops
