// Running programs over NdArrays: what every eager function ends in.
#pragma once

#include <span>

#include "quarry/local/device/range.h"
#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/program/engine.h"

namespace quarry::local {

// The context for work on arrays of `device`: the current one if it is for that device, else the device's default.
ExecContext context_for(Device device);
// The device that all arrays are on; throws InvalidArgument naming two of them otherwise.
Device common_device(std::span<const NdArray* const> arrays);

// The array as an operand over `space`, to which its shape broadcasts.
Operand operand(const NdArray& array, const Dims& space);

// Queues an elementwise program over the outputs' shape (all have the same); inputs broadcast to it. An output may be
// an input, element for element, but must not overlap one otherwise.
void run_elementwise(const Program& program, std::span<const NdArray* const> inputs,
                     std::span<const NdArray* const> outputs, const ExecContext& context);

// False on a trial device, whose arrays have shape and dtype alone.
inline bool has_values(const NdArray& array) { return array.device().kind != DeviceKind::trial; }
// item() of what decides about an error or a faster way alone, and not about the results' shapes and dtypes; `in_trial`
// where the array has no value.
inline Scalar item_or(const NdArray& array, const Scalar& in_trial) {
  return has_values(array) ? array.item() : in_trial;
}

// Whether the elements of a and b may share memory, judged by device and address ranges: the same memory may have been
// imported twice.
bool may_overlap(const NdArray& a, const NdArray& b);

}  // namespace quarry::local
