// Reductions over rows with equal keys, chunk by chunk: what chunked/api/grouping.cpp is made of.
#pragma once

#include <span>
#include <vector>

#include "quarry/chunked/algo/algo.h"

namespace quarry::algo {

// How what is known of parts of a group becomes what is known of all of it.
enum class GroupState : uint8_t { sum, least, greatest };

// Which rows begin a group, of sorted local keys: bool. All NaN are one group.
local::NdArray starts_of_groups(std::span<const local::NdArray> keys);
// Of sorted local keys, then a column per state: the same with a row for each group.
std::vector<local::NdArray> grouped(std::span<const local::NdArray> columns, std::span<const GroupState> states);

struct GroupedChunks {
  std::vector<NodePtr> columns;        // keys, states: chunk i of as many rows as before, of which the first are groups
  NodePtr counts;                      // one per chunk: how many
  std::vector<NodePtr> firsts, lasts;  // of the columns, one row per chunk
};
// Each chunk of 1-d keys and columns of as many rows, in the order of keys, as its groups. `sorted`: the rows of a
// chunk are in order already. No chunk is empty. The last key orders first.
GroupedChunks grouped_chunks(const std::vector<NodePtr>& keys, const std::vector<NodePtr>& columns,
                             const std::vector<GroupState>& states, bool sorted);
// The memory that its task takes for each row of so many bytes, in as many columns, at most.
int64_t group_bytes(int64_t row_bytes, int64_t columns);

}  // namespace quarry::algo
