// Arrays with some elements replaced. A chunk of the result is the argument's chunk, copied, and what falls into it of
// the values; a task holds both, the result's chunk, and positions. The argument is not read where values cover a
// chunk, and values are read by the chunks that they reach.
#include <algorithm>
#include <numeric>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/chunkwise.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/error.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/indexing/indexing.h"

namespace quarry::algo {
namespace {

using local::NdArray;

// What the assignments have in common: argument 0 is the array, `values` the last argument.
class Assignment : public Chunkwise {
 public:
  std::string_view name() const final { return "assign"; }

 protected:
  static op::Need own_chunk(const op::Call& call, int64_t chunk) { return {0, call.outputs[0].grid.chunk(chunk)}; }
  // What copying into a chunk takes, of whatever layout the source has: the registers of the CPU's engine. A GPU takes
  // nothing.
  static int64_t copy_bytes(const op::Call& call, int64_t chunk) {
    const local::DType dtype = call.outputs[0].dtype;
    local::Launch launch;
    launch.shape = call.outputs[0].grid.chunk_shape(chunk);
    if (local::element_count(launch.shape) == 0) return 0;
    const Dims apart = local::contiguous_strides(launch.shape, 2 * local::itemsize(dtype));
    launch.inputs = {{nullptr, apart}};
    launch.outputs = {{nullptr, apart}};
    local::Program program;
    program.output(program.cast(program.input(dtype), dtype));
    constexpr int64_t kLayouts = 2;  // other layouts fill their tiles differently
    return local::rounded_allocation(kLayouts * local::engine(local::kCpu).run_scratch_bytes(program, launch));
  }
};

// The elements start + step * j, step > 0, that fall into [begin, end): j in [first, past).
struct Reached {
  int64_t first, past;
  int64_t count() const { return past - first; }
};
Reached reached(const op::AxisSlice& slice, int64_t begin, int64_t end) {
  const auto at_least = [&](int64_t position) {
    return position <= slice.start ? 0 : std::min(slice.count, (position - slice.start + slice.step - 1) / slice.step);
  };
  return {at_least(begin), at_least(end)};
}

// x with x[slices] = values. Values have the slices' counts for extents, or 1.
class AssignSlices final : public Assignment {
 public:
  explicit AssignSlices(op::Slices slices) : slices_(std::move(slices)) {}
  void hash(op::Hash& hash) const override {
    hash.add(0);
    for (const op::AxisSlice& slice : slices_) hash.add(slice.start).add(slice.count).add(slice.step);
  }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    const op::ArraySpec& x = arguments[0];
    constexpr int64_t kCopies = 3;  // the argument's chunk, the values and the result
    Grid grid = x.chosen_grid ? x.grid : halved_to_fit(x.grid, kCopies * local::itemsize(x.dtype), room);
    return {{x.shape, x.dtype, std::move(grid), x.chosen_grid}};
  }

  void needs(const op::Call& call, int64_t chunk, std::vector<op::Need>& needs) const override {
    const Part part = part_of(call, chunk);
    if (!part.is_covered) needs.push_back(own_chunk(call, chunk));
    if (part.is_touched) needs.push_back({1, part.values});
  }

  void make_chunk(const op::Call& call, int64_t chunk, std::span<const NdArray> pieces,
                  std::span<const NdArray> outputs) const override {
    const Part part = part_of(call, chunk);
    const NdArray& result = outputs[0];
    if (!part.is_covered) result.assign(pieces[0]);
    if (!part.is_touched) return;
    Dims strides = result.strides();
    int64_t offset = result.offset();
    for (int d = 0; d < strides.size(); ++d) {
      offset += strides[d] * part.start[d];
      strides[d] *= slices_[static_cast<size_t>(d)].step;
    }
    result.restrided(part.count, strides, offset).assign(pieces.back());
  }

  int64_t scratch_bytes(const op::Call& call, int64_t chunk) const override { return copy_bytes(call, chunk); }
  std::optional<op::Sliced> sliced(const op::Call& call, const op::Slices& slices) const override;

 private:
  struct Part {
    bool is_touched = true, is_covered = true;
    Dims start, count;  // in the chunk, of the elements that are replaced
    Region values;
  };
  Part part_of(const op::Call& call, int64_t chunk) const {
    const Region box = call.outputs[0].grid.chunk(chunk);
    Part part;
    part.values = Region::box(Dims(), Dims());
    for (int d = 0; d < box.ndim(); ++d) {
      const op::AxisSlice& slice = slices_[static_cast<size_t>(d)];
      const Reached own = reached(slice, box.start[d], box.start[d] + box.count[d]);
      const bool broadcasts = call.arguments[1].shape[d] == 1;
      part.is_touched = part.is_touched && own.count() > 0;
      part.is_covered = part.is_covered && own.count() == box.count[d];
      part.start.push_back(slice.start + slice.step * own.first - box.start[d]);
      part.count.push_back(own.count());
      part.values.start.push_back(broadcasts ? 0 : own.first);
      part.values.count.push_back(broadcasts ? 1 : own.count());
      part.values.step.push_back(1);
    }
    part.is_covered = part.is_covered && part.is_touched;
    return part;
  }

