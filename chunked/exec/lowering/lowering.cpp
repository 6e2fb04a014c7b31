#include "quarry/chunked/exec/lowering/lowering.h"

#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {
namespace {

void lower_stage(Builder& builder) {
  std::visit([&](const auto& work) { lower_work(builder, work); }, builder.stage().work);
}

// Keeps or writes the own chunks of a result.
void lower_sink(Builder& builder, const Sink& sink) {
  Lowered& result = builder.result();
  result.persisted.emplace_back();
  QUARRY_CHECK(sink.array.kind == plan::ArrayRef::Kind::stage);
  builder.begin(sink.array.stage);
  const plan::Stage& stage = builder.stage();
  const auto& output = stage.outputs[static_cast<size_t>(sink.array.output)];
  int32_t number = -1;
  WriteBody* body = nullptr;
  if (sink.kind == Sink::Kind::write)
    std::tie(number, body) = builder.add_body<WriteBody>(output.grid, stage.label, builder.context().executor,
                                                         sink.whole, sink.scratch_bytes, sink.write);
  const bool late = stage.is_barrier(sink.array.output);
  const auto [first, last] = builder.owned(output.grid.count());
  for (int64_t chunk = first; chunk < last; ++chunk) {
    const scheduler::BlockId block = builder.block(builder.key_of(sink.array, chunk));
    if (sink.kind == Sink::Kind::persist) {
      result.persisted.back().push_back(block);
      continue;
    }
    const int64_t bytes = output.grid.chunk_elements(chunk) * local::itemsize(output.dtype);
    builder.add_task(scheduler::TaskKind::write, scheduler::QueueKind::io, number, chunk,
                     {late ? kProgressEnd : builder.progress(chunk), kSink},
                     {body->scratch_bytes(builder.device()), bytes}, {block}, {});
    builder.note_staging(
        [&](int64_t host_bytes) { return body->staging_bytes(chunk, local::itemsize(output.dtype), host_bytes); });
    result.write_bytes += bytes;
  }
}

}  // namespace

std::unique_ptr<Lowered> lower(const plan::Plan& plan, const std::vector<Sink>& sinks, const LoweringContext& context) {
  Builder builder(plan, sinks, context);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    builder.begin(static_cast<int>(s));
    lower_stage(builder);
  }
  for (const Sink& sink : sinks) lower_sink(builder, sink);
  return builder.finish();
}

}  // namespace quarry::exec
