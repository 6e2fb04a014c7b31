#include "quarry/local/ndarray/ndarray.h"

#include <fmt/format.h>

#include <cstring>

#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/pools.h"
#include "quarry/local/ndarray/launch.h"

namespace quarry::local {
namespace {

int64_t checked_bytes(const Dims& shape, DType dtype) {
  for (int64_t extent : shape)
    if (extent < 0) throw InvalidArgument(fmt::format("negative dimensions are not allowed: {}", to_string(shape)));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(element_count(shape), itemsize(dtype), &bytes))
    throw InvalidArgument(
        fmt::format("the shape {} of {} has more bytes than 64 bits can count", to_string(shape), name(dtype)));
  return bytes;
}

// Strides of `shape` over the same elements in the same order, if strides can express it.
std::optional<Dims> view_strides(const Dims& from, const Dims& from_strides, const Dims& shape, int64_t itemsize) {
  Dims extents, strides;  // of the array, less axes of one element
  for (int d = 0; d < from.size(); ++d) {
    if (from[d] == 1) continue;
    extents.push_back(from[d]);
    strides.push_back(from_strides[d]);
  }
  Dims result = Dims::filled(shape.size());
  int source = 0, target = 0;
  while (target < shape.size()) {
    // The smallest groups of axes on both sides with equal counts.
    int source_end = source, target_end = target + 1;
    int64_t source_count = 1, target_count = shape[target];
    if (target_count != 1) {
      if (source_end == extents.size()) return std::nullopt;
      source_count = extents[source_end++];
      while (source_count != target_count) {
        if (source_count < target_count) {
          if (source_end == extents.size()) return std::nullopt;
          source_count *= extents[source_end++];
        } else {
          if (target_end == shape.size()) return std::nullopt;
          target_count *= shape[target_end++];
        }
      }
      for (int d = source; d + 1 < source_end; ++d)
        if (strides[d] != strides[d + 1] * extents[d + 1]) return std::nullopt;
    }
    int64_t step = source_end > source ? strides[source_end - 1] : itemsize;
    for (int d = target_end - 1; d >= target; --d) {
      result[d] = step;
      step *= shape[d];
    }
    source = source_end;
    target = target_end;
  }
  return result;
}

Dims resolve_reshape(const Dims& wanted, int64_t size) {
  Dims shape = wanted;
  int unknown = -1;
  int64_t known = 1;
  bool overflow = false;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == -1) {
      if (unknown >= 0) throw InvalidArgument("can only specify one unknown dimension");
      unknown = d;
    } else if (shape[d] < 0) {
      throw InvalidArgument(fmt::format("negative dimensions are not allowed: {}", to_string(wanted)));
    } else {
      overflow = overflow || __builtin_mul_overflow(known, shape[d], &known);
    }
  }
  if (unknown >= 0 && !overflow && known > 0 && size % known == 0) {
    shape[unknown] = size / known;
    return shape;
  }
  if (unknown >= 0 || overflow || known != size)
    throw InvalidArgument(fmt::format("cannot reshape array of size {} into shape {}", size, to_string(wanted)));
  return shape;
}

// In pieces through pinned memory. Blocks.
void copy_through_host(const NdArray& to, const NdArray& from, int64_t bytes) {
  constexpr int64_t kPiece = int64_t{16} << 20;
  const int64_t piece = std::min(bytes, kPiece);
  const Buffer pinned(piece, default_pinned_pool(from.device().kind), /*stream=*/nullptr);
  void* const staging = pinned.data();
  const ExecContext source = context_for(from.device()), target = context_for(to.device());
  for (int64_t at = 0; at < bytes; at += piece) {
    const int64_t part = std::min(piece, bytes - at);
    source.stream->copy(staging, static_cast<char*>(from.raw()) + at, part);
    source.stream->synchronize();
    target.stream->copy(static_cast<char*>(to.raw()) + at, staging, part);
    target.stream->synchronize();
  }
}

