// Stages of operators that make their chunks one by one (Operator::make_chunk).
#pragma once

#include <vector>

#include "quarry/chunked/exec/bodies/chunk.h"
#include "quarry/chunked/exec/lowering/builder.h"

namespace quarry::exec {

// Adds what make() of a chunk reads to `inputs`.
void prefetch_chunk(Builder& builder, const ChunkMaker& maker, int64_t chunk, std::vector<scheduler::BlockId>& inputs);
// Adds a task for each own chunk of the builder's stage.
void lower_chunks(Builder& builder, const plan::Applied& stage);

}  // namespace quarry::exec
