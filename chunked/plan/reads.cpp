// A data set that several stages would read in the same chunks, and at the same time (they wait for the same stages),
// is read once: a stage of its own brings its chunks, which die when all of those stages have read them. sum(x, 0) and
// sum(x, 1) are such stages, while sum(x - mean(x)) has to wait for the mean, and reads the file again rather than keep
// all of it. Elementwise stages count where they are results: others may run later than they could
// (chunked/exec/lowering/order.cpp).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "quarry/chunked/plan/grouping.h"
#include "quarry/chunked/plan/passes.h"

namespace quarry::plan {

namespace {

struct Read {
  size_t stage;
  size_t input;
};

// The stages that a stage reads. Those that read the same ones run at the same time.
std::set<int> producers_of(const Stage& stage) {
  std::set<int> producers;
  for (const Input* input : stage.reads())
    if (input->array.kind == ArrayRef::Kind::stage) producers.insert(input->array.stage);
  return producers;
}

// Chunk i of the stage reads chunk i of the data set in the same cuts.
bool reads_by_chunks(const Stage& stage, const Input& input) {
  return input.array.kind == ArrayRef::Kind::dataset && input.is_box() && input.map.fixed.empty() &&
         input.shape == stage.shape && input.map.axes == AccessMap::identity(input.shape.size()).axes;
}

Stage reading_stage(const Stage& like, const Input& input) {
  Fused read;
  read.program.output(read.program.input(input.dtype));
  read.program.keep_key();
  read.inputs.push_back(input);
  Stage stage;
  stage.work = std::move(read);
  stage.label = "read " + input.array.dataset->info().object;
  stage.shape = like.shape;
  stage.grid = like.grid;
  stage.outputs = {{like.shape, input.dtype, like.grid}};
  return stage;
}

}  // namespace

void share_reads(Draft& draft) {
  Plan& plan = draft.plan;
  std::vector<std::vector<Read>> groups;
  // Those of the same data set whose stages run at the same time.
  std::map<std::pair<const io::Dataset*, std::set<int>>, std::vector<size_t>> alike;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto* fused = std::get_if<Fused>(&plan.stages[s].work);
    if (fused == nullptr || (fused->reductions.empty() && !is_result(plan, s))) continue;
    for (size_t i = 0; i < fused->inputs.size(); ++i) {
      const Input& input = fused->inputs[i];
      if (!reads_by_chunks(plan.stages[s], input) || input.array.dataset->info().swapped) continue;
      std::vector<size_t>& candidates = alike[{input.array.dataset.get(), producers_of(plan.stages[s])}];
      const auto known = std::ranges::find_if(
          candidates, [&](size_t group) { return plan.stages[groups[group][0].stage].grid == plan.stages[s].grid; });
      if (known != candidates.end()) {
        groups[*known].push_back({s, i});
      } else {
        candidates.push_back(groups.size());
        groups.push_back({{s, i}});
      }
    }
  }
  std::erase_if(groups, [](const std::vector<Read>& group) { return group.size() < 2; });
  if (groups.empty()) return;
  // They come first: they read files only.
  const auto more = static_cast<int>(groups.size());
  std::vector<Stage> stages;
  int reads = 0;
  for (const std::vector<Read>& group : groups) {
    const Stage& first = plan.stages[group[0].stage];
    stages.push_back(reading_stage(first, std::get<Fused>(first.work).inputs[group[0].input]));
    reads += static_cast<int>(group.size());
  }
  for (Stage& stage : plan.stages)
    for (Input* input : stage.reads())
      if (input->array.kind == ArrayRef::Kind::stage) input->array.stage += more;
  for (ArrayRef& result : plan.results)
    if (result.kind == ArrayRef::Kind::stage) result.stage += more;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const Read& read : groups[g]) {
      Input& input = std::get<Fused>(plan.stages[read.stage].work).inputs[read.input];
      input.array = {};
      input.array.stage = static_cast<int>(g);
      input.grid = plan.stages[read.stage].grid;
    }
  }
  std::ranges::move(plan.stages, std::back_inserter(stages));
  plan.stages = std::move(stages);
  draft.did = fmt::format("{} reads of files become {}", reads, more);
}

}  // namespace quarry::plan
