#include "quarry/local/ops/indexing/index_support.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local {
namespace {

NdArray scalar_array(const Scalar& value, DType dtype, Device device) {
  const ExecContext context = context_for(device);
  NdArray result({}, dtype, context);
  result.fill(Scalar::strong(value, dtype), context);
  return result;
}

}  // namespace

void check_literal(const Scalar& value, DType dtype) {
  if (!value.weak()) return;
  check_weak_fits(value, dtype);
  if (is_complex(value.dtype()) && !is_complex(dtype) && dtype != DType::bool_) {
    throw TypeError(fmt::format("{} argument must be a string or a real number, not 'complex'",
                                is_integer(dtype) ? "int()" : "float()"));
  }
  if (!is_integer(dtype) || !is_float(value.dtype())) return;
  const double number = value.as_double();
  if (!std::isfinite(number))
    throw InvalidArgument(fmt::format("cannot convert float {} to integer", std::isnan(number) ? "NaN" : "infinity"));
  const double whole = std::trunc(number);
  if (whole >= -0x1p63 && whole < 0x1p63) return check_weak_fits(static_cast<int64_t>(whole), dtype);
  if (whole >= 0 && whole < 0x1p64) return check_weak_fits(static_cast<uint64_t>(whole), dtype);
  throw InvalidArgument(fmt::format("Python integer {:.0f} out of bounds for {}", whole, name(dtype)));
}

IndexMode parse_index_mode(std::string_view mode) {
  if (mode == "raise") return IndexMode::raise;
  if (mode == "wrap") return IndexMode::wrap;
  if (mode == "clip") return IndexMode::clip;
  throw InvalidArgument(fmt::format("clipmode must be one of 'clip', 'raise', or 'wrap' (got '{}')", mode));
}

NdArray value_array(const Arg& value, DType dtype, Device device) {
  if (const NdArray* array = value.array()) {
    const NdArray here = array->to(device);
    return here.dtype() == dtype ? here : here.astype(dtype, context_for(device));
  }
  check_literal(value.scalar(), dtype);
  return scalar_array(value.scalar(), dtype, device);
}

NdArray plain_array(const Arg& value, Device device) {
  if (const NdArray* array = value.array()) return *array;
  const PromotionOperand alone[] = {value.promotion()};
  return scalar_array(value.scalar(), result_type(alone), device);
}

NdArray as_positions(const NdArray& indices, const char* rule) {
  if (indices.dtype() == DType::int64) return indices;
  if (!is_integer(indices.dtype()) && indices.dtype() != DType::bool_) {
    throw TypeError(fmt::format("Cannot cast array data from dtype('{}') to dtype('int64') according to the rule '{}'",
                                name(indices.dtype()), rule));
  }
  return indices.astype(DType::int64, context_for(indices.device()));
}

NdArray apart_from(const NdArray& array, const NdArray& target) {
  return may_overlap(array, target) ? array.copy(context_for(array.device())) : array;
}

IndexedElements elements_along(const NdArray& array, int axis, const NdArray& positions, const Dims& space,
                               IndexMode mode) {
  IndexedElements result;
  result.shape = space;
  result.array = {array.raw(), Dims::filled(space.size(), 0)};
  result.indices = {{operand(positions, space), array.shape()[axis], array.strides()[axis], axis}};
  result.mode = mode;
  return result;
}

void run_gather(const NdArray& array, const IndexedElements& from, std::span<const NdArray* const> positions,
                const NdArray& to) {
  const ExecContext context = context_for(to.device());
  array.begin_read(context.stream);
  to.begin_write(context.stream);
  for (const NdArray* index : positions) index->begin_read(context.stream);
  engine(context.device).indexing().gather(from, operand(to, from.shape), array.itemsize(), context);
}

