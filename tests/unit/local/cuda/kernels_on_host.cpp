#include "tests/unit/local/cuda/kernels_on_host.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <deque>
#include <fstream>
#include <numeric>
#include <sstream>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/system_compiler.h"
#include "quarry/local/cuda/embedded.h"
#include "quarry/local/cuda/layout.h"
#include "tests/support/source_file.h"

namespace quarry::local::cuda {
namespace {

std::string text_of(const char* path) {
  std::ifstream file(test::source_file(path));
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw IoError(fmt::format("cannot read {}", path));
  return text.str();
}

}  // namespace

size_t KernelsOnHost::add(const Program& program, const Launch& launch, const PlanOverrides& overrides) {
  const Layout layout = make_layout(program, launch);
  const size_t number = jobs_.size();
  jobs_.push_back({});
  Job& job = jobs_.back();
  if (program.reductions().empty() ? layout.elements() == 0 : layout.elements(false) == 0) return number;
  job.plan = make_plan(program, layout, /*naming=*/true, overrides);
  job.launches = {launch};
  add_source(program, job);
  return number;
}

size_t KernelsOnHost::add_several(const Program& program, std::vector<Launch> launches) {
  const size_t number = jobs_.size();
  Job& job = jobs_.emplace_back();
  job.plan = make_plan(program, make_layout(program, launches[0]), /*naming=*/true);
  job.plan.several = job.plan.most_several(kParameterBytes);
  QUARRY_CHECK(static_cast<size_t>(job.plan.several) >= launches.size());
  job.launches = std::move(launches);
  add_source(program, job);
  return number;
}

void KernelsOnHost::add_source(const Program& program, Job& job) {
  std::string& name = names_[program.key() + '|' + job.plan.key()];
  if (name.empty()) {
    name = std::to_string(sources_.size());
    const ModuleSource made = make_source(program, job.plan, name);
    std::string text = made.text;
    // A kernel's parameters have a type of its own.
    const char* const types[] = {"Params", "MergeParams"};
    for (size_t i = 0; i < made.kernels.size(); ++i)
      text += fmt::format(
          "extern \"C\" __attribute__((visibility(\"default\"))) void call_{0}(const void* p) {{\n"
          "  quarry::local::k{1}::{0}(*static_cast<const quarry::local::k{1}::{2}*>(p));\n}}\n",
          made.kernels[i], name, types[i]);
    sources_.push_back(std::move(text));
  }
  job.name = name;
}

void KernelsOnHost::add(const ModuleSource& source, const std::string& space) {
  std::string text = source.text;
  for (const std::string& kernel : source.kernels)
    text += fmt::format(
        "extern \"C\" __attribute__((visibility(\"default\"))) void call_{0}(const void* p) {{\n"
        "  quarry::local::{1}::{0}(*static_cast<const quarry::local::{1}::Params*>(p));\n}}\n",
        kernel, space);
  sources_.push_back(std::move(text));
}

void KernelsOnHost::compile() {
  // The compiler's time matters more than the code's. Some systems' compilers check longjmp() unasked, and take the
  // change of a fiber's stack for a mistake.
  std::string source = "#undef _FORTIFY_SOURCE\n#pragma GCC optimize(\"O1\")\n";
  for (const char* text : {embedded_half, embedded_device_math, embedded_op_functions}) source += text;
  source += text_of("tests/unit/local/cuda/block_on_host.inl");
  source += embedded_support;
  source = std::accumulate(sources_.begin(), sources_.end(), std::move(source));
  object_ = cpu::compile_and_load(source, {});
}

std::string KernelsOnHost::call(const std::string& kernel, int64_t grid_x, int64_t grid_y,
                                const std::vector<int64_t>& slots, int64_t grid_z) const {
  using Call = void (*)(const void*);
  using Run = const char* (*)(Call, const void*, int64_t, int64_t, int64_t);
  const auto run = reinterpret_cast<Run>(::dlsym(object_, "run"));
  const auto function = reinterpret_cast<Call>(::dlsym(object_, ("call_" + kernel).c_str()));
  QUARRY_CHECK(run != nullptr && function != nullptr);
  const char* const message = run(function, slots.data(), grid_x, grid_y, grid_z);
  return message == nullptr ? "" : kernel + ": " + message;
}

std::string KernelsOnHost::run(size_t number) {
  Job& job = jobs_[number];
  if (job.name.empty()) return "";
  Plan& plan = job.plan;
  std::deque<std::vector<char>> memory;
  std::vector<std::vector<const void*>> partials(job.launches.size());
  if (plan.split)
    for (std::vector<const void*>& of_launch : partials)
      for (const PlanOperand& state : plan.states) {
        memory.emplace_back(static_cast<size_t>(plan.results * plan.segments * itemsize(state.dtype)), '\xa5');
        of_launch.push_back(memory.back().data());
      }
  const auto call_with = [&](const std::string& kernel, int64_t grid_x, int64_t grid_y, Slots& slots) {
    if (plan.several > 0)
      return call(kernel, grid_x, grid_y, plan.several_values(slots, job.launches, partials),
                  static_cast<int64_t>(job.launches.size()));
    for (size_t i = 0; i < partials[0].size(); ++i) slots.set_partial(i, partials[0][i]);
    return call(kernel, grid_x, grid_y, slots.values());
  };
  std::string message = call_with("quarry_run" + job.name, plan.grid_x, plan.grid_y, plan.slots);
  if (plan.split && message.empty())
    message = call_with("quarry_merge" + job.name, plan.merge_grid, /*grid_y=*/1, plan.merge_slots);
  return message;
}

}  // namespace quarry::local::cuda
