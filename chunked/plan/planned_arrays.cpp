#include "quarry/chunked/plan/planned_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/plan/rechunk.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/policy.h"

namespace quarry::plan {

using expr::View;

namespace {

// Arrays of several chunks for an operator that takes one: they become one where a rank can hold the task.
void check_fits(const Applied& work, int64_t memory_bytes) {
  const int64_t bytes = work.op->local_task_bytes(work.call);
  if (memory_bytes == 0 || bytes <= memory_bytes) return;
  throw local::NotSupported(fmt::format(
      "{} works on arrays of one chunk for now: made one, its arguments and results of {} take about {} to compute, "
      "more than the budget of {} per rank",
      work.op->name(), local::format_bytes(op::bytes_of(work.call)), local::format_bytes(bytes),
      local::format_bytes(memory_bytes)));
}

}  // namespace

PlannedArrays::PlannedArrays(const std::vector<NodePtr>& roots, const std::vector<NodePtr>& materialised,
                             const PlanOptions& options, int64_t room)
    : options_(options), room_(room) {
  for (const NodePtr& node : materialised) materialised_[*node] = true;
  for (const NodePtr& node : expr::topological(roots)) {
    keep_.push_back(node);
    if (is_stored_whole(*node) && !node->as<expr::Source>() && !node->as<expr::Stored>()) array_of(node);
  }
  results_.reserve(roots.size());
  for (const NodePtr& root : roots) results_.push_back(produce(root, std::nullopt));
}

bool PlannedArrays::is_stored_whole(const expr::Node& node) const {
  if (is_materialised(node)) return true;
  return !(node.as<expr::Elementwise>() || node.as<View>() || node.as<expr::Rechunk>() || node.as<expr::Constant>() ||
           node.as<expr::Index>());
}

Input PlannedArrays::output_of(int planned, int output) const {
  const Stage::Output& made = planned_[static_cast<size_t>(planned)].outputs[static_cast<size_t>(output)];
  ArrayRef ref;
  ref.stage = planned;  // becomes (stage, output) when the stages are made
  ref.output = output;
  return {ref, AccessMap::identity(made.shape.size()), made.dtype, made.shape, made.grid};
}

int PlannedArrays::add(PlannedArray planned) {
  planned_.push_back(std::move(planned));
  return static_cast<int>(planned_.size()) - 1;
}

Input PlannedArrays::other(std::shared_ptr<Stage> stage, std::vector<Input> inputs, const NodePtr& node,
                           const Grid& grid) {
  PlannedArray planned;
  planned.kind = PlannedArray::Kind::other;
  planned.stage = std::move(stage);
  planned.stage->label = expr::to_string(node, kLabelLength);
  planned.inputs = std::move(inputs);
  planned.outputs = {{node->shape, node->dtype, grid}};
  return output_of(add(std::move(planned)));
}

Input PlannedArrays::array_of(const NodePtr& node) {
  if (const auto found = arrays_.find(node.get()); found != arrays_.end()) return found->second;
  Input made;
  if (const auto* n = node->as<expr::Source>()) {
    sources_.emplace(n->dataset.get(), node);
    made = {{ArrayRef::Kind::dataset, -1, 0, n->dataset, nullptr},
            AccessMap::identity(node->shape.size()),
            node->dtype,
            node->shape,
            node->grid};
  } else if (const auto* n = node->as<expr::Stored>()) {
    made = {{ArrayRef::Kind::stored, -1, 0, nullptr, n->array},
            AccessMap::identity(node->shape.size()),
            node->dtype,
            node->shape,
            node->grid};
  } else if (const auto* n = node->as<expr::Reduce>()) {
    made = reduction(node, *n);
  } else if (const auto* n = node->as<expr::MatMul>()) {
    made = matmul(node, *n);
  } else if (const auto* n = node->as<expr::Item>()) {
    made = output_of(array_of(n->arg).array.stage, n->output);
  } else if (const auto* n = node->as<expr::Apply>()) {
    made = applied(node, *n);
  } else {
    made = fused_output(node, std::nullopt);
  }
  keep_.push_back(node);
  arrays_.emplace(node.get(), made);
  return made;
}

PlannedArrays::Viewed PlannedArrays::under_views(const NodePtr& node) const {
  Viewed result{node, identity_map(node->shape.size())};
  while (!is_stored_whole(*result.base)) {
    if (const View* view = result.base->as<View>()) {
      result.map = viewed_map(*view, result.map);
      result.base = view->arg;
    } else if (const auto* rechunk = result.base->as<expr::Rechunk>()) {
      result.base = rechunk->arg;
    } else {
      break;
    }
  }
  return result;
}

// The node's value in chunks of `grid` (absent: any), as an array with the identity map.
Input PlannedArrays::produce(const NodePtr& node, const std::optional<Grid>& grid) {
  for (const auto& [asked, input] : produced_[node.get()])
    if (asked == grid) return input;
  keep_.push_back(node);
  Input made = make_in(node, grid);
  produced_[node.get()].emplace_back(grid, made);
  return made;
}

Input PlannedArrays::make_in(const NodePtr& node, const std::optional<Grid>& grid) {
  const auto [base, map] = under_views(node);
  if (!is_stored_whole(*base)) return fused_output(node, grid);
  Input input = array_of(base);
  if (base->as<expr::Source>()) {
    input.map = access_map(map, node->shape.size());
    const Grid wanted = grid ? *grid : fitting(*node, {input});
    // Data sets are copied by a program: it also converts byte order.
    return stages_to(input, wanted).size() == 1 ? fused_output(node, wanted) : gathered(input, wanted);
  }
  const bool identity = map == identity_map(base->shape.size()) && base->shape == node->shape;
  const Grid wanted = grid ? *grid : identity && !node->as<expr::Rechunk>() ? input.grid : fitting(*node, {});
  if (identity && input.array.kind == ArrayRef::Kind::stage && input.grid == wanted) return input;
  input.map = access_map(map, node->shape.size());
  if (inside_one_chunk(input, wanted)) return fused_output(node, wanted);
  return gathered(input, wanted);
}

// What a node's value is read from by boxes: a view of a stored array, else an array of its own.
Input PlannedArrays::readable(const NodePtr& node, bool any_byte_order) {
  const auto [base, map] = under_views(node);
  if (!is_stored_whole(*base)) return produce(node, std::nullopt);
  const auto* file = base->as<expr::Source>();
  if (file && file->dataset->info().swapped && !any_byte_order) return produce(node, std::nullopt);  // which converts
  Input input = array_of(base);
  input.map = access_map(map, node->shape.size());
  if (!input.is_box()) return produce(node, std::nullopt);
  // Parts are read one by one, unless that takes much longer than whole chunks of the cuts that the node asks for.
  if (node->as<expr::Rechunk>() && stages_to(input, node->grid).size() > 1) return gathered(input, node->grid);
  return input;
}

// Every array that the expression reads over its space.
std::vector<Input> PlannedArrays::leaves_of(const NodePtr& top, bool compute_top) {
  std::vector<Input> leaves;
  struct Item {
    NodePtr node;
    NodeMap map;
  };
  const int ndim = top->shape.size();
  std::vector<Item> stack{{top, identity_map(ndim)}};
  expr::NodeTable<std::vector<NodeMap>> seen;
  while (!stack.empty()) {
    const Item item = std::move(stack.back());
    stack.pop_back();
    std::vector<NodeMap>& maps = seen[*item.node];
    if (std::find(maps.begin(), maps.end(), item.map) != maps.end()) continue;
    maps.push_back(item.map);
    if (is_stored_whole(*item.node) && !(compute_top && item.node == top && is_materialised(*top))) {
      Input input = array_of(item.node);
      input.map = access_map(item.map, ndim);
      leaves.push_back(std::move(input));
    } else if (const auto* op = item.node->as<expr::Elementwise>()) {
      for (auto arg = op->args.rbegin(); arg != op->args.rend(); ++arg)
        stack.push_back({*arg, argument_map(*item.node, **arg, item.map)});
    } else if (const auto* view = item.node->as<View>()) {
      stack.push_back({view->arg, viewed_map(*view, item.map)});
    } else if (const auto* rechunk = item.node->as<expr::Rechunk>()) {
      stack.push_back({rechunk->arg, item.map});
    }
  }
  return leaves;
}

Input PlannedArrays::fitted(const Input& input, const Grid& grid) {
  const bool is_file = input.array.kind == ArrayRef::Kind::dataset;
  if (is_file ? is_read_at_once(input, grid) : inside_one_chunk(input, grid)) return input;
  std::vector<AxisChunks> axes;
  Input viewed = input;
  viewed.map.axes.clear();
  AccessMap map;
  for (int d = 0; d < grid.ndim(); ++d) {
    const View::Axis& axis = input.map.axes[static_cast<size_t>(d)];
    if (axis.source < 0) {
      map.axes.push_back({});
      continue;
    }
    for (auto& [at, beside] : viewed.map.beside)
      if (at == d) at = static_cast<int>(axes.size());
    map.axes.push_back({static_cast<int>(axes.size()), 0, 1});
    axes.push_back(grid.axis(d));
    viewed.map.axes.push_back(axis);
  }
  const Grid cut(std::move(axes));
  if (is_file && stages_to(viewed, cut).size() == 1) return input;
  Input made = gathered(viewed, cut);
  made.map = std::move(map);
  return made;
}

namespace {

// The cuts of an array's axis as an axis that is mapped to it has them.
AxisChunks seen_through(const View::Axis& axis, int64_t extent, const AxisChunks& cuts) {
  if (axis.source < 0 || extent == 0) return {extent, std::max<int64_t>(extent, 1)};
  if (axis.start == 0 && axis.step == 1 && extent == cuts.extent()) return cuts;
  std::vector<int64_t> extents;
  for (int64_t i = 0; i < extent;) {
    const int64_t position = axis.start + i * axis.step, chunk = cuts.find(position);
    int64_t count = extent - i;
    if (axis.step > 0) count = std::min(count, (cuts.start(chunk + 1) - 1 - position) / axis.step + 1);
    if (axis.step < 0) count = std::min(count, (position - cuts.start(chunk)) / -axis.step + 1);
    extents.push_back(count);
    i += count;
  }
  return AxisChunks(extents);
}

RechunkSource source_of(const Input& input, const Dims& shape, bool spills) {
  RechunkSource source;
  source.kind = spills ? RechunkSource::Kind::spilled : RechunkSource::Kind::memory;
  Grid cuts = input.grid;
  if (input.array.kind == ArrayRef::Kind::dataset) {
    const io::DatasetInfo& info = input.array.dataset->info();
    source.kind = info.filters.empty() ? RechunkSource::Kind::file : RechunkSource::Kind::decoded;
    Dims chunk = info.chunks ? *info.chunks : input.shape;
    for (int64_t& extent : chunk) extent = std::max<int64_t>(extent, 1);
    cuts = Grid::regular(input.shape, chunk);
  }
  std::vector<AxisChunks> axes;
  for (int d = 0; d < shape.size(); ++d) {
    const View::Axis& axis = input.map.axes[static_cast<size_t>(d)];
    axes.push_back(seen_through(axis, shape[d], axis.source < 0 ? AxisChunks() : cuts.axis(axis.source)));
    source.order.push_back(d);
  }
  source.grid = Grid(std::move(axes));
  std::ranges::stable_sort(source.order, {}, [&](int d) { return input.map.axes[static_cast<size_t>(d)].source; });
  return source;
}

}  // namespace

// The grids in which a view of an array goes to chunks of `grid`.
std::vector<Grid> PlannedArrays::stages_to(const Input& input, const Grid& grid) const {
  constexpr int64_t kSmallBytes = int64_t{32} << 20;  // copied before a stage more has begun
  // Pinned memory is below a device's, and disk only below that.
  constexpr int64_t kTiersOfDevice = 8;
  const bool on_cpu = options_.device == local::DeviceKind::cpu;
  const int64_t itemsize = local::itemsize(input.dtype), memory = options_.memory_bytes;
  const Dims shape = grid.shape();
  const int64_t bytes = local::element_count(shape) * itemsize;
  if (memory == 0 || bytes == 0) return {grid};
  const bool spills = bytes / (on_cpu ? 1 : kTiersOfDevice) > memory;
  const RechunkSource source = source_of(input, shape, spills);
  if (!spills && bytes < kSmallBytes && source.kind != RechunkSource::Kind::decoded) return {grid};
  // Chunks of a few times the usual size, so that there are many of them; more where memory is large and what is read
  // comes from disk in longer runs for it.
  constexpr int64_t kUsualChunks = 4, kTasksAtOnce = 8;
  const int64_t of_tasks = memory / local::memory_policy::kTasksInBudget;
  const int64_t usual = kUsualChunks * target_chunk_bytes(options_.device);
  const bool in_memory = source.kind == RechunkSource::Kind::memory;
  const int64_t room = std::min(of_tasks, in_memory ? usual : std::max(usual, of_tasks / kTasksAtOnce));
  RechunkLimits limits{itemsize, std::max<int64_t>(room / (on_cpu ? 1 : 2), 1), spills};
  if (!on_cpu && in_memory) {
    // At 340 GB/s: a device gets a mebibyte from another one while its host asks for a part (about 3 us), and copies
    // parts of its own at several times that rate.
    limits.part_bytes = 1 << 20;
    limits.own_part_bytes = 96 << 10;
    limits.own_cost = 0.25;
    // Where a task's copies may hold all that a rank reads, of its own and of others (exec::CopyRules).
    const int ranks = options_.ranks;
    if (ranks > 0 && bytes / ranks * std::min(ranks, 2) <= of_tasks) limits.ranks = ranks;
  }
  return plan_rechunk(source, grid, limits);
}

// A view of a file in chunks of `grid`.
Input PlannedArrays::read(const Input& input, const Grid& grid) {
  const NodePtr source = sources_.at(input.array.dataset.get());
  const NodePtr node = expr::view(source, input.map.axes, input.map.fixed, grid.shape());
  for (const Input& leaf : leaves_of(node, /*compute_top=*/true)) read_at_once_.emplace_back(leaf, grid);
  return fused_output(node, grid);
}

bool PlannedArrays::is_read_at_once(const Input& input, const Grid& grid) const {
  return std::ranges::any_of(read_at_once_, [&](const auto& known) {
    return same_array(known.first.array, input.array) && same_map(known.first.map, input.map) && known.second == grid;
  });
}

// A view of one array in chunks of `grid`, by as many stages as pay.
Input PlannedArrays::gathered(const Input& input, const Grid& grid) {
  for (const Gathered& known : gathered_)
    if (same_array(known.input.array, input.array) && same_map(known.input.map, input.map) && known.grid == grid)
      return output_of(known.planned);
  const std::vector<Grid> grids = stages_to(input, grid);
  Input made = input;
  for (size_t i = 0; i < grids.size(); ++i) {
    const std::string label =
        grids.size() == 1 ? "rechunk" : fmt::format("rechunk, step {} of {}", i + 1, grids.size());
    const bool reads_file = made.array.kind == ArrayRef::Kind::dataset;
    made = reads_file ? read(made, grids[i]) : assembled(made, grids[i], label);
  }
  gathered_.push_back({input, grid, made.array.stage});
  return made;
}

Input PlannedArrays::assembled(const Input& input, const Grid& grid, const std::string& label) {
  const Dims shape = grid.shape();
  PlannedArray planned;
  planned.kind = PlannedArray::Kind::other;
  planned.stage = std::make_shared<Stage>();
  planned.inputs = {input};
  planned.outputs = {{shape, input.dtype, grid}};
  planned.stage->work = Assemble{input};
  planned.stage->label = label;
  return output_of(add(std::move(planned)));
}

Input PlannedArrays::fused_output(const NodePtr& node, const std::optional<Grid>& grid) {
  PlannedArray planned;
  planned.kind = PlannedArray::Kind::output;
  planned.node = node;
  const std::vector<Input> leaves = leaves_of(node, /*compute_top=*/true);
  planned.grid = grid ? *grid : fitting(*node, leaves);
  for (const Input& leaf : leaves) planned.inputs.push_back(fitted(leaf, planned.grid));
  planned.outputs = {{node->shape, node->dtype, planned.grid}};
  return output_of(add(std::move(planned)));
}

Input PlannedArrays::reduction(const NodePtr& node, const expr::Reduce& reduce) {
  PlannedArray planned;
  planned.kind = PlannedArray::Kind::reduction;
  planned.node = node;
  planned.reduce_axes = reduce.axes;
  const std::vector<Input> leaves = leaves_of(reduce.arg, /*compute_top=*/false);
  planned.per_chunk = reduce.chunks.has_value();
  planned.grid = planned.per_chunk ? *reduce.chunks : fitting(*reduce.arg, leaves, /*reduces=*/true);
  for (const Input& leaf : leaves) planned.inputs.push_back(fitted(leaf, planned.grid));
  if (planned.per_chunk) {
    planned.outputs = {{node->shape, node->dtype, node->grid}};
    return output_of(add(std::move(planned)));
  }
  std::vector<AxisChunks> kept;
  for (int d = 0; d < planned.grid.ndim(); ++d)
    if (!(reduce.axes >> d & 1)) kept.push_back(planned.grid.axis(d));
  planned.outputs = {{node->shape, node->dtype, Grid(std::move(kept))}};
  return output_of(add(std::move(planned)));
}

Input PlannedArrays::applied(const NodePtr& node, const expr::Apply& n) {
  Applied work{n.op, {}, {expr::specs_of(n.args), {}}};
  work.call.room = room_;
  work.call.outputs = n.op->infer(work.call.arguments, room_);
  const bool is_small = std::ranges::all_of(work.call.arguments, &op::ArraySpec::is_one_chunk);
  work.one_chunk = !n.op->is_chunked() || (!n.op->streams() && !n.op->is_program() && is_small);
  if (work.one_chunk && !is_small) check_fits(work, options_.memory_bytes);
  for (size_t i = 0; i < n.args.size(); ++i) {
    const std::optional<Grid> wanted = n.op->wants(static_cast<int>(i), work.call, room_);
    if (wanted) work.call.arguments[i].grid = *wanted;
    work.inputs.push_back(wanted ? operand(n.args[i], *wanted) : readable(n.args[i], n.op->copies()));
  }
  PlannedArray planned;
  planned.kind = PlannedArray::Kind::other;
  planned.inputs = work.inputs;
  for (const op::ArraySpec& made : work.call.outputs) planned.outputs.push_back({made.shape, made.dtype, made.grid});
  planned.stage = std::make_shared<Stage>();
  planned.stage->label = expr::to_string(node, kLabelLength);
  planned.stage->work = std::move(work);
  return output_of(add(std::move(planned)));
}

}  // namespace quarry::plan
