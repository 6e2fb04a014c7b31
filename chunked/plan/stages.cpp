// From the logical graph to stages.
//
// Every reduction, product, reshape, concatenation, requested array and chosen intermediate is a *product* of the plan.
// A fused product is an expression over a space: walking from it down to stored arrays composes one affine map per
// array. Products over the same space, chunks and reduced axes that read a common array and do not depend on each other
// become one stage, which reads its inputs once.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "chunked/chunking.h"
#include "chunked/expr/build.h"
#include "chunked/plan/passes.h"
#include "local/base/error.h"

namespace quarry::plan {

namespace {

using expr::View;
using local::DType;

constexpr size_t kMostOutputs = 16;  // of one stage, so that a task's memory stays near its inputs'
constexpr int64_t kSmallOperandBytes = int64_t{64} << 20;  // kept rather than computed twice
constexpr int64_t kLeastElements = 4096;                   // of a chunk that is halved to fit a budget
constexpr size_t kLabelLength = 100;                       // characters

// Node axis -> start + step * x[space]; space -1: the position is `start`.
struct NodeAxis {
  int space = -1;
  int64_t start = 0, step = 1;
  friend bool operator==(const NodeAxis&, const NodeAxis&) = default;
};
using NodeMap = std::vector<NodeAxis>;

NodeMap identity_map(int ndim) {
  NodeMap map;
  for (int d = 0; d < ndim; ++d) map.push_back({d, 0, 1});
  return map;
}

NodeMap argument_map(const expr::Node& node, const expr::Node& arg, const NodeMap& map) {
  NodeMap result;
  const int shift = node.shape.size() - arg.shape.size();
  for (int d = 0; d < arg.shape.size(); ++d) {
    const bool broadcast = arg.shape[d] != node.shape[d + shift];
    result.push_back(broadcast ? NodeAxis{} : map[static_cast<size_t>(d + shift)]);
  }
  return result;
}

NodeMap viewed_map(const View& view, const NodeMap& map) {
  NodeMap result(static_cast<size_t>(view.arg->shape.size()));
  for (size_t i = 0; i < view.axes.size(); ++i) {
    const View::Axis& axis = view.axes[i];
    if (axis.source < 0) continue;
    result[static_cast<size_t>(axis.source)] = {map[i].space, axis.start + axis.step * map[i].start,
                                                map[i].space < 0 ? 1 : axis.step * map[i].step};
  }
  for (const auto& [axis, position] : view.fixed) result[static_cast<size_t>(axis)] = {-1, position, 1};
  return result;
}

AccessMap access_map(const NodeMap& map, int space_ndim) {
  AccessMap access;
  access.axes.resize(static_cast<size_t>(space_ndim));
  for (size_t d = 0; d < map.size(); ++d) {
    if (map[d].space < 0)
      access.fixed.emplace_back(static_cast<int>(d), map[d].start);
    else
      access.axes[static_cast<size_t>(map[d].space)] = {static_cast<int>(d), map[d].start, map[d].step};
  }
  return access;
}

bool same_array(const ArrayRef& a, const ArrayRef& b) {
  return a.kind == b.kind && a.stage == b.stage && a.output == b.output && a.dataset == b.dataset &&
         a.stored == b.stored;
}

bool same_map(const AccessMap& a, const AccessMap& b) { return a.axes == b.axes && a.fixed == b.fixed; }

// Whether every chunk of the space reads one chunk of the input only.
bool inside_one_chunk(const Input& input, const Grid& space) {
  for (int d = 0; d < space.ndim(); ++d) {
    const View::Axis& axis = input.map.axes[static_cast<size_t>(d)];
    if (axis.source < 0) continue;
    const AxisChunks &chunks = space.axis(d), &cuts = input.grid.axis(axis.source);
    if (cuts.count() == 1 || (axis.start == 0 && axis.step == 1 && chunks == cuts)) continue;
    for (int64_t i = 0; i < chunks.count(); ++i) {
      if (chunks.size(i) == 0) continue;
      const int64_t first = axis.start + axis.step * chunks.start(i);
      const int64_t last = axis.start + axis.step * (chunks.start(i + 1) - 1);
      if (cuts.find(first) != cuts.find(last)) return false;
    }
  }
  return true;
}

class Builder {
 public:
  Builder(const PlanOptions& options, int64_t room) : options_(options), room_(room) {}

