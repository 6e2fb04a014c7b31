// Headers as text, for sources that are compiled at run time (scripts/cmake/QuarryEmbed.cmake).
#pragma once

namespace quarry::local {

extern const char* const embedded_half;          // local/base/half.h
extern const char* const embedded_device_math;   // local/program/device_math.h
extern const char* const embedded_op_functions;  // local/program/op_functions.h
extern const char* const embedded_kernel_types;  // local/program/kernel_types.inl

}  // namespace quarry::local
