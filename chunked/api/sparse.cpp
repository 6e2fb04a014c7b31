#include "quarry/chunked/api/sparse.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/sparse.h"
#include "quarry/chunked/api/calculus.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/elementwise.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/memory/policy.h"
#include "quarry/local/sparse/arithmetic.h"

namespace quarry::sparse {

using namespace compose;

namespace {

using algo::LocalSparse;
using algo::SparseChunks;
using algo::SparseMaker;

std::vector<expr::NodePtr> nodes_of(std::initializer_list<const SparseArray*> matrices) {
  std::vector<expr::NodePtr> nodes;
  for (const SparseArray* each : matrices) {
    const algo::SparseNodes of = each->nodes();
    nodes.insert(nodes.end(), {of.data, of.indices, of.offsets});
  }
  return nodes;
}

Array in_cuts(const Array& x, const AxisChunks& cuts) { return x.rechunk(Grid({cuts})); }

// A matrix from arrays whose chunks are known: the columns are checked, and become positions in what a chunk touches.
SparseArray settled_matrix(const Dims& shape, const AxisChunks& rows, std::vector<int64_t> elements, const Array& data,
                           const Array& indices, const Array& offsets) {
  const Array touched(algo::touched_columns(indices.node(), offsets.node(), rows, shape[1], elements));
  const Settled known = settle(std::vector<Array>{touched}, std::vector<Array>{data, indices, offsets});
  const auto chunks = algo::settled_chunks(known.values[0], rows, shape[1], std::move(elements));
  int64_t largest = 0;
  for (int64_t i = 0; i < rows.count(); ++i) {
    const auto k = static_cast<size_t>(i);
    largest = std::max({largest, chunks->width(i), chunks->elements[k + 1] - chunks->elements[k]});
  }
  const DType index = largest < std::numeric_limits<int32_t>::max() ? DType::int32 : DType::int64;
  const Array compact(algo::compact_columns(known.kept[1].node(), chunks, index));
  const Settled kept = settle({}, std::vector<Array>{compact, known.kept[2].astype(index)});
  return {shape, chunks, known.kept[0], kept.kept[0], kept.kept[1]};
}

SparseArray made_by(const SparseMaker& maker, const std::vector<expr::NodePtr>& arguments) {
  const auto [offsets, counts] = algo::sparse_offsets(maker, arguments);
  const Settled known = settle(std::vector<Array>{Array(counts)}, std::vector<Array>{Array(offsets)});
  std::vector<int64_t> elements{0};
  for (const int64_t count : local::to_vector<int64_t>(known.values[0])) elements.push_back(elements.back() + count);
  const auto [data, indices] = algo::sparse_elements(maker, arguments, elements);
  return settled_matrix({maker.rows.extent(), maker.columns}, maker.rows, std::move(elements), Array(data),
                        Array(indices), known.kept[0]);
}

// Chunks of rows when nobody says: about as large as those of arrays, elements with their columns.
int64_t elements_together(DType dtype) {
  const ChunkPolicy& policy = chunk_policy();
  return std::max<int64_t>(target_chunk_bytes(policy.device) / (local::itemsize(dtype) + 8), 1);
}

// Uniform, for that many elements.
AxisChunks uniform_rows(int64_t rows, int64_t elements, DType dtype, const SparseOptions& options) {
  const int64_t most = elements_together(dtype);
  const int64_t chunks = std::max<int64_t>((std::max(elements, rows) + most - 1) / most, 1);
  const int64_t chunk = options.row_chunk.value_or((rows + chunks - 1) / chunks);
  return AxisChunks(rows, std::max<int64_t>(chunk, 1));
}

void check_vector(const Array& x, const char* name) {
  if (x.ndim() != 1)
    throw InvalidArgument(fmt::format("{} must have one dimension, got shape {}", name, local::to_string(x.shape())));
}
void check_index(const Array& x, const char* name) {
  check_vector(x, name);
  if (!local::is_integer(x.dtype()))
    throw local::TypeError(fmt::format("{} must be integers, got {}", name, local::name(x.dtype())));
}
void check_values(DType dtype) {
  if (local::is_half(dtype))
    throw local::TypeError(fmt::format("data: sparse matrices do not have dtype {}", local::name(dtype)));
}
void check_shape(const Dims& shape) {
  if (shape.size() != 2 || shape[0] < 0 || shape[1] < 0)
    throw InvalidArgument("shape: a matrix has two extents, got " + local::to_string(shape));
}
void check_options(const SparseOptions& options) {
  if (options.row_chunk && *options.row_chunk < 1)
    throw InvalidArgument(fmt::format("row_chunk: {} is not positive", *options.row_chunk));
}

constexpr int64_t kMostSamples = 4096;  // of indptr, where chunks may begin

// The chunks of rows and where their elements begin, from samples of the offsets.
std::pair<AxisChunks, std::vector<int64_t>> cut_rows(const Array& indptr, int64_t nnz, DType dtype,
                                                     const SparseOptions& options) {
  const int64_t rows = indptr.size() - 1;
  const int64_t step = options.row_chunk.value_or(std::max<int64_t>((rows + kMostSamples - 1) / kMostSamples, 1));
  const Array ends = indptr[{Slice{rows, rows + 1, std::nullopt}}];
  const Array begins = indptr[{Slice{0, rows, std::min(step, std::max<int64_t>(rows, 1))}}];
  const Settled known = settle(std::vector<Array>{begins.astype(DType::int64), ends.astype(DType::int64)}, {});
  std::vector<int64_t> at = local::to_vector<int64_t>(known.values[0]);
  at.push_back(known.values[1].item().as_int64());
  if (at.front() != 0) throw InvalidArgument(fmt::format("indptr must start with 0, not {}", at.front()));
  if (at.back() != nnz)
    throw InvalidArgument(fmt::format("indptr ends with {}, but indices and data have {} elements", at.back(), nnz));
  for (size_t i = 0; i + 1 < at.size(); ++i)
    if (at[i + 1] < at[i])
      throw InvalidArgument(fmt::format("indptr must not decrease: {} at row {} is followed by {}", at[i],
                                        static_cast<int64_t>(i) * step, at[i + 1]));
  const int64_t together = elements_together(dtype);
  std::vector<int64_t> extents, elements{0};
  int64_t first = 0;
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    const int64_t end = std::min((static_cast<int64_t>(i) + 1) * step, rows);
    const bool is_last = i + 2 == at.size();
    const int64_t next_end = is_last ? end : std::min(end + step, rows);
    const bool is_full = !is_last && (at[i + 2] - elements.back() > together || next_end - first > together);
    if (!is_last && !is_full && !options.row_chunk) continue;
    extents.push_back(end - first);
    elements.push_back(at[i + 1]);
    first = end;
  }
  if (elements.size() == 1) elements.push_back(0);
  return {AxisChunks(extents), std::move(elements)};
}

}  // namespace

