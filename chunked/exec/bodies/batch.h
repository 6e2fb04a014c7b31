// Launches and tasks that are run together.
#pragma once

#include <cstddef>
#include <vector>

#include "quarry/local/program/engine.h"
#include "quarry/local/program/program.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

// Launches of one program that are run together; they keep the memory of earlier ones.
class Batch {
 public:
  // The calling thread's, empty.
  static Batch& mine();
  // The next launch, of unspecified content, until another one is added; and the one before it.
  local::Launch& add(const local::ExecContext& context);
  // The same where nothing is reduced: the content, but for what a reduction has, is not specified.
  local::Launch& add_elementwise(const local::ExecContext& context);
  const local::Launch* before() const { return size_ > 1 ? &launches_[size_ - 2] : nullptr; }
  size_t size() const { return size_; }
  // Runs them and is empty again.
  void run(const local::Program& program);

 private:
  std::vector<local::Launch> launches_;
  std::vector<local::ExecContext> contexts_;
  size_t size_ = 0;
};

// Tasks that are run together wherever several are ready.
class BatchedBody : public scheduler::TaskBody {
 public:
  bool supports_batching() const final { return true; }
  void run(scheduler::TaskRun& run) final {
    scheduler::TaskRun* const one = &run;
    run_batch({&one, 1});
  }
  void run_batch(std::span<scheduler::TaskRun* const> runs) override = 0;
};

}  // namespace quarry::exec
