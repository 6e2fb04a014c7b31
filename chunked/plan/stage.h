// The physical plan: what the passes make of the logical graph, and what exec turns into tasks. Plain data, the same on
// every rank; chunk maps are closed forms, nothing here is proportional to the number of chunks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/grid/grid.h"
#include "quarry/chunked/grid/ownership.h"
#include "quarry/chunked/op/operator.h"
#include "quarry/io/dataset.h"
#include "quarry/local/program/program.h"

namespace quarry::plan {

// An array that a plan holds chunk-wise: output number `output` of stage `stage`, or a data set, or a persisted array;
// or one that exists inside a task only: that output of operator number `stage` of Fused::made.
struct ArrayRef {
  enum class Kind : uint8_t { stage, dataset, stored, made } kind = Kind::stage;
  int stage = -1, output = 0;
  std::shared_ptr<io::Dataset> dataset;
  std::shared_ptr<exec::StoredArray> stored;
  Owners owners = {};  // of the chunks of kind stage
};

// How the axes of a stage's space map to an array: element x of the space reads array[m(x)], m affine per axis (as
// expr::View).
struct AccessMap {
  std::vector<expr::View::Axis> axes;          // one per axis of the space; source -1: broadcast
  std::vector<std::pair<int, int64_t>> fixed;  // array axes no space axis maps
  // Diagonals: (axis of the space, an array axis that follows it beside its source). The region is the box around them.
  std::vector<std::pair<int, expr::View::Axis>> beside = {};
  static AccessMap identity(int ndim);
  // The part of the array that a box (steps 1) of the space reads: a region over the *array's* axes, steps as mapped.
  Region region(const Region& box, int array_ndim) const;
};

struct Input {
  ArrayRef array;
  AccessMap map;
  local::DType dtype;
  Dims shape;  // of the array
  Grid grid;   // of the array (dataset: the chunks it is read in)
  // A window: several views that differ only in where they begin, read together. Per axis of the array: elements from
  // the first view's beginning, which the map says, to the last one's; and the distance of the elements that are read.
  // Empty: one view.
  Dims reach = {}, pitch = {};

  bool is_window() const { return reach.size() > 0; }
  // Whether a box of the space reads elements that make a box of the array.
  bool is_box() const { return !is_window() && map.beside.empty(); }
  // Of the array that a box (steps 1) of the space reads, over the array's axes.
  Region region(const Region& box) const;
  int64_t region_bytes(const Dims& box) const;
  // The same where it is a data set, else 0.
  int64_t file_bytes(const Dims& box) const { return array.kind == ArrayRef::Kind::dataset ? region_bytes(box) : 0; }
};

struct Stage;

// --- kinds of work ---
//
// What all of planning and lowering asks of a stage, whatever its kind, stands with the kind; a kind that lacks an
// answer does not compile.
//   kind()            in plan listings
//   reads()           all that it reads, each once
//   is_barrier(o)     whether output `o` is complete only when all chunks of the stage were read
//   kStreams          whether chunk i of what is no barrier follows the chunks that chunk i reads (Applied: streams())
//   task_bytes(stage) of the largest task: what it reads, makes and takes beside that for one chunk, where one rank
//   owns
//                     everything. What programs take as scratch is left out: the executor has the last word
//   file_bytes(stage) that it reads from files

// Inputs of kind stage or stored: what a chunk of the stage's grid reads lies inside one chunk of the input's
// grid (an Assemble sees to it), but for windows, which may reach over any. Data sets: whatever the map says is read,
// over any number of file chunks.
//
// A fused program over every chunk of `grid`; elementwise outputs have the space's shape and grid. Reductions run over
// `reduce_axes`, states of the chunks combine along the fixed tree (DESIGN 8) and are finalised into arrays of the kept
// axes (with keepdims reinstated by views above); folds per chunk are not combined, and keep their axes.
struct Fused {
  local::Program program;
  // Operators that make chunk i of inputs of kind made, which have the space's chunks, in the task for chunk i.
  std::vector<std::shared_ptr<struct Applied>> made;
  std::vector<Input> inputs;
  // What an input of the program is: one of `inputs`, of a window the view that begins so many elements behind the
  // first one along each axis of the array.
  struct Slot {
    int input = 0;
    Dims offset = {};
  };
  std::vector<Slot> slots;  // per input of the program; empty: they are `inputs`
  struct ReductionOutput {
    int reduction;  // in program.reductions()
    double ddof = 0;
    local::DType dtype;  // of the result
  };
  uint32_t reduce_axes = 0;
  bool per_chunk = false;  // the states of each chunk are finalised by themselves: chunk i of the outputs is chunk i's
  std::vector<ReductionOutput> reductions;
  // outputs of the stage: program outputs first, then one per reduction.

  Slot slot(int number) const { return slots.empty() ? Slot{number} : slots[static_cast<size_t>(number)]; }

  // Inputs that arrive as blocks or are read from a file.
  bool arrives(size_t input) const { return inputs[input].array.kind != ArrayRef::Kind::made; }

  static constexpr bool kStreams = true;
  std::string_view kind() const { return reductions.empty() ? "map" : per_chunk ? "fold" : "reduce"; }
  std::vector<const Input*> reads() const;
  bool is_barrier(int output) const { return !per_chunk && output >= static_cast<int>(program.outputs().size()); }
  int64_t task_bytes(const Stage& stage) const;
  int64_t file_bytes(const Stage& stage) const;
};
// Every chunk of the output is copied together from a view of one array with other cuts.
struct Assemble {
  Input input;

