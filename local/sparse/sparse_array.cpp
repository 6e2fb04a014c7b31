#include "quarry/local/sparse/sparse_array.h"

#include <fmt/format.h>

#include <limits>

#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/types/types.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse {

const char* name(Format format) {
  switch (format) {
    case Format::coo:
      return "coo";
    case Format::csr:
      return "csr";
    case Format::csc:
      return "csc";
    case Format::dia:
      return "dia";
  }
  __builtin_unreachable();
}

Format parse_format(std::string_view text) {
  for (const Format format : {Format::coo, Format::csr, Format::csc, Format::dia})
    if (text == name(format)) return format;
  for (const char* absent : {"bsr", "dok", "lil"})
    if (text == absent) throw NotSupported(fmt::format("format: there are no matrices of format '{}'", text));
  throw InvalidArgument(fmt::format("format: '{}' is none of 'coo', 'csr', 'csc', 'dia'", text));
}

SparseArray::SparseArray(Format format, const Dims& shape, DType dtype, const ExecContext& context)
    : format_(format), shape_(shape), data_({0}, dtype, context), canonical_(true) {
  check_shape(shape);
  check_dtype(dtype, "dtype");
  const DType index = index_dtype_for(shape, 0);
  const auto empty = [&] { return NdArray({0}, index, context); };
  switch (format) {
    case Format::coo:
      first_ = empty();
      second_ = empty();
      break;
    case Format::csr:
    case Format::csc:
      first_ = NdArray({shape[major_axis(format)] + 1}, index, context);
      first_.fill(0, context);
      second_ = empty();
      break;
    case Format::dia:
      data_ = NdArray({0, 0}, dtype, context);
      first_ = empty();
      break;
  }
}

SparseArray::SparseArray(Format format, const Dims& shape, NdArray data, NdArray first, NdArray second,
                         std::optional<bool> canonical)
    : format_(format),
      shape_(shape),
      data_(std::move(data)),
      first_(std::move(first)),
      second_(std::move(second)),
      canonical_(canonical) {
  QUARRY_CHECK(shape_.size() == 2);
}

namespace {

void need(const SparseArray& a, bool has, const char* what) {
  if (!has) throw InvalidArgument(fmt::format("a matrix of format '{}' has no {}", name(a.format()), what));
}
bool is_compressed(Format format) { return format == Format::csr || format == Format::csc; }

}  // namespace

const NdArray& SparseArray::row() const {
  need(*this, format_ == Format::coo, "row numbers");
  return first_;
}
const NdArray& SparseArray::col() const {
  need(*this, format_ == Format::coo, "column numbers");
  return second_;
}
const NdArray& SparseArray::indices() const {
  need(*this, is_compressed(format_), "indices");
  return second_;
}
const NdArray& SparseArray::indptr() const {
  need(*this, is_compressed(format_), "indptr");
  return first_;
}
const NdArray& SparseArray::offsets() const {
  need(*this, format_ == Format::dia, "offsets");
  return first_;
}

int64_t SparseArray::nnz() const {
  if (format_ != Format::dia) return data_.size();
  int64_t count = 0;
  for (const int64_t k : to_vector<int64_t>(cast(first_, DType::int64)))
    count += std::max<int64_t>(0, std::min({columns(), data_.shape()[1], rows() + k}) - std::max<int64_t>(0, k));
  return count;
}

std::string SparseArray::to_string() const {
  const SparseArray coo = tocoo().to(kCpu);
  std::string text = fmt::format("<{} sparse matrix of dtype '{}' with {} stored elements and shape {}>", name(format_),
                                 local::name(dtype()), coo.data_.size(), local::to_string(shape_));
  const int64_t shown = std::min(coo.data_.size(), maxprint());
  for (int64_t k = 0; k < coo.data_.size(); ++k) {
    if (k == shown / 2 && shown < coo.data_.size()) {
      text += "\n  :\t:";
      k = coo.data_.size() - (shown - shown / 2);
    }
    text += fmt::format("\n  ({}, {})\t{}", coo.first_[{k}].item().as_int64(), coo.second_[{k}].item().as_int64(),
                        local::to_string(coo.data_[{k}].item()));
  }
  return text;
}