// ---- Makers ----

SparseArray csr_array(const Array& data, const Array& indices, const Array& indptr, const std::optional<Dims>& shape,
                      const SparseOptions& options) {
  check_vector(data, "data");
  check_values(data.dtype());
  check_index(indices, "indices");
  check_index(indptr, "indptr");
  check_options(options);
  if (data.size() != indices.size())
    throw InvalidArgument(fmt::format("data has {} elements and indices has {}", data.size(), indices.size()));
  if (indptr.size() == 0) throw InvalidArgument("indptr has no elements, it needs at least one");
  const int64_t rows = indptr.size() - 1;
  Dims full{rows, 0};
  if (shape) {
    check_shape(*shape);
    if ((*shape)[0] != rows)
      throw InvalidArgument(fmt::format("indptr has {} elements, it needs {}", indptr.size(), (*shape)[0] + 1));
    full = *shape;
  } else if (indices.size() > 0) {
    full[1] = std::max<int64_t>(max(indices).item<int64_t>() + 1, 0);
  }
  auto [cuts, elements] = cut_rows(indptr, data.size(), data.dtype(), options);
  std::vector<int64_t> extents;
  for (size_t i = 0; i + 1 < elements.size(); ++i) extents.push_back(elements[i + 1] - elements[i]);
  const AxisChunks of_elements(extents);
  const Array offsets(algo::offsets_of_chunks(indptr.node(), cuts));
  return settled_matrix(full, cuts, std::move(elements), in_cuts(data, of_elements), in_cuts(indices, of_elements),
                        offsets);
}

