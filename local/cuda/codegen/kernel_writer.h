// What the kernels of a program have in common: parameters, addresses, loads and stores, and compute(), one element of
// the program. Private to the code generator.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quarry/local/cuda/codegen/codegen.h"
#include "quarry/local/cuda/codegen/program_text.h"

namespace quarry::local::cuda {

class KernelWriter {
 protected:
  // Begins the namespace, with what every kernel uses.
  KernelWriter(const Program& program, const Plan& plan, std::string suffix);
  // Ends it.
  ModuleSource finish();

  // What the strides of an input are named after.
  std::string in(size_t i) const {
    const int like = plan_.inputs[i].like;
    return fmt::format("in{}", like < 0 ? i : static_cast<size_t>(like));
  }
  const char* in_type(size_t i) const { return type_name(plan_.inputs[i].dtype); }
  const char* out_type(size_t i) const { return type_name(plan_.outputs[i].dtype); }

  // compute(p, a0, ..., g0, ...) with element expressions; `lane` is added to positions along the lane axis.
  std::string call_compute(const std::function<std::string(size_t)>& element,
                           const std::function<std::string(int)>& coordinate, const std::string& lane) const;

  void write_parameter_struct(const char* name, const Slots& slots);
  void write_parameters(const Slots& slots);
  // Splits `rest` into steps along `axes` (outermost first): q{axis}, and i{axis} where no scale applies.
  void write_split(const std::vector<int>& axes, const char* rest);
  // " + i1 * in0_1 ..." over the given axes; `at` follows each coordinate.
  static std::string offsets(const PlanOperand& operand, const std::string& name, const std::vector<int>& axes,
                             const char* coordinate = "i", const char* at = "");
  std::vector<int> axes_where(bool reduced, bool with_lane_axis) const;

  // Loads V elements of input i at `address` into `to`; `count` may be less than V unless `full` or Plan::whole.
  void write_load(size_t i, const std::string& address, const std::string& to, bool full);
  void write_store(size_t i, const std::string& address, const std::string& from, bool full);
  std::string lane_of(size_t i, const std::string& array, const std::string& lane) const {
    return plan_.inputs[i].access == Access::broadcast ? array + "[0]" : fmt::format("{}[{}]", array, lane);
  }
  // `blocks` of it shall fit on a multiprocessor, whatever registers that takes away; 0: the compiler weighs one
  // against the other (which it does not where a number is given, even 1).
  void open_kernel(const char* name, const char* params, int blocks = 0);
  // d{id}[U][V] of lane_draws_: all accesses of a thread at once, so that none waits for another. `write_position`
  // gives i{axis} for access u.
  void write_lane_draws(const std::function<void()>& write_position);
  // s{id} of prepared_, by all threads of the block together.
  void write_prepared();

  const Program& program_;
  const Plan& plan_;
  const std::string suffix_;
  const std::vector<bool> needed_;
  std::vector<bool> input_used_;
  std::vector<size_t> lane_draws_;  // values that are drawn for all lanes of a thread together
  std::vector<size_t> prepared_;    // samplers whose parameters are constants
  TextWriter w_;

 private:
  std::optional<int> lane_step(ValueId id) const;
  bool is_lane_draw(const Value& value) const;
  void write_compute();
  std::string leaf(const Value& value) const;
  std::string given(size_t id) const;
  size_t slot_of(const std::string& name) const;

  std::vector<int> index_axes_;
};

// The source of a program's kernels, without and with reductions.
ModuleSource elementwise_source(const Program& program, const Plan& plan, const std::string& suffix);
ModuleSource reduction_source(const Program& program, const Plan& plan, const std::string& suffix);

}  // namespace quarry::local::cuda
