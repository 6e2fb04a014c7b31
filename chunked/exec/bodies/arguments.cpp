#include "quarry/chunked/exec/bodies/arguments.h"

namespace quarry::exec {
namespace {

std::shared_ptr<local::Buffer> adopted(const scheduler::BlockView& block, const local::ExecContext& context) {
  return std::make_shared<local::Buffer>(block.data, block.bytes, context.device, nullptr, context.stream);
}

}  // namespace

Access access_of(const plan::Applied& stage, const op::Need& need, int rank, const Ownership& owners) {
  const plan::Input& input = stage.inputs[static_cast<size_t>(need.argument)];
  return resolve(input.array, input.grid, local::itemsize(input.dtype), input.map.region(need.box, input.shape.size()),
                 rank, owners);
}

local::NdArray argument_array(const plan::Applied& stage, const op::Need& need, const Access& access,
                              const scheduler::BlockView& block, const local::ExecContext& context) {
  const plan::Input& input = stage.inputs[static_cast<size_t>(need.argument)];
  const local::NdArray array(adopted(block, context), input.dtype, need.box.count,
                             space_strides(input.map, access.strides), access.offset);
  return array.as_read_only();
}

local::NdArray result_array(const Dims& shape, local::DType dtype, const scheduler::BlockView& block,
                            const local::ExecContext& context) {
  return {adopted(block, context), dtype, shape, local::contiguous_strides(shape, local::itemsize(dtype)), 0};
}

}  // namespace quarry::exec
