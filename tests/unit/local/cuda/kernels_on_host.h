// Runs generated kernels on the CPU, for tests of the code generator on machines without a GPU: the system's compiler
// compiles the kernels' text behind what block_on_host.inl says about CUDA, and fibers stand for a block's threads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quarry/local/cuda/codegen/codegen.h"
#include "quarry/local/cuda/plan.h"
#include "quarry/local/program/engine.h"

namespace quarry::local::cuda {

// Kernels gathered into one compilation. add() all launches, compile(), run() each as often as wanted.
class KernelsOnHost {
 public:
  // The number of the launch, whose operands are read and written by run(). Launches that differ in parameters only
  // share a kernel.
  size_t add(const Program& program, const Launch& launch, const PlanOverrides& overrides = {});
  // The same for launches of one geometry, which one kernel takes together.
  size_t add_several(const Program& program, std::vector<Launch> launches);
  // Kernels that are not generated, over Params of 64-bit slots, all in the namespace quarry::local::<space>.
  void add(const ModuleSource& source, const std::string& space);
  // Throws NotSupported where there is no compiler.
  void compile();
  // Nothing, or what the kernels did that a GPU does not allow.
  std::string run(size_t number);
  // One of the kernels that are not generated.
  std::string call(const std::string& kernel, int64_t grid_x, int64_t grid_y, const std::vector<int64_t>& slots,
                   int64_t grid_z = 1) const;

  const Plan& plan(size_t number) const { return jobs_[number].plan; }
  size_t sources() const { return sources_.size(); }

 private:
  struct Job {
    Plan plan;
    std::string name;  // of its source; empty: nothing to do
    std::vector<Launch> launches;
  };
  void add_source(const Program& program, Job& job);

  std::vector<Job> jobs_;
  std::map<std::string, std::string> names_;  // by keys of program and plan
  std::vector<std::string> sources_;
  void* object_ = nullptr;
};

}  // namespace quarry::local::cuda
