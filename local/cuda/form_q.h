// Householder vectors to Q, for stacks of small matrices.
#pragma once

#include "local/cuda/compiler.h"
#include "local/cuda/stream.h"
#include "local/program/decompositions.h"

namespace quarry::local::cuda {

// What FormQ says, from a copy of task.a elsewhere on the device.
void form_q(const FormQ& task, const void* factors, CudaStream& stream);

// The kernel, for the tests that compile it.
ModuleSource form_q_source();

}  // namespace quarry::local::cuda
