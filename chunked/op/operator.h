// Operators: all that planning and lowering ask of an algorithm. An algorithm is one file in chunked/algo that derives
// from Operator, or from a class there that does most of the work (Map, LocalCall), and its declaration in
// chunked/algo/algo.h; no other file knows its name.
//
// A node `expr::Apply` holds an operator and its arguments, and becomes one stage `plan::Applied`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/chunked/grid/grid.h"
#include "quarry/chunked/grid/ownership.h"
#include "quarry/chunked/op/hash.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::exec {
class Builder;  // chunked/exec/lowering/builder.h
}
namespace quarry::plan {
struct Applied;  // chunked/plan/stage.h
}

namespace quarry::op {

using local::DType;
using local::NdArray;

// An array as an operator sees it before there are values.
struct ArraySpec {
  Dims shape;
  DType dtype = DType::float64;
  Grid grid;
  bool chosen_grid = false;  // the chunks are the user's choice: the planner does not halve them
  bool generated = false;    // of an argument: made of constants and positions, its grid yields to that of others
  Owners owners = {};        // of an output that is not made in one chunk

  int64_t bytes() const { return local::element_count(shape) * local::itemsize(dtype); }
  bool is_one_chunk() const { return grid.count() == 1; }
};
// A result in one chunk.
ArraySpec in_one_chunk(const Dims& shape, DType dtype);

// Arguments, and what infer() made of them. When planning, grids of outputs are those that will be computed; grids of
// arguments are those of their nodes, and what a stage reads may be cut otherwise.
struct Call {
  std::vector<ArraySpec> arguments, outputs;
  int64_t room = 0;  // bytes for one task; 0: unlimited
};

// A box of an argument, over its own axes and inside its shape. May be empty.
struct Need {
  int argument = 0;
  Region box;
};

// Elements start + step * i, i in [0, count), of an axis.
struct AxisSlice {
  int64_t start = 0, count = 0, step = 1;
};
using Slices = std::vector<AxisSlice>;  // one per axis

class Operator;
using OperatorPtr = std::shared_ptr<const Operator>;

// An operator that makes only some slices of the output, from slices of the arguments. No operator: the one argument
// is the result.
struct Sliced {
  struct Argument {
    int number;  // of the arguments of the whole
    Slices slices;
  };
  OperatorPtr op;
  std::vector<Argument> arguments;
};

// Immutable; what its functions answer depends on its parameters and their arguments alone, so that every rank gets the
// same.
class Operator {
 public:
  virtual ~Operator() = default;

  virtual std::string_view name() const = 0;             // in plan listings, traces and errors
  virtual std::string parameters() const { return {}; }  // in listings, behind the arguments: ", axis=0"
  virtual void hash(Hash& hash) const = 0;               // every parameter: for CSE and the plan's hash
  // The outputs, at least one. The user's mistakes throw here, on every rank alike. `room`: bytes for one task, 0 while
  // building and where there is no limit. Shapes and dtypes do not depend on room.
  virtual std::vector<ArraySpec> infer(std::span<const ArraySpec> arguments, int64_t room) const = 0;
  // The chunks that argument number `argument` must come in, with the room that infer() had; none: any, also a view of
  // an array with other cuts.
  virtual std::optional<Grid> wants(int /*argument*/, const Call& /*call*/, int64_t /*room*/) const { return {}; }

  // The same on whole local arrays, in current_context(): for stages of one chunk, and the tests' reference.
  virtual std::vector<NdArray> local(std::span<const NdArray> arguments) const = 0;
  // The same into arrays of the inferred shapes and dtypes. Throws InvalidArgument where local() gives others.
  virtual void local_into(std::span<const NdArray> arguments, std::span<const NdArray> outputs) const;
  // Bytes that local_into() takes from the context's memory on the device at most at once; none: not known.
  virtual std::optional<int64_t> local_bytes(const Call& /*call*/, const local::Device& /*device*/) const { return {}; }
  // What its task takes in all, for the planner: an estimate that is the same on every rank.
  virtual int64_t local_task_bytes(const Call& call) const;

