// Sparse matrices in chunks of rows. Everything is a task per chunk: it holds the chunk's elements, the boxes that it
// reads of other operands, and the result. Elements in any order are sorted by the chunk that they belong to, within
// the chunks that they are in, and then gathered: each of the two steps reads and writes all of them once.
//
// A product with r columns, y = A x, is a multiplication and an addition for each stored element and column. A rank
// receives the boxes of x that its chunks touch and others have, of at most n r elements, those of the next chunks
// while it computes the product of one.
#include "quarry/chunked/algo/sparse.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "quarry/chunked/algo/chunkwise.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/sparse/incomplete.h"
#include "quarry/local/sparse/products.h"

namespace quarry::algo {
namespace {

namespace ops = local::ops;
using local::DType;
using local::InvalidArgument;
using local::NdArray;
using local::Slice;
using Arrays = std::span<const NdArray>;
using Chunks = std::shared_ptr<const SparseChunks>;

// Tasks by tables: what each reads and makes.
struct TableSpec {
  std::string name;
  uint64_t identity = 0;
  std::vector<op::ArraySpec> outputs;  // of as many chunks each
  std::function<void(int64_t chunk, std::vector<op::Need>&)> needs;
  std::function<std::vector<NdArray>(int64_t chunk, Arrays pieces)> make;
  int64_t bytes_per_element = 0;  // of what is read, beside what functions of arrays take
  std::function<int64_t(int64_t chunk)> more_bytes = nullptr;
};

class FromTable final : public Chunkwise {
 public:
  explicit FromTable(TableSpec spec) : spec_(std::move(spec)) {}
  std::string_view name() const override { return spec_.name; }
  void hash(op::Hash& hash) const override {
    hash.add(std::string_view(spec_.name)).add(spec_.identity);
    for (const op::ArraySpec& output : spec_.outputs) hash.add(static_cast<int>(output.dtype)).add(output.grid);
  }
  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> /*arguments*/, int64_t /*room*/) const override {
    return spec_.outputs;
  }
  void needs(const op::Call& /*call*/, int64_t chunk, std::vector<op::Need>& needs) const override {
    spec_.needs(chunk, needs);
  }
  int64_t scratch_bytes(const op::Call& call, int64_t chunk) const override {
    std::vector<op::Need> read;
    spec_.needs(chunk, read);
    int64_t bytes = 0, elements = 0;
    for (const op::Need& need : read) {
      elements += need.box.elements();
      bytes += need.box.elements() * local::itemsize(call.arguments[static_cast<size_t>(need.argument)].dtype);
    }
    for (const op::ArraySpec& output : call.outputs)
      bytes += output.grid.chunk_elements(chunk) * local::itemsize(output.dtype);
    const int64_t more = spec_.more_bytes ? spec_.more_bytes(chunk) : 0;
    return local::rounded_allocation(op::estimated_peak_bytes(bytes) + elements * spec_.bytes_per_element + more);
  }
  void make_chunk(const op::Call& /*call*/, int64_t chunk, Arrays pieces, Arrays outputs) const override {
    op::assign_results(spec_.make(chunk, pieces), outputs);
  }
  std::vector<NdArray> made_chunk(const op::Call& call, int64_t chunk, Arrays pieces) const override {
    return op::taken_results(spec_.make(chunk, pieces), call, chunk);
  }

