// Launches over made-up addresses, and compilations, for tests that generate and compile kernels but never run them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quarry/local/base/shape.h"
#include "quarry/local/cuda/compiler.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/program/program.h"

namespace quarry::local::cuda {

inline void* address(int64_t offset = 0) { return reinterpret_cast<void*>((int64_t{1} << 40) + offset); }

// Machine code for debuggers: without the passes that optimise it, which take most of the time.
inline std::string compile_quickly(const std::string& source) {
  return compile(ModuleSource{source, {}, {"--device-debug"}}, /*architecture=*/90).code;
}

// Strides of `shape` over the iteration space, 0 along reduced axes.
inline Dims state_strides(const Dims& shape, uint32_t reduce_axes, int64_t itemsize) {
  Dims strides = Dims::filled(shape.size());
  int64_t step = itemsize;
  for (int d = shape.size(); d-- > 0;) {
    if (reduce_axes >> d & 1u) continue;
    strides[d] = shape[d] == 1 ? 0 : step;
    step *= shape[d];
  }
  return strides;
}

// C-contiguous operands.
inline Launch contiguous_launch(const Program& program, const Dims& shape, uint32_t reduce_axes = 0) {
  Launch launch;
  launch.shape = shape;
  launch.reduce_axes = reduce_axes;
  for (int i = 0; i < program.inputs(); ++i)
    launch.inputs.push_back({address(), contiguous_strides(shape, itemsize(program.input_dtype(i)))});
  for (const ValueId id : program.outputs())
    launch.outputs.push_back({address(), contiguous_strides(shape, itemsize(program.dtype(id)))});
  for (const ProgramReduction& reduction : program.reductions())
    for (const DType dtype : state_dtypes(reduction.reduction, reduction.accumulate))
      launch.states.push_back({address(), state_strides(shape, reduce_axes, itemsize(dtype))});
  return launch;
}

}  // namespace quarry::local::cuda
