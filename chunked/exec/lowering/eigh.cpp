// The eigenproblem of a matrix in one chunk: one task, on the owner of chunk 0.
#include "quarry/chunked/exec/bodies/operand.h"
#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/local/base/error.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::exec {
namespace {

class EighBody : public scheduler::TaskBody {
 public:
  EighBody(const plan::Stage& stage, const plan::Eigh& eigh, int rank, const Ownership& owners)
      : stage_(stage), eigh_(eigh), rank_(rank), owners_(owners) {}
  std::string name(int64_t /*index*/) const override { return stage_.label; }

  Access access() const {
    const plan::Input& in = eigh_.a;
    return resolve(in.array, in.grid, local::itemsize(in.dtype),
                   in.map.region(Region::whole(stage_.outputs[1].shape), in.shape.size()), rank_, owners_);
  }

  int64_t scratch_bytes(const local::Device& device) const {
    return local::engine(device).decompositions().eigh_scratch_bytes(eigh_.a.dtype, stage_.outputs[0].shape[0]);
  }

  void run(scheduler::TaskRun& run) override {
    const int64_t n = stage_.outputs[0].shape[0];
    const int64_t itemsize = local::itemsize(eigh_.a.dtype);
    const Access from = access();
    const local::Operand a = operand(from, eigh_.a.map, run.inputs[0].data);
    QUARRY_CHECK(n == 0 || a.strides[1] == itemsize || a.strides[0] == itemsize || n == 1);
    const local::MatrixView matrix{a.data, n, n, a.strides[0] / itemsize, a.strides[1] / itemsize};
    const local::MatrixView vectors{run.outputs[1].data, n, n, n, 1};
    if (n == 0) return;
    local::engine(run.context.device)
        .decompositions()
        .eigh(eigh_.a.dtype, eigh_.triangle, matrix, run.outputs[0].data, vectors, run.context);
  }

 private:
  const plan::Stage& stage_;
  const plan::Eigh& eigh_;
  int rank_;
  Ownership owners_;
};

}  // namespace

void lower_work(Builder& builder, const plan::Eigh& eigh) {
  if (!builder.mine(builder.owner(0, 1))) return;
  const plan::Stage& stage = builder.stage();
  const auto [number, body] = builder.add_body<EighBody>(stage, eigh, builder.context().rank, builder.context().owners);
  const scheduler::BlockId input = builder.prefetch(eigh.a, body->access());
  std::vector<scheduler::BlockId> produced;
  for (size_t o = 0; o < stage.outputs.size(); ++o) {
    const auto& output = stage.outputs[o];
    QUARRY_CHECK(output.grid.count() == 1);
    produced.push_back(
        builder.add_output(static_cast<int>(o), 0, local::element_count(output.shape) * local::itemsize(output.dtype)));
  }
  builder.add_compute(number, 0, {kProgressEnd, kFinalize}, {body->scratch_bytes(builder.device()), 0}, {input},
                      produced);
}

}  // namespace quarry::exec
