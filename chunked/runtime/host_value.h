// Values of stored arrays in host memory, and the copies of regions that they are put together by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quarry/chunked/exec/stored_array.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/comm/communicator.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"
#include "quarry/local/memory/budget.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::exec {

// Who asked for values in the memory of every rank: the program, or a computation that goes on by them; of one that is
// guessed, which can go on where nothing runs (--plan), zeros then stand for them.
enum class HostValues : uint8_t { asked, needed, guessed };
// Throws BudgetError, on every rank, where the values do not fit the smallest rank's memory budget (device kinds: both
// of its budgets together). Collective.
void check_host_values(std::span<const expr::NodePtr> nodes, HostValues why, const comm::Call& call);

// The value in host memory on every rank, beside the chunks. Collective, blocking.
local::NdArray host_value(const StoredArray& array);
// The same in place of the chunks: the array's own ones are given up one by one as they are copied, and on the
// CPU the copy is in the budget for as long as `reserved` lives: chunks and copy together take little more than one of
// them. Throws OutOfMemory where other persisted arrays leave no room. Collective, blocking.
local::NdArray take_host_value(StoredArray& array, std::vector<local::Reservation>& reserved);

// Copies between C-contiguous host arrays: all of one is a hyperslab of the other.
void copy_region(void* to, const Dims& to_strides, const void* from, const Dims& from_strides, const Dims& count,
                 local::DType dtype);

int64_t offset_of(const Dims& start, const Dims& strides);

}  // namespace quarry::exec
