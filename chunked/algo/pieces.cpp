// Boxes that lie across chunks. A task that reads a part of a chunk of its own rank holds all of it, so one that reads
// columns of rows holds every row. Where that is much, chunks are copied into pieces first, each read by one box: a
// task then holds a chunk and a piece, and what reads a box its pieces.
#include <algorithm>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/copying.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/grid/cuts.h"

namespace quarry::algo {
namespace {

class Pieces final : public Copying {
 public:
  Pieces(Grid grid, bool chosen) : grid_(std::move(grid)), chosen_(chosen) {}
  std::string_view name() const override { return "pieces"; }
  void hash(op::Hash& hash) const override { hash.add(grid_).add(chosen_); }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t /*room*/) const override {
    return {{arguments[0].shape, arguments[0].dtype, grid_, chosen_}};
  }
  std::vector<local::NdArray> local(std::span<const local::NdArray> arguments) const override { return {arguments[0]}; }

  std::vector<Piece> pieces(const op::Call& call, int64_t chunk) const override {
    Region box = call.outputs[0].grid.chunk(chunk);
    Dims strides = local::contiguous_strides(box.count, 1);
    return {{{0, std::move(box)}, 0, std::move(strides)}};
  }
  std::optional<op::Sliced> sliced(const op::Call& /*call*/, const op::Slices& slices) const override {
    return op::Sliced{nullptr, {{0, slices}}};
  }

 private:
  const Grid grid_;
  const bool chosen_;
};

bool is_computed(const expr::Node& node) {
  return node.as<expr::Elementwise>() || node.as<expr::View>() || node.as<expr::Rechunk>() ||
         node.as<expr::Constant>() || node.as<expr::Index>();
}

// The chunks in which an array is read: chunks of what is stored do not change.
const Grid& stored_grid(const NodePtr& arg) {
  const auto* rechunk = arg->as<expr::Rechunk>();
  return rechunk != nullptr && !is_computed(*rechunk->arg) ? rechunk->arg->grid : arg->grid;
}

// Files are read by boxes.
bool is_of_file(const expr::Node* node) {
  for (;;) {
    if (const auto* view = node->as<expr::View>())
      node = view->arg.get();
    else if (const auto* rechunk = node->as<expr::Rechunk>())
      node = rechunk->arg.get();
    else
      return node->as<expr::Source>() != nullptr;
  }
}

}  // namespace

NodePtr in_pieces(const NodePtr& arg, const Grid& boxes) {
  constexpr double kMostChunks = 4, kMostWaste = 2;
  constexpr int64_t kMostPieces = int64_t{1} << 20;
  const Grid& chunks = stored_grid(arg);
  auto held = static_cast<double>(local::itemsize(arg->dtype)), read = held;
  double count = 1;  // of pieces, at least
  for (int d = 0; d < boxes.ndim(); ++d) {
    held *= static_cast<double>(most_overlapped(boxes.axis(d), chunks.axis(d)));
    read *= static_cast<double>(boxes.axis(d).largest());
    count *= static_cast<double>(std::max(boxes.axis(d).count(), chunks.axis(d).count()));
  }
  const auto most = kMostChunks * static_cast<double>(target_chunk_bytes(chunk_policy().device));
  if (held <= most || held < kMostWaste * read || is_of_file(arg.get())) return arg;
  if (count > static_cast<double>(kMostPieces)) return arg;
  std::vector<AxisChunks> cuts;
  for (int d = 0; d < boxes.ndim(); ++d) cuts.push_back(common_cuts(chunks.axis(d), boxes.axis(d)));
  Grid grid(std::move(cuts));
  return expr::apply(std::make_shared<Pieces>(std::move(grid), arg->chosen_grid), {arg});
}

}  // namespace quarry::algo