  // Whether lower() is there. Without it the operator is for arrays of one chunk, or of several that fit one task:
  // their stage is a task that calls local_into() on the owner of chunk 0.
  virtual bool is_chunked() const { return false; }
  // Whether chunk i of every output follows the boxes that needs() names for it; all outputs have as many chunks then.
  // Else what reads an output waits for the whole stage.
  virtual bool streams() const { return false; }
  // Whether it is a tile program (chunked/tiles/program.h): its tasks have an order of their own, in which arguments
  // may be read at any time, so these are finished before it begins.
  virtual bool is_program() const { return false; }
  // The additions and multiplications of all its tasks, of products and decompositions of matrices. Only where
  // is_program().
  virtual double program_flops(const Call& /*call*/) const { return 0; }
  // What the task for chunk `chunk` reads, at most: order, transfers, bytes and listings come from it. Default: all.
  virtual void needs(const Call& call, int64_t chunk, std::vector<Need>& needs) const;
  // What that task takes beside needs and outputs.
  virtual int64_t scratch_bytes(const Call& /*call*/, int64_t /*chunk*/) const { return 0; }
  // Whether make_chunk() is there. Elementwise work before and behind such an operator can run in its tasks.
  virtual bool makes_chunks() const { return false; }
  // Chunk `chunk` of the outputs by local functions, in current_context(): `pieces` are arrays over the boxes of
  // needs(), in order, read-only.
  virtual void make_chunk(const Call& call, int64_t chunk, std::span<const NdArray> pieces,
                          std::span<const NdArray> outputs) const;
  // The same as new arrays in C order, in memory of the context. Default: those that make_chunk() has written to.
  virtual std::vector<NdArray> made_chunk(const Call& call, int64_t chunk, std::span<const NdArray> pieces) const;
  // Whether its tasks call functions of the program, which may take any time.
  virtual bool calls_program() const { return false; }
  // Whether its functions read stretches of rows that ascend, and may fail for others: of what it is measured with too.
  virtual bool reads_sorted() const { return false; }
  // Whether it only moves bytes, and so takes data of files in any byte order.
  virtual bool copies() const { return false; }
  // Set where the result is what argument 1, a mask as long as this axis, selects of argument 0, and every chunk of
  // argument 0 gives some of it.
  virtual std::optional<int> selects_along() const { return {}; }
  // For views of the result that are to reach the arguments; null where there is no such form.
  virtual std::optional<Sliced> sliced(const Call& /*call*/, const Slices& /*slices*/) const { return {}; }
  // Adds this rank's tasks of the builder's stage. Only where is_chunked().
  virtual void lower(exec::Builder& builder, const plan::Applied& stage) const;
};

// Writes what a function gave to arrays of the declared shapes and dtypes. Throws InvalidArgument where they differ.
void assign_results(const std::vector<NdArray>& results, std::span<const NdArray> outputs);
// The chunks of outputs that a function gave, as made_chunk() is to have them: what is not so, or holds more memory
// than it needs, is copied. Throws as above.
std::vector<NdArray> taken_results(std::vector<NdArray> results, const Call& call, int64_t chunk);

// What a task that calls local_into() reserves beside arguments and outputs: what the operator states, else
// function_peak_bytes() of local(), and library_bytes() where that calls the program.
int64_t local_peak_bytes(const Operator& op, const Call& call, const local::Device& device);
// The bytes that a function of local arrays takes at most at once, results included, for arguments of these shapes and
// dtypes and results of so many bytes: an estimate.
using LocalFunction = std::function<std::vector<NdArray>(std::span<const NdArray>)>;
int64_t function_peak_bytes(std::span<const ArraySpec> arguments, int64_t result_bytes);
// What a GPU's libraries take beside for matrices of any size: for functions that may call them.
int64_t library_bytes(local::DeviceKind kind);
// The estimate, for arrays of so many bytes together.
int64_t estimated_peak_bytes(int64_t bytes);
// What a task takes for each of many elements, whose arguments and results have so many bytes: these and the estimate.
int64_t element_task_bytes(int64_t bytes);

// Bytes that the arrays of a call have together.
int64_t bytes_of(const Call& call);

}  // namespace quarry::op
