#include "quarry/chunked/exec/bodies/batch.h"

namespace quarry::exec {

Batch& Batch::mine() {
  static thread_local Batch batch;
  batch.size_ = 0;
  return batch;
}

local::Launch& Batch::add(const local::ExecContext& context) {
  if (size_ == launches_.size()) {
    launches_.emplace_back();
    contexts_.emplace_back();
  }
  contexts_[size_] = context;
  return launches_[size_++];
}

local::Launch& Batch::add_elementwise(const local::ExecContext& context) {
  local::Launch& launch = add(context);
  launch.reduce_axes = 0;
  launch.states.clear();
  return launch;
}

void Batch::run(const local::Program& program) {
  local::engine(contexts_[0].device).run_each(program, {launches_.data(), size_}, {contexts_.data(), size_});
  size_ = 0;
}

}  // namespace quarry::exec