SparseArray SparseArray::to(Device target) const {
  if (device() == target) return *this;
  const bool two = format_ != Format::dia;
  return SparseArray(format_, shape_, data_.to(target), first_.to(target), two ? second_.to(target) : NdArray(),
                     canonical_);
}

SparseArray SparseArray::copy() const {
  const auto fresh = [](const NdArray& array) { return array.copy(context_of(array)); };
  const bool two = format_ != Format::dia;
  return SparseArray(format_, shape_, fresh(data_), fresh(first_), two ? fresh(second_) : NdArray(), canonical_);
}

SparseArray SparseArray::with_data(NdArray data) const {
  if (!(data.shape() == data_.shape()))
    throw InvalidArgument(fmt::format("data: shape {} is not that of the stored values, {}",
                                      local::to_string(data.shape()), local::to_string(data_.shape())));
  return SparseArray(format_, shape_, std::move(data), first_, second_, canonical_);
}

SparseArray SparseArray::astype(DType dtype) const {
  check_dtype(dtype, "dtype");
  return with_data(cast(data_, dtype));
}
SparseArray SparseArray::asfptype() const {
  return is_float(dtype()) || is_complex(dtype()) ? *this : astype(DType::float64);
}
SparseArray SparseArray::conj() const { return is_complex(dtype()) ? with_data(conjugated(data_)) : *this; }
SparseArray SparseArray::real() const {
  return is_complex(dtype()) ? with_data(data_.real().copy(context_of(data_))) : *this;
}
SparseArray SparseArray::imag() const {
  if (is_complex(dtype())) return with_data(data_.imag().copy(context_of(data_)));
  return SparseArray(format_, shape_, dtype(), context_of(data_));
}

// ---- Checks ----

namespace {

int64_t largest(const NdArray& x) { return ops::max(x).item().as_int64(); }
int64_t smallest(const NdArray& x) { return ops::min(x).item().as_int64(); }

void check_positions(const NdArray& positions, int64_t extent, const char* argument) {
  if (positions.size() == 0) return;
  for (const int64_t position : {smallest(positions), largest(positions)})
    if (position < 0 || position >= extent)
      throw InvalidArgument(
          fmt::format("{}: position {} is out of range for an axis of {}", argument, position, extent));
}

void check_vector(const NdArray& array, const char* argument) {
  if (array.ndim() != 1)
    throw InvalidArgument(
        fmt::format("{} must have one dimension, got shape {}", argument, local::to_string(array.shape())));
}
void check_index(const NdArray& array, const char* argument) {
  check_vector(array, argument);
  if (!is_integer(array.dtype()))
    throw TypeError(fmt::format("{} must be integers, got {}", argument, local::name(array.dtype())));
}
void check_lengths(const NdArray& a, const char* a_name, const NdArray& b, const char* b_name) {
  if (a.size() != b.size())
    throw InvalidArgument(fmt::format("{} has {} elements and {} has {}", a_name, a.size(), b_name, b.size()));
}

void check_offsets(const NdArray& indptr, int64_t lines, int64_t elements) {
  if (indptr.size() != lines + 1)
    throw InvalidArgument(fmt::format("indptr has {} elements, it needs {}", indptr.size(), lines + 1));
  const int64_t first = indptr[{0}].item().as_int64(), last = indptr[{-1}].item().as_int64();
  if (first != 0) throw InvalidArgument(fmt::format("indptr must start with 0, not {}", first));
  if (last > elements)
    throw InvalidArgument(fmt::format("indptr ends with {}, but indices and data have {} elements", last, elements));
  if (any(slice(indptr, 1, lines + 1) < slice(indptr, 0, lines))) throw InvalidArgument("indptr must not decrease");
}

// Whether, within lines, indices never fall (`strict`: rise).
bool lines_ascend(const Lines& lines, bool strict) {
  const int64_t n = lines.data.size();
  if (n < 2) return true;
  const NdArray numbers = line_numbers(lines.offsets, n);
  Fused f;
  const auto here = f.input(slice(numbers, 1, n)), before = f.input(slice(numbers, 0, n - 1));
  const auto index = f.input(slice(lines.indices, 1, n)), last = f.input(slice(lines.indices, 0, n - 1));
  return !any(
      f.run(f("logical_and"_op, f("equal"_op, here, before), f(strict ? "less_equal"_op : "less"_op, index, last))));
}

}  // namespace

