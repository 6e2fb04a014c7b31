#include "quarry/local/ndarray/launch.h"

#include <fmt/format.h>

#include "quarry/local/memory/buffer.h"

namespace quarry::local {

ExecContext context_for(Device device) {
  const ExecContext& current = current_context();
  return current.device == device ? current : default_context(device);
}

Device common_device(std::span<const NdArray* const> arrays) {
  if (arrays.empty()) return current_context().device;
  const Device first = arrays[0]->device();
  for (const NdArray* array : arrays) {
    if (array->device() != first) {
      throw InvalidArgument(fmt::format("operands are on different devices, {} and {}: move one of them with to()",
                                        to_string(first), to_string(array->device())));
    }
  }
  return first;
}

Operand operand(const NdArray& array, const Dims& space) {
  Operand result{array.raw(), Dims::filled(space.size(), 0)};
  const int shift = space.size() - array.ndim();
  QUARRY_CHECK(shift >= 0);
  for (int d = 0; d < array.ndim(); ++d)
    if (array.shape()[d] != 1) result.strides[d + shift] = array.strides()[d];
  return result;
}

void run_elementwise(const Program& program, std::span<const NdArray* const> inputs,
                     std::span<const NdArray* const> outputs, const ExecContext& context) {
  Launch launch;
  launch.shape = outputs[0]->shape();
  for (const NdArray* output : outputs) output->check_writable();
  if (element_count(launch.shape) == 0) return;
  launch.inputs.reserve(inputs.size());
  launch.outputs.reserve(outputs.size());
  for (const NdArray* input : inputs) {
    input->begin_read(context.stream);
    launch.inputs.push_back(operand(*input, launch.shape));
  }
  for (const NdArray* output : outputs) {
    output->begin_write(context.stream);
    launch.outputs.push_back(operand(*output, launch.shape));
  }
  engine(context.device).run(program, launch, context);
}

namespace {

// First and one past the last byte.
std::pair<const char*, const char*> extent(const NdArray& array) {
  const char* low = static_cast<const char*>(array.raw());
  const char* high = low + array.itemsize();
  for (int d = 0; d < array.ndim(); ++d) {
    const int64_t reach = (array.shape()[d] - 1) * array.strides()[d];
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

}  // namespace

bool may_overlap(const NdArray& a, const NdArray& b) {
  if (!a.buffer() || !b.buffer()) return false;
  if (a.size() == 0 || b.size() == 0 || a.device() != b.device()) return false;
  // Two of our own allocations are apart; imported memory may be anyone's.
  const Buffer &of_a = *a.buffer(), &of_b = *b.buffer();
  if (&of_a != &of_b && of_a.memory() != nullptr && of_b.memory() != nullptr) return false;
  const auto [a_low, a_high] = extent(a);
  const auto [b_low, b_high] = extent(b);
  return a_low < b_high && b_low < a_high;
}

}  // namespace quarry::local