void run_scatter(const NdArray& array, const IndexedElements& to, std::span<const NdArray* const> positions,
                 const NdArray& from) {
  const ExecContext context = context_for(array.device());
  array.begin_write(context.stream);
  from.begin_read(context.stream);
  for (const NdArray* index : positions) index->begin_read(context.stream);
  engine(context.device).indexing().scatter(to, operand(from, to.shape), array.itemsize(), context);
}

NdArray packed_mask(const NdArray& array) {
  if (array.dtype() != DType::bool_) return array.astype(DType::bool_, context_for(array.device()));
  return array.is_contiguous() ? array : array.copy(context_for(array.device()));
}

void run_copy_where(const NdArray& mask, const NdArray& from, const NdArray& to) {
  to.check_writable();
  if (to.size() == 0) return;
  const ExecContext context = context_for(to.device());
  mask.begin_read(context.stream);
  from.begin_read(context.stream);
  to.begin_write(context.stream);
  const Mask view{static_cast<const uint8_t*>(mask.raw()), mask.shape(), nullptr};
  engine(context.device)
      .indexing()
      .copy_where(view, operand(from, to.shape()), operand(to, to.shape()), to.itemsize(), context);
}

CountedMask::CountedMask(const NdArray& array) : mask_(packed_mask(array)) {
  const ExecContext context = context_for(mask_.device());
  offsets_ = NdArray({mask_tiles(mask_.size()) + 1}, DType::int64, context);
  mask_.begin_read(context.stream);
  engine(context.device).indexing().count(view(), offsets_.data<int64_t>(), context);
}

Mask CountedMask::view() const {
  return {static_cast<const uint8_t*>(mask_.raw()), mask_.shape(), offsets_.data<int64_t>()};
}

int64_t CountedMask::count() {
  if (count_ < 0) count_ = offsets_[{-1}].item<int64_t>();
  return count_;
}

NdArray CountedMask::positions() {
  const ExecContext context = context_for(mask_.device());
  NdArray result({count()}, DType::int64, context);
  if (count() == 0) return result;
  mask_.begin_read(context.stream);
  offsets_.begin_read(context.stream);
  engine(context.device).indexing().positions(view(), result.data<int64_t>(), /*step=*/1, /*axis_step=*/0, context);
  return result;
}

NdArray CountedMask::coordinates() {
  const ExecContext context = context_for(mask_.device());
  const int ndim = shape().size();
  NdArray result({count(), ndim}, DType::int64, context);
  if (count() == 0 || ndim == 0) return result;
  mask_.begin_read(context.stream);
  offsets_.begin_read(context.stream);
  engine(context.device).indexing().positions(view(), result.data<int64_t>(), /*step=*/ndim, /*axis_step=*/1, context);
  return result;
}

NdArray CountedMask::select(const NdArray& from) {
  const ExecContext context = context_for(mask_.device());
  NdArray result({count()}, from.dtype(), context);
  if (count() == 0) return result;
  for (const NdArray* array : {&std::as_const(mask_), &std::as_const(offsets_), &from})
    array->begin_read(context.stream);
  engine(context.device).indexing().select(view(), operand(from, shape()), result.raw(), from.itemsize(), context);
  return result;
}

void CountedMask::expand(const NdArray& values, const NdArray& to) {
  const ExecContext context = context_for(mask_.device());
  if (to.size() == 0) return;
  for (const NdArray* array : {&std::as_const(mask_), &std::as_const(offsets_), &values})
    array->begin_read(context.stream);
  to.begin_write(context.stream);
  engine(context.device)
      .indexing()
      .expand(view(), values.raw(), values.strides()[0], values.shape()[0], operand(to, shape()), to.itemsize(),
              context);
}

NdArray counting_array(int64_t n, Device device) {
  const ExecContext context = context_for(device);
  NdArray result({n}, DType::int64, context);
  Program program;
  program.output(program.index(0));
  const NdArray* out[] = {&result};
  run_elementwise(program, {}, out, context);
  return result;
}

}  // namespace quarry::local
