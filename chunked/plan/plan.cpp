// The table of passes, and what runs it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "quarry/chunked/plan/grouping.h"
#include "quarry/chunked/plan/passes.h"
#include "quarry/chunked/plan/planned_arrays.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/memory/policy.h"

namespace quarry::plan {

namespace {

int64_t largest_task_bytes(const Plan& plan) {
  int64_t largest = 0;
  for (const Stage& stage : plan.stages) largest = std::max(largest, stage.task_bytes());
  return largest;
}

// --- what the rows of the table run ---

std::string plural(int64_t count, std::string_view one, std::string_view more) {
  return fmt::format("{} {}", count, count == 1 ? one : more);
}

bool is_view(const NodePtr& node) { return node->as<expr::View>() != nullptr; }
bool is_product(const NodePtr& node) { return node->as<expr::MatMul>() != nullptr; }
bool is_syrk(const NodePtr& node) { return is_product(node) && node->as<expr::MatMul>()->syrk; }

void cse(Draft& draft) {
  if (!draft.has_equal_nodes) return;
  const int64_t before = std::ssize(draft.nodes);
  draft.set_roots(eliminate_common(draft.roots));
  draft.has_equal_nodes = false;
  if (const int64_t fewer = before - std::ssize(draft.nodes); fewer > 0)
    draft.did = plural(fewer, "node is computed once", "nodes are computed once");
}

void views(Draft& draft) {
  std::vector<NodePtr> pushed = push_views(draft.roots);
  // A view that did not move is the same node.
  std::set<uint64_t> stayed;
  if (pushed != draft.roots)
    for (const NodePtr& node : draft.nodes)
      if (is_view(node)) stayed.insert(node->hash);
  if (!draft.set_roots(std::move(pushed))) return;
  const int64_t moved = std::ranges::count_if(
      draft.nodes, [&](const NodePtr& node) { return is_view(node) && !stayed.contains(node->hash); });
  if (moved > 0) draft.did = plural(moved, "view nearer to the sources", "views nearer to the sources");
}

void contractions(Draft& draft) {
  const int64_t before = std::ranges::count_if(draft.nodes, is_product);
  const std::vector<NodePtr> found = find_contractions(draft.roots);
  if (found == draft.roots) return;
  draft.set_roots(push_views(found));
  draft.did = plural(std::ranges::count_if(draft.nodes, is_product) - before, "sum is a product of matrices",
                     "sums are products of matrices");
}

void selections(Draft& draft) {
  const auto is_one = [](const NodePtr& node) { return is_selection(*node); };
  const int64_t before = std::ranges::count_if(draft.nodes, is_one);
  if (before == 0) return;
  draft.set_roots(reduce_where_selected(draft.roots));
  if (const int64_t fewer = before - std::ranges::count_if(draft.nodes, is_one); fewer > 0)
    draft.did = plural(fewer, "selection is not made", "selections are not made");
}

void syrk(Draft& draft) {
  if (std::ranges::none_of(draft.nodes, is_product)) return;
  const int64_t before = std::ranges::count_if(draft.nodes, is_syrk);
  draft.set_roots(detect_syrk(draft.roots));
  if (const int64_t more = std::ranges::count_if(draft.nodes, is_syrk) - before; more > 0)
    draft.did = plural(more, "product reads its matrix once", "products read their matrix once");
}

void materialise(Draft& draft) {
  draft.materialised = choose_materialised(draft.roots);
  if (!draft.materialised.empty())
    draft.did = plural(std::ssize(draft.materialised), "intermediate is stored", "intermediates are stored");
}

void arrays(Draft& draft) {
  draft.arrays = std::make_unique<PlannedArrays>(draft.roots, draft.materialised, draft.options, draft.room);
  draft.groups.clear();
  for (int array = 0; array < std::ssize(draft.arrays->all()); ++array) draft.groups.push_back({array});
}

void siblings(Draft& draft) {
  const size_t before = draft.groups.size();
  draft.groups = group_arrays(draft.arrays->all());
  if (draft.groups.size() < before)
    draft.did = fmt::format("{} arrays are made by {} stages", before, draft.groups.size());
}

// Makes the stages anew, in smaller chunks, where the largest task exceeds its part of the budget.
void fit(Draft& draft) {
  const PlanOptions& options = draft.options;
  const int64_t room = options.memory_bytes / local::memory_policy::kTasksInBudget;
  const int64_t wanted = largest_task_bytes(draft.plan);
  if (options.memory_bytes == 0 || wanted <= room) return;
  Draft smaller(draft.roots, options);
  smaller.room = std::max<int64_t>(room, 1);
  smaller.materialised = draft.materialised;
  for (const Pass& pass : passes())
    if (pass.makes_stages && is_on(pass, options)) pass.run(smaller);
  const int64_t bytes = largest_task_bytes(smaller.plan);
  if (bytes >= wanted) return;  // the user's chunks, or what cannot be cut
  draft.plan = std::move(smaller.plan);
  draft.plan.note =
      fmt::format("chunks halved to fit the budget of {}: the largest task takes {} instead of {}",
                  local::format_bytes(options.memory_bytes), local::format_bytes(bytes), local::format_bytes(wanted));
  draft.plan.keeping_bytes = wanted * local::memory_policy::kTasksInBudget;
  local::log(local::LogLevel::info, draft.plan.note);
  draft.did = draft.plan.note;
}

constexpr bool kOptional = true, kRequired = false;
constexpr bool kStages = true;  // of arrays of some chunks
constexpr Pass kPasses[] = {
    {"cse", "equal subexpressions are computed once", kOptional, cse},
    {"views", "views move towards the sources, so that less is read", kOptional, views},
    {"cse", "of what the views left", kOptional, cse},
    {"selections", "reductions over what a mask selects read the array where it lies", kOptional, selections},
    {"contractions", "sums of products become products of matrices", kOptional, contractions},
    {"syrk", "a.T @ a reads a once and computes half", kOptional, syrk},
    {"cse", "of what the products left", kOptional, cse},
    {"materialise", "small or costly intermediates that several stages read are stored", kOptional, materialise},
    {"arrays", "every array that is stored gets its chunks", kRequired, arrays, kStages},
    {"siblings", "arrays made from the same data become one stage", kOptional, siblings, kStages},
    {"stages", "stages get their programs", kRequired, make_stages, kStages},
    {"offsets", "views of an array that begin elsewhere are read together", kOptional, share_offsets, kStages},
    {"reads", "data sets that several stages read at the same time are read once", kOptional, share_reads, kStages},
    {"prologues", "elementwise work before an operator runs in its tasks", kOptional, fuse_prologues, kStages},
    {"epilogues", "elementwise work and reductions behind an operator run in its tasks", kOptional, fuse_epilogues,
     kStages},
    {"fit", "chunks are halved where tasks do not fit the memory budget", kOptional, fit},
};

// Of the optional passes, each once, in order.
std::vector<std::string_view> optional_names() {
  std::vector<std::string_view> names;
  for (const Pass& pass : kPasses)
    if (pass.optional && std::ranges::find(names, pass.name) == names.end()) names.push_back(pass.name);
  return names;
}

}  // namespace

std::span<const Pass> passes() { return kPasses; }

bool is_on(const Pass& pass, const PlanOptions& options) {
  return !pass.optional || !options.passes_off.contains(pass.name);
}

PassNames parse_passes(std::string_view text) {
  PassNames off;
  const std::vector<std::string_view> known = optional_names();
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const bool is_off = item.starts_with('-');
    if (!is_off || std::ranges::find(known, item.substr(1)) == known.end()) {
      throw local::InvalidArgument(fmt::format(
          "'{}' {}; expected names with a minus, as in -cse,-views, of {}", item,
          is_off ? "names no pass that can be switched off" : "does not begin with a minus", fmt::join(known, ", ")));
    }
    off.emplace(item.substr(1));
  }
  return off;
}

