// Values of stored arrays in host memory, and the copies of regions that they are put together by.
#pragma once

#include "quarry/chunked/exec/stored_array.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::exec {

// The value in host memory on every rank. Collective, blocking.
local::NdArray host_value(const StoredArray& array);

// Copies between C-contiguous host arrays: all of one is a hyperslab of the other.
void copy_region(void* to, const Dims& to_strides, const void* from, const Dims& from_strides, const Dims& count,
                 local::DType dtype);

int64_t offset_of(const Dims& start, const Dims& strides);

}  // namespace quarry::exec