  const op::Slices slices_;
};

// The number i >= 0 with i * a = b modulo n, where a and n have no common divisor.
int64_t solved(int64_t a, int64_t b, int64_t n) {
  int64_t r0 = n, r1 = ((a % n) + n) % n, s0 = 0, s1 = 1;
  while (r1 != 0) {
    const int64_t q = r0 / r1;
    r0 = std::exchange(r1, r0 - q * r1);
    s0 = std::exchange(s1, s0 - q * s1);
  }
  const auto inverse = static_cast<__int128>(((s0 % n) + n) % n);
  return static_cast<int64_t>(inverse * (((b % n) + n) % n) % n);
}

// Of a slice of the result: which elements of it are replaced, and by which values.
struct Common {
  op::AxisSlice elements, values;
};
Common common(const op::AxisSlice& replaced, const op::AxisSlice& taken) {
  const bool backwards = taken.step < 0;
  const int64_t step = backwards ? -taken.step : taken.step;
  const int64_t start = backwards ? taken.start + taken.step * (taken.count - 1) : taken.start;
  const int64_t divisor = std::gcd(step, replaced.step);
  if ((replaced.start - start) % divisor != 0) return {};
  // Element i of the slice and value j: start + step * i = replaced.start + replaced.step * j.
  const int64_t i_step = replaced.step / divisor, j_step = step / divisor;
  int64_t i = solved(j_step, (replaced.start - start) / divisor, i_step);
  if (start + step * i < replaced.start) {
    const int64_t missing = replaced.start - start - step * i, stride = step * i_step;
    i += (missing + stride - 1) / stride * i_step;
  }
  const int64_t first = start + step * i;
  const int64_t last =
      std::min(start + step * (taken.count - 1), replaced.start + replaced.step * (replaced.count - 1));
  if (first > last) return {};
  const int64_t count = (last - first) / (step * i_step) + 1, j = (first - replaced.start) / replaced.step;
  if (!backwards) return {{i, count, i_step}, {j, count, j_step}};
  return {{taken.count - 1 - (i + (count - 1) * i_step), count, i_step}, {j + (count - 1) * j_step, count, -j_step}};
}

std::optional<op::Sliced> AssignSlices::sliced(const op::Call& call, const op::Slices& slices) const {
  op::Slices replaced, values;
  bool is_touched = true;
  for (size_t d = 0; d < slices.size(); ++d) {
    if (slices[d].count == 0) return std::nullopt;
    const Common both = common(slices_[d], slices[d]);
    is_touched = is_touched && both.elements.count > 0;
    const bool broadcasts = call.arguments[1].shape[static_cast<int>(d)] == 1;
    replaced.push_back(both.elements);
    values.push_back(broadcasts ? op::AxisSlice{0, 1, 1} : both.values);
  }
  if (!is_touched) return op::Sliced{nullptr, {{0, slices}}};
  return op::Sliced{std::make_shared<AssignSlices>(std::move(replaced)), {{0, slices}, {1, std::move(values)}}};
}

// The elements of `array` at positions along some axes, which come first in the values, as one axis.
void scatter_lines(const NdArray& array, std::span<const int> axes, std::span<const NdArray> positions,
                   const NdArray& values) {
  local::IndexedElements elements;
  elements.shape = {positions[0].size()};
  elements.array = {array.raw(), {0}};
  for (int d = 0; d < array.ndim(); ++d) {
    if (std::ranges::find(axes, d) != axes.end()) continue;
    elements.shape.push_back(array.shape()[d]);
    elements.array.strides.push_back(array.strides()[d]);
  }
  if (local::element_count(elements.shape) == 0) return;
  std::vector<const NdArray*> indices;
  for (size_t i = 0; i < axes.size(); ++i) {
    local::AxisIndex index{{positions[i].raw(), Dims::filled(elements.shape.size(), 0)},
                           array.shape()[axes[i]],
                           array.strides()[axes[i]],
                           axes[i]};
    index.positions.strides[0] = positions[i].strides()[0];
    elements.indices.push_back(std::move(index));
    indices.push_back(&positions[i]);
  }
  elements.mode = local::IndexMode::unchecked;
  elements.distinct = true;
  local::run_scatter(array, elements, indices, values);
}

// The box of the values for a chunk: some of the lines, of the other axes what the chunk has.
Region lines_box(const op::ArraySpec& values, const Region& chunk, std::span<const int> axes, int64_t first,
                 int64_t count) {
  const bool one_line = values.shape[0] == 1;
  Region box = Region::box({one_line ? 0 : first}, {one_line ? 1 : count});
  for (int d = 0; d < chunk.ndim(); ++d) {
    if (std::ranges::find(axes, d) != axes.end()) continue;
    const bool broadcasts = values.shape[box.ndim()] == 1;
    box.start.push_back(broadcasts ? 0 : chunk.start[d]);
    box.count.push_back(broadcasts ? 1 : chunk.count[d]);
    box.step.push_back(1);
  }
  return box;
}

// Lines of x at known positions.
class AssignPositions final : public Assignment {
 public:
  struct Table {
    std::vector<int64_t> chunks, starts;          // the chunks along the axes that have lines, and their first entries
    std::vector<std::vector<int64_t>> positions;  // per axis
    uint64_t hash = 0;
  };
  AssignPositions(std::vector<int> axes, Table table, op::ArraySpec result)
      : axes_(std::move(axes)), table_(std::move(table)), result_(std::move(result)) {}
  void hash(op::Hash& hash) const override {
    hash.add(1).add(table_.hash).add(result_.grid);
    for (const int axis : axes_) hash.add(axis);
  }
  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> /*arguments*/, int64_t /*room*/) const override {
    return {result_};
  }

