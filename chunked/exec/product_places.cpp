#include "quarry/chunked/exec/product_places.h"

#include <algorithm>
#include <set>
#include <utility>

#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"

namespace quarry::exec {
namespace {

// Whether the products are summed where b's rows are, and not by the owners of the tiles: that is for few tiles,
// unless their owners are as many ranks as the rows', and then where that sends less. How many ranks that are; 0: not
// so.
int ranks_along_k(const plan::Stage& stage, const Ownership& ranks) {
  const auto& product = std::get<plan::MatMul>(stage.work);
  const Grid& tiles = stage.outputs[0].grid;
  if (tiles.count() >= 2 * ranks.ranks()) return 0;
  const ProductPlaces places(stage, ranks, {1, 1, 1, /*along_k=*/true});
  std::set<int> homes;
  for (int64_t segment = 0; tiles.count() > 0 && segment < places.tree().segments(); ++segment)
    homes.insert(places.home(0, 0, segment));
  const int at_rows = std::max<int>(static_cast<int>(homes.size()), 1);
  if (tiles.count() == 0 || tiles.ndim() != 2) return at_rows;
  const auto matrix = static_cast<double>(local::element_count(tiles.shape()));
  const auto k = static_cast<double>(places.steps().extent());
  const double a = static_cast<double>(tiles.shape()[0]) * k, b = static_cast<double>(tiles.shape()[1]) * k;
  const double of_sums = static_cast<double>(at_rows - 1) * matrix + (product.syrk ? 0 : a);
  // Those of one rank stand for all.
  std::set<int64_t> rows, columns;
  for (const int64_t tile : ranks.owned(stage.owners, tiles, ranks.owner(stage.owners, tiles, tiles.count() / 2))) {
    const Dims at = tiles.coordinates(tile);
    rows.insert(at[0]);
    columns.insert(at[1]);
  }
  const auto at_tiles = static_cast<double>(std::min<int64_t>(tiles.count(), ranks.ranks()));
  const double part_of_a = static_cast<double>(rows.size()) / static_cast<double>(tiles.axis(0).count());
  const double part_of_b = static_cast<double>(columns.size()) / static_cast<double>(tiles.axis(1).count());
  const double of_operands = at_tiles * (part_of_a * a + part_of_b * b);
  return at_tiles < at_rows || of_sums < of_operands ? at_rows : 0;
}

// Whether the owners of tiles are ranks in rows and columns, each another one.
bool are_in_rows_and_columns(const plan::Stage& stage, const Ownership& ranks) {
  const Grid& tiles = stage.outputs[0].grid;
  const Owners& owners = stage.owners;
  return tiles.ndim() == 2 && owners.kind == Owners::Kind::cyclic && ranks.is_equal() &&
         owners.rows * owners.columns <= ranks.ranks() && owners.rows <= tiles.axis(0).count() &&
         owners.columns <= tiles.axis(1).count();
}

}  // namespace

AxisChunks product_steps(const plan::MatMul& product) {
  auto whole_axis = [](const plan::Input& input, int space_axis) -> const AxisChunks* {
    const auto& axis = input.map.axes[static_cast<size_t>(space_axis)];
    return axis.source >= 0 && axis.start == 0 && axis.step == 1 ? &input.grid.axis(axis.source) : nullptr;
  };
  const int n = static_cast<int>(product.b.map.axes.size());
  if (const AxisChunks* rows = whole_axis(product.b, n - 2)) return *rows;
  if (!product.syrk) {
    if (const AxisChunks* columns = whole_axis(product.a, n - 1)) return *columns;
  }
  const auto& axis = product.b.map.axes[static_cast<size_t>(n - 2)];
  QUARRY_CHECK(axis.source >= 0);
  const int64_t extent = product.b.shape[axis.source];
  return {extent, std::max<int64_t>(1, std::min<int64_t>(extent, 4096))};
}

Region product_box(const Grid& tiles, const AxisChunks& steps, int64_t tile, int64_t k, int axis) {
  Region box = tiles.chunk(tile);
  box.start[axis] = steps.start(k);
  box.count[axis] = steps.size(k);
  return box;
}

bool tiles_follow_an_operand(const plan::Stage& stage, const Ownership& ranks) {
  const auto* product = std::get_if<plan::MatMul>(&stage.work);
  if (product == nullptr || product->syrk || stage.grid.ndim() != 2 || stage.grid.count() < ranks.ranks()) return false;
  // All ranks read the other operand: less than layers would save, which move the large one.
  const auto follows = [&](const plan::Input& large, const plan::Input& small) {
    return owners_of(large.array).kind == Owners::Kind::blocks &&
           local::element_count(large.shape) >= ranks.ranks() * local::element_count(small.shape);
  };
  const bool one_column = stage.grid.axis(1).count() == 1, one_row = stage.grid.axis(0).count() == 1;
  return (one_column && follows(product->a, product->b)) ||
         (one_row && product->b.grid.axis(0).count() == 1 && follows(product->b, product->a));
}

plan::MatMul::Ranks choose_product_ranks(const plan::Stage& stage, const Ownership& ranks, int64_t memory_bytes,
                                         int layers) {
  constexpr double kMuchLess = 0.9;  // of the bytes: sums are kept to the end, and ranks wait for each other there
  constexpr double kMuchMore = 1.1;  // of the products
  constexpr double kMemoryPart = 0.25;
  const auto& product = std::get<plan::MatMul>(stage.work);
  const bool in_rows = are_in_rows_and_columns(stage, ranks);
  const int rows = stage.owners.rows, columns = stage.owners.columns;
  plan::MatMul::Ranks best;
  if (in_rows) best = {rows, columns, 1};
  const int along_k = layers == 0 && !tiles_follow_an_operand(stage, ranks) ? ranks_along_k(stage, ranks) : 0;
  if (along_k > 0) best = {1, 1, along_k, /*along_k=*/true};
  const ProductPlaces places(stage, ranks, best);
  const int64_t segments = places.tree().segments();
  if (!in_rows || product.syrk || ranks.ranks() == 1 || segments == 1 || kMuchMore * rows * columns < along_k)
    return best;
  const Grid& tiles = stage.outputs[0].grid;
  const auto tile_bytes = static_cast<double>(largest_chunk_bytes(tiles, local::itemsize(stage.outputs[0].dtype)));
  const double most_bytes = memory_bytes == 0 ? 1e300 : kMemoryPart * static_cast<double>(memory_bytes);
  const double most_products = kMuchMore * static_cast<double>(places.most_products());
  const std::vector<int> a = places.owners_of_operand(product.a, 0), b = places.owners_of_operand(product.b, 1);
  double least = layers > 0 ? 1e300 : kMuchLess * places.received_bytes(a, b);
  for (int down = 1; down <= rows; ++down) {
    for (int across = 1; across <= columns; ++across) {
      const int count = down * across;
      if (rows % down != 0 || columns % across != 0 || count == 1 || count > segments) continue;
      const plan::MatMul::Ranks tried{rows / down, columns / across, count};
      const ProductPlaces layered(stage, ranks, tried);
      const auto held = static_cast<double>(local::divided_up(tiles.axis(0).count(), tried.rows) *
                                            local::divided_up(tiles.axis(1).count(), tried.columns));
      const bool fits =
          held * tile_bytes <= most_bytes && static_cast<double>(layered.most_products()) <= most_products;
      if (layers == 0 ? !fits : count != layers) continue;
      const double bytes = layered.received_bytes(a, b);
      if (bytes >= least) continue;
      least = bytes;
      best = tried;
    }
  }
  return best;
}

ProductPlaces::ProductPlaces(const plan::Stage& stage, const Ownership& ranks, const plan::MatMul::Ranks& chosen)
    : stage_(stage),
      product_(std::get<plan::MatMul>(stage.work)),
      tiles_(stage.outputs[0].grid),
      ranks_(ranks),
      steps_(product_steps(product_)),
      tree_{steps_.count()},
      chosen_(chosen) {}

int ProductPlaces::home(int64_t tile, int level, int64_t node) const {
  if (chosen_.along_k) return home_along_k(tile, node << level);
  if (chosen_.layers == 1) return ranks_.owner(stage_.owners, tiles_, tile);
  const Dims at = tiles_.coordinates(tile);
  const int own = layer_at(at[0] % stage_.owners.rows, at[1] % stage_.owners.columns);
  return rank_in(layer_of_node(own, level, node), tile);
}

OwnedChunks ProductPlaces::tiles_of(int rank) const {
  if (chosen_.along_k) return {0, tiles_.count()};
  if (chosen_.layers == 1) return ranks_.owned(stage_.owners, tiles_, rank);
  std::vector<int64_t> found;
  for (int64_t row = 0; row < stage_.owners.rows; ++row) {
    for (int64_t column = 0; column < stage_.owners.columns; ++column) {
      if (rank_at(row, column) != rank) continue;
      for (int64_t i = row % chosen_.rows; i < count(0); i += chosen_.rows)
        for (int64_t j = column % chosen_.columns; j < count(1); j += chosen_.columns)
          found.push_back(tiles_.flat(Dims{i, j}));
    }
  }
  return found.empty() ? OwnedChunks(0, 0) : OwnedChunks(std::move(found));
}

int ProductPlaces::layer_at(int64_t row, int64_t column) const {
  const int across = stage_.owners.columns / chosen_.columns;
  return static_cast<int>(row / chosen_.rows * across + column / chosen_.columns);
}
int ProductPlaces::rank_at(int64_t row, int64_t column) const {
  return ranks_.owner(stage_.owners, tiles_, tiles_.flat(Dims{row, column}));
}
int ProductPlaces::rank_in(int layer, int64_t tile) const {
  const int across = stage_.owners.columns / chosen_.columns;
  const Dims at = tiles_.coordinates(tile);
  return rank_at(at[0] % chosen_.rows + int64_t{layer / across} * chosen_.rows,
                 at[1] % chosen_.columns + int64_t{layer % across} * chosen_.columns);
}

int64_t ProductPlaces::last_segment(int level, int64_t node) const {
  return std::min((node + 1) << level, tree_.segments()) - 1;
}

// The layer of the sum at a node, for a tile whose owner is in layer `own`: that one where the node has segments of it,
// else one of its layers that differs from tile to tile as `own` does, so that all ranks receive as much. It is that of
// one of the two sums that it is made of.
int ProductPlaces::layer_of_node(int own, int level, int64_t node) const {
  for (;;) {
    const int first = layer(node << level), last = layer(last_segment(level, node)), span = last - first + 1;
    if (span == 1) return first;
    const int wanted = first + ((own - first) % span + span) % span;
    --level;
    node = wanted <= layer(last_segment(level, 2 * node)) ? 2 * node : 2 * node + 1;
  }
}

int ProductPlaces::home_along_k(int64_t tile, int64_t segment) const {
  const int64_t k = tree_.first(segment);
  const int owner = owner_of(product_.b, product_box(tiles_, steps_, tile, k, tiles_.ndim() - 2));
  return owner >= 0 ? owner : ranks_.owner(k, steps_.count());
}

// -1 where every rank has it, or it is empty.
int ProductPlaces::owner_of(const plan::Input& input, const Region& box) const {
  const Region region = input.map.region(box, input.shape.size());
  const Owners& owners = owners_of(input.array);
  if (owners.kind == Owners::Kind::everywhere || region.elements() == 0) return -1;
  Dims coordinates = Dims::filled(region.ndim());
  for (int d = 0; d < region.ndim(); ++d) coordinates[d] = input.grid.axis(d).find(region.start[d]);
  return ranks_.owner(owners, input.grid, input.grid.flat(coordinates));
}

std::vector<int> ProductPlaces::owners_of_operand(const plan::Input& input, int axis) const {
  std::vector<int> owners;
  owners.reserve(static_cast<size_t>(count(axis) * steps_.count()));
  for (int64_t i = 0; i < count(axis); ++i) {
    const int64_t tile = tiles_.flat(axis == 0 ? Dims{i, 0} : Dims{0, i});
    for (int64_t k = 0; k < steps_.count(); ++k)
      owners.push_back(owner_of(input, product_box(tiles_, steps_, tile, k, 1 - axis)));
  }
  return owners;
}

int64_t ProductPlaces::most_products() const {
  if (chosen_.along_k) {
    std::vector<int64_t> of_rank(static_cast<size_t>(ranks_.ranks()));
    for (int64_t column = 0; column < count(1); ++column)
      for (int64_t segment = 0; segment < tree_.segments(); ++segment)
        of_rank[static_cast<size_t>(home_along_k(column, segment))] +=
            tree_.end_leaf(0, segment) - tree_.first(segment);
    return count(0) * std::ranges::max(of_rank);
  }
  std::vector<int64_t> of_layer(static_cast<size_t>(chosen_.layers));
  for (int64_t segment = 0; segment < tree_.segments(); ++segment)
    of_layer[static_cast<size_t>(layer(segment))] += tree_.end_leaf(0, segment) - tree_.first(segment);
  return local::divided_up(count(0), chosen_.rows) * local::divided_up(count(1), chosen_.columns) *
         std::ranges::max(of_layer);
}

double ProductPlaces::received_bytes(const std::vector<int>& a, const std::vector<int>& b) const {
  const double elements =
      chosen_.along_k ? received_along_k(a, b) : received_operand(a, 0) + received_operand(b, 1) + received_sums();
  return elements * static_cast<double>(local::itemsize(stage_.outputs[0].dtype));
}

// A column of tiles has one home for each segment.
double ProductPlaces::received_along_k(const std::vector<int>& a, const std::vector<int>& b) const {
  const auto area = [&](int axis, int64_t i, int64_t k) {
    return static_cast<double>(tiles_.axis(axis).size(i) * steps_.size(k));
  };
  const int64_t segments = tree_.segments(), steps = steps_.count();
  std::vector<int> homes;  // by column, then segment
  for (int64_t column = 0; column < count(1); ++column)
    for (int64_t segment = 0; segment < segments; ++segment) homes.push_back(home_along_k(column, segment));
  const auto home = [&](int64_t column, int64_t segment) {
    return homes[static_cast<size_t>(column * segments + segment)];
  };
  const auto comes = [](int owner, int to) { return owner >= 0 && owner != to ? 1 : 0; };
  double elements = 0;
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t segment = tree_.segment_of(k);
    std::set<int> readers;
    for (int64_t column = 0; column < count(1); ++column) {
      const int reader = home(column, segment);
      elements += comes(b[static_cast<size_t>(column * steps + k)], reader) * area(1, column, k);
      readers.insert(reader);
    }
    for (int64_t row = 0; row < count(0); ++row)
      for (const int reader : readers)
        elements += comes(a[static_cast<size_t>(row * steps + k)], reader) * area(0, row, k);
  }
  for (int64_t column = 0; column < count(1); ++column) {
    int64_t travel = 0;
    for (int level = 1; level <= tree_.levels(); ++level)
      for (int64_t node = 0; 2 * node + 1 < tree_.nodes(level - 1); ++node)
        travel += comes(home(column, (2 * node + 1) << (level - 1)), home(column, node << level));
    for (int64_t row = 0; row < count(0); ++row) {
      const int64_t tile = tiles_.flat(Dims{row, column});
      const int to_owner = comes(home(column, 0), ranks_.owner(stage_.owners, tiles_, tile));
      elements += static_cast<double>((travel + to_owner) * tiles_.chunk_elements(tile));
    }
  }
  return elements;
}

