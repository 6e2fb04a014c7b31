// A tile program task by task in the order of the loop, in current_context(): what local() of its operator is, and the
// reference of its tests.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "quarry/chunked/op/operator.h"
#include "quarry/chunked/tiles/program.h"

namespace quarry::tiles {

// A program whose tiles are arrays of their own, of whole arguments; when its tasks run is left to who derives. The
// call and the arguments outlive it.
class WholeProgram : public Program {
 public:
  WholeProgram(const op::Call& call, std::span<const NdArray> arguments) : call_(call), arguments_(arguments) {}

  Tiles argument(int number) override;
  Tiles result(int output) override { return add_result(output, nullptr); }
  Tiles result_from(int output, int argument) override;
  Tiles workspace(const op::ArraySpec& spec) override { return add(spec, nullptr); }
  Tiles workspace_from(int argument) override { return this->argument(argument); }

  // The outputs of the call.
  std::vector<NdArray> results() const;

 protected:
  // The arrays for the uses of a task: new ones where it writes, read-only ones where it reads. Throws InternalError
  // where it reads or updates what nothing has written.
  std::vector<NdArray> arrays_of(std::span<const Use> uses);

 private:
  struct Matrix {
    Grid grid;
    local::DType dtype;
    std::vector<NdArray> tiles;
  };
  Tiles add(const op::ArraySpec& spec, const NdArray* begins_as);
  Tiles add_result(int output, const NdArray* begins_as);

  const op::Call& call_;
  const std::span<const NdArray> arguments_;
  std::vector<Matrix> matrices_;
  std::vector<std::pair<int, int>> results_;  // (output, matrix)
};

// The outputs of the call, of whole arguments.
std::vector<NdArray> run_serially(const std::function<void(Program&)>& emit, const op::Call& call,
                                  std::span<const NdArray> arguments);

}  // namespace quarry::tiles
