// The arguments and results of an operator's task as local arrays over the memory of blocks.
#pragma once

#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/ndarray/ndarray.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

// How a box of an argument reaches its task.
Access access_of(const plan::Applied& stage, const op::Need& need, int rank, const Ownership& owners);
// The same in the block that arrived, read-only.
local::NdArray argument_array(const plan::Applied& stage, const op::Need& need, const Access& access,
                              const scheduler::BlockView& block, const local::ExecContext& context);
// An output block, in C order.
local::NdArray result_array(const Dims& shape, local::DType dtype, const scheduler::BlockView& block,
                            const local::ExecContext& context);

}  // namespace quarry::exec