  void needs(const op::Call& call, int64_t chunk, std::vector<op::Need>& needs) const override {
    needs.push_back(own_chunk(call, chunk));
    const auto [first, count] = entries(chunk);
    if (count > 0) needs.push_back({1, lines_box(call.arguments[1], needs.back().box, axes_, first, count)});
  }
  int64_t scratch_bytes(const op::Call& call, int64_t chunk) const override {
    const int64_t bytes = entries(chunk).second * static_cast<int64_t>(sizeof(int64_t));
    return std::max(copy_bytes(call, chunk), static_cast<int64_t>(axes_.size()) * local::rounded_allocation(bytes));
  }
  void make_chunk(const op::Call& /*call*/, int64_t chunk, std::span<const NdArray> pieces,
                  std::span<const NdArray> outputs) const override {
    outputs[0].assign(pieces[0]);
    const auto [first, count] = entries(chunk);
    if (count == 0) return;
    const Region box = result_.grid.chunk(chunk);
    std::vector<NdArray> positions;
    for (size_t i = 0; i < axes_.size(); ++i) {
      std::vector<int64_t> own(table_.positions[i].begin() + first, table_.positions[i].begin() + first + count);
      for (int64_t& position : own) position -= box.start[axes_[i]];
      positions.push_back(local::from_vector(own));
    }
    scatter_lines(outputs[0], axes_, positions, pieces[1]);
  }

 private:
  // First and number.
  std::pair<int64_t, int64_t> entries(int64_t chunk) const {
    const int64_t key = key_of(result_.grid, axes_, result_.grid.coordinates(chunk));
    const auto found = std::ranges::lower_bound(table_.chunks, key);
    if (found == table_.chunks.end() || *found != key) return {0, 0};
    const auto i = static_cast<size_t>(found - table_.chunks.begin());
    return {table_.starts[i], table_.starts[i + 1] - table_.starts[i]};
  }

 public:
  // The number of a chunk along some axes.
  static int64_t key_of(const Grid& grid, std::span<const int> axes, const Dims& coordinates) {
    int64_t key = 0;
    for (const int axis : axes) key = key * grid.axis(axis).count() + coordinates[axis];
    return key;
  }

 private:
  const std::vector<int> axes_;
  const Table table_;
  const op::ArraySpec result_;
};

