#include "quarry/local/ops/products/contract.h"

#include <algorithm>
#include <numeric>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/program/products.h"

namespace quarry::local::linalg {
namespace {

bool is_inexact(DType dtype) { return is_float(dtype) || is_complex(dtype); }

int64_t stride_from_end(const NdArray& m, int d) { return m.strides()[m.ndim() - d]; }

// Whether the engine takes the matrices as they lie: one stride is an element, the other reaches past a line.
bool fits_engine(const NdArray& m) {
  const int64_t item = m.itemsize(), rows = m.shape(-2), columns = m.shape(-1);
  for (int d = 0; d < m.ndim(); ++d)
    if (m.strides()[d] % item != 0) return false;
  if (!is_inexact(m.dtype())) return true;
  const int64_t s0 = stride_from_end(m, 2), s1 = stride_from_end(m, 1);
  const bool row_major = (s1 == item || columns == 1) && (rows == 1 || s0 >= columns * item);
  const bool column_major = (s0 == item || rows == 1) && (columns == 1 || s1 >= rows * item);
  return row_major || column_major;
}

MatrixBatch batch_of(const NdArray& m) {
  const int64_t item = m.itemsize(), rows = m.shape(-2), columns = m.shape(-1);
  const int64_t s0 = stride_from_end(m, 2), s1 = stride_from_end(m, 1);
  MatrixBatch result{{m.raw(), rows, columns, s0 / item, s1 / item}, Dims::filled(m.ndim() - 2)};
  for (int d = 0; d < result.strides.size(); ++d) result.strides[d] = m.strides()[d] / item;
  if (!is_inexact(m.dtype())) return result;
  // An axis of one element gets the stride that makes the matrix one of whole lines.
  if ((s1 == item || columns == 1) && (rows == 1 || s0 >= columns * item)) {
    result.matrix.column_stride = 1;
    if (rows == 1) result.matrix.row_stride = std::max<int64_t>(columns, 1);
  } else {
    result.matrix.row_stride = 1;
    if (columns == 1) result.matrix.column_stride = std::max<int64_t>(rows, 1);
  }
  return result;
}

// Stacked rows times one matrix are one product.
bool is_one_product(const NdArray& a, const NdArray& b, const NdArray& c) {
  if (a.ndim() == 2 || !a.is_contiguous() || !c.is_contiguous()) return false;
  for (int d = 0; d < b.ndim() - 2; ++d)
    if (b.shape()[d] != 1 && b.strides()[d] != 0) return false;
  return true;
}
NdArray first_matrix(const NdArray& m) {
  const std::vector<IndexItem> first(static_cast<size_t>(m.ndim() - 2), IndexItem(int64_t{0}));
  return m[first];
}

}  // namespace

NdArray prepared(const NdArray& m, DType dtype, const ExecContext& context) {
  if (m.dtype() == dtype && fits_engine(m)) return m;
  std::vector<IndexItem> stored;
  stored.reserve(static_cast<size_t>(m.ndim()));
  for (int d = 0; d < m.ndim(); ++d)
    stored.push_back(m.strides()[d] == 0 && m.shape()[d] > 1 ? Slice{0, 1, 1} : Slice{});
  NdArray copy = m[stored].astype(dtype, context).broadcast_to(m.shape());
  // A vector that repeats one element has no stride that BLAS takes.
  return fits_engine(copy) ? copy : m.astype(dtype, context);
}

MatrixView view_of(const NdArray& m) { return batch_of(m).matrix; }

void multiply(const NdArray& a, const NdArray& b, const NdArray& c, bool conjugate, const ExecContext& context,
              local::Precision precision) {
  if (c.size() == 0) return;
  if (a.shape(-1) == 0) return c.fill(0, context);
  const NdArray left = prepared(a, c.dtype(), context), right = prepared(b, c.dtype(), context);
  if (!conjugate && is_one_product(left, right, c)) {
    const int64_t k = left.shape(-1), n = right.shape(-1);
    return multiply(left.reshape({left.size() / k, k}), first_matrix(right), c.reshape({c.size() / n, n}), false,
                    context, precision);
  }
  MatrixProduct product{c.dtype(),   Dims(c.shape().begin(), c.shape().end() - 2), batch_of(left), batch_of(right),
                        batch_of(c), conjugate && is_complex(c.dtype()),           precision};
  left.begin_read(context.stream);
  right.begin_read(context.stream);
  c.begin_write(context.stream);
  engine(context.device).products().multiply(product, context);
}

namespace {

bool has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
int axis_of(const Labels& labels, int label) {
  return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}
int64_t extent(const NdArray& array, const Labels& labels, int label) { return array.shape()[axis_of(labels, label)]; }

// The view with its axes in the order of `order`; a label that the array lacks becomes an axis of one element.
NdArray arranged(const NdArray& array, const Labels& labels, const Labels& order) {
  std::vector<int64_t> axes;
  std::vector<IndexItem> items;
  for (int label : order) {
    if (has(labels, label)) {
      axes.push_back(axis_of(labels, label));
      items.push_back(full_slice);
    } else {
      items.push_back(newaxis);
    }
  }
  return (axes.empty() ? array : array.transpose(axes))[items];
}

// (batch ..., rows, columns) with the axes of each group joined.
NdArray as_matrices(const NdArray& array, const Labels& labels, const Labels& batch, const Labels& rows,
                    const Labels& columns) {
  Labels order = batch;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), columns.begin(), columns.end());
  Dims shape;
  for (int label : batch) shape.push_back(extent(array, labels, label));
  for (const Labels* group : {&rows, &columns}) {
    int64_t count = 1;
    for (int label : *group) count *= extent(array, labels, label);
    shape.push_back(count);
  }
  return arranged(array, labels, order).reshape(shape);
}

}  // namespace