  Plan build(const std::vector<NodePtr>& roots) {
    for (const NodePtr& node : choose_materialised(roots)) materialised_.insert(node.get());
    for (const NodePtr& node : expr::topological(roots)) {
      keep_.push_back(node);
      if (is_stored_whole(*node) && !node->as<expr::Source>() && !node->as<expr::Stored>() && !node->as<expr::Eigh>())
        array_of(node);
    }
    std::vector<Input> results;
    for (const NodePtr& root : roots) results.push_back(produce(root, std::nullopt));
    return finish(roots, results);
  }

 private:
  enum class Kind : uint8_t { output, reduction, other };
  // What makes one array (an eigenproblem two). `stage` is set for kind other; outputs and reductions are grouped
  // first.
  struct Product {
    Kind kind = Kind::output;
    NodePtr node;  // output: the value; reduction: the Reduce node
    Grid grid;     // of the space
    uint32_t reduce_axes = 0;
    bool operand = false;  // of a matrix product: dies with its consumer, never shares a stage
    std::shared_ptr<Stage> stage;
    std::vector<Input> inputs;  // for dependencies and sharing
    std::vector<Stage::Output> outputs;
  };
  struct Group {
    std::vector<int> members;      // products
    std::set<int> depends;         // groups, transitively
    std::vector<ArrayRef> shared;  // arrays read
  };

  // --- arrays ---

  // Nodes whose value exists chunk-wise; everything else is computed where it is read.
  bool is_stored_whole(const expr::Node& node) const {
    if (materialised_.contains(&node)) return true;
    return !(node.as<expr::Elementwise>() || node.as<View>() || node.as<expr::Rechunk>() || node.as<expr::Constant>() ||
             node.as<expr::Index>());
  }

  Input product_array(int product, int output = 0) const {
    const Stage::Output& made = products_[static_cast<size_t>(product)].outputs[static_cast<size_t>(output)];
    ArrayRef ref;
    ref.stage = product;  // products become (stage, output) in finish()
    ref.output = output;
    return {ref, AccessMap::identity(made.shape.size()), made.dtype, made.shape, made.grid};
  }

  // A node that is_stored_whole(), in its own chunks.
  Input array_of(const NodePtr& node) {
    if (const auto found = arrays_.find(node.get()); found != arrays_.end()) return found->second;
    Input made;
    if (const auto* n = node->as<expr::Source>()) {
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
      made = matrix_product(node, *n);
    } else if (const auto* n = node->as<expr::Item>()) {
      made = product_array(eigenproblem(n->arg), n->output);
    } else if (const auto* n = node->as<expr::Reshape>()) {
      made = reshaped(node, *n);
    } else if (const auto* n = node->as<expr::Concatenate>()) {
      made = concatenated(node, *n);
    } else {
      made = fused_output(node, std::nullopt);
    }
    keep_.push_back(node);
    arrays_.emplace(node.get(), made);
    return made;
  }

  // The node's value in chunks of `grid` (absent: any), as an array with the identity map.
  Input produce(const NodePtr& node, const std::optional<Grid>& grid) {
    auto& known = produced_[node.get()];
    for (const auto& [asked, input] : known)
      if (asked == grid) return input;
    keep_.push_back(node);
    Input made = make_in(node, grid);
    produced_[node.get()].emplace_back(grid, made);
    return made;
  }

  Input make_in(const NodePtr& node, const std::optional<Grid>& grid) {
    NodeMap map = identity_map(node->shape.size());
    NodePtr base = node;
    while (!is_stored_whole(*base) && (base->as<View>() || base->as<expr::Rechunk>())) {
      if (const View* view = base->as<View>()) {
        map = viewed_map(*view, map);
        base = view->arg;
      } else {
        base = base->as<expr::Rechunk>()->arg;
      }
    }
    // Data sets are copied by a program: it also converts byte order.
    if (!is_stored_whole(*base) || base->as<expr::Source>()) return fused_output(node, grid);
    Input input = array_of(base);
    const bool identity = map == identity_map(base->shape.size()) && base->shape == node->shape;
    const Grid wanted = grid ? *grid : identity && !node->as<expr::Rechunk>() ? input.grid : fitting(*node, {});
    if (identity && input.array.kind == ArrayRef::Kind::stage && input.grid == wanted) return input;
    input.map = access_map(map, node->shape.size());
    if (inside_one_chunk(input, wanted)) return fused_output(node, wanted);
    return gathered(input, wanted);
  }

  // What a node's value is read from when copying: a view of a stored array, else the node's own product.
  Input readable(const NodePtr& node) {
    NodeMap map = identity_map(node->shape.size());
    NodePtr base = node;
    while (!is_stored_whole(*base) && (base->as<View>() || base->as<expr::Rechunk>())) {
      if (const View* view = base->as<View>()) {
        map = viewed_map(*view, map);
        base = view->arg;
      } else {
        base = base->as<expr::Rechunk>()->arg;
      }
    }
    if (!is_stored_whole(*base)) return produce(node, std::nullopt);
    Input input = array_of(base);
    input.map = access_map(map, node->shape.size());
    return input;
  }

