// Chunks reshaped one by one: chunk i of the result has the elements of chunk i of the argument, in their order. Every
// element moves once; a task holds its result and the chunk that it reads.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/copying.h"
#include "quarry/chunked/expr/build.h"

namespace quarry::algo {
namespace {

class ReshapeChunks final : public Copying {
 public:
  ReshapeChunks(Grid from, Grid to) : from_(std::move(from)), to_(std::move(to)) {}
  std::string_view name() const override { return "reshape_blockwise"; }
  std::string parameters() const override { return ", " + local::to_string(to_.shape()); }
  void hash(op::Hash& hash) const override { hash.add(from_).add(to_); }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t /*room*/) const override {
    return {{to_.shape(), arguments[0].dtype, to_, /*chosen_grid=*/true}};
  }

  std::vector<local::NdArray> local(std::span<const local::NdArray> arguments) const override {
    const local::NdArray& x = arguments[0];
    const local::NdArray result(to_.shape(), x.dtype());
    for (int64_t i = 0; i < to_.count(); ++i) {
      const Region box = to_.chunk(i);
      part(result, box).assign(part(x, from_.chunk(i)).reshape(box.count));
    }
    return {result};
  }

  std::vector<Piece> pieces(const op::Call& /*call*/, int64_t chunk) const override {
    Region box = from_.chunk(chunk);
    Dims strides = local::contiguous_strides(box.count, 1);
    return {{{0, std::move(box)}, 0, std::move(strides)}};
  }

 private:
  static local::NdArray part(const local::NdArray& array, const Region& box) {
    int64_t offset = array.offset();
    if (box.elements() > 0)
      for (int d = 0; d < box.ndim(); ++d) offset += array.strides()[d] * box.start[d];
    return array.restrided(box.count, array.strides(), offset);
  }

  const Grid from_, to_;
};

}  // namespace

NodePtr reshape_chunks(const NodePtr& arg, const Grid& grid) {
  QUARRY_CHECK(arg->grid.count() == grid.count());
  return expr::apply(std::make_shared<ReshapeChunks>(arg->grid, grid), {arg});
}

}  // namespace quarry::algo
