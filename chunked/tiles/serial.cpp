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

class Serial final : public WholeProgram {
 public:
  using Program::task;
  using WholeProgram::WholeProgram;
  void task(const TileKernel& kernel, std::span<const Use> uses, Parameters parameters, Urgency /*urgency*/) override {
    kernel.run(arrays_of(uses), parameters);
  }
};

}  // namespace

Tiles WholeProgram::argument(int number) {
  const auto at = static_cast<size_t>(number);
  return add(call_.arguments[at], &arguments_[at]);
}

Tiles WholeProgram::result_from(int output, int argument) {
  return add_result(output, &arguments_[static_cast<size_t>(argument)]);
}

std::vector<NdArray> WholeProgram::arrays_of(std::span<const Use> uses) {
  std::vector<NdArray> tiles;
  for (const Use& use : uses) {
    Matrix& matrix = matrices_[static_cast<size_t>(use.tile.matrix)];
    const int64_t index = matrix.grid.flat(Dims{use.tile.row, use.tile.column});
    NdArray& tile = matrix.tiles[static_cast<size_t>(index)];
    if (use.mode == Use::Mode::write) tile = NdArray(matrix.grid.chunk_shape(index), matrix.dtype);
    QUARRY_CHECK(tile.size() == matrix.grid.chunk_elements(index));
    tiles.push_back(use.mode == Use::Mode::read ? tile.as_read_only() : tile);
  }
  return tiles;
}

std::vector<NdArray> WholeProgram::results() const {
  std::vector<NdArray> all;
  for (const op::ArraySpec& output : call_.outputs) all.emplace_back(output.shape, output.dtype);
  for (const auto& [output, number] : results_) {
    const Matrix& matrix = matrices_[static_cast<size_t>(number)];
    for (int64_t i = 0; i < matrix.grid.count(); ++i)
      box_of(all[static_cast<size_t>(output)], matrix.grid.chunk(i)).assign(matrix.tiles[static_cast<size_t>(i)]);
  }
  return all;
}

Tiles WholeProgram::add(const op::ArraySpec& spec, const NdArray* begins_as) {
  QUARRY_CHECK(spec.grid.ndim() == 2);
  Matrix matrix{spec.grid, spec.dtype, std::vector<NdArray>(static_cast<size_t>(spec.grid.count()))};
  for (int64_t i = 0; begins_as != nullptr && i < spec.grid.count(); ++i)
    matrix.tiles[static_cast<size_t>(i)] = box_of(*begins_as, spec.grid.chunk(i)).copy();
  matrices_.push_back(std::move(matrix));
  const Dims counts = spec.grid.counts();
  return {static_cast<int>(matrices_.size()) - 1, counts[0], counts[1]};
}

Tiles WholeProgram::add_result(int output, const NdArray* begins_as) {
  results_.emplace_back(output, static_cast<int>(matrices_.size()));
  return add(call_.outputs[static_cast<size_t>(output)], begins_as);
}

std::vector<NdArray> run_serially(const std::function<void(Program&)>& emit, const op::Call& call,
                                  std::span<const NdArray> arguments) {
  Serial program(call, arguments);
  emit(program);
  return program.results();
}

}  // namespace quarry::tiles