 private:
  const TableSpec spec_;
};

std::vector<NodePtr> from_table(TableSpec spec, std::vector<NodePtr> arguments) {
  const size_t outputs = spec.outputs.size();
  const NodePtr node = expr::apply(std::make_shared<FromTable>(std::move(spec)), std::move(arguments));
  std::vector<NodePtr> nodes;
  for (size_t i = 0; i < outputs; ++i) nodes.push_back(expr::item(node, static_cast<int>(i)));
  return nodes;
}

op::ArraySpec spec_of(std::vector<AxisChunks> axes, DType dtype) {
  Grid grid(std::move(axes));
  const Dims shape = grid.shape();
  return {shape, dtype, std::move(grid), /*chosen_grid=*/true};
}

Region line(int64_t start, int64_t count) { return Region::box(Dims{start}, Dims{count}); }
Region box(int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return Region::box(Dims{row, column}, Dims{rows, columns});
}

// Where a chunk's offsets begin, of all chunks'.
int64_t offsets_start(const AxisChunks& rows, int64_t chunk) { return rows.start(chunk) + chunk; }
AxisChunks offsets_cuts(const AxisChunks& rows) {
  std::vector<int64_t> extents;
  for (int64_t i = 0; i < rows.count(); ++i) extents.push_back(rows.size(i) + 1);
  return AxisChunks(extents);
}

constexpr int kMatrixPieces = 3;
void add_matrix_needs(const SparseChunks& chunks, int64_t chunk, int argument, std::vector<op::Need>& needs) {
  const auto i = static_cast<size_t>(chunk);
  const Region elements = line(chunks.elements[i], chunks.elements[i + 1] - chunks.elements[i]);
  needs.push_back({argument, elements});
  needs.push_back({argument + 1, elements});
  needs.push_back({argument + 2, line(offsets_start(chunks.rows, chunk), chunks.rows.size(chunk) + 1)});
}

// A chunk with columns as positions in its boxes, and with its own.
LocalSparse compact_matrix(const SparseChunks& chunks, int64_t chunk, Arrays pieces) {
  return {local::sparse::Format::csr, Dims{chunks.rows.size(chunk), chunks.width(chunk)}, pieces[0], pieces[2],
          pieces[1]};
}

NdArray own_columns(const SparseChunks& chunks, int64_t chunk, const NdArray& indices) {
  const std::vector<SparseChunks::Box>& boxes = chunks.boxes[static_cast<size_t>(chunk)];
  NdArray wide = indices.astype(DType::int64);
  if (boxes.empty()) return wide;
  if (boxes.size() == 1) return local::apply("add"_op, {wide, boxes[0].start});
  std::vector<int64_t> at, shift;
  for (const SparseChunks::Box& each : boxes) {
    at.push_back(each.at);
    shift.push_back(each.start - each.at);
  }
  const NdArray number = local::apply("subtract"_op, {ops::searchsorted(local::from_vector(at), wide, "right"), 1});
  return local::apply("add"_op, {wide, ops::take(local::from_vector(shift), number)});
}

LocalSparse own_matrix(const SparseChunks& chunks, int64_t chunk, Arrays pieces) {
  return {local::sparse::Format::csr, Dims{chunks.rows.size(chunk), chunks.columns}, pieces[0],
          pieces[2].astype(DType::int64), own_columns(chunks, chunk, pieces[1])};
}

// Positions and masks, for every element.
constexpr int64_t kElementBytes = 4 * sizeof(int64_t);

// The chunks of rows that have elements, and the cuts of these.
struct Filled {
  explicit Filled(std::span<const int64_t> elements) {
    std::vector<int64_t> extents;
    for (size_t i = 0; i + 1 < elements.size(); ++i) {
      if (elements[i + 1] == elements[i]) continue;
      chunks.push_back(static_cast<int64_t>(i));
      extents.push_back(elements[i + 1] - elements[i]);
    }
    cuts = AxisChunks(extents);
  }
  std::vector<int64_t> chunks;
  AxisChunks cuts;
};

uint64_t hash_of(std::span<const int64_t> values) {
  return op::Hash().add_bytes(values.data(), values.size_bytes()).value;
}

NodePtr no_elements(DType dtype) { return expr::constant(0, dtype, {0}); }

}  // namespace

int64_t SparseChunks::width(int64_t chunk) const {
  const std::vector<Box>& all = boxes[static_cast<size_t>(chunk)];
  return all.empty() ? 0 : all.back().at + all.back().count;
}

// ---- Makers ----

std::pair<NodePtr, NodePtr> sparse_offsets(const SparseMaker& maker, const std::vector<NodePtr>& arguments) {
  TableSpec spec;
  spec.name = maker.name + ", offsets";
  spec.identity = maker.identity;
  spec.outputs = {spec_of({offsets_cuts(maker.rows)}, DType::int64),
                  spec_of({AxisChunks(maker.rows.count(), 1)}, DType::int64)};
  spec.needs = maker.needs;
  spec.bytes_per_element = kElementBytes;
  if (!maker.more_bytes.empty())
    spec.more_bytes = [bytes = maker.more_bytes](int64_t chunk) { return bytes[static_cast<size_t>(chunk)]; };
  spec.make = [make = maker.make](int64_t chunk, Arrays pieces) {
    const NdArray offsets = make(chunk, pieces).indptr().astype(DType::int64);
    return std::vector<NdArray>{offsets, offsets[{Slice{-1, std::nullopt, std::nullopt}}]};
  };
  const std::vector<NodePtr> made = from_table(std::move(spec), arguments);
  return {made[0], made[1]};
}

std::pair<NodePtr, NodePtr> sparse_elements(const SparseMaker& maker, const std::vector<NodePtr>& arguments,
                                            std::span<const int64_t> elements) {
  const Filled filled(elements);
  if (filled.chunks.empty()) return {no_elements(maker.dtype), no_elements(DType::int64)};
  TableSpec spec;
  spec.name = maker.name;
  spec.identity = op::Hash().add(maker.identity).add(hash_of(elements)).value;
  spec.outputs = {spec_of({filled.cuts}, maker.dtype), spec_of({filled.cuts}, DType::int64)};
  spec.needs = [needs = maker.needs, chunks = filled.chunks](int64_t chunk, std::vector<op::Need>& all) {
    needs(chunks[static_cast<size_t>(chunk)], all);
  };
  spec.bytes_per_element = kElementBytes;
  if (!maker.more_bytes.empty())
    spec.more_bytes = [bytes = maker.more_bytes, chunks = filled.chunks](int64_t chunk) {
      return bytes[static_cast<size_t>(chunks[static_cast<size_t>(chunk)])];
    };
  spec.make = [make = maker.make, dtype = maker.dtype, chunks = filled.chunks](int64_t chunk, Arrays pieces) {
    const LocalSparse made = make(chunks[static_cast<size_t>(chunk)], pieces);
    return std::vector<NdArray>{made.data().astype(dtype), made.indices().astype(DType::int64)};
  };
  const std::vector<NodePtr> made = from_table(std::move(spec), arguments);
  return {made[0], made[1]};
}

