// Masked arrays of chunks: numpy.ma as quarry::ma. See local/ops/masked/masked_array.h and
// local/ops/masked/functions.inl. Lazy but where these say that a function blocks: a reduction is one pass over data
// and mask, fused with what makes them.
//
//   const qy::ma::MaskedArray positive = qy::ma::masked_less(qy::Array::from_local(x), 0);
//   const ql::ma::MaskedArray means = qy::ma::to_host(positive.mean(0));
#pragma once

#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/api/assignment.h"
#include "quarry/chunked/api/operand.h"
#include "quarry/io/attribute.h"
#include "quarry/local/ops/masked/masked.h"

namespace quarry::detail {
class Fusing;  // chunked/api/fusing.h
}

namespace quarry::ma {

using local::ma::masked;
using local::ma::MissingValues;
using local::ma::Packing;

// The kind of arrays that local::ma::BasicMaskedArray is made of.
struct Chunked {
  using Array = quarry::Array;
  using Operand = quarry::Operand;
  using IndexTerm = quarry::IndexTerm;
  using Fusing = quarry::detail::Fusing;
  static const Array* array_of(const Operand& operand) { return operand.is_array() ? &operand.array() : nullptr; }
  static bool same(const Array& a, const Array& b) { return a.node() == b.node(); }
  template <class... Terms>
  static std::vector<IndexTerm> index_terms(const Terms&... terms) {
    std::vector<IndexTerm> index;
    const auto append = [&](const auto& term) {
      if constexpr (requires { term.mask_or_none(); })
        quarry::detail::append_terms(index, term.data());
      else
        quarry::detail::append_terms(index, term);
    };
    (append(terms), ...);
    return index;
  }
};
using MaskedArray = local::ma::BasicMaskedArray<Chunked>;
using MaskedElements = local::ma::BasicMaskedElements<Chunked>;
using Operand = local::ma::BasicMaskedOperand<Chunked>;

#include "quarry/local/ops/masked/functions.inl"

// ---- Of chunked arrays alone ----

// Data and mask in one plan. Blocking, collective.
local::ma::MaskedArray to_host(const MaskedArray& x);
MaskedArray persist(const MaskedArray& x);
MaskedArray rechunk(const MaskedArray& x, const Dims& chunk);
MaskedArray from_local(const local::ma::MaskedArray& x);  // the same on every rank, as one chunk

// What the attributes of a data set say is missing, as netCDF's conventions have it: values equal to `_FillValue` or to
// `missing_value` (one number or several), below valid_min, above valid_max, or outside valid_range. Where an attribute
// is text, it says nothing. They are of the numbers as stored, before scale and offset.
MissingValues missing_values(const std::map<std::string, io::Attribute>& attributes);
// `scale_factor`, `add_offset` and `_Unsigned` ("true").
Packing packing(const std::map<std::string, io::Attribute>& attributes);
// open_hdf5() with what is missing masked, by the attributes of the data set, of the first of several files; to decode
// is to scale too. Collective.
MaskedArray open_hdf5(const std::string& file, const std::string& object, const OpenOptions& options = {});
MaskedArray open_hdf5(const std::string& pattern, const std::string& object, int64_t axis,
                      const OpenOptions& options = {});

// An array to store, and the value in it that stands for missing elements.
struct FilledItem {
  StoreItem item;
  std::optional<Scalar> fill_value = std::nullopt;
};
// filled(), with the fill value to note.
FilledItem filled_item(const std::string& path, const MaskedArray& x);
// store(); of items with a fill value the data set gets it as the attribute `_FillValue`, of its dtype.
void store(const std::string& file, const std::vector<FilledItem>& items, const StoreOptions& options = {});
void to_hdf5(const std::string& file, const std::string& object, const MaskedArray& x,
             const StoreOptions& options = {});

std::ostream& operator<<(std::ostream& out, const MaskedArray& array);

}  // namespace quarry::ma

extern template class quarry::local::ma::BasicMaskedArray<quarry::ma::Chunked>;
extern template class quarry::local::ma::BasicMaskedOperand<quarry::ma::Chunked>;
extern template class quarry::local::ma::MaskedOperators<quarry::ma::Chunked>;