SparseArray csc_array(const Array& data, const Array& indices, const Array& indptr, const std::optional<Dims>& shape,
                      const SparseOptions& options) {
  std::optional<Dims> turned;
  if (shape) {
    check_shape(*shape);
    turned = Dims{(*shape)[1], (*shape)[0]};
  }
  return csr_array(data, indices, indptr, turned, options).transpose();
}

namespace {

SparseArray from_triplets(const Array& data, const Array& row, const Array& col, const Dims& shape,
                          const AxisChunks& rows) {
  std::vector<Array> sorted;
  for (const expr::NodePtr& node : algo::sorted_by_rows(data.node(), row.node(), col.node(), rows))
    sorted.emplace_back(node);
  const Settled known = settle(std::vector<Array>{sorted[3]}, std::vector<Array>{sorted[0], sorted[1], sorted[2]});
  std::vector<expr::NodePtr> nodes;
  for (const Array& each : known.kept) nodes.push_back(each.node());
  const std::vector<int64_t> counts = local::to_vector<int64_t>(known.values[0]);
  return made_by(algo::sparse_of_sorted(nodes, rows, shape[1], counts), nodes);
}

}  // namespace

SparseArray coo_array(const Array& data, const Array& row, const Array& col, const Dims& shape,
                      const SparseOptions& options) {
  check_vector(data, "data");
  check_values(data.dtype());
  check_index(row, "row");
  check_index(col, "col");
  check_shape(shape);
  check_options(options);
  if (data.size() != row.size() || data.size() != col.size())
    throw InvalidArgument(
        fmt::format("data has {} elements, row has {} and col has {}", data.size(), row.size(), col.size()));
  if (data.size() > 0) {
    const Settled ends = settle(std::vector<Array>{min(row), max(row), min(col), max(col)}, {});
    for (size_t i = 0; i < ends.values.size(); ++i) {
      const int64_t position = ends.values[i].item().as_int64(), extent = shape[static_cast<int>(i / 2)];
      if (position < 0 || position >= extent)
        throw InvalidArgument(
            fmt::format("{}: position {} is out of range for an axis of {}", i < 2 ? "row" : "col", position, extent));
    }
  }
  // In the chunks that they have, if all three have the same and not too many together.
  Grid grid = data.chunks();
  if (row.chunks() != grid || col.chunks() != grid || grid.axis(0).largest() > elements_together(data.dtype()))
    grid = default_grid({data.size()}, data.dtype());
  return from_triplets(data.rechunk(grid), row.rechunk(grid), col.rechunk(grid), shape,
                       uniform_rows(shape[0], data.size(), data.dtype(), options));
}

SparseArray csr_array(const Array& dense) {
  if (dense.ndim() != 2)
    throw InvalidArgument("a sparse matrix is made from a matrix, got shape " + local::to_string(dense.shape()));
  check_values(dense.dtype());
  const Array whole = with_whole_axis(dense, 1);
  return made_by(algo::sparse_of_dense(whole.node()), {whole.node()});
}

SparseArray csr_array(const local::sparse::SparseArray& a, const SparseOptions& options) {
  const local::sparse::SparseArray csr = a.tocsr().to(local::kCpu);
  return csr_array(Array::from_local(csr.data()), Array::from_local(csr.indices()), Array::from_local(csr.indptr()),
                   csr.shape(), options);
}

// ---- SparseArray ----