SparseMaker sparse_of_sparse(std::string name, uint64_t identity, DType dtype, std::vector<Chunks> chunks,
                             std::function<LocalSparse(std::span<const LocalSparse>)> make) {
  op::Hash hash;
  hash.add(identity);
  for (const Chunks& each : chunks) hash.add(each->hash);
  SparseMaker maker{std::move(name), hash.value, chunks[0]->rows, chunks[0]->columns, dtype, {}, {}};
  maker.needs = [chunks](int64_t chunk, std::vector<op::Need>& needs) {
    for (size_t i = 0; i < chunks.size(); ++i)
      add_matrix_needs(*chunks[i], chunk, static_cast<int>(i) * kMatrixPieces, needs);
  };
  maker.make = [chunks, make = std::move(make)](int64_t chunk, Arrays pieces) {
    std::vector<LocalSparse> parts;
    for (size_t i = 0; i < chunks.size(); ++i)
      parts.push_back(own_matrix(*chunks[i], chunk, pieces.subspan(i * kMatrixPieces)));
    return make(parts).tocsr();
  };
  return maker;
}

namespace {

// The rows of a second matrix that each chunk of a first one touches. Its values, columns and offsets are the arguments
// behind the first one's; `elements`: where the rows of each box begin and end among them.
class TouchedRows {
 public:
  TouchedRows(Chunks chunks, int64_t columns, std::vector<int64_t> elements)
      : chunks_(std::move(chunks)), columns_(columns), elements_(std::move(elements)) {
    size_t boxes = 0;
    for (const std::vector<SparseChunks::Box>& each : chunks_->boxes) {
      first_box_.push_back(boxes);
      boxes += each.size();
    }
  }
  // With the columns of the second one, and the functions that are common to all.
  SparseMaker maker(std::string name, DType dtype, std::span<const int64_t> terms) const {
    const uint64_t identity =
        op::Hash().add(chunks_->hash).add(columns_).add(hash_of(elements_)).add(hash_of(terms)).value;
    SparseMaker maker{std::move(name), identity, chunks_->rows, columns_, dtype, {}, {}};
    maker.needs = [self = *this](int64_t chunk, std::vector<op::Need>& needs) { self.add_needs(chunk, needs); };
    return maker;
  }
  // They behind each other, as the first one's columns number them. `dtype`: where there are none.
  LocalSparse matrix(int64_t chunk, Arrays pieces, DType dtype) const {
    const auto i = static_cast<size_t>(chunk);
    const Dims shape{chunks_->width(chunk), columns_};
    std::vector<NdArray> data, indices, offsets{local::from_vector<int64_t>({0})};
    size_t at = kMatrixPieces;
    int64_t count = 0;
    for (size_t k = 0; k < chunks_->boxes[i].size(); ++k) {
      const auto [begin, end] = range(i, k);
      const NdArray ends = pieces[at++][{Slice{1, std::nullopt, std::nullopt}}];
      offsets.push_back(local::apply("add"_op, {ends, count - begin}));
      if (end == begin) continue;
      data.push_back(pieces[at++]);
      indices.push_back(pieces[at++]);
      count += end - begin;
    }
    if (data.empty()) return LocalSparse(local::sparse::Format::csr, shape, dtype);
    const auto joined = [](const std::vector<NdArray>& parts) {
      return parts.size() == 1 ? parts[0] : ops::concatenate(parts, 0);
    };
    return {local::sparse::Format::csr, shape, joined(data), joined(offsets), joined(indices)};
  }

 private:
  std::pair<int64_t, int64_t> range(size_t chunk, size_t box) const {
    const size_t at = 2 * (first_box_[chunk] + box);
    return {elements_[at], elements_[at + 1]};
  }
  void add_needs(int64_t chunk, std::vector<op::Need>& needs) const {
    add_matrix_needs(*chunks_, chunk, 0, needs);
    const auto i = static_cast<size_t>(chunk);
    for (size_t k = 0; k < chunks_->boxes[i].size(); ++k) {
      const SparseChunks::Box& each = chunks_->boxes[i][k];
      const auto [begin, end] = range(i, k);
      needs.push_back({kMatrixPieces + 2, line(each.start, each.count + 1)});
      if (end == begin) continue;
      needs.push_back({kMatrixPieces, line(begin, end - begin)});
      needs.push_back({kMatrixPieces + 1, line(begin, end - begin)});
    }
  }

  Chunks chunks_;
  int64_t columns_;
  std::vector<int64_t> elements_;
  std::vector<size_t> first_box_;  // of each chunk, of all chunks' boxes
};

}  // namespace

SparseMaker sparse_times_sparse(const Chunks& chunks, int64_t columns, DType dtype, std::vector<int64_t> elements,
                                const std::vector<int64_t>& terms) {
  const TouchedRows touched(chunks, columns, std::move(elements));
  SparseMaker maker = touched.maker("sparse matmul", dtype, terms);
  // Floats are summed row by row in rows of the result; others are written down term by term, sorted and summed.
  const bool by_engine = local::is_complex(dtype) || dtype == DType::float32 || dtype == DType::float64;
  const int64_t line_bytes = local::itemsize(dtype) + int64_t{sizeof(int64_t)};
  // What cuSPARSE takes for each product beside the result, two values and 16 bytes by its answers of CUDA 13.0.
  constexpr int64_t kSparseEngineBytes = 24;
  const bool on_gpu = chunk_policy().device == local::DeviceKind::cuda;
  const int64_t engine_bytes = on_gpu ? 2 * local::itemsize(dtype) + kSparseEngineBytes : 0;
  for (int64_t chunk = 0; chunk < chunks->rows.count(); ++chunk) {
    const int64_t count = terms[static_cast<size_t>(chunk)], rows = chunks->rows.size(chunk);
    const bool is_full = rows > 0 && columns < count / rows;  // no more than a dense matrix has
    maker.more_bytes.push_back(by_engine ? 3 * line_bytes * (is_full ? rows * columns : count) + count * engine_bytes
                                         : count * (3 * line_bytes + 2 * kElementBytes));
  }
  maker.make = [chunks, touched](int64_t chunk, Arrays pieces) {
    const LocalSparse a = compact_matrix(*chunks, chunk, pieces);
    return local::sparse::matmul(a, touched.matrix(chunk, pieces, a.dtype()));
  };
  return maker;
}