void SparseArray::check_format(bool full_check) const {
  switch (format_) {
    case Format::coo:
      check_index(first_, "row");
      check_index(second_, "col");
      check_vector(data_, "data");
      check_lengths(data_, "data", first_, "row");
      check_lengths(data_, "data", second_, "col");
      if (!full_check) return;
      check_positions(first_, rows(), "row");
      check_positions(second_, columns(), "col");
      return;
    case Format::csr:
    case Format::csc: {
      const int major = major_axis(format_);
      check_index(first_, "indptr");
      check_index(second_, "indices");
      check_vector(data_, "data");
      check_lengths(data_, "data", second_, "indices");
      check_offsets(first_, shape_[major], data_.size());
      if (full_check) check_positions(second_, shape_[1 - major], "indices");
      return;
    }
    case Format::dia: {
      check_index(first_, "offsets");
      if (data_.ndim() != 2)
        throw InvalidArgument(
            fmt::format("data must have two dimensions, got shape {}", local::to_string(data_.shape())));
      if (data_.shape()[0] != first_.size())
        throw InvalidArgument(
            fmt::format("data has {} diagonals and offsets {} elements", data_.shape()[0], first_.size()));
      std::vector<int64_t> offsets = to_vector<int64_t>(cast(first_, DType::int64));
      std::sort(offsets.begin(), offsets.end());
      const auto twice = std::adjacent_find(offsets.begin(), offsets.end());
      if (twice != offsets.end()) throw InvalidArgument(fmt::format("offsets: {} occurs twice", *twice));
      return;
    }
  }
}

bool SparseArray::has_sorted_indices() const {
  if (!is_compressed(format_) || canonical_.value_or(false)) return true;
  return lines_ascend(lines_of(*this), false);
}

bool SparseArray::has_canonical_format() const {
  if (canonical_) return *canonical_;
  switch (format_) {
    case Format::csr:
    case Format::csc:
      canonical_ = lines_ascend(lines_of(*this), true);
      break;
    case Format::coo: {
      const Triplets t{data_, first_, second_, rows(), columns()};
      const Triplets ordered = sparse::sorted(t);
      canonical_ = ordered.major.buffer() == t.major.buffer() && group_starts(t).size() == t.data.size();
      break;
    }
    case Format::dia:
      canonical_ = true;
      break;
  }
  return *canonical_;
}

void SparseArray::check_canonical() const {
  if (has_canonical_format()) return;
  const char* const argument = format_ == Format::coo ? "row, col" : "indices";
  const bool ascend = is_compressed(format_) && lines_ascend(lines_of(*this), false);
  throw InvalidArgument(
      fmt::format("{}: {}", argument, ascend ? "a position occurs twice" : "not sorted, or a position occurs twice"));
}

// ---- Makers ----

namespace {

// The extent that positions need.
int64_t least_extent(const NdArray& positions) { return positions.size() == 0 ? 0 : largest(positions) + 1; }

SparseArray compressed_array(Format format, const NdArray& data, const NdArray& indices, const NdArray& indptr,
                             const std::optional<Dims>& given) {
  check_dtype(data.dtype(), "data");
  check_index(indices, "indices");
  check_index(indptr, "indptr");
  common_device(std::vector<const NdArray*>{&data, &indices, &indptr});
  if (indptr.size() == 0) throw InvalidArgument("indptr has no elements, it needs at least one");
  Dims shape = Dims::filled(2);
  const int major = major_axis(format);
  shape[major] = indptr.size() - 1;
  shape[1 - major] = given ? 0 : least_extent(indices);
  if (given) shape = *given;
  check_shape(shape);
  const DType index = index_dtype_for(shape, data.size());
  SparseArray unchecked(format, shape, data, indptr, indices);
  unchecked.check_format();
  SparseArray result(format, shape, data, cast(indptr, index), cast(indices, index));
  result.prune();
  return result;
}

}  // namespace

