#include "quarry/chunked/exec/lowering/chunks.h"

#include <fmt/format.h>

#include "quarry/chunked/exec/bodies/arguments.h"
#include "quarry/chunked/exec/bodies/scratch_pool.h"

namespace quarry::exec {
namespace {

class ChunkBody : public scheduler::TaskBody {
 public:
  static constexpr bool kRunsAgain = true;
  ChunkBody(const plan::Applied& stage, const std::string& label, const LoweringContext& context)
      : stage_(stage), label_(label), maker_(stage, context.rank, context.owners, context.device) {}
  std::string name(int64_t index) const override {
    return fmt::format("{} in chunk {}", label_, local::to_string(stage_.call.outputs[0].grid.coordinates(index)));
  }
  const ChunkMaker& maker() const { return maker_; }

  void run(scheduler::TaskRun& run) override {
    ScratchPool scratch(run.context, maker_.scratch_bytes(run.index));
    const local::ExecContext context = scratch.context();
    const local::DeviceScope scope(context);
    std::vector<local::NdArray> outputs;
    for (const op::ArraySpec& output : stage_.call.outputs)
      outputs.push_back(
          result_array(output.grid.chunk_shape(run.index), output.dtype, run.outputs[outputs.size()], context));
    maker_.make(run.index, run.inputs, outputs, context);
  }

 private:
  const plan::Applied& stage_;
  const std::string& label_;
  const ChunkMaker maker_;
};

}  // namespace

void prefetch_chunk(Builder& builder, const ChunkMaker& maker, int64_t chunk, std::vector<scheduler::BlockId>& inputs) {
  maker.for_each_input(chunk, [&](const plan::Input& input, const Access& access) {
    inputs.push_back(builder.prefetch_shared(input, access));
  });
}

void lower_chunks(Builder& builder, const plan::Applied& stage) {
  const std::vector<op::ArraySpec>& outputs = stage.call.outputs;
  const auto [number, body] = builder.add_body<ChunkBody>(stage, builder.stage().label, builder.context());
  std::vector<scheduler::BlockId> inputs, produced;
  if (builder.takes_shares()) {
    Shares shares;
    for (const int64_t chunk : builder.owned())
      body->maker().for_each_input(chunk, [&](const plan::Input& input, const Access& access) {
        if (access.kind == Access::Kind::gather) shares.add(&input, access.region);
      });
    builder.set_shares(std::move(shares));
  }
  for (const int64_t chunk : builder.owned()) {
    inputs.clear();
    produced.clear();
    prefetch_chunk(builder, body->maker(), chunk, inputs);
    for (const op::ArraySpec& output : outputs) {
      const int64_t bytes = output.grid.chunk_elements(chunk) * local::itemsize(output.dtype);
      produced.push_back(builder.add_output(static_cast<int>(produced.size()), chunk, bytes));
    }
    builder.add_compute(number, chunk, {builder.progress(chunk), kMain}, {body->maker().scratch_bytes(chunk), 0},
                        inputs, produced);
  }
}

}  // namespace quarry::exec