// Copies between contiguous arrays on different devices: at once where one is the CPU or both are of one kind, else
// through pinned memory.
void copy_across(const NdArray& to, const NdArray& from) {
  const int64_t bytes = from.nbytes();
  if (bytes == 0) return;
  const bool to_host = to.device().kind == DeviceKind::cpu, from_host = from.device().kind == DeviceKind::cpu;
  const ExecContext context = context_for(from_host ? to.device() : from.device());
  if (!from_host) from.begin_read(context.stream);
  if (!to_host) to.begin_write(context_for(to.device()).stream);
  if (to_host || from_host) {
    context.stream->copy(to.raw(), from.raw(), bytes);
  } else if (to.device().kind == from.device().kind) {
    // What the target's memory was used for before may still be queued there.
    context_for(to.device()).stream->synchronize();
    context.stream->copy_to_peer(to.raw(), to.device(), from.raw(), bytes);
  } else {
    return copy_through_host(to, from, bytes);
  }
  context.stream->synchronize();
}

}  // namespace

void detail::check_element_count(int64_t count, const Dims& shape) {
  if (count != element_count(shape))
    throw InvalidArgument(fmt::format("cannot reshape array of size {} into shape {}", count, to_string(shape)));
}

NdArray::NdArray(const Dims& shape, DType dtype, const ExecContext& context)
    : dtype_(dtype), shape_(shape), strides_(contiguous_strides(shape, local::itemsize(dtype))) {
  buffer_ = std::make_shared<Buffer>(checked_bytes(shape, dtype), *context.memory, context.stream);
}

NdArray::NdArray(std::shared_ptr<Buffer> buffer, DType dtype, const Dims& shape, const Dims& strides_bytes,
                 int64_t offset_bytes)
    : buffer_(std::move(buffer)), dtype_(dtype), shape_(shape), strides_(strides_bytes), offset_(offset_bytes) {
  QUARRY_CHECK(buffer_ != nullptr && shape_.size() == strides_.size());
  if (buffer_->read_only()) read_only_ = ReadOnly::imported;
}

Device NdArray::device() const { return buffer_ ? buffer_->device() : kCpu; }

bool NdArray::is_contiguous() const {
  int64_t step = itemsize();
  for (int d = ndim() - 1; d >= 0; --d) {
    if (shape_[d] == 0) return true;
    if (shape_[d] != 1 && strides_[d] != step) return size() == 0;
    step *= shape_[d];
  }
  return true;
}

Buffer& NdArray::checked_buffer() const {
  if (!buffer_) throw InvalidArgument("the array was default-constructed and never assigned: it has no data");
  return *buffer_;
}

void NdArray::begin_read(DeviceStream* stream) const { checked_buffer().use(stream, Access::read); }

void NdArray::begin_write(DeviceStream* stream) const {
  check_writable();
  checked_buffer().use(stream, Access::write);
}

void* NdArray::raw() const { return static_cast<char*>(checked_buffer().data()) + offset_; }

void NdArray::throw_read_only() const {
  const auto reason = [this] {
    switch (read_only_) {
      case ReadOnly::no:
        break;
      case ReadOnly::broadcast:
        return "it is a broadcast view, whose elements share memory";
      case ReadOnly::diagonal:
        return "it is a view of a diagonal, as NumPy's";
      case ReadOnly::window:
        return "it is a view of sliding windows, whose elements share memory";
      case ReadOnly::imported:
        return "its memory was imported read-only";
      case ReadOnly::requested:
        return "it was made so (set_writeable)";
    }
    return "";
  };
  throw InvalidArgument(fmt::format("the array of shape {} is read-only: {}", local::to_string(shape_), reason()));
}

void NdArray::set_writeable(bool writeable) {
  if (!writeable) {
    if (read_only_ == ReadOnly::no) read_only_ = ReadOnly::requested;
    return;
  }
  const bool shares = read_only_ == ReadOnly::broadcast || read_only_ == ReadOnly::window;
  if (shares || (buffer_ && buffer_->read_only())) {
    throw InvalidArgument(fmt::format("cannot set the flag writeable: {}",
                                      shares ? "elements share memory" : "the memory was imported read-only"));
  }
  read_only_ = ReadOnly::no;
}

