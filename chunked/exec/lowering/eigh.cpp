// The eigenproblem of a matrix in one chunk: one task, on the owner of chunk 0.
#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

void lower_eigh(Builder& builder) {
  if (!builder.mine(builder.owner(0, 1))) return;
  const plan::Stage& stage = builder.stage();
  const auto [number, body] = builder.add_body<EighBody>(stage, builder.context().rank, builder.context().ranks);
  const scheduler::BlockId input = builder.arrive(std::get<plan::Eigh>(stage.work).a, body->access());
  std::vector<scheduler::BlockId> produced;
  for (size_t o = 0; o < stage.outputs.size(); ++o) {
    const auto& output = stage.outputs[o];
    QUARRY_CHECK(output.grid.count() == 1);
    produced.push_back(
        builder.add_output(static_cast<int>(o), 0, local::element_count(output.shape) * local::itemsize(output.dtype)));
  }
  builder.add_compute(number, 0, {kProgressEnd, kFinish}, {body->scratch_bytes(builder.device()), 0}, {input},
                      produced);
}

}  // namespace quarry::exec
