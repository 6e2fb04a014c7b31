#include "quarry/chunked/algo/sort.h"

#include <algorithm>

#include "quarry/chunked/algo/copying.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/grid/listing.h"
#include "quarry/chunked/op/trial.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/arrange.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::algo {
namespace {

namespace ops = local::ops;
using local::DType;
using local::NdArray;

// The same chunks of an array's first axis, and its other axes whole.
op::ArraySpec spec_like(const NodePtr& arg, AxisChunks rows) {
  std::vector<AxisChunks> axes = arg->grid.axes();
  axes[0] = std::move(rows);
  Grid grid(std::move(axes));
  const Dims shape = grid.shape();
  return {shape, arg->dtype, std::move(grid), /*chosen_grid=*/true};
}

AxisChunks sampled(const AxisChunks& cuts, int64_t stride) {
  check_listable(cuts.count());
  std::vector<int64_t> extents;
  for (int64_t i = 0; i < cuts.count(); ++i) extents.push_back((cuts.size(i) + stride - 1) / stride);
  return AxisChunks(extents);
}

std::vector<int64_t> lengths_of(const std::vector<Stretch>& stretches) {
  std::vector<int64_t> lengths;
  for (const Stretch& part : stretches) lengths.push_back(part.count);
  return lengths;
}

// Whether a key is all that there is.
bool is_one_key(size_t columns, size_t keys, const SortStep& step) {
  return keys == 1 && columns == 1 && !step.positions;
}

NdArray sample_of(const NdArray& key, int64_t stride) {
  return local::arrange::sliced(key, 0, local::Slice{0, std::nullopt, stride});
}

// One key alone, of a chunk or of any elements; in `out` where it is given.
NdArray sorted_key(const NdArray& key, const SortStep& step, std::optional<int64_t> chunk, const local::Out& out) {
  if (step.stretches && chunk)
    return local::merged_stretches(key, lengths_of((*step.stretches)[static_cast<size_t>(*chunk)]), !step.signs, out);
  const local::ExecContext context = local::context_for(key.device());
  return step.signs ? local::sorted_rows(key, context, out) : local::stably_sorted_rows(key, context, out);
}

// Keys, what is carried, positions from `first` on, samples. Of a chunk, or of any rows.
std::vector<NdArray> sorted(std::span<const NdArray> columns, size_t keys, const SortStep& step, int64_t first,
                            std::optional<int64_t> chunk) {
  std::vector<NdArray> sorted_keys, results;
  if (is_one_key(columns.size(), keys, step)) {
    sorted_keys = {sorted_key(columns[0], step, chunk, {})};
    results = sorted_keys;
  } else {
    const NdArray order = order_of(columns.first(keys), /*signs=*/false);
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool is_key = i < keys;
      if (is_key && !step.keeps_keys && step.stride == 0) continue;
      const NdArray column = ops::take(columns[i], order, 0);
      if (is_key) sorted_keys.push_back(column);
      if (!is_key || step.keeps_keys) results.push_back(column);
    }
    if (step.positions) results.push_back(local::apply("add"_op, {order, first}));
  }
  if (step.stride > 0)
    for (const NdArray& key : sorted_keys) results.push_back(sample_of(key, step.stride));
  return results;
}

std::vector<NodePtr> all_of(const SortedColumns& columns) {
  std::vector<NodePtr> all = columns.keys;
  all.insert(all.end(), columns.carried.begin(), columns.carried.end());
  return all;
}

class Joined final : public Copying {
 public:
  Joined(const char* name, std::shared_ptr<const Stretches> stretches, op::ArraySpec result)
      : name_(name), stretches_(std::move(stretches)), result_(std::move(result)) {
    op::Hash hash;
    for (const std::vector<Stretch>& chunk : *stretches_)
      hash.add(std::ssize(chunk)).add_bytes(chunk.data(), chunk.size() * sizeof(Stretch));
    hash_ = hash.value;
  }
  std::string_view name() const override { return name_; }
  void hash(op::Hash& hash) const override { hash.add(hash_).add(result_.grid); }
  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> /*arguments*/, int64_t /*room*/) const override {
    return {result_};
  }
  std::vector<NdArray> local(std::span<const NdArray> arguments) const override {
    std::vector<NdArray> parts;
    for (const std::vector<Stretch>& chunk : *stretches_)
      for (const Stretch& part : chunk) parts.push_back(local::arrange::part(arguments[0], 0, part.start, part.count));
    if (parts.empty()) return {NdArray(result_.shape, result_.dtype)};
    return {ops::concatenate(parts, 0)};
  }
  std::vector<Piece> pieces(const op::Call& call, int64_t chunk) const override {
    Dims shape = call.arguments[0].shape;
    shape[0] = 1;
    const int64_t row = local::element_count(shape);
    std::vector<Piece> pieces;
    int64_t at = 0;
    for (const Stretch& part : (*stretches_)[static_cast<size_t>(chunk)]) {
      shape[0] = part.count;
      Dims start = Dims::filled(shape.size());
      start[0] = part.start;
      pieces.push_back({{0, Region::box(start, shape)}, at * row, local::contiguous_strides(shape, 1)});
      at += part.count;
    }
    return pieces;
  }

 private:
  const std::string name_;
  const std::shared_ptr<const Stretches> stretches_;
  const op::ArraySpec result_;
  uint64_t hash_ = 0;
};