SparseMaker sparse_taken_rows(const Chunks& chunks, int64_t columns, DType dtype, std::vector<int64_t> elements,
                              const std::vector<int64_t>& terms) {
  const TouchedRows touched(chunks, columns, std::move(elements));
  SparseMaker maker = touched.maker("take rows", dtype, terms);
  for (const int64_t count : terms) maker.more_bytes.push_back(count * (local::itemsize(dtype) + kElementBytes));
  maker.make = [touched, dtype](int64_t chunk, Arrays pieces) {
    return touched.matrix(chunk, pieces, dtype).index(local::IndexTerm(pieces[1])).tocsr();
  };
  return maker;
}

SparseMaker sparse_rows_between(const Chunks& chunks, DType dtype, int64_t first, int64_t last) {
  std::vector<int64_t> extents, from;
  for (int64_t i = 0; i < chunks->rows.count(); ++i) {
    const int64_t begin = std::max(first, chunks->rows.start(i)), end = std::min(last, chunks->rows.start(i + 1));
    if (begin >= end) continue;
    extents.push_back(end - begin);
    from.push_back(i);
  }
  if (from.empty()) from.push_back(0);  // no rows, of the first chunk
  const AxisChunks rows(extents);
  const uint64_t identity = op::Hash().add(chunks->hash).add(first).add(last).value;
  SparseMaker maker{"rows", identity, rows, chunks->columns, dtype, {}, {}};
  maker.needs = [chunks, from](int64_t chunk, std::vector<op::Need>& needs) {
    add_matrix_needs(*chunks, from[static_cast<size_t>(chunk)], 0, needs);
  };
  maker.make = [chunks, from, rows, first](int64_t chunk, Arrays pieces) {
    const int64_t source = from[static_cast<size_t>(chunk)];
    const int64_t begin = std::max<int64_t>(first - chunks->rows.start(source), 0);
    return own_matrix(*chunks, source, pieces)
        .index(local::IndexTerm(Slice{begin, begin + rows.size(chunk), std::nullopt}))
        .tocsr();
  };
  return maker;
}

SparseMaker sparse_of_dense(const NodePtr& dense) {
  const AxisChunks rows = dense->grid.axis(0);
  const int64_t columns = dense->shape[1];
  SparseMaker maker{"csr_array", rows.hash(), rows, columns, dense->dtype, {}, {}};
  maker.needs = [rows, columns](int64_t chunk, std::vector<op::Need>& needs) {
    needs.push_back({0, box(rows.start(chunk), rows.size(chunk), 0, columns)});
  };
  maker.make = [](int64_t, Arrays pieces) { return local::sparse::csr_array(pieces[0]); };
  return maker;
}

std::vector<NodePtr> sorted_by_rows(const NodePtr& data, const NodePtr& row, const NodePtr& column,
                                    const AxisChunks& rows) {
  const AxisChunks cuts = data->grid.axis(0);
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < rows.count(); ++i) ends.push_back(rows.start(i + 1));
  TableSpec spec;
  spec.name = "sort elements by rows";
  spec.identity = rows.hash();
  spec.outputs = {spec_of({cuts}, data->dtype), spec_of({cuts}, DType::int64), spec_of({cuts}, DType::int64),
                  spec_of({AxisChunks(cuts.count(), 1), AxisChunks(rows.count(), rows.count())}, DType::int64)};
  spec.needs = [cuts](int64_t chunk, std::vector<op::Need>& needs) {
    for (int argument = 0; argument < 3; ++argument)
      needs.push_back({argument, line(cuts.start(chunk), cuts.size(chunk))});
  };
  spec.make = [ends](int64_t, Arrays pieces) {
    const NdArray order = ops::argsort(pieces[1], -1, "stable");
    const NdArray sorted = ops::take(pieces[1], order).astype(DType::int64);
    const NdArray before = ops::searchsorted(sorted, local::from_vector(ends), "left").astype(DType::int64);
    const NdArray first =
        ops::concatenate({local::from_vector<int64_t>({0}), before[{Slice{0, std::ssize(ends) - 1, std::nullopt}}]}, 0);
    const NdArray counts = local::apply("subtract"_op, {before, first});
    return std::vector<NdArray>{ops::take(pieces[0], order), sorted, ops::take(pieces[2], order).astype(DType::int64),
                                counts.reshape({1, std::ssize(ends)})};
  };
  return from_table(std::move(spec), {data, row, column});
}

