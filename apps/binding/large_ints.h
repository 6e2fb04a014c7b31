// Ints beyond 64 bits, which no array holds, among the arguments of functions.
#pragma once

#include <span>
#include <vector>

#include "quarry/apps/language/value.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/program/op.h"

namespace quarry::apps::expression {

bool holds_large_int(std::span<const Value> values);
// As NumPy: beside an argument that is floating point (a number, an array, a sequence or a dtype) such an int is the
// nearest float. Others stay, and are refused where they are converted. Throws InvalidArgument for ints beyond the
// largest float.
std::vector<Value> with_large_ints_as_floats(std::span<const Value> values);
// The same for the operands of a ufunc: they are floats too where its loops are, and compare with integers as numbers
// beyond all of them.
std::vector<Value> with_large_operands(local::Op op, std::span<const Value> operands, std::optional<DType> dtype);

}  // namespace quarry::apps::expression