// Floats as integers that have the order of sort(): bits of negative ones but for the sign turned, NaNs the greatest.
NdArray as_integers(const NdArray& floats) {
  const int64_t size = local::itemsize(floats.dtype());
  const DType dtype = size == 2 ? DType::int16 : size == 4 ? DType::int32 : DType::int64;
  const int64_t greatest = static_cast<int64_t>(~uint64_t{0} >> (65 - 8 * size));
  const NdArray bits = floats.view(dtype);
  const NdArray turned = local::apply("bitwise_xor"_op, {bits, greatest});
  const NdArray ordered = local::apply("where"_op, {local::apply("less"_op, {bits, 0}), turned, bits});
  return local::apply("where"_op, {local::apply("isnan"_op, {floats}), greatest, ordered});
}

int64_t rows_of(const std::vector<Stretch>& stretches) {
  int64_t rows = 0;
  for (const Stretch& part : stretches) rows += part.count;
  return rows;
}

}  // namespace

NdArray order_of(std::span<const NdArray> keys, bool signs) {
  if (signs) return ops::argsort(as_integers(keys[0]));
  return keys.size() == 1 ? ops::argsort(keys[0]) : ops::lexsort({keys.begin(), keys.end()});
}

SortedChunks sorted_chunks(const char* name, const SortedColumns& columns, const SortStep& step) {
  const AxisChunks& cuts = columns.keys[0]->grid.axis(0);
  const size_t keys = columns.keys.size();
  const std::vector<NodePtr> all = all_of(columns);
  MapSpec spec;
  spec.name = name;
  spec.identity = op::Hash()
                      .add(static_cast<int64_t>(keys))
                      .add(step.line)
                      .add(step.keeps_keys)
                      .add(step.positions)
                      .add(step.signs)
                      .add(step.stride)
                      .add(step.stretches != nullptr)
                      .value;
  for (size_t i = 0; i < all.size(); ++i) {
    QUARRY_CHECK(all[i]->grid.axis(0) == cuts && all[i]->grid.count() == cuts.count());
    std::vector<Along> along(static_cast<size_t>(all[i]->shape.size()), Along::whole());
    along[0] = Along::following(0, cuts);
    spec.along.push_back(std::move(along));
    if (i >= keys || step.keeps_keys) spec.outputs.push_back(spec_like(all[i], cuts));
  }
  const Grid grid({cuts});
  if (step.positions) spec.outputs.push_back({grid.shape(), DType::int64, grid, /*chosen_grid=*/true});
  if (step.stride > 0)
    for (const NodePtr& key : columns.keys) spec.outputs.push_back(spec_like(key, sampled(cuts, step.stride)));
  spec.by_trial = true;
  spec.reads_sorted = step.stretches != nullptr;
  if (is_one_key(all.size(), keys, step)) {
    spec.into = [step](std::span<const NdArray> arrays, const ChunkPlace& place, std::span<const NdArray> outputs) {
      const NdArray key = sorted_key(arrays[0], step, place.chunk, outputs[0]);
      if (step.stride > 0) outputs[1].assign(sample_of(key, step.stride));
    };
  } else {
    spec.function = [keys, step](std::span<const NdArray> arrays, const ChunkPlace& place) {
      return sorted(arrays, keys, step, step.positions ? place.arguments[0].start[0] % step.line : 0, place.chunk);
    };
  }
  std::vector<NodePtr> made = map(std::move(spec), all);
  SortedChunks result;
  auto next = made.begin();
  const auto take = [&](size_t count) {
    std::vector<NodePtr> nodes(next, next + static_cast<std::ptrdiff_t>(count));
    next += static_cast<std::ptrdiff_t>(count);
    return nodes;
  };
  if (step.keeps_keys) result.columns.keys = take(keys);
  result.columns.carried = take(columns.carried.size() + (step.positions ? 1 : 0));
  result.samples = take(step.stride > 0 ? keys : 0);
  return result;
}