SparseMaker sparse_of_sorted(const std::vector<NodePtr>& sorted, const AxisChunks& rows, int64_t columns,
                             std::vector<int64_t> counts) {
  const AxisChunks cuts = sorted[0]->grid.axis(0);
  const int64_t sources = cuts.count(), targets = rows.count();
  const uint64_t identity = op::Hash().add(rows.hash()).add(columns).add(hash_of(counts)).value;
  SparseMaker maker{"gather elements", identity, rows, columns, sorted[0]->dtype, {}, {}};
  // What a source gives to a chunk of rows is one run: the counts become where it begins.
  std::vector<Region> runs(counts.size());
  for (int64_t i = 0; i < sources; ++i) {
    int64_t at = cuts.start(i);
    for (int64_t j = 0; j < targets; ++j) {
      const auto k = static_cast<size_t>(i * targets + j);
      runs[k] = line(at, counts[k]);
      at += counts[k];
    }
  }
  maker.needs = [runs = std::move(runs), sources, targets](int64_t chunk, std::vector<op::Need>& needs) {
    for (int argument = 0; argument < 3; ++argument)
      for (int64_t i = 0; i < sources; ++i) {
        const Region& run = runs[static_cast<size_t>(i * targets + chunk)];
        if (run.count[0] > 0) needs.push_back({argument, run});
      }
  };
  maker.make = [rows, columns, dtype = maker.dtype](int64_t chunk, Arrays pieces) {
    const Dims shape{rows.size(chunk), columns};
    if (pieces.empty()) return LocalSparse(local::sparse::Format::csr, shape, dtype);
    const size_t each = pieces.size() / 3;
    const auto joined = [&](size_t first) {
      const Arrays parts = pieces.subspan(first * each, each);
      return each == 1 ? parts[0] : ops::concatenate({parts.begin(), parts.end()}, 0);
    };
    const NdArray row = local::apply("subtract"_op, {joined(1), rows.start(chunk)});
    return LocalSparse(local::sparse::Format::coo, shape, joined(0), row, joined(2)).tocsr();
  };
  return maker;
}

std::vector<NodePtr> sparse_coordinates(const SparseNodes& nodes, const Chunks& chunks) {
  const Filled filled(chunks->elements);
  if (filled.chunks.empty()) return {no_elements(DType::int64), no_elements(DType::int64), nodes.data};
  TableSpec spec;
  spec.name = "coordinates";
  spec.identity = chunks->hash;
  spec.outputs = {spec_of({filled.cuts}, DType::int64), spec_of({filled.cuts}, DType::int64)};
  spec.needs = [=](int64_t chunk, std::vector<op::Need>& needs) {
    add_matrix_needs(*chunks, filled.chunks[static_cast<size_t>(chunk)], 0, needs);
  };
  spec.bytes_per_element = kElementBytes;
  spec.make = [=](int64_t number, Arrays pieces) {
    const int64_t chunk = filled.chunks[static_cast<size_t>(number)];
    const LocalSparse all = own_matrix(*chunks, chunk, pieces).tocoo();
    return std::vector<NdArray>{local::apply("add"_op, {all.row().astype(DType::int64), chunks->rows.start(chunk)}),
                                all.col().astype(DType::int64)};
  };
  const std::vector<NodePtr> made = from_table(std::move(spec), {nodes.data, nodes.indices, nodes.offsets});
  return {made[0], made[1], nodes.data};
}

// ---- What chunks touch ----

NodePtr offsets_of_chunks(const NodePtr& indptr, const AxisChunks& rows) {
  TableSpec spec;
  spec.name = "offsets";
  spec.identity = rows.hash();
  spec.outputs = {spec_of({offsets_cuts(rows)}, DType::int64)};
  spec.needs = [rows](int64_t chunk, std::vector<op::Need>& needs) {
    needs.push_back({0, line(rows.start(chunk), rows.size(chunk) + 1)});
  };
  spec.make = [](int64_t, Arrays pieces) {
    const NdArray wide = pieces[0].astype(DType::int64);
    return std::vector<NdArray>{local::apply("subtract"_op, {wide, wide[{Slice{0, 1, std::nullopt}}]})};
  };
  return from_table(std::move(spec), {indptr})[0];
}

namespace {

constexpr int64_t kMostBoxes = 64;  // of a chunk: each is a task
constexpr int64_t kGap = 512;       // columns between two boxes at least
enum : size_t { kWrong, kRow, kValue, kBoxes, kFirstBox };
enum : int64_t { kNothing, kColumn, kOffset };

// Of sorted columns without duplicates.
std::vector<SparseChunks::Box> boxes_of(const std::vector<int64_t>& columns) {
  if (columns.empty()) return {};
  const int64_t covered = columns.back() + 1 - columns.front();
  for (int64_t gap = kGap;; gap = 2 * gap + 1) {
    std::vector<SparseChunks::Box> boxes;
    for (const int64_t column : columns) {
      if (!boxes.empty() && column - (boxes.back().start + boxes.back().count) <= gap)
        boxes.back().count = column + 1 - boxes.back().start;
      else
        boxes.push_back({column, 1, 0});
    }
    if (boxes.size() > 1 && 2 * std::ssize(columns) >= covered) return {{columns.front(), covered, 0}};
    if (std::ssize(boxes) <= kMostBoxes) return boxes;
  }
}

// The distinct columns in order: by marks where these take no more than the columns themselves.
std::vector<int64_t> distinct_columns(std::vector<int64_t> columns) {
  if (columns.empty()) return columns;
  const auto [least, most] = std::ranges::minmax(columns);
  if (most - least < 32 * std::ssize(columns)) {
    std::vector<bool> there(static_cast<size_t>(most - least + 1));
    for (const int64_t column : columns) there[static_cast<size_t>(column - least)] = true;
    columns.clear();
    for (size_t i = 0; i < there.size(); ++i)
      if (there[i]) columns.push_back(least + static_cast<int64_t>(i));
    return columns;
  }
  std::ranges::sort(columns);
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  return columns;
}

}  // namespace

