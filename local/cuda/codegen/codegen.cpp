#include "quarry/local/cuda/codegen/codegen.h"

#include <fmt/format.h>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/codegen/kernel_writer.h"
#include "quarry/local/cuda/embedded.h"

namespace quarry::local::cuda {

ModuleSource make_source(const Program& program, const Plan& plan) { return make_source(program, plan, "0"); }

ModuleSource make_source(const Program& program, const Plan& plan, const std::string& suffix) {
  return program.reductions().empty() ? elementwise_source(program, plan, suffix)
                                      : reduction_source(program, plan, suffix);
}

std::string make_function(const Program& program, const std::string& name) {
  const ValueId result = program.outputs()[0];
  std::string parameters;
  for (int i = 0; i < program.inputs(); ++i)
    parameters += fmt::format("{}{} a{}", i > 0 ? ", " : "", type_name(program.input_dtype(i)), i);
  TextWriter w;
  w.open(fmt::format("QUARRY_FN {} {}({})", type_name(program.dtype(result)), name, parameters));
  write_values(w, program, reachable(program, {result}), [](const Value& value) {
    QUARRY_CHECK(value.kind == Value::Kind::input && !value.swapped);
    return fmt::format("a{}", value.slot);
  });
  w.line("return v{};", result);
  w.close();
  return w.take();
}

ModuleSource make_scan_source(ScanKernel kernel, Op op, DType input, DType dtype) {
  struct Entry {
    const char *name, *function;
    int blocks;  // on a multiprocessor: blocks that wait for others are no use without more of them
  };
  const Entry entry = [kernel]() -> Entry {
    switch (kernel) {
      case ScanKernel::lines:
        return {"quarry_scan_lines", "run_lines<false>", 1};
      case ScanKernel::warps:
        return {"quarry_scan_warps", "run_warps<false>", 1};
      case ScanKernel::look:
        return {"quarry_scan_look", "run_look<false>", 4};
      case ScanKernel::across:
        return {"quarry_scan_across", "run_across<false>", 4};
      case ScanKernel::last_lines:
        return {"quarry_last_lines", "run_lines<true>", 1};
      case ScanKernel::last_warps:
        return {"quarry_last_warps", "run_warps<true>", 1};
      case ScanKernel::last_look:
        return {"quarry_last_look", "run_look<true>", 4};
      case ScanKernel::last_across:
        return {"quarry_last_across", "run_across<true>", 4};
      case ScanKernel::fold:
        return {"quarry_fold", "run_fold<1>", 1};
      case ScanKernel::fold_warp:
        return {"quarry_fold_warp", "run_fold<32>", 1};
    }
    return {};
  }();
  const OpInfo& row = info(op);
  const bool widened = is_half(dtype) && row.rule != OpRule::storage;
  TextWriter w;
  w.raw("namespace quarry::local::scan {");
  w.line("using In = {};", type_name(input));
  w.line("using T = {};", type_name(dtype));
  w.line("using W = {};", widened ? "float" : type_name(dtype));
  // A scan's passes hold dozens of copies of what they inline. What costs more than an addition is called: with
  // special functions the compiler takes minutes otherwise.
  const bool called = row.grouping == OpInfo::Grouping::in_order || row.cost > 4;
  w.open(fmt::format("{} W combine(W x, W y)", called ? "QUARRY_LONG_FN" : "QUARRY_FN"));
  w.raw("using T [[maybe_unused]] = W;");
  w.line("return {};", row.expression);
  w.close();
  ModuleSource source;
  source.text = embedded_scan_slots + w.take() + embedded_scan +
                fmt::format("QUARRY_KERNEL({}, {}, {})\n}}  // namespace quarry::local::scan\n", entry.name,
                            entry.function, entry.blocks);
  source.kernels = {entry.name};
  return source;
}

}  // namespace quarry::local::cuda