NdArray NdArray::as_read_only(ReadOnly reason) const {
  NdArray view = *this;
  if (view.read_only_ == ReadOnly::no) view.read_only_ = reason;
  return view;
}

NdArray NdArray::restrided(const Dims& shape, const Dims& strides_bytes, int64_t offset_bytes, DType dtype) const {
  checked_buffer();
  QUARRY_CHECK(shape.size() == strides_bytes.size());
  NdArray view = *this;
  view.dtype_ = dtype;
  view.shape_ = shape;
  view.strides_ = strides_bytes;
  view.offset_ = offset_bytes;
  return view;
}

void NdArray::check_type(DType expected) const {
  if (dtype_ != expected) throw TypeError(fmt::format("the array has dtype {}, not {}", name(dtype_), name(expected)));
}

Scalar NdArray::item() const {
  if (size() != 1) throw InvalidArgument("can only convert an array of size 1 to a scalar");
  alignas(16) unsigned char bytes[16];
  if (device().kind == DeviceKind::cpu) return Scalar::load(dtype_, raw());
  const ExecContext context = context_for(device());
  begin_read(context.stream);
  context.stream->copy(bytes, raw(), itemsize());
  context.stream->synchronize();
  return Scalar::load(dtype_, bytes);
}

View NdArray::operator[](std::span<const IndexItem> index) const {
  const BasicIndex basic = resolve_index(index, shape_);
  NdArray view = *this;
  view.shape_ = basic.shape();
  view.strides_ = Dims::filled(view.shape_.size());
  for (const auto& [axis, position] : basic.integers) view.offset_ += position * strides_[axis];
  for (int d = 0; d < view.shape_.size(); ++d) {
    const BasicIndex::Axis& axis = basic.axes[static_cast<size_t>(d)];
    if (axis.source < 0) continue;
    view.offset_ += axis.start * strides_[axis.source];
    view.strides_[d] = axis.step * strides_[axis.source];
  }
  return View(std::move(view));
}

NdArray NdArray::transpose(std::span<const int64_t> axes) const {
  NdArray view = *this;
  if (axes.empty()) {
    std::reverse(view.shape_.begin(), view.shape_.end());
    std::reverse(view.strides_.begin(), view.strides_.end());
    return view;
  }
  if (static_cast<int>(axes.size()) != ndim()) throw InvalidArgument("axes don't match array");
  uint32_t seen = 0;
  for (int d = 0; d < ndim(); ++d) {
    const int source = normalize_axis(axes[static_cast<size_t>(d)], ndim());
    if (seen & (1u << source)) throw InvalidArgument("repeated axis in transpose");
    seen |= 1u << source;
    view.shape_[d] = shape_[source];
    view.strides_[d] = strides_[source];
  }
  return view;
}

NdArray NdArray::broadcast_to(const Dims& shape) const {
  const int shift = shape.size() - ndim();
  bool fits = shift >= 0;
  for (int d = 0; fits && d < ndim(); ++d) fits = shape_[d] == 1 || shape_[d] == shape[d + shift];
  if (!fits) {
    throw InvalidArgument(fmt::format("operands could not be broadcast together with remapped shapes: {} into {}",
                                      local::to_string(shape_), local::to_string(shape)));
  }
  NdArray view = *this;
  view.shape_ = shape;
  view.strides_ = Dims::filled(shape.size(), 0);
  for (int d = 0; d < ndim(); ++d)
    if (shape_[d] == shape[d + shift] && shape_[d] != 1) view.strides_[d + shift] = strides_[d];
  if (view.read_only_ == ReadOnly::no) view.read_only_ = ReadOnly::broadcast;
  return view;
}

NdArray NdArray::reshape(const Dims& wanted) const {
  const Dims shape = resolve_reshape(wanted, size());
  NdArray view = *this;
  view.shape_ = shape;
  if (size() == 0) {
    view.strides_ = contiguous_strides(shape, itemsize());
    return view;
  }
  const std::optional<Dims> strides = view_strides(shape_, strides_, shape, itemsize());
  if (!strides) return copy(context_for(device())).reshape(shape);
  view.strides_ = *strides;
  return view;
}