Draft::Draft(const std::vector<NodePtr>& results, const PlanOptions& options_)
    : options(options_), roots(results), nodes(expr::topological(results)) {}
Draft::~Draft() = default;

bool Draft::set_roots(std::vector<NodePtr> made) {
  if (made == roots) return false;
  roots = std::move(made);
  nodes = expr::topological(roots);
  has_equal_nodes = true;
  return true;
}

Plan make_plan(const std::vector<expr::NodePtr>& results, const PlanOptions& options) {
  Draft draft(results, options);
  std::vector<PassTime> times;
  times.reserve(passes().size());
  for (const Pass& pass : passes()) {
    if (!is_on(pass, options)) continue;
    const local::TraceScope trace(local::tracing() ? fmt::format("pass {}", pass.name) : std::string(), "plan");
    const int64_t begin_ns = local::trace_clock_ns();
    draft.did.clear();
    pass.run(draft);
    times.push_back({pass.name, static_cast<double>(local::trace_clock_ns() - begin_ns) * 1e-9, draft.did});
  }
  // Ranks with other passes would run other stages.
  for (const std::string& name : options.passes_off)
    for (const char c : name) draft.plan.hash = (draft.plan.hash ^ static_cast<uint64_t>(c)) * 0x100000001b3u;
  draft.plan.passes = std::move(times);
  return std::move(draft.plan);
}