SparseArray::SparseArray(const Dims& shape, std::shared_ptr<const algo::SparseChunks> chunks, Array data, Array indices,
                         Array offsets)
    : shape_(shape),
      chunks_(std::move(chunks)),
      data_(std::move(data)),
      indices_(std::move(indices)),
      offsets_(std::move(offsets)) {}

algo::SparseNodes SparseArray::nodes() const { return {data_.node(), indices_.node(), offsets_.node()}; }
int64_t SparseArray::nnz() const { return chunks_->element_count(); }
const AxisChunks& SparseArray::chunks() const { return chunks_->rows; }
Array SparseArray::indices() const { return Array(algo::sparse_coordinates(nodes(), chunks_)[1]); }

Array SparseArray::indptr() const {
  const Array counts(algo::of_sparse_rows(
      "elements of rows", nodes(), chunks_, {}, DType::int64, [](const LocalSparse& a, int64_t) { return a.getnnz(1); },
      /*compact=*/true));
  return concatenate({constant({1}, 0, DType::int64), cumsum(counts)});
}

int64_t SparseArray::largest_halo() const {
  int64_t largest = 0;
  for (int64_t i = 0; i < chunks().count(); ++i) largest = std::max(largest, chunks_->width(i));
  return largest;
}

SparseArray SparseArray::with_data(const Array& data) const {
  check_values(data.dtype());
  if (data.shape() != data_.shape())
    throw InvalidArgument(
        fmt::format("data: shape {}, the matrix has {} elements", local::to_string(data.shape()), nnz()));
  return {shape_, chunks_, data.chunks() == data_.chunks() ? data : data.rechunk(data_.chunks()), indices_, offsets_};
}

SparseArray SparseArray::conj() const { return local::is_complex(dtype()) ? with_data(conjugated(data_)) : *this; }

SparseArray SparseArray::transpose() const {
  const std::vector<expr::NodePtr> at = algo::sparse_coordinates(nodes(), chunks_);
  const AxisChunks rows = shape_[0] == shape_[1]
                              ? chunks()
                              : AxisChunks(shape_[1], std::max<int64_t>((shape_[1] - 1) / chunks().count() + 1, 1));
  return from_triplets(Array(at[2]), Array(at[1]), Array(at[0]), {shape_[1], shape_[0]}, rows);
}

namespace {

SparseArray remade(const char* name, DType dtype, std::initializer_list<const SparseArray*> matrices,
                   std::function<LocalSparse(std::span<const LocalSparse>)> make) {
  std::vector<std::shared_ptr<const SparseChunks>> chunks;
  for (const SparseArray* each : matrices) chunks.push_back(each->structure());
  const uint64_t identity = op::Hash().add(std::string_view(name)).add(static_cast<int>(dtype)).value;
  return made_by(algo::sparse_of_sparse(name, identity, dtype, std::move(chunks), std::move(make)), nodes_of(matrices));
}

}  // namespace

SparseArray SparseArray::sum_duplicates() const {
  return remade("sum_duplicates", dtype(), {this}, [](std::span<const LocalSparse> parts) {
    LocalSparse result = parts[0];
    result.sum_duplicates();
    return result;
  });
}

SparseArray SparseArray::eliminate_zeros() const {
  return remade("eliminate_zeros", dtype(), {this}, [](std::span<const LocalSparse> parts) {
    LocalSparse result = parts[0];
    result.eliminate_zeros();
    return result;
  });
}

SparseArray SparseArray::rows(const Slice& slice) const {
  if (slice.step.value_or(1) != 1) {
    const local::IndexItem item[] = {slice};
    const local::detail::BasicIndex index = local::detail::resolve_index(item, Dims{shape_[0]});
    const auto& [axis, start, count, step] = index.axes[0];
    return rows_at(arange(count) * step + start);
  }
  const auto bounded = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    return std::clamp<int64_t>(*at < 0 ? *at + shape_[0] : *at, 0, shape_[0]);
  };
  const int64_t first = bounded(slice.start, 0), last = std::max(first, bounded(slice.stop, shape_[0]));
  return made_by(algo::sparse_rows_between(chunks_, dtype(), first, last), nodes_of({this}));
}