  // --- chunks ---

  // Automatic chunks of a space, halved while what a task reads and makes exceeds the room for one. An output is
  // counted like the widest array, so that siblings of other dtypes get the same chunks; a reduction's is small.
  Grid fitting(const expr::Node& node, const std::vector<Input>& inputs, bool reduces = false) const {
    Grid grid = node.grid;
    if (room_ == 0 || node.chosen_grid) return grid;
    const Dims keep = file_chunks(inputs, grid.ndim());
    int64_t itemsize = local::itemsize(node.dtype);
    for (const Input& input : inputs) itemsize = std::max(itemsize, local::itemsize(input.dtype));
    for (;;) {
      const int64_t elements = largest_chunk_bytes(grid, /*itemsize=*/1);
      int64_t bytes = reduces ? 0 : elements * itemsize;
      for (const Input& input : inputs) bytes += region_bytes(input, grid.largest());
      if (inputs.empty()) bytes = 2 * elements * itemsize;  // copied from somewhere
      if (bytes <= room_ || elements <= kLeastElements) return grid;
      grid = limited_grid(grid, /*itemsize=*/1, elements / 2, keep);
    }
  }

  // The file chunks along the axes of a space, of the largest data set that it reads.
  Dims file_chunks(const std::vector<Input>& inputs, int ndim) const {
    Dims keep(ndim, 0);
    int64_t largest = -1;
    for (const Input& input : inputs) {
      if (input.array.kind != ArrayRef::Kind::dataset || !input.array.dataset->info().chunks) continue;
      if (local::element_count(input.shape) <= largest) continue;
      largest = local::element_count(input.shape);
      for (int d = 0; d < ndim; ++d) {
        const View::Axis& axis = input.map.axes[static_cast<size_t>(d)];
        keep[d] = axis.source >= 0 && axis.start == 0 && axis.step == 1
                      ? (*input.array.dataset->info().chunks)[axis.source]
                      : 0;
      }
    }
    return keep;
  }

  // --- fused products ---