SparseArray coo_array(const NdArray& dense) { return from_dense(dense, Format::coo); }
SparseArray coo_array(const SparseArray& other) { return other.tocoo(); }
SparseArray coo_array(const NdArray& data, const NdArray& row, const NdArray& col, const std::optional<Dims>& shape) {
  check_dtype(data.dtype(), "data");
  check_index(row, "row");
  check_index(col, "col");
  common_device(std::vector<const NdArray*>{&data, &row, &col});
  const Dims extents = shape ? *shape : Dims{least_extent(row), least_extent(col)};
  check_shape(extents);
  SparseArray(Format::coo, extents, data, row, col).check_format();
  const DType index = index_dtype_for(extents, data.size());
  return SparseArray(Format::coo, extents, data, cast(row, index), cast(col, index));
}
SparseArray csr_array(const NdArray& dense) { return from_dense(dense, Format::csr); }
SparseArray csr_array(const SparseArray& other) { return other.tocsr(); }
SparseArray csr_array(const NdArray& data, const NdArray& indices, const NdArray& indptr,
                      const std::optional<Dims>& shape) {
  return compressed_array(Format::csr, data, indices, indptr, shape);
}
SparseArray csc_array(const NdArray& dense) { return from_dense(dense, Format::csc); }
SparseArray csc_array(const SparseArray& other) { return other.tocsc(); }
SparseArray csc_array(const NdArray& data, const NdArray& indices, const NdArray& indptr,
                      const std::optional<Dims>& shape) {
  return compressed_array(Format::csc, data, indices, indptr, shape);
}
SparseArray dia_array(const NdArray& dense) { return from_dense(dense, Format::dia); }
SparseArray dia_array(const SparseArray& other) { return other.todia(); }
SparseArray dia_array(const NdArray& data, const NdArray& offsets, const Dims& shape) {
  check_dtype(data.dtype(), "data");
  check_shape(shape);
  common_device(std::vector<const NdArray*>{&data, &offsets});
  const NdArray rows = data.ndim() == 1 ? data.reshape({1, -1}) : data;
  const NdArray numbers = offsets.ndim() == 0 ? offsets.reshape({1}) : offsets;
  SparseArray(Format::dia, shape, rows, numbers, NdArray(), true).check_format();
  return SparseArray(Format::dia, shape, rows, cast(numbers, index_dtype_for(shape, 0)), NdArray(), true);
}

DType get_index_dtype(const std::vector<NdArray>& arrays, std::optional<int64_t> maxval, bool check_contents) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (maxval && *maxval > kMost) return DType::int64;
  for (const NdArray& array : arrays) {
    if (local::can_cast(array.dtype(), DType::int32, Casting::safe)) continue;
    if (!check_contents || !is_integer(array.dtype())) return DType::int64;
    if (array.size() > 0 && (smallest(array) < -kMost - 1 || largest(array) > kMost)) return DType::int64;
  }
  return DType::int32;
}

std::vector<NdArray> safely_cast_index_arrays(const SparseArray& a, DType index_dtype) {
  if (!is_integer(index_dtype))
    throw TypeError(fmt::format("index_dtype must be an integer dtype, got {}", local::name(index_dtype)));
  std::vector<NdArray> arrays{a.first()};
  if (a.format() == Format::coo) arrays.push_back(a.second());
  if (is_compressed(a.format())) arrays.insert(arrays.begin(), a.second());
  for (NdArray& array : arrays) {
    const NdArray narrow = cast(array, index_dtype);
    if (any(apply("not_equal"_op, {narrow, array})))
      throw InvalidArgument(fmt::format("index values too large for {}", local::name(index_dtype)));
    array = narrow;
  }
  return arrays;
}

}  // namespace quarry::local::sparse
