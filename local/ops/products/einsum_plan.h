// What einsum() and einsum_path() do before any array work: subscripts, extents and the order of contractions.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "quarry/local/base/shape.h"
#include "quarry/local/ops/products/einsum.h"

namespace quarry::local::ops {

// Axes are named by letters; those of an ellipsis get letters that are not in use.
struct EinsumTerms {
  std::vector<std::string> inputs;
  std::string output;
  std::array<int64_t, 128> extents{};  // by letter
  std::vector<Dims> shapes;            // of the operands
  std::vector<NdArray> operands;       // where they are arrays of one process
};

// Throws InvalidArgument with NumPy's texts.
EinsumTerms parse_einsum(const EinsumOperands& operands);
EinsumTerms parse_einsum(const std::string& subscripts, const std::vector<Dims>& shapes);

// Labels 0 to 51 as letters, in the order that their numbers have, and '.' for an ellipsis.
std::string letters_of(const EinsumLabels& numbers);

// The positions that each step takes out of the list of terms; its result goes to the end.
using ContractionPath = std::vector<std::vector<int64_t>>;

// By NumPy's rules. Throws InvalidArgument for an unknown method or a path that does not fit.
ContractionPath find_path(const EinsumTerms& terms, const EinsumOptimize& optimize);

// What a step must keep, each once: the letters of the terms that it takes which are in the output or in a term that is
// left.
std::string kept_letters(const std::vector<std::string>& taken, const std::vector<std::string>& left,
                         const std::string& output);

// NumPy's description of a path.
std::string describe_path(const EinsumTerms& terms, const ContractionPath& path);

}  // namespace quarry::local::ops
