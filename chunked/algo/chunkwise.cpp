#include "quarry/chunked/algo/chunkwise.h"

#include "quarry/chunked/exec/lowering/chunks.h"

namespace quarry::algo {
namespace {

using local::NdArray;

NdArray box_of(const NdArray& array, const Region& box) {
  int64_t offset = array.offset();
  if (box.elements() > 0)
    for (int d = 0; d < box.ndim(); ++d) offset += array.strides()[d] * box.start[d];
  return array.restrided(box.count, array.strides(), offset);
}

op::Call call_of(const op::Operator& op, std::span<const NdArray> arguments) {
  op::Call call;
  for (const NdArray& argument : arguments)
    call.arguments.push_back(op::in_one_chunk(argument.shape(), argument.dtype()));
  call.outputs = op.infer(call.arguments, /*room=*/0);
  return call;
}

}  // namespace

std::vector<NdArray> Chunkwise::local(std::span<const NdArray> arguments) const {
  std::vector<NdArray> outputs;
  for (const op::ArraySpec& output : call_of(*this, arguments).outputs)
    outputs.emplace_back(output.shape, output.dtype);
  local_into(arguments, outputs);
  return outputs;
}

void Chunkwise::local_into(std::span<const NdArray> arguments, std::span<const NdArray> outputs) const {
  const op::Call call = call_of(*this, arguments);
  for (int64_t chunk = 0; chunk < call.outputs[0].grid.count(); ++chunk) {
    std::vector<op::Need> reads;
    needs(call, chunk, reads);
    std::vector<NdArray> pieces, parts;
    for (const op::Need& need : reads)
      pieces.push_back(box_of(arguments[static_cast<size_t>(need.argument)], need.box));
    for (size_t i = 0; i < outputs.size(); ++i) parts.push_back(box_of(outputs[i], call.outputs[i].grid.chunk(chunk)));
    make_chunk(call, chunk, pieces, parts);
  }
}

void Chunkwise::lower(exec::Builder& builder, const plan::Applied& stage) const { exec::lower_chunks(builder, stage); }

}  // namespace quarry::algo