SparseArray SparseArray::columns(const Slice& slice) const {
  const local::IndexItem item[] = {slice};
  const local::detail::BasicIndex index = local::detail::resolve_index(item, Dims{shape_[1]});
  const auto& [axis, start, count, step] = index.axes[0];
  const uint64_t identity = op::Hash().add(start).add(count).add(step).value;
  SparseMaker maker = algo::sparse_of_sparse("columns", identity, dtype(), {chunks_}, [slice](auto parts) {
    return parts[0].index(local::IndexTerm(local::full_slice), local::IndexTerm(slice));
  });
  maker.columns = count;
  return made_by(maker, nodes_of({this}));
}

Array SparseArray::diagonal(int64_t k) const {
  if (k <= -shape_[0] || k >= shape_[1]) return zeros({0}, dtype());
  const int64_t first_row = std::max<int64_t>(-k, 0);
  const int64_t extent = std::min(shape_[0] - first_row, shape_[1] - std::max<int64_t>(k, 0));
  const Array all(algo::of_sparse_rows(fmt::format("diagonal {}", k), nodes(), chunks_, {}, dtype(),
                                       [columns = shape_[1], k](const LocalSparse& a, int64_t first) {
                                         NdArray result({a.rows()}, a.dtype());
                                         result.fill(0);
                                         const int64_t own = first + k, begin = std::max<int64_t>(-own, 0);
                                         const int64_t length =
                                             std::min(a.rows() - begin, columns - std::max<int64_t>(own, 0));
                                         if (length > 0)
                                           result[{Slice{begin, begin + length, std::nullopt}}].assign(a.diagonal(own));
                                         return result;
                                       }));
  return all[{Slice{first_row, first_row + extent, std::nullopt}}];
}

Array SparseArray::diagonal_blocks() const {
  const int64_t width = chunks().largest();
  return Array(algo::of_sparse_rows(
      "diagonal_blocks", nodes(), chunks_, width, dtype(), [width](const LocalSparse& a, int64_t first) {
        NdArray result({a.rows(), width}, a.dtype());
        result.fill(0);
        const Slice own{first, first + a.rows(), std::nullopt};
        result[{local::full_slice, Slice{0, a.rows(), std::nullopt}}].assign(
            a.index(local::IndexTerm(local::full_slice), local::IndexTerm(own)).toarray());
        return result;
      }));
}

SparseArray SparseArray::block_diagonal() const {
  return made_by(algo::sparse_diagonal_blocks(chunks_, dtype()), nodes_of({this}));
}

Array SparseArray::sum(std::optional<int64_t> axis) const {
  if (!axis) return quarry::sum(data_);
  if (local::normalize_axis(*axis, 2) == 0) return transpose().sum(1);
  const DType dtype = quarry::sum(data_).dtype();
  return Array(algo::of_sparse_rows(
      "sum", nodes(), chunks_, {}, dtype, [dtype](const LocalSparse& a, int64_t) { return a.sum(1, dtype); },
      /*compact=*/true));
}

Array SparseArray::toarray() const {
  return Array(algo::of_sparse_rows("toarray", nodes(), chunks_, shape_[1], dtype(),
                                    [](const LocalSparse& a, int64_t) { return a.toarray(); }));
}

namespace {

SparseArray scaled(const char* name, local::Op op, const SparseArray& a, const Array& dense) {
  Array other = dense;
  while (other.ndim() < 2) other = expand_dims(other, 0);
  bool fits = other.ndim() == 2;
  for (int d = 0; fits && d < 2; ++d) fits = other.shape()[d] == 1 || other.shape()[d] == a.shape()[d];
  if (!fits)
    throw InvalidArgument(fmt::format("{}: shape {} does not broadcast to {}", name, local::to_string(dense.shape()),
                                      local::to_string(a.shape())));
  const Array one = constant({}, 1, dense.dtype());
  const DType dtype = (op == "divide"_op ? quarry::divide(a.data(), one) : quarry::multiply(a.data(), one)).dtype();
  return a.with_data(Array(algo::sparse_scaled(op, a.nodes(), a.structure(), other.node(), dtype)));
}

}  // namespace

