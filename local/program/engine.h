// Running programs and the heavy local operations on a device kind.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quarry/local/memory/exec_context.h"
#include "quarry/local/program/program.h"
#include "quarry/local/program/triangle.h"

namespace quarry::local {

// A strided array as a program sees it. Strides in bytes, one per axis of the iteration space, 0 along broadcast axes,
// negative allowed.
struct Operand {
  void* data = nullptr;
  Dims strides;
};

struct Launch {
  Dims shape;                    // the iteration space
  Dims index_offset;             // global position of its origin (Program::index); empty means zeros
  std::vector<Operand> inputs;   // Program::inputs() of them
  std::vector<Operand> outputs;  // one per Program::outputs(); must not overlap inputs except when identical
  uint32_t reduce_axes = 0;      // bit d: axis d is reduced
  std::vector<Operand> states;   // fields of all reductions in order, strides over the space (0 on reduced axes);
                                 // written, not merged into
};

// Row-major matrix: element (i, j) at data + i * row_stride + j * column_stride (in elements); one of the strides is 1.
struct MatrixView {
  void* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 0;
};

class Decompositions;  // local/program/decompositions.h
class Indexing;        // local/program/indexing.h
class Products;        // local/program/products.h
class RandomWords;     // local/program/bit_generators.h
class Scanning;        // local/program/scanning.h
class Sorting;         // local/program/sorting.h
class SparseProducts;  // local/program/sparse.h
class UserKernels;     // local/program/kernels.h
class Transforms;      // local/program/transforms.h

// Implemented by local/cpu and local/cuda, and queued by the emulated device. All calls queue their work on
// context.stream; scratch comes from context.memory and is at most what the *_scratch_bytes() function says.
// Thread-safe for different streams.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual int64_t run_scratch_bytes(const Program& program, const Launch& launch) = 0;
  virtual void run(const Program& program, const Launch& launch, const ExecContext& context) = 0;
  // The program once per launch, with the scratch of the context of the same number; all contexts are of one stream.
  // The bits are those of run(). A GPU takes launches that differ in addresses and index_offset only in one kernel.
  virtual void run_each(const Program& program, std::span<const Launch> launches,
                        std::span<const ExecContext> contexts) {
    for (size_t i = 0; i < launches.size(); ++i) run(program, launches[i], contexts[i]);
  }

  virtual Decompositions& decompositions() = 0;
  virtual Indexing& indexing() = 0;
  virtual Products& products() = 0;
  virtual RandomWords& random_words() = 0;
  virtual Scanning& scanning() = 0;
  virtual Sorting& sorting() = 0;
  virtual SparseProducts& sparse() = 0;
  virtual UserKernels& kernels() = 0;
  virtual Transforms& transforms() = 0;
};

// The engine of a device's kind.
Engine& engine(Device device);

}  // namespace quarry::local
