// Rows in the order of keys, where no task holds them: what sorting.h, sets.h and grouping.h do with arrays of any
// length. Private to this folder and its tests.
#pragma once

#include <string>
#include <vector>

#include "quarry/chunked/api/array.h"

namespace quarry::ordering {

struct Request {
  std::vector<Array> keys;          // 1-d and as long; the last one orders first, as lexsort has it
  std::vector<Array> carried = {};  // whose rows follow
  int64_t line = 0;                 // so many rows each are ordered by themselves; 0: all
  bool keeps_keys = true;           // whether the keys are wanted, too
  bool signs = false;               // of one key of floats alone: as SortStep::signs (chunked/algo/sort.h)
  bool positions = false;           // whether the places in their lines are: int64, behind what is carried
};
struct Ordered {
  std::vector<Array> keys, carried;
};

// How runs are made, exchanged and merged (chunked/algo/sort.h). The same on every rank.
struct Layout {
  AxisChunks runs;       // of all rows: sorted by themselves
  AxisChunks chunks;     // of the result: equal ones in every line
  int64_t stride = 0;    // a sample is taken from so many rows
  int64_t together = 0;  // runs that are merged at once
  int levels = 0;        // of merging
};
Layout layout_of(const Request& request);
std::string to_string(const Layout& layout);  // for people

// In stable order. The runs are sorted, sampled and split at the call: collective, blocking. The last merge is lazy. A
// task holds a chunk of the result twice, with what sorting it takes; all rows are kept once, and spilled where they do
// not fit.
Ordered ordered(const Request& request);
// Whether lines of so many elements, in `arrays` arguments and results that have `item_bytes` together, come to one
// task each: where they are short beside a task of this Runtime, and no longer than some chunks of the usual size or on
// the only GPU.
bool is_whole(int64_t line, int64_t arrays, int64_t item_bytes);

}  // namespace quarry::ordering