SparseArray SparseArray::multiply(const Array& dense) const { return scaled("multiply", "multiply"_op, *this, dense); }
SparseArray SparseArray::divide(const Array& dense) const { return scaled("divide", "divide"_op, *this, dense); }
Array SparseArray::dot(const Array& x) const { return matmul(*this, x); }
SparseArray SparseArray::dot(const SparseArray& other) const { return matmul(*this, other); }

local::sparse::SparseArray SparseArray::to_host() const {
  const auto at = algo::sparse_coordinates(nodes(), chunks_);
  const std::vector<Array> all{data_, Array(at[0]), Array(at[1])};
  const std::vector<NdArray> values = quarry::to_host(all);
  return local::sparse::SparseArray(local::sparse::Format::coo, shape_, values[0], values[1], values[2]).tocsr();
}

// ---- Products and arithmetic ----

Array matmul(const SparseArray& a, const Array& x) {
  if (x.ndim() < 1 || x.ndim() > 2 || x.shape()[0] != a.shape()[1])
    throw InvalidArgument(
        fmt::format("matmul: shapes {} and {} do not match", local::to_string(a.shape()), local::to_string(x.shape())));
  check_values(local::promote_types(a.dtype(), x.dtype()));
  return Array(algo::sparse_product(a.nodes(), a.structure(), x.node()));
}

namespace {

// Products of two values in a chunk of a product: about as many as a chunk has elements, and as tasks have room for.
int64_t terms_together(DType dtype) {
  constexpr int64_t kTermBytes = 128;  // of copies of a value and its column, and positions
  const int64_t room = Runtime::current().plan_bytes() / (local::memory_policy::kTasksInBudget * kTermBytes);
  return std::max<int64_t>(std::min(elements_together(dtype), room), 1);
}

// The same matrix in chunks of so few rows that none has more than so many of the terms; itself where none has.
SparseArray cut_by_terms(const SparseArray& a, const std::vector<int64_t>& terms, int64_t most) {
  int64_t rows = a.shape()[0];
  for (int64_t i = 0; i < a.chunks().count(); ++i)
    if (const int64_t here = terms[static_cast<size_t>(i)]; here > most)
      rows = std::min(rows, static_cast<int64_t>(static_cast<double>(a.chunks().size(i)) * static_cast<double>(most) /
                                                 static_cast<double>(here)));
  if (rows == a.shape()[0]) return a;
  return csr_array(a.data(), a.indices(), a.indptr(), a.shape(), {.row_chunk = std::max<int64_t>(rows, 1)});
}

// How many products of two values each chunk of the first matrix has; `in_rows`: the elements in each row of the
// second.
std::vector<int64_t> terms_of(const SparseArray& a, const Array& in_rows) {
  const Array terms = matmul(a.with_data(ones({a.nnz()}, DType::int64)), in_rows);
  const Array totals = concatenate({constant({1}, 0, DType::int64), cumsum(terms)});
  std::vector<int64_t> starts;
  for (int64_t i = 0; i <= a.chunks().count(); ++i) starts.push_back(a.chunks().start(i));
  std::vector<int64_t> result = settled(take(totals, local::from_vector(starts)));
  for (size_t i = 0; i + 1 < result.size(); ++i) result[i] = result[i + 1] - result[i];
  result.pop_back();
  return result;
}

}  // namespace

