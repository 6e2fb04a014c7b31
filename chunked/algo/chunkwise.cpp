#include "quarry/chunked/algo/chunkwise.h"

#include <fmt/format.h>

#include "quarry/chunked/exec/bodies/arguments.h"
#include "quarry/chunked/exec/bodies/scratch_pool.h"
#include "quarry/chunked/exec/lowering/builder.h"

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

class ChunkBody : public scheduler::TaskBody {
 public:
  ChunkBody(const Chunkwise& op, const plan::Applied& stage, const std::string& label,
            const exec::LoweringContext& context)
      : op_(op), stage_(stage), label_(label), rank_(context.rank), owners_(context.owners) {}
  std::string name(int64_t index) const override {
    return fmt::format("{} in chunk {}", label_, local::to_string(stage_.call.outputs[0].grid.coordinates(index)));
  }

  exec::Access access(const op::Need& need) const { return exec::access_of(stage_, need, rank_, owners_); }

  void run(scheduler::TaskRun& run) override {
    exec::ScratchPool scratch(run.context, op_.scratch_bytes(stage_.call, run.index));
    const local::ExecContext context = scratch.context();
    const local::DeviceScope scope(context);
    std::vector<op::Need> needs;
    op_.needs(stage_.call, run.index, needs);
    std::vector<NdArray> pieces, outputs;
    for (const op::Need& need : needs)
      pieces.push_back(exec::argument_array(stage_, need, access(need), run.inputs[pieces.size()], context));
    for (const op::ArraySpec& output : stage_.call.outputs)
      outputs.push_back(
          exec::result_array(output.grid.chunk_shape(run.index), output.dtype, run.outputs[outputs.size()], context));
    op_.run(stage_.call, run.index, pieces, outputs);
  }

 private:
  const Chunkwise& op_;
  const plan::Applied& stage_;
  const std::string& label_;
  const int rank_;
  const Ownership owners_;
};

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
    run(call, chunk, pieces, parts);
  }
}

void Chunkwise::lower(exec::Builder& builder, const plan::Applied& stage) const {
  const std::vector<op::ArraySpec>& outputs = stage.call.outputs;
  const auto [number, body] = builder.add_body<ChunkBody>(*this, stage, builder.stage().label, builder.context());
  const auto [first, last] = builder.owned(outputs[0].grid.count());
  std::vector<op::Need> reads;
  std::vector<scheduler::BlockId> inputs, produced;
  for (int64_t chunk = first; chunk < last; ++chunk) {
    reads.clear();
    inputs.clear();
    produced.clear();
    needs(stage.call, chunk, reads);
    for (const op::Need& need : reads)
      inputs.push_back(builder.prefetch_shared(stage.inputs[static_cast<size_t>(need.argument)], body->access(need)));
    for (const op::ArraySpec& output : outputs) {
      const int64_t bytes = output.grid.chunk_elements(chunk) * local::itemsize(output.dtype);
      produced.push_back(builder.add_output(static_cast<int>(produced.size()), chunk, bytes));
    }
    builder.add_compute(number, chunk, {builder.progress(chunk), exec::kMain}, {scratch_bytes(stage.call, chunk), 0},
                        inputs, produced);
  }
}

}  // namespace quarry::algo