NodePtr touched_columns(const NodePtr& indices, const NodePtr& offsets, const AxisChunks& rows, int64_t columns,
                        const std::vector<int64_t>& elements) {
  constexpr auto kWidth = static_cast<int64_t>(kFirstBox) + 2 * kMostBoxes;
  TableSpec spec;
  spec.name = "touched columns";
  spec.identity = op::Hash().add(rows.hash()).add(columns).add(hash_of(elements)).value;
  spec.outputs = {spec_of({AxisChunks(rows.count(), 1), AxisChunks(kWidth, kWidth)}, DType::int64)};
  spec.bytes_per_element = kElementBytes;
  spec.needs = [rows, elements](int64_t chunk, std::vector<op::Need>& needs) {
    const auto i = static_cast<size_t>(chunk);
    needs.push_back({0, line(elements[i], elements[i + 1] - elements[i])});
    needs.push_back({1, line(offsets_start(rows, chunk), rows.size(chunk) + 1)});
  };
  spec.make = [rows, columns](int64_t chunk, Arrays pieces) {
    std::vector<int64_t> found = local::to_vector<int64_t>(pieces[0].astype(DType::int64));
    const std::vector<int64_t> begins = local::to_vector<int64_t>(pieces[1].astype(DType::int64));
    std::vector<int64_t> result(static_cast<size_t>(kWidth));
    const auto wrong = [&](int64_t what, size_t row, int64_t value) {
      result[kWrong] = what;
      result[kRow] = rows.start(chunk) + static_cast<int64_t>(row);
      result[kValue] = value;
    };
    // The last offset is the number of elements: where none decreases, none exceeds it.
    for (size_t row = 0; row + 1 < begins.size() && result[kWrong] == kNothing; ++row)
      if (begins[row + 1] < begins[row]) wrong(kOffset, row, begins[row + 1] - begins[row]);
    for (size_t row = 0; row + 1 < begins.size() && result[kWrong] == kNothing; ++row)
      for (int64_t at = begins[row]; at < begins[row + 1] && result[kWrong] == kNothing; ++at) {
        const int64_t column = found[static_cast<size_t>(at)];
        if (column < 0 || column >= columns) wrong(kColumn, row, column);
      }
    if (result[kWrong] == kNothing) {
      const std::vector<SparseChunks::Box> boxes = boxes_of(distinct_columns(std::move(found)));
      result[kBoxes] = std::ssize(boxes);
      for (size_t i = 0; i < boxes.size(); ++i) {
        result[kFirstBox + 2 * i] = boxes[i].start;
        result[kFirstBox + 2 * i + 1] = boxes[i].count;
      }
    }
    return std::vector<NdArray>{local::from_vector(result, Dims{1, kWidth})};
  };
  return from_table(std::move(spec), {indices, offsets})[0];
}

Chunks settled_chunks(const NdArray& touched, const AxisChunks& rows, int64_t columns, std::vector<int64_t> elements) {
  auto chunks = std::make_shared<SparseChunks>();
  const std::vector<int64_t> all = local::to_vector<int64_t>(touched);
  const auto width = static_cast<size_t>(touched.shape()[1]);
  for (size_t i = 0; i < static_cast<size_t>(touched.shape()[0]); ++i) {
    const std::span<const int64_t> of_chunk = std::span(all).subspan(i * width, width);
    if (of_chunk[kWrong] == kColumn)
      throw InvalidArgument(fmt::format("indices: row {} has an element in column {}, the matrix has {} columns",
                                        of_chunk[kRow], of_chunk[kValue], columns));
    if (of_chunk[kWrong] == kOffset)
      throw InvalidArgument(
          fmt::format("indptr: row {} has {} elements by the offsets", of_chunk[kRow], of_chunk[kValue]));
    std::vector<SparseChunks::Box>& boxes = chunks->boxes.emplace_back();
    for (size_t k = 0; k < static_cast<size_t>(of_chunk[kBoxes]); ++k) {
      const int64_t at = boxes.empty() ? 0 : boxes.back().at + boxes.back().count;
      boxes.push_back({of_chunk[kFirstBox + 2 * k], of_chunk[kFirstBox + 2 * k + 1], at});
    }
  }
  chunks->hash = op::Hash().add(rows.hash()).add(columns).add(hash_of(elements)).add(hash_of(all)).value;
  chunks->rows = rows;
  chunks->columns = columns;
  chunks->elements = std::move(elements);
  return chunks;
}

