// Operators' stages: one task that calls local_into(), where the arrays are one chunk; else what the operator says.
#include "quarry/chunked/exec/bodies/arguments.h"
#include "quarry/chunked/exec/bodies/scratch_pool.h"
#include "quarry/chunked/exec/lowering/builder.h"

namespace quarry::exec {
namespace {

class LocalBody : public scheduler::TaskBody {
 public:
  static constexpr bool kRunsAgain = true;
  LocalBody(const plan::Stage& stage, const plan::Applied& applied, int64_t scratch_bytes, const Builder& builder)
      : stage_(stage),
        applied_(applied),
        scratch_bytes_(scratch_bytes),
        rank_(builder.context().rank),
        owners_(builder.context().owners) {}
  std::string name(int64_t /*index*/) const override { return stage_.label; }

  std::vector<op::Need> needs() const {
    std::vector<op::Need> whole;
    for (size_t i = 0; i < applied_.inputs.size(); ++i)
      whole.push_back({static_cast<int>(i), Region::whole(applied_.call.arguments[i].shape)});
    return whole;
  }
  Access access(const op::Need& need) const { return access_of(applied_, need, rank_, owners_); }

  void run(scheduler::TaskRun& run) override {
    ScratchPool scratch(run.context, scratch_bytes_);
    const local::ExecContext context = scratch.context();
    const local::DeviceScope scope(context);
    std::vector<local::NdArray> arguments, outputs;
    for (const op::Need& need : needs())
      arguments.push_back(argument_array(applied_, need, access(need), run.inputs[arguments.size()], context));
    for (const plan::Stage::Output& output : stage_.outputs)
      outputs.push_back(result_array(output.shape, output.dtype, run.outputs[outputs.size()], context));
    applied_.op->local_into(arguments, outputs);
  }

 private:
  const plan::Stage& stage_;
  const plan::Applied& applied_;
  const int64_t scratch_bytes_;
  const int rank_;
  const Ownership owners_;
};

void lower_one_chunk(Builder& builder, const plan::Applied& applied) {
  if (builder.owned(Owners::blocks(), Grid()).size() == 0) return;
  const plan::Stage& stage = builder.stage();
  const int64_t scratch = local::rounded_allocation(op::local_peak_bytes(*applied.op, applied.call, builder.device()));
  const auto [number, body] = builder.add_body<LocalBody>(stage, applied, scratch, builder);
  std::vector<scheduler::BlockId> inputs, produced;
  for (const op::Need& need : body->needs())
    inputs.push_back(builder.prefetch(applied.inputs[inputs.size()], body->access(need)));
  for (const plan::Stage::Output& output : stage.outputs) {
    QUARRY_CHECK(output.grid.count() == 1);
    const int64_t bytes = local::element_count(output.shape) * local::itemsize(output.dtype);
    produced.push_back(builder.add_output(static_cast<int>(produced.size()), 0, bytes));
  }
  builder.add_compute(number, 0, {kProgressEnd, kFinalize}, {scratch, 0}, inputs, produced);
}

}  // namespace

void lower_work(Builder& builder, const plan::Applied& applied) {
  if (applied.one_chunk)
    lower_one_chunk(builder, applied);
  else
    applied.op->lower(builder, applied);
}

}  // namespace quarry::exec
