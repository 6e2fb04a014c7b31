// Conversions between the language's values and what functions of local arrays take and return.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "quarry/apps/language/value.h"
#include "quarry/local/ops/arguments.h"

namespace quarry::apps::expression {

using local::NdArray;

// A number, a local array, or a sequence of such.
bool is_local_operand(const Value& value);
// As np.asarray: arrays as they are, numbers 0-d, sequences copied to the current device. Throws TypeError, and
// InvalidArgument for ragged sequences.
NdArray to_ndarray(const Value& value, std::optional<DType> dtype = std::nullopt);
// As Python prints a value, and as it writes it: a 0-d array as the NumPy scalar that NumPy would have made.
std::string local_text(const Value& value);
std::string local_repr(const Value& value);
// The items of a tuple or list; of a local or chunked array, its parts along the first axis. Throws TypeError for
// anything else, InvalidArgument for a chunked array of very many parts.
std::vector<Value> items_of(const Value& value, const std::string& what);
// An int or a 0-d array of integers, as operator.index takes it. Throws TypeError.
// The array that stands for a number: one of this process, or a chunked one without axes, which is computed (blocking,
// collective). Nothing where the value is neither.
std::optional<NdArray> number_array(const Value& value);
int64_t to_index(const Value& value, const std::string& what);
// The ints of a sequence or of a 1-d array of integers.
std::vector<int64_t> to_indices(const Value& value, const std::string& what);
// float(), of 0-d arrays too.
double to_real_number(const Value& value, const std::string& what);
bool to_truth(const Value& value, const std::string& what);
// A Python number stays weak, a 0-d array's value is strong.
Scalar to_local_scalar(const Value& value, const std::string& what);
DType to_local_dtype(const Value& value, const std::string& what);
// A strong scalar is an array without axes, a weak one a number.
Value from_scalar(const Scalar& scalar);

}  // namespace quarry::apps::expression
