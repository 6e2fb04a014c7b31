// What the parts of the emulated device's engine share.
#pragma once

#include <functional>

#include "quarry/local/memory/exec_context.h"
#include "quarry/local/program/engine.h"

namespace quarry::local {

// Queues `call` on the context's emulated stream. Scratch is taken and given back in the calling thread, in stream
// order, in one piece of exactly `scratch_bytes`: a call that takes more fails. `call` gets a context of the CPU.
void queue_emulated(const ExecContext& context, int64_t scratch_bytes,
                    std::function<void(const ExecContext& host)> call);

Decompositions& emulated_decompositions();
Indexing& emulated_indexing();
Products& emulated_products();
RandomWords& emulated_random_words();
Scanning& emulated_scanning();
Sorting& emulated_sorting();
UserKernels& emulated_kernels();
SparseProducts& emulated_sparse();
Transforms& emulated_transforms();

}  // namespace quarry::local
