// The engine of the emulated device, and the queue that it puts the CPU's calls on.
#pragma once

#include <functional>

#include "quarry/local/memory/exec_context.h"
#include "quarry/local/program/engine.h"

namespace quarry::local {

Engine& emulated_engine();

// Queues `call` on the context's emulated stream. Scratch is taken and given back in the calling thread, in stream
// order, in one piece of exactly `scratch_bytes`: a call that takes more fails. `call` gets a context of the CPU.
void queue_emulated(const ExecContext& context, int64_t scratch_bytes,
                    std::function<void(const ExecContext& host)> call);

}  // namespace quarry::local