void drop_unread(Plan& plan) {
  const auto count = static_cast<int>(plan.stages.size());
  std::vector<bool> used(plan.stages.size(), false);
  const auto use = [&](const ArrayRef& array) {
    if (array.kind == ArrayRef::Kind::stage) used[static_cast<size_t>(array.stage)] = true;
  };
  for (const ArrayRef& result : plan.results) use(result);
  for (int s = count - 1; s >= 0; --s)
    if (used[static_cast<size_t>(s)])
      for (const Input* input : std::as_const(plan.stages[static_cast<size_t>(s)]).reads()) use(input->array);
  std::vector<int> numbers(plan.stages.size(), -1);
  std::vector<Stage> kept;
  for (int s = 0; s < count; ++s) {
    if (!used[static_cast<size_t>(s)]) continue;
    numbers[static_cast<size_t>(s)] = static_cast<int>(kept.size());
    kept.push_back(std::move(plan.stages[static_cast<size_t>(s)]));
  }
  const auto renumber = [&](ArrayRef& array) {
    if (array.kind == ArrayRef::Kind::stage) array.stage = numbers[static_cast<size_t>(array.stage)];
  };
  plan.stages = std::move(kept);
  for (Stage& stage : plan.stages)
    for (Input* input : stage.reads()) renumber(input->array);
  for (ArrayRef& result : plan.results) renumber(result);
}

bool is_result(const Plan& plan, size_t stage) {
  return std::ranges::any_of(plan.results, [&](const ArrayRef& result) {
    return result.kind == ArrayRef::Kind::stage && result.stage == static_cast<int>(stage);
  });
}

std::string describe(const Plan& plan) {
  std::string text;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    text += fmt::format("{:3}  {:8}  {} in {} chunk{} of {}", s, stage.kind(), local::to_string(stage.shape),
                        stage.grid.count(), stage.grid.count() == 1 ? "" : "s", local::to_string(stage.grid.largest()));
    if (const int64_t read = stage.file_bytes(); read > 0) text += fmt::format(", reads {}", local::format_bytes(read));
    int64_t made = 0;
    for (const Stage::Output& output : stage.outputs)
      made += local::element_count(output.shape) * local::itemsize(output.dtype);
    if (const auto* product = std::get_if<MatMul>(&stage.work)) {
      const MatMul::Ranks& on = product->ranks;
      if (on.rows * on.columns * on.layers > 1)
        text += fmt::format(", on {} x {} x {} ranks", on.rows, on.columns, on.layers);
    }
    text += fmt::format(", makes {}, {} a task:  {}\n", local::format_bytes(made),
                        local::format_bytes(stage.task_bytes()), stage.label);
  }
  if (!plan.note.empty()) text += plan.note + "\n";
  return text;
}

std::string describe_passes(const Plan& plan) {
  constexpr double kMilli = 1e3;
  std::string text;
  for (const PassTime& pass : plan.passes)
    text += fmt::format("{}{} {:.3g} ms", text.empty() ? "" : ", ", pass.name, pass.seconds * kMilli);
  return text;
}

std::string describe_changes(const Plan& plan) {
  std::string text;
  for (const PassTime& pass : plan.passes)
    if (!pass.did.empty()) text += fmt::format("pass {}: {}\n", pass.name, pass.did);
  return text;
}

}  // namespace quarry::plan