namespace {

// What a maker that reads the rows of b that a's rows touch makes of them, in the chunks of a or smaller ones.
SparseArray of_touched_rows(decltype(algo::sparse_times_sparse)& maker, const SparseArray& given, const SparseArray& b,
                            DType dtype) {
  const Settled of_b = settle({}, std::vector<Array>{b.data(), b.indices(), b.indptr()});
  const Array& offsets = of_b.kept[2];
  const Array in_rows = diff(offsets);
  std::vector<int64_t> terms = terms_of(given, in_rows);
  const SparseArray a = cut_by_terms(given, terms, terms_together(dtype));
  if (a.chunks() != given.chunks()) terms = terms_of(a, in_rows);
  const std::shared_ptr<const SparseChunks>& chunks = a.structure();
  std::vector<int64_t> ends;  // of boxes, as rows of b
  for (const std::vector<SparseChunks::Box>& boxes : chunks->boxes)
    for (const SparseChunks::Box& each : boxes) ends.insert(ends.end(), {each.start, each.start + each.count});
  const std::vector<int64_t> elements = settled(take(offsets, local::from_vector(ends)));
  std::vector<expr::NodePtr> nodes = nodes_of({&a});
  for (const Array& each : of_b.kept) nodes.push_back(each.node());
  return made_by(maker(chunks, b.shape()[1], dtype, elements, terms), nodes);
}

}  // namespace

SparseArray matmul(const SparseArray& a, const SparseArray& b) {
  if (a.shape()[1] != b.shape()[0])
    throw InvalidArgument(
        fmt::format("matmul: shapes {} and {} do not match", local::to_string(a.shape()), local::to_string(b.shape())));
  const DType dtype = local::promote_types(a.dtype(), b.dtype());
  check_values(dtype);
  return of_touched_rows(algo::sparse_times_sparse, a, b, dtype);
}

namespace linalg {

SparseArray matrix_power(const SparseArray& a, int64_t power) {
  if (a.shape()[0] != a.shape()[1])
    throw InvalidArgument("a: expected a square matrix, got shape " + local::to_string(a.shape()));
  if (power < 0) throw InvalidArgument(fmt::format("power: {} is negative", power));
  const int64_t n = a.shape()[0];
  if (power == 0)
    return csr_array(ones({n}, a.dtype()), arange(n), arange(n + 1), a.shape(),
                     {.row_chunk = std::max<int64_t>(a.chunks().largest(), 1)});
  std::optional<SparseArray> result;
  for (SparseArray square = a;; square = matmul(square, square)) {
    if (power & 1) result = result ? matmul(*result, square) : square;
    power >>= 1;
    if (power == 0) return *result;
  }
}

}  // namespace linalg

// ---- Rows and columns by lists ----

namespace {

// Positions from 0, computed and checked.
Array checked_positions(const Array& chosen, int64_t extent, const char* axis) {
  if (chosen.ndim() != 1)
    throw local::IndexError(
        fmt::format("{}: an index of shape {} has not one axis", axis, local::to_string(chosen.shape())));
  if (chosen.dtype() == DType::bool_) {
    if (chosen.size() != extent)
      throw local::IndexError(
          fmt::format("{}: a mask of {} elements does not fit an axis of {}", axis, chosen.size(), extent));
    return flatnonzero(chosen).astype(DType::int64);
  }
  if (chosen.size() == 0) return zeros({0}, DType::int64);
  if (!local::is_integer(chosen.dtype()))
    throw local::TypeError(
        fmt::format("{}: positions are integers or a mask, not {}", axis, local::name(chosen.dtype())));
  const Settled ends = settle(std::vector<Array>{min(chosen), max(chosen)}, std::vector<Array>{chosen});
  for (const NdArray& end : ends.values) {
    // A uint64 beyond int64 is out of range of any axis.
    const bool is_large = chosen.dtype() == DType::uint64 && end.astype(DType::float64).item().as_double() >= 0x1p63;
    if (const int64_t at = is_large ? extent : end.item().as_int64(); at < -extent || at >= extent)
      throw local::IndexError(fmt::format("{}: index {} is out of bounds for an axis of {}", axis,
                                          is_large ? "beyond int64" : std::to_string(at), extent));
  }
  const Array positions = ends.kept[0].astype(DType::int64);
  return where(positions < 0, positions + extent, positions);
}

}  // namespace

