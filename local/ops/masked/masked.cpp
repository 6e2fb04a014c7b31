#include "quarry/local/ops/masked/masked.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "quarry/local/base/detail.h"
#include "quarry/local/device/range.h"
#include "quarry/local/ndarray/print.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/fuse/fusing.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/missing.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/statistics/statistics.h"
#include "quarry/local/ops/ufunc/compositions.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/ops/ufunc/ufuncs.h"

namespace quarry::local::ma {

Scalar default_fill_value(DType dtype) {
  constexpr int64_t kWhole = 999999;
  constexpr double kReal = 1e20;
  if (is_complex(dtype)) return Scalar::strong(std::complex<double>(kReal), DType::complex128);
  if (is_float(dtype)) return Scalar::strong(kReal, DType::float64);
  if (dtype == DType::bool_) return Scalar::strong(true, dtype);
  return Scalar::strong(kWhole, kind(dtype) == 'u' ? DType::uint64 : DType::int64);
}

Scalar checked_fill_value(const Scalar& value, DType dtype) {
  const auto fail = [&] {
    throw TypeError(fmt::format("Cannot convert fill_value {} to dtype {}", local::to_string(value), name(dtype)));
  };
  const bool is_whole = dtype != DType::bool_ && !is_float(dtype) && !is_complex(dtype);
  if (is_complex(value.dtype()) && !is_complex(dtype) && dtype != DType::bool_) fail();
  if (is_whole && is_float(value.dtype())) {
    // What astype() would make of it is not defined.
    constexpr double kBound = 9223372036854775808.0;
    const double number = value.as_double();
    const double most = dtype == DType::uint64 ? 2 * kBound : kBound;
    if (!(number >= -kBound && number < most)) fail();
  }
  if (is_whole && value.weak() && !is_float(value.dtype())) {
    try {
      check_weak_fits(value, dtype);
    } catch (const InvalidArgument&) {
      fail();
    }
  }
  return Scalar::strong(value, dtype);
}

namespace functions {

using local::apply;
using local::reduce;
using ops::diagonal;
using ops::dot;
using ops::get;
using ops::ravel;
using ops::repeat;
using ops::squeeze;
using ops::swapaxes;
using ops::take_along_axis;
using ops::transpose;

NdArray apply(Op op, const std::vector<Arg>& args) { return local::apply(op, std::span<const Arg>(args)); }
NdArray full(const Dims& shape, const Scalar& value, DType dtype) {
  NdArray result(shape, dtype);
  result.fill(Scalar::strong(value, dtype));
  return result;
}
NdArray reshape(const NdArray& x, const Dims& shape) { return x.reshape(shape); }
NdArray broadcast_to(const NdArray& x, const Dims& shape) { return x.broadcast_to(shape); }
NdArray cumsum(const NdArray& x, std::optional<int64_t> axis, std::optional<DType> dtype) {
  return ops::cumsum(x, axis, dtype);
}
NdArray cumprod(const NdArray& x, std::optional<int64_t> axis, std::optional<DType> dtype) {
  return ops::cumprod(x, axis, dtype);
}
NdArray real(const NdArray& x) { return x.real(); }
NdArray imag(const NdArray& x) { return x.imag(); }
NdArray round(const NdArray& x, int64_t decimals) { return ops::round_to(x, decimals); }
NdArray clip(const NdArray& x, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  return ops::clip_method(x, low ? std::optional<Arg>(*low) : std::nullopt,
                          high ? std::optional<Arg>(*high) : std::nullopt);
}
NdArray take(const NdArray& x, const NdArray& indices, std::optional<int64_t> axis) {
  return ops::take(x, indices, axis);
}
NdArray compress(const NdArray& condition, const NdArray& x, std::optional<int64_t> axis) {
  return ops::compress(condition, x, axis);
}
NdArray argsort(const NdArray& x, std::optional<int64_t> axis) { return ops::argsort(x, axis, "stable"); }
std::vector<NdArray> nonzero(const NdArray& x) { return ops::nonzero(x); }
NdArray median(const NdArray& x, const Axes& axis, bool keepdims) {
  return ops::median(x, axis, std::nullopt, /*overwrite_input=*/false, keepdims);
}
NdArray nanmedian(const NdArray& x, const Axes& axis, bool keepdims) {
  return ops::nanmedian(x, axis, std::nullopt, /*overwrite_input=*/false, keepdims);
}
NdArray copy(const NdArray& x) { return x.copy(); }
Scalar item(const NdArray& x) { return x.item(); }
void assign(const NdArray& x, std::span<const IndexTerm> index, const Arg& value) { ops::set(x, index, value); }
// One that no other handle names.
NdArray own(const NdArray& mask) { return mask.writeable() && mask.buffer().use_count() == 1 ? mask : mask.copy(); }
NdArray concatenate(const std::vector<NdArray>& arrays, std::optional<int64_t> axis) {
  return ops::concatenate(arrays, axis);
}
NdArray stack(const std::vector<NdArray>& arrays, int64_t axis) { return ops::stack(arrays, axis); }

namespace {

// numpy.ma prints elements as Python's numbers, side by side: what stands for each is found by its position.
struct Words {
  NdArray positions;
  PrintOptions options;
};
Words words_of(const MaskedArray& array) {
  const NdArray flat = ops::ravel(array.data().to(kCpu)), mask = ops::ravel(array.mask().to(kCpu));
  auto texts = std::make_shared<std::vector<std::string>>();
  for (int64_t i = 0; i < flat.size(); ++i) {
    const Scalar value = flat[{i}].item();
    const DType dtype = value.dtype();
    const bool is_masked = mask[{i}].item().as_bool();
    if (is_masked)
      texts->push_back("--");
    else if (is_complex(dtype))
      texts->push_back(local::to_string(Scalar::strong(value, DType::complex128)));
    else
      texts->push_back(local::to_string(is_float(dtype) ? Scalar::strong(value, DType::float64) : value));
  }
  Words words{ops::arange(Scalar(int64_t{0}), Scalar(flat.size())).reshape(array.shape()), print_options()};
  words.options.formatter = {
      {"all", [texts](const Scalar& position) { return (*texts)[static_cast<size_t>(position.as_int64())]; }}};
  return words;
}

}  // namespace

std::string str(const MaskedArray& array) {
  if (!array.mask_or_none()) return array.data().to_string();
  if (array.ndim() == 0 && array.mask().item().as_bool()) return "--";
  const Words words = words_of(array);
  return format_array(words.positions, words.options);
}

std::string repr(const MaskedArray& array) {
  const DType dtype = array.dtype();
  const bool implied =
      dtype == DType::bool_ || dtype == DType::int64 || dtype == DType::float64 || dtype == DType::complex128;
  const auto& mask = array.mask_or_none();
  const bool all_masked = mask && local::reduce("all"_reduction, *mask).item().as_bool();
  std::vector<std::string> keys{"data", "mask", "fill_value"};
  if (!implied || all_masked || array.size() == 0) keys.emplace_back("dtype");
  const bool one_row = std::all_of(array.shape().begin(), array.shape().end() - (array.ndim() > 0 ? 1 : 0),
                                   [](int64_t extent) { return extent == 1; });
  std::string open = "masked_array(";
  const auto indent = [&](const std::string& key) -> std::string {
    if (!one_row) return "  ";
    if (key == "data") return open;
    return std::string(std::max<size_t>(2, open.size() + 4 - key.size()), ' ');
  };
  const auto text_of = [&](const std::string& key) -> std::string {
    const std::string prefix = indent(key) + key + "=";
    if (key == "data") {
      if (!mask) return format_array(array.data(), print_options(), ", ", prefix, ",");
      if (array.ndim() == 0) return str(array);
      const Words words = words_of(array);
      return format_array(words.positions, words.options, ", ", prefix, ",");
    }
    if (key == "mask") return mask ? format_array(*mask, print_options(), ", ", prefix, ",") : "False";
    if (key == "dtype") return name(dtype);
    const Scalar fill_value = array.fill_value();
    std::string number = local::to_string(fill_value);
    if (fill_value.dtype() == dtype) return number;
    return std::string("np.") + name(fill_value.dtype()) + (number[0] == '(' ? number : "(" + number + ")");
  };
  std::string text = one_row ? "" : open + "\n";
  for (size_t i = 0; i < keys.size(); ++i)
    text += (i > 0 ? ",\n" : "") + indent(keys[i]) + keys[i] + "=" + text_of(keys[i]);
  return text + ")";
}

}  // namespace functions

#include "quarry/local/ops/masked/masked_array.inl"

using Kind = Local;
#include "quarry/local/ops/masked/functions_bodies.inl"

template class BasicMaskedArray<Local>;
template class BasicMaskedOperand<Local>;
template class MaskedOperators<Local>;

std::ostream& operator<<(std::ostream& out, const MaskedArray& array) { return out << array.to_string(); }

std::string summary_string(const MaskedArray& corners, const Dims& shape) {
  if (!corners.mask_or_none()) return local::summary_string(corners.data(), shape);
  const functions::Words words = functions::words_of(corners);
  const PrintScope scope(words.options);
  return local::summary_string(words.positions, shape);
}

}  // namespace quarry::local::ma