// Lines of x where a mask is true, each with the next of the values.
class AssignMasked final : public Assignment {
 public:
  AssignMasked(int axis, std::span<const int64_t> counts, op::ArraySpec result)
      : axis_(axis), starts_(counts.size() + 1, 0), result_(std::move(result)) {
    std::partial_sum(counts.begin(), counts.end(), starts_.begin() + 1);
  }
  void hash(op::Hash& hash) const override {
    hash.add(2).add(axis_).add(result_.grid).add_bytes(starts_.data(), starts_.size() * sizeof(int64_t));
  }
  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> /*arguments*/, int64_t /*room*/) const override {
    return {result_};
  }

  void needs(const op::Call& call, int64_t chunk, std::vector<op::Need>& needs) const override {
    needs.push_back(own_chunk(call, chunk));
    const auto [first, count] = entries(chunk);
    if (count == 0) return;
    const Region box = needs.back().box;
    needs.push_back({1, Region::box({box.start[axis_]}, {box.count[axis_]})});
    needs.push_back({2, lines_box(call.arguments[2], box, {&axis_, 1}, first, count)});
  }
  int64_t scratch_bytes(const op::Call& call, int64_t chunk) const override {
    constexpr int64_t kPerElement = 3 * sizeof(int64_t), kSmall = 4096;  // what counting and positions take
    const Region box = result_.grid.chunk(chunk);
    const bool is_reached = entries(chunk).second > 0;
    return std::max(copy_bytes(call, chunk),
                    is_reached ? local::rounded_allocation(box.count[axis_] * kPerElement + kSmall) : 0);
  }
  void make_chunk(const op::Call& /*call*/, int64_t chunk, std::span<const NdArray> pieces,
                  std::span<const NdArray> outputs) const override {
    outputs[0].assign(pieces[0]);
    if (entries(chunk).second == 0) return;
    const NdArray positions = local::ops::flatnonzero(pieces[1]);
    scatter_lines(outputs[0], {&axis_, 1}, {&positions, 1}, pieces[2]);
  }

 private:
  std::pair<int64_t, int64_t> entries(int64_t chunk) const {
    const auto i = static_cast<size_t>(result_.grid.coordinates(chunk)[axis_]);
    return {starts_[i], starts_[i + 1] - starts_[i]};
  }

  const int axis_;
  std::vector<int64_t> starts_;
  const op::ArraySpec result_;
};

op::ArraySpec same_as(const NodePtr& arg) { return {arg->shape, arg->dtype, arg->grid, arg->chosen_grid}; }

}  // namespace

NodePtr assigned_slices(const NodePtr& arg, const NodePtr& values, op::Slices slices) {
  QUARRY_CHECK(arg->dtype == values->dtype && std::ssize(slices) == arg->shape.size());
  return expr::apply(std::make_shared<AssignSlices>(std::move(slices)), {arg, values});
}

NodePtr assigned_positions(const NodePtr& arg, const NodePtr& values, const std::vector<int>& axes,
                           const std::vector<std::vector<int64_t>>& positions) {
  QUARRY_CHECK(arg->dtype == values->dtype && !axes.empty());
  const size_t count = positions[0].size();
  // Entries by chunk and place; of equal places the last one stays.
  std::vector<int64_t> keys(count), places(count, 0), order(count);
  for (size_t k = 0; k < count; ++k) {
    Dims coordinates = Dims::filled(arg->shape.size(), 0);
    for (size_t i = 0; i < axes.size(); ++i) {
      coordinates[axes[i]] = arg->grid.axis(axes[i]).find(positions[i][k]);
      places[k] = places[k] * arg->shape[axes[i]] + positions[i][k];
    }
    keys[k] = AssignPositions::key_of(arg->grid, axes, coordinates);
  }
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    return std::pair(keys[i], places[i]) < std::pair(keys[j], places[j]);
  });
  std::vector<int64_t> last;
  for (size_t k = 0; k < count; ++k) {
    const auto place = [&](size_t at) { return places[static_cast<size_t>(order[at])]; };
    if (k + 1 == count || place(k) != place(k + 1)) last.push_back(order[k]);
  }
  // Inside a chunk in the order of the values, so that ascending ones are read where they lie.
  std::ranges::stable_sort(last, [&](int64_t a, int64_t b) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    return std::pair(keys[i], a) < std::pair(keys[j], b);
  });
  AssignPositions::Table table;
  table.positions.resize(axes.size());
  for (size_t k = 0; k < last.size(); ++k) {
    const auto entry = static_cast<size_t>(last[k]);
    if (table.chunks.empty() || table.chunks.back() != keys[entry]) {
      table.chunks.push_back(keys[entry]);
      table.starts.push_back(static_cast<int64_t>(k));
    }
    for (size_t i = 0; i < axes.size(); ++i) table.positions[i].push_back(positions[i][entry]);
  }
  table.starts.push_back(static_cast<int64_t>(last.size()));
  op::Hash hash;
  for (const std::vector<int64_t>& each : table.positions) hash.add_bytes(each.data(), each.size() * sizeof(int64_t));
  table.hash = hash.value;
  NodePtr lines = values;
  const bool in_order = last.size() == count && std::ranges::is_sorted(last);
  if (values->shape[0] != 1 && !in_order) lines = taken(values, /*axis=*/0, last);
  return expr::apply(std::make_shared<AssignPositions>(axes, std::move(table), same_as(arg)), {arg, lines});
}

NodePtr assigned_masked(const NodePtr& arg, const NodePtr& mask, const NodePtr& values, int axis,
                        std::span<const int64_t> counts) {
  QUARRY_CHECK(arg->dtype == values->dtype && mask->grid.axis(0) == arg->grid.axis(axis));
  return expr::apply(std::make_shared<AssignMasked>(axis, counts, same_as(arg)), {arg, mask, values});
}

}  // namespace quarry::algo
