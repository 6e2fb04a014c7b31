// Masked arrays of one process: quarry::local::ma, NumPy's numpy.ma.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/ops/indexing/elements.h"
#include "quarry/local/ops/masked/masked_array.h"

namespace quarry::local::detail {
class Fusing;  // local/ops/fuse/fusing.h
}

namespace quarry::local::ma {

// The kind of arrays that BasicMaskedArray is made of.
struct Local {
  using Array = NdArray;
  using Operand = Arg;
  using IndexTerm = local::IndexTerm;
  using Fusing = local::detail::Fusing;
  static const NdArray* array_of(const Arg& arg) { return arg.array(); }
  // Whether both are known to have the same elements, as x and x + 1 have one mask.
  static bool same(const NdArray& a, const NdArray& b) {
    return a.buffer() == b.buffer() && a.offset() == b.offset() && a.shape() == b.shape() && a.strides() == b.strides();
  }
  template <class... Terms>
  static std::vector<IndexTerm> index_terms(const Terms&... terms) {
    std::vector<IndexTerm> index;
    const auto append = [&](const auto& term) {
      if constexpr (requires { term.mask_or_none(); })
        detail::append_terms(index, term.data());
      else
        detail::append_terms(index, term);
    };
    (append(terms), ...);
    return index;
  }
};
using MaskedArray = BasicMaskedArray<Local>;
using MaskedElements = BasicMaskedElements<Local>;
using Operand = BasicMaskedOperand<Local>;
using Array = NdArray;

#include "quarry/local/ops/masked/functions.inl"

std::ostream& operator<<(std::ostream& out, const MaskedArray& array);  // as str()

// As str() of an array of `shape` with more than 1000 elements, given its corners (detail::summary_string()).
std::string summary_string(const MaskedArray& corners, const Dims& shape);

extern template class BasicMaskedArray<Local>;
extern template class BasicMaskedOperand<Local>;
extern template class MaskedOperators<Local>;

}  // namespace quarry::local::ma