NdArray NdArray::real() const {
  NdArray view = *this;
  view.dtype_ = real_type(dtype_);
  return view;
}

NdArray NdArray::imag() const {
  if (!is_complex(dtype_)) {
    NdArray zeros(shape_, dtype_, context_for(device()));
    zeros.fill(0, context_for(device()));
    return zeros;
  }
  NdArray view = real();
  view.offset_ += view.itemsize();
  return view;
}

NdArray NdArray::copy(const ExecContext& context) const { return astype(dtype_, context); }

NdArray NdArray::astype(DType dtype, const ExecContext& context) const {
  const ExecContext here = context.device == device() ? context : context_for(device());
  NdArray result(shape_, dtype, here);
  if (size() == 0) return result;
  if (dtype == dtype_ && is_contiguous()) {
    begin_read(here.stream);
    result.begin_write(here.stream);
    here.stream->copy(result.raw(), raw(), nbytes());
    return result;
  }
  Program program;
  program.output(program.cast(program.input(dtype_), dtype));
  const NdArray *in[] = {this}, *out[] = {&result};
  run_elementwise(program, in, out, here);
  return result;
}

NdArray NdArray::to(Device target) const {
  if (target == device()) return *this;
  const NdArray packed = is_contiguous() ? *this : copy(context_for(device()));
  NdArray result(shape_, dtype_, context_for(target));
  copy_across(result, packed);
  return result;
}

void NdArray::assign(const NdArray& value, const ExecContext& context) const {
  check_writable();
  if (!can_cast(value.dtype(), dtype_, Casting::same_kind)) {
    throw TypeError(fmt::format("Cannot cast array data from {} to {} according to the rule 'same_kind'",
                                name(value.dtype()), name(dtype_)));
  }
  const ExecContext here = context.device == device() ? context : context_for(device());
  NdArray source = value.to(device());
  // As NumPy, leading axes of one element may be dropped.
  while (source.ndim() > ndim() && source.shape_[0] == 1) {
    source.shape_.erase(0);
    source.strides_.erase(0);
  }
  const int shift = ndim() - source.ndim();
  bool fits = shift >= 0;
  for (int d = 0; fits && d < source.ndim(); ++d) fits = source.shape_[d] == 1 || source.shape_[d] == shape_[d + shift];
  if (!fits) {
    throw InvalidArgument(fmt::format("could not broadcast input array from shape {} into shape {}",
                                      local::to_string(value.shape()), local::to_string(shape_)));
  }
  if (size() == 0) return;
  const bool identical =
      source.shape_ == shape_ && source.raw() == raw() && source.strides_ == strides_ && source.dtype_ == dtype_;
  if (may_overlap(*this, source) && !identical) source = source.copy(here);
  Program program;
  program.output(program.cast(program.input(source.dtype_), dtype_));
  const NdArray *in[] = {&source}, *out[] = {this};
  run_elementwise(program, in, out, here);
}

void NdArray::fill(const Scalar& value, const ExecContext& context) const {
  check_writable();
  const ExecContext here = context.device == device() ? context : context_for(device());
  check_weak_fits(value, dtype_);
  Program program;
  program.output(program.constant(value, dtype_));
  const NdArray* out[] = {this};
  run_elementwise(program, {}, out, here);
  // A trial knows small arrays of numbers.
  constexpr int64_t kSmallBytes = 4096;
  if (has_values(*this) || nbytes() > kSmallBytes || !is_contiguous()) return;
  char values[kSmallBytes];
  for (int64_t i = 0; i < size(); ++i) value.store(dtype_, values + i * itemsize());
  here.stream->copy(raw(), values, nbytes());
}

NdArray from_bytes(const void* data, DType dtype, const Dims& shape) {
  const ExecContext context = current_context();
  NdArray result(shape, dtype, context);
  if (result.nbytes() == 0) return result;
  context.stream->copy(result.raw(), data, result.nbytes());
  context.stream->synchronize();
  return result;
}

}  // namespace quarry::local
