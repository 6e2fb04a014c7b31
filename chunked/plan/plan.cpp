#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/plan/passes.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"

namespace quarry::plan {

namespace {

using expr::View;

// Tasks in flight that a budget should hold: one computing per core or so, one being read, one being written.
constexpr int64_t kTasksInBudget = 6;

int64_t chunk_bytes(const Stage::Output& output) {
  return largest_chunk_bytes(output.grid, local::itemsize(output.dtype));
}

const char* kind_name(const Stage& stage) {
  if (const auto* fused = std::get_if<Fused>(&stage.work)) return fused->reductions.empty() ? "map" : "reduce";
  if (const auto* assemble = std::get_if<Assemble>(&stage.work)) return assemble->linear ? "reshape" : "assemble";
  if (const auto* product = std::get_if<MatMul>(&stage.work)) return product->syrk ? "syrk" : "matmul";
  return "eigh";
}

std::string size_text(int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

int64_t largest_task_bytes(const Plan& plan) {
  int64_t largest = 0;
  for (const Stage& stage : plan.stages) largest = std::max(largest, estimated_task_bytes(plan, stage));
  return largest;
}

}  // namespace

int64_t region_bytes(const Input& input, const Dims& box) {
  int64_t elements = 1;
  for (size_t d = 0; d < input.map.axes.size(); ++d)
    if (input.map.axes[d].source >= 0) elements *= box[static_cast<int>(d)];
  return elements * local::itemsize(input.dtype);
}

int64_t products_in_task(int64_t k, int64_t chunk) {
  constexpr int64_t kSegments = 64, kMost = 4;
  const int64_t steps = k == 0 ? 1 : (k - 1) / chunk + 1;
  return std::clamp<int64_t>((steps - 1) / kSegments + 1, 1, kMost);
}

int64_t estimated_task_bytes(const Plan&, const Stage& stage) {
  int64_t bytes = 0;
  for (const Stage::Output& output : stage.outputs) bytes += chunk_bytes(output);
  if (const auto* fused = std::get_if<Fused>(&stage.work)) {
    for (const Input& input : fused->inputs) bytes += region_bytes(input, stage.grid.largest());
  } else if (const auto* product = std::get_if<MatMul>(&stage.work)) {
    bytes *= 2;
    // A task takes several chunks of k where there are many.
    const int nd = stage.shape.size();
    const View::Axis& k = product->b.map.axes[static_cast<size_t>(nd) - 2];
    const AxisChunks& steps = product->b.grid.axis(k.source);
    const int64_t together = products_in_task(steps.extent(), std::max<int64_t>(steps.largest(), 1));
    bytes += together * largest_chunk_bytes(product->b.grid, local::itemsize(product->b.dtype));
    if (!product->syrk) bytes += together * largest_chunk_bytes(product->a.grid, local::itemsize(product->a.dtype));
  } else if (std::holds_alternative<Assemble>(stage.work)) {
    bytes *= 2;
  } else {
    bytes *= 4;
  }
  return bytes;
}

Plan make_plan(const std::vector<expr::NodePtr>& results, const PlanOptions& options) {
  std::vector<NodePtr> roots = eliminate_common(results);
  roots = eliminate_common(push_views(roots));
  roots = eliminate_common(detect_syrk(roots));
  Plan plan = build_stages(roots, options, /*room=*/0);
  const int64_t room = options.memory_bytes / kTasksInBudget;
  const int64_t wanted = largest_task_bytes(plan);
  if (options.memory_bytes > 0 && wanted > room) {
    Plan smaller = build_stages(roots, options, std::max<int64_t>(room, 1));
    const int64_t bytes = largest_task_bytes(smaller);
    if (bytes < wanted) {  // else the user's chunks, or what cannot be cut
      plan = std::move(smaller);
      plan.note = fmt::format("chunks halved to fit the budget of {}: the largest task takes {} instead of {}",
                              size_text(options.memory_bytes), size_text(bytes), size_text(wanted));
      local::log(local::LogLevel::info, plan.note);
    }
  }
  return plan;
}

std::string describe(const Plan& plan) {
  std::string text;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    text += fmt::format("{:3}  {:8}  {} in {} chunk{} of {}", s, kind_name(stage), local::to_string(stage.shape),
                        stage.grid.count(), stage.grid.count() == 1 ? "" : "s", local::to_string(stage.grid.largest()));
    int64_t read = 0;
    if (const auto* fused = std::get_if<Fused>(&stage.work))
      for (const Input& input : fused->inputs)
        if (input.array.kind == ArrayRef::Kind::dataset) read += region_bytes(input, stage.shape);
    if (const auto* assemble = std::get_if<Assemble>(&stage.work))
      for (const Assemble::Part& part : assemble->parts)
        if (part.input.array.kind == ArrayRef::Kind::dataset) read += region_bytes(part.input, part.count);
    if (read > 0) text += fmt::format(", reads {}", size_text(read));
    int64_t made = 0;
    for (const Stage::Output& output : stage.outputs)
      made += local::element_count(output.shape) * local::itemsize(output.dtype);
    text += fmt::format(", makes {}, {} a task:  {}\n", size_text(made), size_text(estimated_task_bytes(plan, stage)),
                        stage.label);
  }
  if (!plan.note.empty()) text += plan.note + "\n";
  return text;
}

}  // namespace quarry::plan
