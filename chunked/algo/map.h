// Functions of chunks: every chunk of the outputs is what a function of local arrays makes of boxes of the arguments.
//
// An axis of an argument is read whole for every chunk, or follows an axis of the output by cuts of its own, with a
// halo on either side that may reach over any number of chunks. One task per chunk; it holds the boxes, the outputs and
// the function's scratch. Boxes inside a chunk are read where they lie; others are copied together once, beyond the
// array's edges as well.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/grid/chunk_function.h"
#include "quarry/local/base/detail.h"

namespace quarry::algo {

using expr::NodePtr;

// How an axis of an argument follows the outputs.
struct Along {
  int axis = -1;                     // of output 0; -1: the whole axis for every chunk
  AxisChunks cuts;                   // chunk i reads [cuts.start(i) - before, cuts.start(i + 1) + after)
  std::vector<int64_t> chunks = {};  // the chunks of `cuts` that are read, in order; empty: all
  int64_t before = 0, after = 0;     // elements
  Edge edge = Edge::clip;
  local::Scalar fill = 0;

  int64_t count() const { return chunks.empty() ? cuts.count() : std::ssize(chunks); }
  static Along whole() { return {}; }
  static Along following(int axis, AxisChunks cuts) { return {axis, std::move(cuts)}; }
};

struct MapSpec {
  std::string name;                       // in listings, traces and errors
  uint64_t identity = 0;                  // tells functions apart; the same on every rank
  std::vector<std::vector<Along>> along;  // per argument, per axis
  std::vector<op::ArraySpec> outputs;     // of as many chunks each
  ChunkFunction function;
  std::optional<int64_t> scratch_bytes;  // that the function takes at most at once, results included; none: estimated
  // Beside an estimate: what it takes for positions and masks, for every element of arguments and results.
  int64_t bytes_per_element = 0;
  // Without scratch_bytes: found by a trial and not estimated; the function calls quarry::local alone, and reads no
  // values.
  bool by_trial = false;
  // Chunks may be cut further where a task does not fit the budget: the result for a part of a chunk is that part of
  // the chunk's, to the bit. Arguments follow the outputs by their own cuts, without halos.
  bool may_be_cut = false;
  std::optional<int> selects_along = {};  // as Operator's
  bool calls_program = false;             // the same
  bool reads_sorted = false;              // the same
  // Instead of `function`: writes the chunks of the outputs itself, so that large ones are not copied.
  std::function<void(std::span<const local::NdArray>, const ChunkPlace&, std::span<const local::NdArray> outputs)>
      into = nullptr;
};

// One node per output. Throws InvalidArgument where cuts and chunks do not agree. Errors inside the function name it
// and the chunk; results of other shapes and dtypes are InvalidArgument. Lazy.
std::vector<NodePtr> map(MapSpec spec, std::vector<NodePtr> arguments);

}  // namespace quarry::algo