SparseArray SparseArray::rows_at(const Array& chosen) const {
  const Array positions = checked_positions(chosen, shape_[0], "rows");
  const int64_t count = positions.size();
  const SparseArray places =
      csr_array(ones({count}, DType::bool_), positions, arange(count + 1), Dims{count, shape_[0]});
  return of_touched_rows(algo::sparse_taken_rows, places, *this, dtype());
}

SparseArray SparseArray::columns_at(const Array& chosen) const {
  const NdArray positions = checked_positions(chosen, shape_[1], "columns").to_host();
  const std::vector<int64_t> list = local::to_vector<int64_t>(positions);
  SparseMaker maker =
      algo::sparse_of_sparse("take columns", op::Hash().add_bytes(list.data(), list.size() * sizeof(int64_t)).value,
                             dtype(), {chunks_}, [positions](std::span<const LocalSparse> parts) {
                               return parts[0].index(local::IndexTerm(local::full_slice), local::IndexTerm(positions));
                             });
  maker.columns = std::ssize(list);
  // An element comes as often as its column is in the list.
  std::vector<int64_t> sorted = list;
  std::ranges::sort(sorted);
  int64_t most = 0;
  for (auto at = sorted.begin(); at != sorted.end();) {
    const auto next = std::upper_bound(at, sorted.end(), *at);
    most = std::max<int64_t>(most, next - at);
    at = next;
  }
  constexpr int64_t kCopyBytes = 48;  // of an element: its value, column, row and positions
  for (int64_t i = 0; i < chunks().count(); ++i) {
    const auto k = static_cast<size_t>(i);
    maker.more_bytes.push_back((chunks_->elements[k + 1] - chunks_->elements[k]) * most * kCopyBytes +
                               std::ssize(list) * kCopyBytes);
  }
  return made_by(maker, nodes_of({this}));
}

namespace {

SparseArray in_rows_of(const SparseArray& b, const SparseArray& a) {
  if (b.chunks() == a.chunks()) return b;
  const std::vector<expr::NodePtr> at = algo::sparse_coordinates(b.nodes(), b.structure());
  return from_triplets(Array(at[2]), Array(at[0]), Array(at[1]), b.shape(), a.chunks());
}

SparseArray combined(const char* name, local::Op op, const SparseArray& a, const SparseArray& b) {
  if (a.shape() != b.shape())
    throw InvalidArgument(
        fmt::format("{}: shapes {} and {} differ", name, local::to_string(a.shape()), local::to_string(b.shape())));
  const SparseArray other = in_rows_of(b, a);
  const DType dtype = local::promote_types(a.dtype(), b.dtype());
  return remade(name, dtype, {&a, &other}, [op](std::span<const LocalSparse> parts) {
    return local::detail::elementwise(op, parts[0], parts[1]);
  });
}

}  // namespace

SparseArray SparseArray::power(const Scalar& exponent) const {
  if (exponent.as_complex() == 0.0) throw local::NotSupported("exponent: the power 0 of a sparse matrix is not sparse");
  const SparseArray single = sum_duplicates();
  return single.with_data(quarry::power(single.data(), exponent));
}

SparseArray SparseArray::multiply(const SparseArray& other) const {
  return combined("multiply", "multiply"_op, *this, other);
}
SparseArray operator+(const SparseArray& a, const SparseArray& b) { return combined("add", "add"_op, a, b); }
SparseArray operator-(const SparseArray& a, const SparseArray& b) { return combined("subtract", "subtract"_op, a, b); }
SparseArray operator*(const SparseArray& a, const Scalar& factor) { return a.with_data(a.data() * factor); }
SparseArray operator*(const Scalar& factor, const SparseArray& a) { return a.with_data(a.data() * factor); }
SparseArray operator/(const SparseArray& a, const Scalar& divisor) { return a.with_data(a.data() / divisor); }
SparseArray operator-(const SparseArray& a) { return a.with_data(-a.data()); }

}  // namespace quarry::sparse