NodePtr compact_columns(const NodePtr& indices, const Chunks& chunks, DType dtype) {
  const Filled filled(chunks->elements);
  if (filled.chunks.empty()) return no_elements(dtype);
  TableSpec spec;
  spec.name = "compact columns";
  spec.identity = chunks->hash;
  spec.outputs = {spec_of({filled.cuts}, dtype)};
  spec.needs = [cuts = filled.cuts](int64_t chunk, std::vector<op::Need>& needs) {
    needs.push_back({0, line(cuts.start(chunk), cuts.size(chunk))});
  };
  spec.bytes_per_element = kElementBytes;
  spec.make = [=](int64_t chunk, Arrays pieces) {
    const std::vector<SparseChunks::Box>& boxes =
        chunks->boxes[static_cast<size_t>(filled.chunks[static_cast<size_t>(chunk)])];
    const NdArray wide = pieces[0].astype(DType::int64);
    std::vector<int64_t> starts, shift;
    for (const SparseChunks::Box& each : boxes) {
      starts.push_back(each.start);
      shift.push_back(each.start - each.at);
    }
    if (boxes.size() == 1) return std::vector<NdArray>{local::apply("subtract"_op, {wide, shift[0]}).astype(dtype)};
    const NdArray number =
        local::apply("subtract"_op, {ops::searchsorted(local::from_vector(starts), wide, "right"), 1});
    const NdArray result = local::apply("subtract"_op, {wide, ops::take(local::from_vector(shift), number)});
    return std::vector<NdArray>{result.astype(dtype)};
  };
  return from_table(std::move(spec), {indices})[0];
}

// ---- Products ----

NodePtr sparse_product(const SparseNodes& nodes, const Chunks& chunks, const NodePtr& x) {
  const bool is_vector = x->shape.size() == 1;
  const AxisChunks across = is_vector ? AxisChunks(1, 1) : x->grid.axis(1);
  const DType dtype = local::promote_types(nodes.data->dtype, x->dtype);
  TableSpec spec;
  spec.name = "sparse matmul";
  spec.identity = chunks->hash;
  std::vector<AxisChunks> axes{chunks->rows};
  if (!is_vector) axes.push_back(across);
  spec.outputs = {spec_of(std::move(axes), dtype)};
  spec.needs = [=](int64_t number, std::vector<op::Need>& needs) {
    const int64_t chunk = number / across.count(), j = number % across.count();
    add_matrix_needs(*chunks, chunk, 0, needs);
    for (const SparseChunks::Box& each : chunks->boxes[static_cast<size_t>(chunk)])
      needs.push_back(
          {3, is_vector ? line(each.start, each.count) : box(each.start, each.count, across.start(j), across.size(j))});
  };
  // Integers are multiplied by running sums of all products.
  const bool by_engine = local::is_complex(dtype) || dtype == DType::float32 || dtype == DType::float64;
  spec.bytes_per_element = by_engine ? 0 : 4 * int64_t{sizeof(int64_t)} * std::max<int64_t>(across.largest(), 1);
  spec.make = [=](int64_t number, Arrays pieces) {
    const int64_t chunk = number / across.count(), j = number % across.count();
    const LocalSparse a = compact_matrix(*chunks, chunk, pieces);
    const Arrays parts = pieces.subspan(kMatrixPieces);
    NdArray other;
    if (parts.empty())
      other = NdArray(is_vector ? Dims{0} : Dims{0, across.size(j)}, x->dtype);
    else
      other = parts.size() == 1 ? parts[0] : ops::concatenate({parts.begin(), parts.end()}, 0);
    return std::vector<NdArray>{local::sparse::matmul(a, other)};
  };
  return from_table(std::move(spec), {nodes.data, nodes.indices, nodes.offsets, x})[0];
}

// ---- Incomplete factors ----

SparseMaker sparse_diagonal_blocks(const Chunks& chunks, DType dtype) {
  SparseMaker maker{"diagonal blocks", chunks->hash, chunks->rows, chunks->columns, dtype, {}, {}};
  maker.needs = [chunks](int64_t chunk, std::vector<op::Need>& needs) { add_matrix_needs(*chunks, chunk, 0, needs); };
  maker.make = [chunks](int64_t chunk, Arrays pieces) {
    const int64_t first = chunks->rows.start(chunk), rows = chunks->rows.size(chunk);
    const LocalSparse block =
        own_matrix(*chunks, chunk, pieces)
            .index(local::IndexTerm(local::full_slice), local::IndexTerm(Slice{first, first + rows, std::nullopt}))
            .tocsr();
    const NdArray columns = local::apply("add"_op, {block.indices().astype(DType::int64), first});
    return LocalSparse(local::sparse::Format::csr, {rows, chunks->columns}, block.data(),
                       block.indptr().astype(DType::int64), columns);
  };
  return maker;
}

NodePtr incomplete_factors(const SparseNodes& nodes, const Chunks& chunks) {
  const Filled filled(chunks->elements);
  if (filled.chunks.empty()) return no_elements(nodes.data->dtype);
  TableSpec spec;
  spec.name = "incomplete factors";
  spec.identity = chunks->hash;
  spec.outputs = {spec_of({filled.cuts}, nodes.data->dtype)};
  spec.needs = [=](int64_t number, std::vector<op::Need>& needs) {
    add_matrix_needs(*chunks, filled.chunks[static_cast<size_t>(number)], 0, needs);
  };
  spec.bytes_per_element = kElementBytes;
  spec.make = [=](int64_t number, Arrays pieces) {
    const int64_t chunk = filled.chunks[static_cast<size_t>(number)], first = chunks->rows.start(chunk);
    return std::vector<NdArray>{local::sparse::incomplete_lu(compact_matrix(*chunks, chunk, pieces), first).data()};
  };
  return from_table(std::move(spec), {nodes.data, nodes.indices, nodes.offsets})[0];
}