NdArray sum_to(const NdArray& a, const Labels& labels, const Labels& out) {
  std::vector<int64_t> summed;
  Labels kept;
  for (size_t d = 0; d < labels.size(); ++d) {
    if (has(out, labels[d]))
      kept.push_back(labels[d]);
    else
      summed.push_back(static_cast<int64_t>(d));
  }
  if (summed.empty()) return arranged(a, labels, out);
  ReduceOptions options;
  if (a.dtype() != DType::bool_) options.dtype = a.dtype();
  return arranged(reduce(a.dtype() == DType::bool_ ? "any"_reduction : "sum"_reduction, a, Axes(summed), options), kept,
                  out);
}

NdArray contract(const NdArray& a_in, const Labels& a_all, const NdArray& b_in, const Labels& b_all, const Labels& out,
                 const ExecContext& context, local::Precision precision) {
  // What only one operand has and the result lacks is summed first.
  const auto needed = [&](const Labels& labels, const Labels& other) {
    Labels kept;
    for (int label : labels)
      if (has(out, label) || has(other, label)) kept.push_back(label);
    return kept;
  };
  const Labels a_labels = needed(a_all, b_all), b_labels = needed(b_all, a_all);
  const NdArray a = sum_to(a_in, a_all, a_labels), b = sum_to(b_in, b_all, b_labels);

  Labels batch, rows, columns, inner;
  for (int label : out) {
    const bool in_a = has(a_labels, label), in_b = has(b_labels, label);
    (in_a && in_b ? batch : in_a ? rows : columns).push_back(label);
  }
  for (int label : a_labels)
    if (!has(out, label)) inner.push_back(label);
  if (inner.empty()) return apply("multiply"_op, {arranged(a, a_labels, out), arranged(b, b_labels, out)});

  // Summed axes in the order in which the larger operand stores them, so that it is not copied.
  const bool a_leads = a.size() >= b.size();
  const auto reach = [&](int label) {
    return a_leads ? a.strides()[axis_of(a_labels, label)] : b.strides()[axis_of(b_labels, label)];
  };
  std::stable_sort(inner.begin(), inner.end(), [&](int x, int y) { return std::abs(reach(x)) > std::abs(reach(y)); });
  Dims batch_shape;
  Labels order = batch;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), columns.begin(), columns.end());
  for (int label : batch) batch_shape.push_back(extent(a, a_labels, label));
  const NdArray left = as_matrices(a, a_labels, batch, rows, inner),
                right = as_matrices(b, b_labels, batch, inner, columns);
  Dims left_shape = batch_shape, right_shape = batch_shape, product_shape = batch_shape;
  for (auto [dims, m, n] : {std::tuple(&left_shape, left.shape(-2), left.shape(-1)),
                            std::tuple(&right_shape, right.shape(-2), right.shape(-1)),
                            std::tuple(&product_shape, left.shape(-2), right.shape(-1))}) {
    dims->push_back(m);
    dims->push_back(n);
  }
  const NdArray product(product_shape, a.dtype(), context);
  multiply(left.broadcast_to(left_shape), right.broadcast_to(right_shape), product, /*conjugate=*/false, context,
           precision);
  Dims shape = batch_shape;
  for (int label : rows) shape.push_back(extent(a, a_labels, label));
  for (int label : columns) shape.push_back(extent(b, b_labels, label));
  return arranged(product.reshape(shape), order, out);
}

}  // namespace quarry::local::linalg
