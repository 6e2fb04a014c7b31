// Copies between host memory and arrays on any device, blocking and asynchronous.
#pragma once

#include "quarry/local/ndarray/ndarray.h"

namespace quarry::local {

// A new array of `context` with values from host memory in C order. Blocks until they are copied; the memory may be of
// any kind (pinned memory is faster).
NdArray from_host(const void* data, DType dtype, const Dims& shape, const ExecContext& context = current_context());
// The array's values, in C order, into host memory of array.nbytes() bytes. Blocks.
void to_host(const NdArray& array, void* data);

// The same queued on context.stream: `data` must stay as it is until the stream has come past. Only pinned memory lets
// the host go on meanwhile.
NdArray from_host_async(const void* data, DType dtype, const Dims& shape, const ExecContext& context);
void to_host_async(const NdArray& array, void* data, const ExecContext& context);

// An uninitialised array of the CPU in memory that copies to and from devices of `kind` run asynchronously with, from
// default_pinned_pool(kind): wait for copies before the last handle to the array goes.
NdArray pinned_empty(const Dims& shape, DType dtype, DeviceKind kind);

}  // namespace quarry::local