NodePtr incomplete_solution(const SparseNodes& factors, const Chunks& chunks, const NodePtr& b, bool adjoint) {
  const bool is_vector = b->shape.size() == 1;
  const AxisChunks across = is_vector ? AxisChunks(1, 1) : b->grid.axis(1);
  TableSpec spec;
  spec.name = adjoint ? "incomplete solve, adjoint" : "incomplete solve";
  spec.identity = chunks->hash;
  std::vector<AxisChunks> axes{chunks->rows};
  if (!is_vector) axes.push_back(across);
  spec.outputs = {spec_of(std::move(axes), local::promote_types(factors.data->dtype, b->dtype))};
  spec.needs = [=](int64_t number, std::vector<op::Need>& needs) {
    const int64_t chunk = number / across.count(), j = number % across.count();
    add_matrix_needs(*chunks, chunk, 0, needs);
    const int64_t first = chunks->rows.start(chunk), rows = chunks->rows.size(chunk);
    needs.push_back({kMatrixPieces, is_vector ? line(first, rows) : box(first, rows, across.start(j), across.size(j))});
  };
  spec.make = [=](int64_t number, Arrays pieces) {
    const LocalSparse lu = compact_matrix(*chunks, number / across.count(), pieces);
    return std::vector<NdArray>{local::sparse::incomplete_solve(lu, pieces[kMatrixPieces], adjoint)};
  };
  return from_table(std::move(spec), {factors.data, factors.indices, factors.offsets, b})[0];
}

NodePtr sparse_scaled(local::Op op, const SparseNodes& nodes, const Chunks& chunks, const NodePtr& dense, DType dtype) {
  const Filled filled(chunks->elements);
  if (filled.chunks.empty()) return no_elements(dtype);
  const bool by_row = dense->shape[0] != 1 || chunks->rows.extent() == 1;
  const bool by_column = dense->shape[1] != 1 || chunks->columns == 1;
  TableSpec spec;
  spec.name = "scale elements";
  spec.identity = op::Hash().add(chunks->hash).add(static_cast<int>(op)).value;
  spec.outputs = {spec_of({filled.cuts}, dtype)};
  spec.needs = [=](int64_t number, std::vector<op::Need>& needs) {
    const int64_t chunk = filled.chunks[static_cast<size_t>(number)];
    add_matrix_needs(*chunks, chunk, 0, needs);
    const int64_t row = by_row ? chunks->rows.start(chunk) : 0, rows = by_row ? chunks->rows.size(chunk) : 1;
    if (!by_column) needs.push_back({3, box(row, rows, 0, 1)});
    if (by_column)
      for (const SparseChunks::Box& each : chunks->boxes[static_cast<size_t>(chunk)])
        needs.push_back({3, box(row, rows, each.start, each.count)});
  };
  spec.bytes_per_element = kElementBytes;
  spec.make = [=](int64_t number, Arrays pieces) {
    const int64_t chunk = filled.chunks[static_cast<size_t>(number)];
    const LocalSparse a = compact_matrix(*chunks, chunk, pieces).tocoo();
    const Arrays parts = pieces.subspan(kMatrixPieces);
    const NdArray other = parts.size() == 1 ? parts[0] : ops::concatenate({parts.begin(), parts.end()}, 1);
    const int64_t width = other.shape()[1];
    NdArray place = by_column ? a.col().astype(DType::int64) : NdArray(Dims{a.nnz()}, DType::int64);
    if (!by_column) place.fill(0);
    if (by_row)
      place = local::apply("add"_op, {place, local::apply("multiply"_op, {a.row().astype(DType::int64), width})});
    const NdArray factors = ops::take(other.reshape({other.size()}), place);
    return std::vector<NdArray>{local::apply(op, {a.data(), factors}).astype(dtype)};
  };
  return from_table(std::move(spec), {nodes.data, nodes.indices, nodes.offsets, dense})[0];
}

NodePtr of_sparse_rows(std::string name, const SparseNodes& nodes, const Chunks& chunks, std::optional<int64_t> width,
                       DType dtype, std::function<NdArray(const LocalSparse&, int64_t first)> function, bool compact) {
  TableSpec spec;
  spec.name = std::move(name);
  spec.identity = chunks->hash;
  std::vector<AxisChunks> axes{chunks->rows};
  if (width) axes.emplace_back(*width, std::max<int64_t>(*width, 1));
  spec.outputs = {spec_of(std::move(axes), dtype)};
  spec.needs = [=](int64_t chunk, std::vector<op::Need>& needs) { add_matrix_needs(*chunks, chunk, 0, needs); };
  spec.bytes_per_element = kElementBytes;
  spec.make = [chunks, compact, function = std::move(function)](int64_t chunk, Arrays pieces) {
    const LocalSparse a = compact ? compact_matrix(*chunks, chunk, pieces) : own_matrix(*chunks, chunk, pieces);
    return std::vector<NdArray>{function(a, chunks->rows.start(chunk))};
  };
  return from_table(std::move(spec), {nodes.data, nodes.indices, nodes.offsets})[0];
}

}  // namespace quarry::algo