int64_t sort_task_bytes(const SortedColumns& columns, const SortStep& step, int64_t rows) {
  std::vector<op::ArraySpec> specs;
  int64_t bytes = 0, result_bytes = 0;
  for (const NodePtr& node : all_of(columns)) {
    Dims shape = node->shape;
    shape[0] = rows;
    specs.push_back(op::in_one_chunk(shape, node->dtype));
    bytes += specs.back().bytes();
  }
  result_bytes = bytes + (step.positions ? rows * local::itemsize(DType::int64) : 0);
  const auto function = [&](std::span<const NdArray> arrays) {
    return sorted(arrays, columns.keys.size(), step, 0, {});
  };
  return bytes + result_bytes + op::tried_peak_bytes(function, specs, result_bytes, chunk_policy().device);
}

int64_t bytes_beside_sorted(DType dtype) {
  constexpr int64_t kElements = int64_t{1} << 20;
  const op::ArraySpec spec = op::in_one_chunk({kElements}, dtype);
  const auto function = [](std::span<const NdArray> arrays) {
    return std::vector<NdArray>{local::ops::sort(local::ops::concatenate({arrays[0]}, 0))};
  };
  const int64_t taken = op::tried_peak_bytes(function, std::span(&spec, 1), spec.bytes(), chunk_policy().device);
  return std::max<int64_t>(local::divided_up(taken - op::estimated_peak_bytes(spec.bytes()), kElements), 0);
}

NodePtr joined_stretches(const char* name, const NodePtr& arg, const std::shared_ptr<const Stretches>& stretches) {
  std::vector<int64_t> extents;
  for (const std::vector<Stretch>& chunk : *stretches) extents.push_back(rows_of(chunk));
  return expr::apply(std::make_shared<Joined>(name, stretches, spec_like(arg, AxisChunks(extents))), {arg});
}

NodePtr orders_in_chunks(const char* name, const std::vector<NodePtr>& keys, const AxisChunks& cuts, bool signs) {
  const Grid grid({cuts});
  MapSpec spec;
  spec.name = name;
  spec.identity = op::Hash().add(signs).value;
  spec.along.assign(keys.size(), {Along::following(0, cuts)});
  spec.outputs = {{grid.shape(), DType::int64, grid, /*chosen_grid=*/true}};
  spec.by_trial = true;
  spec.function = [signs](std::span<const NdArray> arrays, const ChunkPlace&) {
    return std::vector<NdArray>{order_of(arrays, signs)};
  };
  return map(std::move(spec), keys)[0];
}

NodePtr counts_in_stretches(const std::vector<NodePtr>& keys, const std::shared_ptr<const Stretches>& stretches,
                            std::vector<int64_t> taken, bool signs) {
  std::vector<int64_t> extents;
  for (const std::vector<Stretch>& chunk : *stretches) extents.push_back(std::ssize(chunk));
  const Grid grid({AxisChunks(extents)});
  const auto counts = [signs](std::span<const NdArray> arrays, const std::vector<Stretch>& parts, int64_t first) {
    std::vector<int64_t> ends{0};
    for (const Stretch& part : parts) ends.push_back(ends.back() + part.count);
    // The places of those that are taken, ascending: as many are before the end of a stretch as it and those before it
    // give.
    const NdArray places = ops::sort(local::arrange::part(order_of(arrays, signs), 0, 0, first));
    return std::vector<NdArray>{ops::diff(ops::searchsorted(places, local::from_vector(ends)))};
  };
  // Of the largest chunks, all taken.
  const AxisChunks& cuts = keys[0]->grid.axis(0);
  std::vector<op::ArraySpec> specs;
  for (const NodePtr& key : keys) specs.push_back(op::in_one_chunk({cuts.largest()}, key->dtype));
  const std::vector<Stretch> most(static_cast<size_t>(grid.axis(0).largest()), Stretch{0, 1});
  const auto largest = [&](std::span<const NdArray> arrays) { return counts(arrays, most, cuts.largest()); };
  MapSpec spec;
  spec.name = "sort splits";
  spec.identity = op::Hash().add(signs).add_bytes(taken.data(), taken.size() * sizeof(int64_t)).value;
  spec.along.assign(keys.size(), {Along::following(0, cuts)});
  spec.outputs = {{grid.shape(), DType::int64, grid, /*chosen_grid=*/true}};
  spec.scratch_bytes =
      op::tried_peak_bytes(largest, specs, std::ssize(most) * local::itemsize(DType::int64), chunk_policy().device);
  spec.function = [counts, stretches, taken = std::move(taken)](std::span<const NdArray> arrays,
                                                                const ChunkPlace& place) {
    const auto chunk = static_cast<size_t>(place.chunk);
    return counts(arrays, (*stretches)[chunk], taken[chunk]);
  };
  return map(std::move(spec), keys)[0];
}

}  // namespace quarry::algo
