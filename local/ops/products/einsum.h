// Einstein's summation convention.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/precision.h"

namespace quarry::local::ops {

// Numbers from 0 to 51 and an ellipsis.
using EinsumLabels = std::vector<std::variant<int64_t, Ellipsis>>;
// "ij,jk->ik" and the operands, or each operand followed by its list of labels, and the output's list. A list may also
// be an array of integers.
using EinsumOperands = std::vector<std::variant<std::string, NdArray, EinsumLabels>>;
// How several operands are contracted. false: all at once, without intermediates; true and "greedy", "optimal": in
// pairs, in an order found that way; one of these names with the largest number of elements of an intermediate; or a
// path as einsum_path() gives it. Nothing is as true to einsum(), as false to einsum_path().
using EinsumOptimize = std::variant<bool, std::monostate, std::string, std::pair<std::string, double>,
                                    std::vector<std::variant<std::string, Ints>>>;
using EinsumPath = std::vector<std::variant<std::string, Dims>>;

// np.einsum: all of its subscripts: ellipsis, implicit and explicit output, repeated labels, axes of one element that
// broadcast. A single operand that is not summed gives a view, of its own dtype. Two operands are one batched matrix
// product; three or more are contracted in pairs, in an order found greedily whose intermediates are not larger than
// the largest operand or the result, unless `optimize` says otherwise; intermediates of the 16-bit
// floats are float32. The dtype is the promoted one, or `dtype`, to which the operands must cast by `casting`. `order`:
// a new result's layout, C, F, A (F where all operands have it) or K (any). `precision`: as of matmul(). Throws
// InvalidArgument with NumPy's texts for subscripts and shapes that do not fit, TypeError for casts. Does not wait for
// the result.
NdArray einsum(const EinsumOperands& operands, const std::optional<NdArray>& out = std::nullopt,
               const EinsumOptimize& optimize = std::monostate{}, std::optional<DType> dtype = std::nullopt,
               std::string_view order = "K", Casting casting = Casting::safe, Precision precision = Precision::exact);

// np.einsum_path: the order of contractions, as a list that begins with "einsum_path" and then has the positions that
// each step takes out of the list of operands, at whose end its result is put; and a description. `einsum_call` must be
// false.
std::pair<EinsumPath, std::string> einsum_path(const EinsumOperands& operands,
                                               const EinsumOptimize& optimize = std::string("greedy"),
                                               bool einsum_call = false);

}  // namespace quarry::local::ops
