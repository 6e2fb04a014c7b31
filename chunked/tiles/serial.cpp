#include "quarry/chunked/tiles/serial.h"

#include "quarry/local/base/error.h"

namespace quarry::tiles {
namespace {

NdArray box_of(const NdArray& array, const Region& box) {
  int64_t offset = array.offset();
  if (box.elements() > 0)
    for (int d = 0; d < box.ndim(); ++d) offset += array.strides()[d] * box.start[d];
  return array.restrided(box.count, array.strides(), offset);
}

class Serial final : public Program {
 public:
  Serial(const op::Call& call, std::span<const NdArray> arguments) : call_(call), arguments_(arguments) {}

  Tiles argument(int number) override {
    const auto at = static_cast<size_t>(number);
    return add(call_.arguments[at], &arguments_[at]);
  }
  Tiles result(int output) override { return add_result(output, nullptr); }
  Tiles result_from(int output, int argument) override {
    return add_result(output, &arguments_[static_cast<size_t>(argument)]);
  }
  Tiles workspace(const op::ArraySpec& spec) override { return add(spec, nullptr); }
  Tiles workspace_from(int argument) override { return this->argument(argument); }

  using Program::task;
  void task(const TileKernel& kernel, std::span<const Use> uses, Parameters parameters, Urgency /*urgency*/) override {
    std::vector<NdArray> tiles;
    for (const Use& use : uses) {
      Matrix& matrix = matrices_[static_cast<size_t>(use.tile.matrix)];
      NdArray& tile = matrix.tiles[static_cast<size_t>(matrix.grid.flat(Dims{use.tile.row, use.tile.column}))];
      if (use.mode == Use::Mode::write) tile = NdArray(matrix.grid.chunk_shape(index_of(use.tile)), matrix.dtype);
      QUARRY_CHECK(tile.size() == matrix.grid.chunk_elements(index_of(use.tile)));
      tiles.push_back(use.mode == Use::Mode::read ? tile.as_read_only() : tile);
    }
    kernel.run(tiles, parameters);
  }

  std::vector<NdArray> results() const {
    std::vector<NdArray> all;
    for (const op::ArraySpec& output : call_.outputs) all.emplace_back(output.shape, output.dtype);
    for (const auto& [output, number] : results_) {
      const Matrix& matrix = matrices_[static_cast<size_t>(number)];
      for (int64_t i = 0; i < matrix.grid.count(); ++i)
        box_of(all[static_cast<size_t>(output)], matrix.grid.chunk(i)).assign(matrix.tiles[static_cast<size_t>(i)]);
    }
    return all;
  }

 private:
  struct Matrix {
    Grid grid;
    local::DType dtype;
    std::vector<NdArray> tiles;
  };

  int64_t index_of(const Tile& tile) const {
    return matrices_[static_cast<size_t>(tile.matrix)].grid.flat(Dims{tile.row, tile.column});
  }
  Tiles add(const op::ArraySpec& spec, const NdArray* begins_as) {
    QUARRY_CHECK(spec.grid.ndim() == 2);
    Matrix matrix{spec.grid, spec.dtype, std::vector<NdArray>(static_cast<size_t>(spec.grid.count()))};
    for (int64_t i = 0; begins_as != nullptr && i < spec.grid.count(); ++i)
      matrix.tiles[static_cast<size_t>(i)] = box_of(*begins_as, spec.grid.chunk(i)).copy();
    matrices_.push_back(std::move(matrix));
    const Dims counts = spec.grid.counts();
    return {static_cast<int>(matrices_.size()) - 1, counts[0], counts[1]};
  }
  Tiles add_result(int output, const NdArray* begins_as) {
    results_.emplace_back(output, static_cast<int>(matrices_.size()));
    return add(call_.outputs[static_cast<size_t>(output)], begins_as);
  }

  const op::Call& call_;
  const std::span<const NdArray> arguments_;
  std::vector<Matrix> matrices_;
  std::vector<std::pair<int, int>> results_;  // (output, matrix)
};

}  // namespace

std::vector<NdArray> run_serially(const std::function<void(Program&)>& emit, const op::Call& call,
                                  std::span<const NdArray> arguments) {
  Serial program(call, arguments);
  emit(program);
  return program.results();
}

}  // namespace quarry::tiles