  static constexpr bool kStreams = true;
  std::string_view kind() const { return "assemble"; }
  std::vector<const Input*> reads() const { return {&input}; }
  bool is_barrier(int /*output*/) const { return false; }
  int64_t task_bytes(const Stage& stage) const;
  int64_t file_bytes(const Stage& stage) const;
};
// c = a b over tiles; k runs in order of a's column chunks. syrk: a is b's conjugate transpose and not set, only b is
// read. The inputs are of kind stage or stored; their maps at most swap the last two axes or broadcast
// batch axes, and their cuts agree with the output's: rows of a, columns of b, batch axes; columns of a with rows of b.
struct MatMul {
  // Rows x columns of ranks for the tiles, in so many layers, of which each sums a part of k; `along_k`: where b's rows
  // are (chunked/exec/product_places.h). Rows 0: the owners of tiles, in no such order.
  struct Ranks {
    int rows = 0, columns = 0, layers = 1;
    bool along_k = false;
  };
  Input a, b;
  bool syrk = false;
  local::Precision precision = local::Precision::exact;
  Ranks ranks = {};  // settled with the owners

  static constexpr bool kStreams = false;
  std::string_view kind() const { return syrk ? "syrk" : "matmul"; }
  std::vector<const Input*> reads() const;
  bool is_barrier(int /*output*/) const { return true; }
  int64_t task_bytes(const Stage& stage) const;
  int64_t file_bytes(const Stage& /*stage*/) const { return 0; }
};
// An algorithm of chunked/algo. Input number i is argument number i; its map is over the argument's axes. Where the
// operator wants no chunks, an input is whatever array the argument is a view of.
struct Applied {
  op::OperatorPtr op;
  std::vector<Input> inputs;
  op::Call call;
  bool one_chunk = false;  // one task calls local_into()
  // Per argument, or empty: elementwise work, with one output, over the argument's axes. It computes the boxes that a
  // task needs; the input of that number is not read.
  std::vector<std::optional<Fused>> prologues = {};

  const Fused* prologue(int argument) const {
    if (prologues.empty()) return nullptr;
    const std::optional<Fused>& work = prologues[static_cast<size_t>(argument)];
    return work ? &*work : nullptr;
  }
  // That the task for a chunk takes beside the outputs.
  int64_t chunk_bytes(int64_t chunk) const;
  bool streams() const { return op->streams() && !one_chunk; }
  std::string_view kind() const { return op->name(); }
  std::vector<const Input*> reads() const;
  bool is_barrier(int /*output*/) const { return !streams(); }
  int64_t task_bytes(const Stage& stage) const;
  int64_t file_bytes(const Stage& stage) const;
};

struct Stage {
  std::variant<Fused, Assemble, MatMul, Applied> work;
  std::string label;  // for plan listing and trace: "mean(sqrt(x * x + 1))"
  Dims shape;         // of the space (Fused) or of output 0
  Grid grid;          // of the space (Fused) or of output 0
  struct Output {
    Dims shape;
    local::DType dtype;
    Grid grid;
    Owners owners = {};  // settled; the lowering's (chunked/exec/lowering/lowering.h)
  };
  std::vector<Output> outputs;
  Owners owners = {};                                 // of the tasks of `grid`; settled
  local::DeviceKind device = local::DeviceKind::cpu;  // that its tasks run on

  // Of its kind of work.
  std::string_view kind() const;
  std::vector<const Input*> reads() const;
  std::vector<Input*> reads();
  bool is_barrier(int output) const;
  int64_t task_bytes() const;
  int64_t file_bytes() const;
};

struct PassTime {
  std::string_view name;
  double seconds;
  std::string did;  // what it changed; empty: nothing
};

// An expression may be computed by several stages (z in z.T @ z and, after the eigenvectors are known, in z @ vectors),
// so that data-sized intermediates need not outlive a pass: such a stage has one consumer and belongs into its phase,
// not into the first one that its own inputs allow.
struct Plan {
  std::vector<Stage> stages;      // producers first
  std::vector<ArrayRef> results;  // one per requested array, in order
  uint64_t hash = 0;              // the same on every rank
  std::string note;               // why chunks are not what they would be by default; empty: they are
  int64_t keeping_bytes = 0;      // with a note: PlanOptions::memory_bytes that would keep them
  std::vector<PassTime> passes;   // that made it, in order
};

using PassNames = std::set<std::string, std::less<>>;
// The passes that "-cse,-syrk" switches off. Throws InvalidArgument, naming the passes, for another text.
PassNames parse_passes(std::string_view text);

struct PlanOptions {
  local::DeviceKind device = local::DeviceKind::cpu;
  int64_t memory_bytes = 0;   // budget per rank; 0: no limit known
  PassNames passes_off = {};  // the same on every rank
  int ranks = 0;              // for how chunks are brought together, never for what is computed; 0: any
};
// Runs the passes (passes.h). Throws InvalidArgument.
Plan make_plan(const std::vector<expr::NodePtr>& results, const PlanOptions& options);
// One line per stage with chunks and bytes, for --plan.
std::string describe(const Plan& plan);
// "cse 0.1 ms, views 0.2 ms": the passes that made it, and how long they took.
std::string describe_passes(const Plan& plan);
// "pass offsets: 3 views that begin elsewhere ...\n": a line for each pass that changed something.
std::string describe_changes(const Plan& plan);

}  // namespace quarry::plan