  // Every array that the expression reads over its space.
  void visit_leaves(const NodePtr& top, bool compute_top, std::vector<Input>& leaves) {
    struct Item {
      NodePtr node;
      NodeMap map;
    };
    const int ndim = top->shape.size();
    std::vector<Item> stack{{top, identity_map(ndim)}};
    std::unordered_map<const expr::Node*, std::vector<NodeMap>> seen;
    while (!stack.empty()) {
      const Item item = std::move(stack.back());
      stack.pop_back();
      std::vector<NodeMap>& maps = seen[item.node.get()];
      if (std::find(maps.begin(), maps.end(), item.map) != maps.end()) continue;
      maps.push_back(item.map);
      if (is_stored_whole(*item.node) && !(compute_top && item.node == top && materialised_.contains(top.get()))) {
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
  }

  // The input as a stage with chunks `grid` reads it: an array whose cuts do not fit is put together first.
  Input fitted(const Input& input, const Grid& grid) {
    if (input.array.kind == ArrayRef::Kind::dataset || inside_one_chunk(input, grid)) return input;
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
      map.axes.push_back({static_cast<int>(axes.size()), 0, 1});
      axes.push_back(grid.axis(d));
      viewed.map.axes.push_back(axis);
    }
    Input made = gathered(viewed, Grid(std::move(axes)));
    made.map = std::move(map);
    return made;
  }

  // An Assemble of a view of one array.
  Input gathered(const Input& input, const Grid& grid) {
    for (const Gathered& known : gathered_)
      if (same_array(known.input.array, input.array) && same_map(known.input.map, input.map) && known.grid == grid)
        return product_array(known.product);
    const Dims shape = grid.shape();
    Product product;
    product.kind = Kind::other;
    product.stage = std::make_shared<Stage>();
    product.inputs = {input};
    product.outputs = {{shape, input.dtype, grid}};
    product.stage->work.emplace<Assemble>().parts.push_back({input, Dims(shape.size(), 0), shape});
    product.stage->label = "rechunk";
    const int number = add(std::move(product));
    gathered_.push_back({input, grid, number});
    return product_array(number);
  }

  Input fused_output(const NodePtr& node, const std::optional<Grid>& grid) {
    Product product;
    product.kind = Kind::output;
    product.node = node;
    std::vector<Input> leaves;
    visit_leaves(node, /*compute_top=*/true, leaves);
    product.grid = grid ? *grid : fitting(*node, leaves);
    for (const Input& leaf : leaves) product.inputs.push_back(fitted(leaf, product.grid));
    product.outputs = {{node->shape, node->dtype, product.grid}};
    return product_array(add(std::move(product)));
  }

  Input reduction(const NodePtr& node, const expr::Reduce& reduce) {
    Product product;
    product.kind = Kind::reduction;
    product.node = node;
    product.reduce_axes = reduce.axes;
    std::vector<Input> leaves;
    visit_leaves(reduce.arg, /*compute_top=*/false, leaves);
    product.grid = fitting(*reduce.arg, leaves, /*reduces=*/true);
    for (const Input& leaf : leaves) product.inputs.push_back(fitted(leaf, product.grid));
    std::vector<AxisChunks> kept;
    for (int d = 0; d < product.grid.ndim(); ++d)
      if (!(reduce.axes >> d & 1)) kept.push_back(product.grid.axis(d));
    product.outputs = {{node->shape, node->dtype, Grid(std::move(kept))}};
    return product_array(add(std::move(product)));
  }

  // --- other products ---

  int add(Product product) {
    products_.push_back(std::move(product));
    return static_cast<int>(products_.size()) - 1;
  }

  Input other(std::shared_ptr<Stage> stage, std::vector<Input> inputs, const NodePtr& node, const Grid& grid) {
    Product product;
    product.kind = Kind::other;
    product.stage = std::move(stage);
    product.stage->label = expr::to_string(node, kLabelLength);
    product.inputs = std::move(inputs);
    product.outputs = {{node->shape, node->dtype, grid}};
    return product_array(add(std::move(product)));
  }

  Input reshaped(const NodePtr& node, const expr::Reshape& n) {
    const Input input = readable(n.arg);
    auto stage = std::make_shared<Stage>();
    stage->work = Assemble{{{input, Dims(n.arg->shape.size(), 0), n.arg->shape}}, true};
    return other(std::move(stage), {input}, node, fitting(*node, {}));
  }

  Input concatenated(const NodePtr& node, const expr::Concatenate& n) {
    Assemble assemble;
    std::vector<Input> inputs;
    Dims offset(node->shape.size(), 0);
    for (const NodePtr& arg : n.args) {
      inputs.push_back(readable(arg));
      assemble.parts.push_back({inputs.back(), offset, arg->shape});
      offset[n.axis] += arg->shape[n.axis];
    }
    auto stage = std::make_shared<Stage>();
    stage->work = std::move(assemble);
    return other(std::move(stage), std::move(inputs), node, fitting(*node, {}));
  }

  // A matrix (or stack of them) in chunks of `grid`, as an array that a product can read: perhaps transposed.
  Input operand(const NodePtr& node, const Grid& grid) {
    NodePtr base = node;
    AccessMap map = AccessMap::identity(node->shape.size());
    Grid base_grid = grid;
    const View* view = node->as<View>();
    if (view && !is_stored_whole(*node) && strips(*view, node->shape)) {
      base = view->arg;
      map.axes = view->axes;
      map.fixed = view->fixed;
      std::vector<AxisChunks> axes;
      for (int d = 0; d < base->shape.size(); ++d) axes.emplace_back(base->shape[d], 1);  // of length 1, or set below
      for (int d = 0; d < grid.ndim(); ++d)
        if (view->axes[static_cast<size_t>(d)].source >= 0)
          axes[static_cast<size_t>(view->axes[static_cast<size_t>(d)].source)] = grid.axis(d);
      base_grid = Grid(std::move(axes));
    } else if (!is_stored_whole(*node)) {
      // An expression over transposed arrays is computed untransposed.
      std::vector<int64_t> order;
      const int nd = node->shape.size();
      for (int d = 0; d < nd; ++d) order.push_back(d);
      std::swap(order[static_cast<size_t>(nd) - 2], order[static_cast<size_t>(nd) - 1]);
      const NodePtr turned = eliminate_common(push_views({expr::transpose(node, order)}))[0];
      if (permuted_leaves(turned) < permuted_leaves(node)) {
        base = turned;
        std::vector<AxisChunks> axes = grid.axes();
        std::swap(axes[axes.size() - 2], axes[axes.size() - 1]);
        base_grid = Grid(std::move(axes));
        std::swap(map.axes[map.axes.size() - 2], map.axes[map.axes.size() - 1]);
      }
    }
    const size_t before = products_.size();
    Input input = produce(base, base_grid);
    if (input.array.kind == ArrayRef::Kind::stage && static_cast<size_t>(input.array.stage) >= before)
      products_[static_cast<size_t>(input.array.stage)].operand = true;
    input.map = std::move(map);
    return input;
  }

  // Gives a data-sized operand a stage of its own where the other operand waits for somebody who reads it too: its
  // chunks would have to be kept until then.
  void separate(Input& input, const Input& other) {
    if (input.array.kind != ArrayRef::Kind::stage || other.array.kind != ArrayRef::Kind::stage) return;
    const int made = input.array.stage;
    Product copy = products_[static_cast<size_t>(made)];
    const int64_t bytes = local::element_count(input.shape) * local::itemsize(input.dtype);
    if (copy.kind != Kind::output || !copy.operand || bytes <= kSmallOperandBytes) return;
    std::vector<int> stack{other.array.stage};
    std::set<int> seen;
    bool read = false;
    while (!stack.empty() && !read) {
      const int at = stack.back();
      stack.pop_back();
      if (!seen.insert(at).second) continue;
      for (const Input& below : products_[static_cast<size_t>(at)].inputs) {
        if (below.array.kind != ArrayRef::Kind::stage) continue;
        read = read || below.array.stage == made;
        stack.push_back(below.array.stage);
      }
    }
    if (read) input.array.stage = add(std::move(copy));
  }

  // Whether a product reads the view itself: whole axes, batch axes in order, at most the last two swapped.
  static bool strips(const View& view, const Dims& shape) {
    const int nd = shape.size(), base = view.arg->shape.size();
    for (int d = 0; d < nd; ++d) {
      const View::Axis& axis = view.axes[static_cast<size_t>(d)];
      if (axis.source < 0) {
        if (d >= nd - 2) return false;
        continue;
      }
      if (axis.start != 0 || axis.step != 1 || shape[d] != view.arg->shape[axis.source]) return false;
      if (d >= nd - 2 ? axis.source < base - 2 : axis.source != d - nd + base) return false;
    }
    for (const auto& [axis, position] : view.fixed)
      if (view.arg->shape[axis] != 1 || axis >= base - 2) return false;
    return true;
  }

  // How many arrays an expression reads with axes out of order.
  int permuted_leaves(const NodePtr& node) {
    int count = 0;
    for (const NodePtr& below : expr::topological(std::span(&node, 1))) {
      const View* view = below->as<View>();
      if (!view) continue;
      int last = -1;
      bool permuted = false;
      for (const View::Axis& axis : view->axes) {
        if (axis.source < 0) continue;
        permuted = permuted || axis.source < last;
        last = axis.source;
      }
      count += permuted;
    }
    return count;
  }

  // A length that a file chunk exceeds by at most twice becomes the chunk's, where chunks are decoded.
  void stretch(int64_t& length, const NodePtr& node, int axis) const {
    const int64_t hint = node->grid.axis(axis).largest();
    if (hint <= length || hint > 2 * length) return;
    for (const NodePtr& below : expr::topological(std::span(&node, 1))) {
      const auto* source = below->as<expr::Source>();
      if (source && !source->dataset->info().filters.empty()) length = hint;
    }
  }

  Input matrix_product(const NodePtr& node, const expr::MatMul& n) {
    const int nd = node->shape.size();
    const int64_t itemsize = local::itemsize(node->dtype);
    const int64_t m = node->shape[nd - 2], columns = node->shape[nd - 1], k = n.b->shape[nd - 2];
    const Grid& inner = n.b->grid;
    std::vector<AxisChunks> c = node->grid.axes();
    MatMulTile tile;
    for (int64_t target = target_chunk_bytes(options_.device);; target /= 2) {
      tile = matmul_tile(m, k, columns, itemsize, target, n.syrk ? 0 : n.a->grid.axis(nd - 2).largest(),
                         n.b->generated ? 0 : inner.axis(nd - 2).largest());
      // The user's chunks are never exceeded, and nothing depends on the budget then: the same chunks give the same
      // bits.
      if (n.b->chosen_grid) tile.k = std::min(tile.k, std::max<int64_t>(inner.axis(nd - 2).largest(), 1));
      if (!n.syrk && n.a->chosen_grid)
        tile.m = std::min(tile.m, std::max<int64_t>(n.a->grid.axis(nd - 2).largest(), 1));
      // Rather twice the target than decoding every file chunk twice.
      if (tile.k < k) stretch(tile.k, n.b, nd - 2);
      if (!n.syrk && tile.m < m) stretch(tile.m, n.a, nd - 2);
      if (n.syrk) tile.m = tile.n;
      int64_t batch = 1;
      for (int d = 0; d < nd - 2; ++d) batch *= c[static_cast<size_t>(d)].largest();
      const int64_t read = batch * (tile.k * tile.n + (n.syrk ? 0 : tile.m * tile.k)) * products_in_task(k, tile.k);
      // What makes an operand's chunk reads as much.
      const int64_t largest = std::max({tile.m * tile.n, tile.k * tile.n, n.syrk ? 0 : tile.m * tile.k});
      const int64_t bytes = std::max(read, 2 * batch * largest) * itemsize;
      if (room_ == 0 || node->chosen_grid || bytes <= room_ || target <= kLeastElements * itemsize) break;
      // A stack of products is thinned first.
      for (int d = 0; d < nd - 2; ++d) {
        AxisChunks& axis = c[static_cast<size_t>(d)];
        if (axis.largest() == 1) continue;
        axis = AxisChunks(axis.extent(), (axis.largest() + 1) / 2);
        target *= 2;
        break;
      }
    }
    c[static_cast<size_t>(nd) - 2] = AxisChunks(m, tile.m);
    c[static_cast<size_t>(nd) - 1] = AxisChunks(columns, tile.n);
    std::vector<AxisChunks> a = c, b = c;
    a[static_cast<size_t>(nd) - 1] = b[static_cast<size_t>(nd) - 2] = AxisChunks(k, tile.k);
    MatMul product;
    product.syrk = n.syrk;
    product.b = operand(n.b, Grid(std::move(b)));
    product.a = n.syrk ? product.b : operand(n.a, Grid(std::move(a)));
    if (!n.syrk) {
      const Input a_made = product.a;
      separate(product.a, product.b);
      separate(product.b, a_made);
    }
    std::vector<Input> inputs{product.a, product.b};
    auto stage = std::make_shared<Stage>();
    stage->work = std::move(product);
    return other(std::move(stage), std::move(inputs), node, Grid(std::move(c)));
  }

  int eigenproblem(const NodePtr& node) {
    if (const auto found = eigenproblems_.find(node.get()); found != eigenproblems_.end()) return found->second;
    const auto* n = node->as<expr::Eigh>();
    Product product;
    product.kind = Kind::other;
    product.stage = std::make_shared<Stage>();
    product.inputs = {operand(n->arg, Grid::single(n->arg->shape))};
    product.stage->work = Eigh{product.inputs[0], n->triangle};
    product.stage->label = expr::to_string(node, kLabelLength);
    product.outputs = {{node->shape, node->dtype, Grid::single(node->shape)},
                       {n->arg->shape, n->arg->dtype, Grid::single(n->arg->shape)}};
    const int number = add(std::move(product));
    keep_.push_back(node);
    eigenproblems_.emplace(node.get(), number);
    return number;
  }

  // --- from products to stages ---

  Dims space_of(const Product& product) const { return product.grid.shape(); }

  bool joins(const Product& a, const Product& b) const {
    if (a.kind == Kind::other || b.kind == Kind::other || a.operand || b.operand || !(a.grid == b.grid)) return false;
    return a.kind != Kind::reduction || b.kind != Kind::reduction || a.reduce_axes == b.reduce_axes;
  }

  void group_products() {
    std::vector<int> group_of(products_.size(), -1);
    for (size_t p = 0; p < products_.size(); ++p) {
      const Product& product = products_[p];
      std::set<int> depends;
      for (const Input& input : product.inputs) {
        if (input.array.kind != ArrayRef::Kind::stage) continue;
        const int group = group_of[static_cast<size_t>(input.array.stage)];
        QUARRY_CHECK(group >= 0);
        depends.insert(group);
        depends.insert(groups_[static_cast<size_t>(group)].depends.begin(),
                       groups_[static_cast<size_t>(group)].depends.end());
      }
      int chosen = -1;
      for (size_t g = 0; g < groups_.size() && chosen < 0; ++g) {
        const Group& group = groups_[g];
        if (depends.contains(static_cast<int>(g)) || group.members.size() >= kMostOutputs) continue;
        bool fits = true;
        for (int member : group.members) fits = fits && joins(products_[static_cast<size_t>(member)], product);
        bool shares = false;
        for (const ArrayRef& array : group.shared)
          for (const Input& input : product.inputs) shares = shares || same_array(array, input.array);
        if (fits && shares) chosen = static_cast<int>(g);
      }
      if (chosen < 0) {
        chosen = static_cast<int>(groups_.size());
        groups_.emplace_back();
      }
      group_of[p] = chosen;
      Group& group = groups_[static_cast<size_t>(chosen)];
      group.members.push_back(static_cast<int>(p));
      group.depends.insert(depends.begin(), depends.end());
      for (const Input& input : product.inputs) group.shared.push_back(input.array);
      // Whoever waits for this group now waits for more.
      for (Group& later : groups_)
        if (later.depends.contains(chosen)) later.depends.insert(group.depends.begin(), group.depends.end());
    }
  }

  struct Emitter {
    Builder& builder;
    Fused& fused;
    const Grid& grid;
    std::unordered_map<const expr::Node*, std::vector<std::pair<NodeMap, local::ValueId>>> memo;

    local::ValueId input(Input value) {
      value = builder.fitted(value, grid);
      for (size_t i = 0; i < fused.inputs.size(); ++i)
        if (same_array(fused.inputs[i].array, value.array) && same_map(fused.inputs[i].map, value.map)) return slots[i];
      const bool swapped = value.array.kind == ArrayRef::Kind::dataset && value.array.dataset->info().swapped;
      slots.push_back(fused.program.input(value.dtype, swapped));
      fused.inputs.push_back(std::move(value));
      return slots.back();
    }
    std::vector<local::ValueId> slots;

    local::ValueId emit(const NodePtr& node, const NodeMap& map, bool top = false) {
      auto& known = memo[node.get()];
      for (const auto& [asked, value] : known)
        if (asked == map) return value;
      const local::ValueId value = compute(node, map, top);
      memo[node.get()].emplace_back(map, value);
      return value;
    }

    local::ValueId compute(const NodePtr& node, const NodeMap& map, bool top) {
      if (builder.is_stored_whole(*node) && !(top && builder.materialised_.contains(node.get()))) {
        Input value = builder.array_of(node);
        value.map = access_map(map, grid.ndim());
        return input(std::move(value));
      }
      if (const auto* n = node->as<expr::Constant>()) return fused.program.constant(n->value, node->dtype);
      if (const auto* n = node->as<expr::Index>()) return index(map[static_cast<size_t>(n->axis)]);
      if (const auto* n = node->as<View>()) return emit(n->arg, viewed_map(*n, map));
      if (const auto* n = node->as<expr::Rechunk>()) return emit(n->arg, map);
      const auto* n = node->as<expr::Elementwise>();
      QUARRY_CHECK(n);
      std::vector<local::ValueId> args;
      for (const NodePtr& arg : n->args) args.push_back(emit(arg, argument_map(*node, *arg, map)));
      if (n->op == local::Op::cast) return fused.program.cast(args[0], node->dtype);
      return fused.program.apply(n->op, args, n->loop);
    }

    local::ValueId constant(int64_t value) { return fused.program.constant(local::Scalar(value), DType::int64); }

    local::ValueId index(const NodeAxis& axis) {
      if (axis.space < 0) return constant(axis.start);
      local::ValueId value = fused.program.index(axis.space);
      if (axis.step != 1) value = fused.program.apply(local::Op::multiply, std::array{value, constant(axis.step)});
      if (axis.start != 0) value = fused.program.apply(local::Op::add, std::array{value, constant(axis.start)});
      return value;
    }

    // The C-order position along the reduced axes.
    local::ValueId position(uint32_t axes) {
      int64_t stride = 1;
      local::ValueId sum = -1;
      for (int d = grid.ndim() - 1; d >= 0; --d) {
        if (!(axes >> d & 1)) continue;
        local::ValueId term = fused.program.index(d);
        if (stride != 1) term = fused.program.apply(local::Op::multiply, std::array{term, constant(stride)});
        sum = sum < 0 ? term : fused.program.apply(local::Op::add, std::array{term, sum});
        stride *= std::max<int64_t>(grid.axis(d).extent(), 1);
      }
      return sum < 0 ? constant(0) : sum;
    }
  };

  Stage fused_stage(const Group& group, std::vector<std::pair<int, int>>& places) {
    Stage stage;
    const Product& first = products_[static_cast<size_t>(group.members[0])];
    stage.grid = first.grid;
    stage.shape = space_of(first);
    Fused fused;
    Emitter emitter{*this, fused, stage.grid, {}, {}};
    std::string label;
    for (const Kind kind : {Kind::output, Kind::reduction}) {
      for (int member : group.members) {
        const Product& product = products_[static_cast<size_t>(member)];
        if (product.kind != kind) continue;
        places.emplace_back(member, static_cast<int>(stage.outputs.size()));
        stage.outputs.push_back(product.outputs[0]);
        if (label.size() < kLabelLength)
          label += (label.empty() ? "" : "; ") + expr::to_string(product.node, kLabelLength - label.size());
        if (kind == Kind::output) {
          fused.program.output(emitter.emit(product.node, identity_map(stage.grid.ndim()), /*top=*/true));
          continue;
        }
        const auto* reduce = product.node->as<expr::Reduce>();
        const local::ValueId value = emitter.emit(reduce->arg, identity_map(stage.grid.ndim()));
        std::vector<local::ValueId> args{value};
        if (local::info(reduce->reduction).has_position) args.push_back(emitter.position(reduce->axes));
        fused.reduce_axes = reduce->axes;
        fused.reductions.push_back(
            {static_cast<int>(fused.program.reductions().size()), reduce->ddof, product.node->dtype});
        fused.program.reduce(reduce->reduction, args, reduce->accumulate);
      }
    }
    stage.label = std::move(label);
    stage.work = std::move(fused);
    return stage;
  }

  Plan finish(const std::vector<NodePtr>& roots, std::vector<Input>& results) {
    group_products();
    // Groups in an order where producers come first, otherwise as they were made.
    std::vector<int> order;
    std::vector<bool> placed(groups_.size(), false);
    while (order.size() < groups_.size()) {
      const size_t before = order.size();
      for (size_t g = 0; g < groups_.size(); ++g) {
        if (placed[g]) continue;
        bool ready = true;
        for (int d : groups_[g].depends) ready = ready && placed[static_cast<size_t>(d)];
        if (!ready) continue;
        placed[g] = true;
        order.push_back(static_cast<int>(g));
      }
      QUARRY_CHECK(order.size() > before);
    }
    Plan plan;
    std::vector<std::pair<int, int>> place(products_.size(), {-1, 0});  // product -> stage, output
    for (int g : order) {
      const Group& group = groups_[static_cast<size_t>(g)];
      const int number = static_cast<int>(plan.stages.size());
      const Product& first = products_[static_cast<size_t>(group.members[0])];
      if (first.kind == Kind::other) {
        Stage stage = *first.stage;
        stage.outputs = first.outputs;
        stage.shape = first.outputs[0].shape;
        stage.grid = first.outputs[0].grid;
        place[static_cast<size_t>(group.members[0])] = {number, 0};
        plan.stages.push_back(std::move(stage));
      } else {
        std::vector<std::pair<int, int>> places;
        plan.stages.push_back(fused_stage(group, places));
        for (const auto& [product, output] : places) place[static_cast<size_t>(product)] = {number, output};
      }
    }
    QUARRY_CHECK(place.size() == products_.size());
    auto settle = [&](ArrayRef& array) {
      if (array.kind != ArrayRef::Kind::stage) return;
      const auto& [stage, output] = place[static_cast<size_t>(array.stage)];
      array.stage = stage;
      array.output += output;
    };
    for (Stage& stage : plan.stages) {
      if (auto* fused = std::get_if<Fused>(&stage.work))
        for (Input& input : fused->inputs) settle(input.array);
      else if (auto* assemble = std::get_if<Assemble>(&stage.work))
        for (Assemble::Part& part : assemble->parts) settle(part.input.array);
      else if (auto* product = std::get_if<MatMul>(&stage.work))
        settle(product->a.array), settle(product->b.array);
      else
        settle(std::get<Eigh>(stage.work).a.array);
    }
    for (Input& result : results) {
      settle(result.array);
      plan.results.push_back(result.array);
    }
    plan.hash = 0x51ab3c1du + static_cast<uint64_t>(room_);
    for (const NodePtr& root : roots) plan.hash = (plan.hash ^ root->hash) * 0x9e3779b97f4a7c15u + 1;
    return plan;
  }

  struct Gathered {
    Input input;
    Grid grid;
    int product;
  };

  const PlanOptions& options_;
  const int64_t room_;  // for one task; 0: unlimited
  std::unordered_set<const expr::Node*> materialised_;
  std::unordered_map<const expr::Node*, Input> arrays_;
  std::unordered_map<const expr::Node*, std::vector<std::pair<std::optional<Grid>, Input>>> produced_;
  std::unordered_map<const expr::Node*, int> eigenproblems_;
  std::vector<Gathered> gathered_;
  std::vector<Product> products_;
  std::vector<Group> groups_;
  std::vector<NodePtr> keep_;  // nodes whose addresses are keys
};

}  // namespace

Plan build_stages(const std::vector<NodePtr>& roots, const PlanOptions& options, int64_t room) {
  return Builder(options, room).build(roots);
}

}  // namespace quarry::plan