// Each chunk goes to the ranks of its row or column of tiles in its layer, less the one that has it.
double ProductPlaces::received_operand(const std::vector<int>& owners, int axis) const {
  std::vector<std::pair<int64_t, int64_t>> places(static_cast<size_t>(ranks_.ranks()), {-1, -1});
  for (int64_t row = 0; row < stage_.owners.rows; ++row)
    for (int64_t column = 0; column < stage_.owners.columns; ++column)
      places[static_cast<size_t>(rank_at(row, column))] = {row, column};
  const int lines = axis == 0 ? chosen_.rows : chosen_.columns, readers = axis == 0 ? chosen_.columns : chosen_.rows;
  double elements = 0;
  for (int64_t k = 0; k < steps_.count(); ++k) {
    const int layer = this->layer(tree_.segment_of(k));
    for (int64_t i = 0; i < count(axis); ++i) {
      const int owner = owners[static_cast<size_t>(i * steps_.count() + k)];
      if (owner < 0) continue;
      const auto [row, column] = places[static_cast<size_t>(owner)];
      const bool reads = row >= 0 && (axis == 0 ? row : column) % lines == i % lines && layer_at(row, column) == layer;
      elements += static_cast<double>(readers - (reads ? 1 : 0)) *
                  static_cast<double>(tiles_.axis(axis).size(i) * steps_.size(k));
    }
  }
  return elements;
}

double ProductPlaces::received_sums() const {
  if (chosen_.layers == 1) return 0;
  std::vector<double> elements(static_cast<size_t>(chosen_.layers));  // of the tiles whose owners are in a layer
  for (int64_t tile = 0; tile < tiles_.count(); ++tile) {
    const Dims at = tiles_.coordinates(tile);
    elements[static_cast<size_t>(layer_at(at[0] % stage_.owners.rows, at[1] % stage_.owners.columns))] +=
        static_cast<double>(tiles_.chunk_elements(tile));
  }
  double received = 0;
  for (int own = 0; own < chosen_.layers; ++own) {
    int64_t travel = 0;
    for (int level = 1; level <= tree_.levels(); ++level)
      for (int64_t node = 0; 2 * node + 1 < tree_.nodes(level - 1); ++node)
        travel += layer_of_node(own, level - 1, 2 * node) != layer_of_node(own, level - 1, 2 * node + 1) ? 1 : 0;
    received += static_cast<double>(travel) * elements[static_cast<size_t>(own)];
  }
  return received;
}

}  // namespace quarry::exec
