#include "quarry/chunked/api/ma.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/fusing.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/products.h"
#include "quarry/chunked/api/quantile.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/sorting.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/io/dataset.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/device/range.h"
#include "quarry/local/ops/reduction/missing.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/compositions.h"

namespace quarry::ma {

namespace functions {

using quarry::apply;
using quarry::argsort;
using quarry::broadcast_to;
using quarry::compress;
using quarry::concatenate;
using quarry::diagonal;
using quarry::dot;
using quarry::imag;
using quarry::nonzero;
using quarry::ravel;
using quarry::real;
using quarry::reduce;
using quarry::repeat;
using quarry::reshape;
using quarry::round;
using quarry::squeeze;
using quarry::stack;
using quarry::swapaxes;
using quarry::take;
using quarry::take_along_axis;

Array full(const Dims& shape, const Scalar& value, DType dtype) {
  return quarry::full(shape, Scalar::strong(value, dtype), dtype);
}
Array transpose(const Array& x, const Axes& axes) {
  if (axes.none()) return quarry::transpose(x);
  return quarry::transpose(x, axes.list());
}
Array cumsum(const Array& x, std::optional<int64_t> axis, std::optional<DType> dtype) {
  return quarry::cumsum(x, axis, dtype);
}
Array cumprod(const Array& x, std::optional<int64_t> axis, std::optional<DType> dtype) {
  return quarry::cumprod(x, axis, dtype);
}
Array clip(const Array& x, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  return x.clip(low, high);
}
Array median(const Array& x, const Axes& axis, bool keepdims) {
  return quarry::median(x, axis, std::nullopt, /*overwrite_input=*/false, keepdims);
}
Array nanmedian(const Array& x, const Axes& axis, bool keepdims) {
  return quarry::nanmedian(x, axis, std::nullopt, /*overwrite_input=*/false, keepdims);
}
Array get(const Array& x, std::span<const IndexTerm> index) { return quarry::index(x, index); }
void assign(Array& x, std::span<const IndexTerm> index, const quarry::Operand& value) {
  x = quarry::assigned(x, index, value);
}
Array own(const Array& mask) { return mask; }  // arrays are never written
Array copy(const Array& x) { return x; }
Scalar item(const Array& x) { return x.to_host().item(); }
std::string repr(const MaskedArray& x) {
  return "Masked" + x.data().repr() + (x.mask_or_none() ? "" : " without a mask");
}
std::string str(const MaskedArray& x) { return repr(x); }

}  // namespace functions
}  // namespace quarry::ma

namespace quarry::local::ma {

namespace functions = quarry::ma::functions;
#include "quarry/local/ops/masked/masked_array.inl"

template class BasicMaskedArray<quarry::ma::Chunked>;
template class BasicMaskedOperand<quarry::ma::Chunked>;
template class MaskedOperators<quarry::ma::Chunked>;

}  // namespace quarry::local::ma

namespace quarry::ma {

using Kind = Chunked;
#include "quarry/local/ops/masked/functions_bodies.inl"

local::ma::MaskedArray to_host(const MaskedArray& x) {
  std::vector<Array> parts{x.data()};
  if (x.mask_or_none()) parts.push_back(*x.mask_or_none());
  const std::vector<NdArray> values = quarry::to_host(parts);
  return {values[0], values.size() > 1 ? std::optional(values[1]) : std::nullopt, x.given_fill_value()};
}

MaskedArray persist(const MaskedArray& x) {
  std::vector<Array> parts{x.data()};
  if (x.mask_or_none()) parts.push_back(*x.mask_or_none());
  const std::vector<Array> kept = quarry::persist(parts);
  return {kept[0], kept.size() > 1 ? std::optional(kept[1]) : std::nullopt, x.given_fill_value()};
}

MaskedArray rechunk(const MaskedArray& x, const Dims& chunk) {
  return {x.data().rechunk(chunk), x.mask_or_none() ? std::optional(x.mask_or_none()->rechunk(chunk)) : std::nullopt,
          x.given_fill_value()};
}

MaskedArray from_local(const local::ma::MaskedArray& x) {
  return {Array::from_local(x.data()),
          x.mask_or_none() ? std::optional(Array::from_local(*x.mask_or_none())) : std::nullopt, x.given_fill_value()};
}

MissingValues missing_values(const std::map<std::string, io::Attribute>& attributes) {
  const auto numbers = [&](const char* name) {
    std::vector<Scalar> values;
    const auto found = attributes.find(name);
    if (found == attributes.end()) return values;
    if (const auto* whole = std::get_if<int64_t>(&found->second)) values.emplace_back(*whole);
    if (const auto* real = std::get_if<double>(&found->second)) values.emplace_back(*real);
    if (const auto* list = std::get_if<std::vector<double>>(&found->second))
      values.insert(values.end(), list->begin(), list->end());
    return values;
  };
  MissingValues result;
  for (const char* name : {"_FillValue", "missing_value"})
    for (const Scalar& value : numbers(name)) result.values.push_back(value);
  const std::vector<Scalar> range = numbers("valid_range"), least = numbers("valid_min"), most = numbers("valid_max");
  if (least.size() == 1) result.least = least[0];
  if (most.size() == 1) result.most = most[0];
  if (range.size() == 2) {
    result.least = range[0];
    result.most = range[1];
  }
  return result;
}

Packing packing(const std::map<std::string, io::Attribute>& attributes) {
  const auto number = [&](const char* name) -> std::optional<double> {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return std::nullopt;
    if (const auto* whole = std::get_if<int64_t>(&found->second)) return static_cast<double>(*whole);
    if (const auto* real = std::get_if<double>(&found->second)) return *real;
    return std::nullopt;
  };
  const auto text = attributes.find("_Unsigned");
  const auto* word = text == attributes.end() ? nullptr : std::get_if<std::string>(&text->second);
  return {number("scale_factor"), number("add_offset"), word && (*word == "true" || *word == "True")};
}

FilledItem filled_item(const std::string& path, const MaskedArray& x) {
  if (!x.mask_or_none()) return {{path, x.data()}, std::nullopt};
  return {{path, x.filled()}, Scalar::strong(x.fill_value(), x.dtype())};
}

void to_hdf5(const std::string& file, const std::string& object, const MaskedArray& x, const StoreOptions& options) {
  store(file, {filled_item(object, x)}, options);
}

std::ostream& operator<<(std::ostream& out, const MaskedArray& array) { return out << array.repr(); }

}  // namespace quarry::ma
