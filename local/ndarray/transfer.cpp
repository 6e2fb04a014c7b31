#include "quarry/local/ndarray/transfer.h"

#include <fmt/format.h>

#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/pools.h"
#include "quarry/local/ndarray/launch.h"

namespace quarry::local {

NdArray from_host_async(const void* data, DType dtype, const Dims& shape, const ExecContext& context) {
  NdArray result(shape, dtype, context);
  if (result.nbytes() > 0) context.stream->copy(result.raw(), data, result.nbytes());
  return result;
}

NdArray from_host(const void* data, DType dtype, const Dims& shape, const ExecContext& context) {
  NdArray result = from_host_async(data, dtype, shape, context);
  context.stream->synchronize();
  return result;
}

void to_host_async(const NdArray& array, void* data, const ExecContext& context) {
  if (context.device != array.device()) {
    throw InvalidArgument(
        fmt::format("the array is on {}, the context is for {}", to_string(array.device()), to_string(context.device)));
  }
  if (array.nbytes() == 0) return;
  // The packed copy is given back in stream order, after the copy to the host.
  const NdArray packed = array.is_contiguous() ? array : array.copy(context);
  packed.begin_read(context.stream);
  context.stream->copy(data, packed.raw(), packed.nbytes());
}

void to_host(const NdArray& array, void* data) {
  const ExecContext context = context_for(array.device());
  to_host_async(array, data, context);
  context.stream->synchronize();
}

NdArray pinned_empty(const Dims& shape, DType dtype, DeviceKind kind) {
  for (int64_t extent : shape)
    if (extent < 0) throw InvalidArgument("negative dimensions are not allowed: " + to_string(shape));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(element_count(shape), itemsize(dtype), &bytes))
    throw InvalidArgument(fmt::format("the shape {} has more bytes than 64 bits can count", to_string(shape)));
  auto buffer = std::make_shared<Buffer>(bytes, default_pinned_pool(kind), /*stream=*/nullptr);
  return NdArray(std::move(buffer), dtype, shape, contiguous_strides(shape, itemsize(dtype)), 0);
}

}  // namespace quarry::local
