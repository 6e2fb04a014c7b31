// Sorting along an axis that no task holds: the steps, which are put one after the other in chunked/api/ordering.cpp.
//
// Rows [0, n) of some keys and of what follows them lie in chunks, which are sorted: runs. Every n / `line` lines of
// rows are sorted by themselves. For all chunks of the result it is found exactly how much of each run stands before
// them: samples of the runs bracket the place, and what lies between the brackets is brought together and counted. A
// chunk of the result is then made of one stretch of every run. Equal rows stay in order, since runs come in the order
// of their chunks; so cuts are exact for any keys, and the result is the one that a stable sort has, whatever the
// chunks, ranks and budget.
//
// n rows are read once and written once in each of: the runs, the exchange, the merge; and with more than kMostRuns
// runs exchange and merge again for each further level of runs. Between the levels the result of a level is persisted.
// About n log2 n comparisons, on a GPU as many passes as keys have bytes. A rank of R receives at most n / R rows in
// each exchange, and the samples of all runs. Tasks hold a run with its sorted copy, or a chunk of the result with its
// stretches.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "quarry/chunked/algo/algo.h"

namespace quarry::algo {

// Elements [start, start + count) of an axis.
struct Stretch {
  int64_t start = 0, count = 0;
};
// Chunk after chunk of a result, the stretches that it is made of.
using Stretches = std::vector<std::vector<Stretch>>;

// Rows with the order of the last key, equal ones with that of the one before it, and so on.
struct SortedColumns {
  std::vector<NodePtr> keys;     // 1-d
  std::vector<NodePtr> carried;  // their first axes are as long as the keys and have the same chunks
};

struct SortStep {
  int64_t line = 0;        // rows of a line; chunks do not reach over its end
  bool keeps_keys = true;  // else the keys are not part of the result
  bool positions = false;  // the places of rows in their lines are added behind what is carried: int64
  bool signs = false;      // of one key of floats alone: negative zeros are before positive ones, and NaN alike
  int64_t stride = 0;      // every stride-th row of a chunk, from its first, is a sample; 0: there are none
  std::shared_ptr<const Stretches> stretches = nullptr;  // those that a chunk is made of are sorted already
};
struct SortedChunks {
  SortedColumns columns;
  std::vector<NodePtr> samples;  // of each key
};
// Every chunk sorted. One task per chunk; it holds a chunk, and that sorted.
SortedChunks sorted_chunks(const char* name, const SortedColumns& columns, const SortStep& step);
// What such a task takes for chunks of so many rows, with arguments and results.
int64_t sort_task_bytes(const SortedColumns& columns, const SortStep& step, int64_t rows);

// What sorting has on the way for each element of this dtype beside the estimate of a task
// (op::estimated_peak_bytes()), which is enough but for complex numbers. By a trial.
int64_t bytes_beside_sorted(local::DType dtype);

// Chunk i of the result: the i-th stretches of the first axis one after the other. One copying task per chunk. Axes but
// for the first are not cut.
NodePtr joined_stretches(const char* name, const NodePtr& arg, const std::shared_ptr<const Stretches>& stretches);

// The positions that sort rows by local keys, in stable order; `signs` as above.
local::NdArray order_of(std::span<const local::NdArray> keys, bool signs);

// order_of() the rows of each chunk of `cuts`: int64, in the same chunks. One task per chunk.
NodePtr orders_in_chunks(const char* name, const std::vector<NodePtr>& keys, const AxisChunks& cuts, bool signs);

// Of sorted stretches, joined to chunks by joined_stretches(): how many of each stretch are among the first `taken`
// rows of the chunk. int64, chunk after chunk. One task per chunk.
NodePtr counts_in_stretches(const std::vector<NodePtr>& keys, const std::shared_ptr<const Stretches>& stretches,
                            std::vector<int64_t> taken, bool signs);

}  // namespace quarry::algo
