// The passes of make_plan: a table of named steps that are run in order. Logical passes take roots and give equivalent
// roots of the same shapes and dtypes; the others make stages of them. One file each.
//
// A new pass is a file with its function, a row in plan.cpp and its before and after in tests.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/chunked/plan/stage.h"

namespace quarry::plan {

using expr::NodePtr;

class PlannedArrays;

// What the passes work on, one after the other.
struct Draft {
  Draft(const std::vector<NodePtr>& results, const PlanOptions& options);
  ~Draft();

  // Makes these the roots and lists what is below them. False where they are the roots.
  bool set_roots(std::vector<NodePtr> made);

  const PlanOptions& options;
  int64_t room = 0;             // bytes for one task; 0: unlimited
  std::vector<NodePtr> roots;   // one per requested array
  std::vector<NodePtr> nodes;   // all below the roots, arguments first
  bool has_equal_nodes = true;  // perhaps, under the roots
  std::vector<NodePtr> materialised;
  std::unique_ptr<PlannedArrays> arrays;
  std::vector<std::vector<int>> groups;  // of arrays: each becomes a stage
  Plan plan;
  std::string did;  // what the pass that runs changed, for explain()
};

struct Pass {
  std::string_view name;
  std::string_view what;  // it does, for messages and documentation
  bool optional;          // plans without it are slower, but right
  void (*run)(Draft& draft);
  bool makes_stages = false;  // runs again where chunks get smaller
};
// In the order in which they run. A pass that runs several times has as many rows.
std::span<const Pass> passes();
// Whether the options leave the pass on.
bool is_on(const Pass& pass, const PlanOptions& options);

// Equal subexpressions become one node.
std::vector<NodePtr> eliminate_common(const std::vector<NodePtr>& roots);

// Views move towards the sources: through elementwise operations, and their slicing part through reductions, products
// and concatenations that nothing else reads. What remains are views of sources and of materialised arrays, and
// broadcasts.
std::vector<NodePtr> push_views(const std::vector<NodePtr>& roots);

// A product of a matrix's conjugate transpose with the matrix becomes one that reads the matrix once.
std::vector<NodePtr> detect_syrk(const std::vector<NodePtr>& roots);

// Sums of products of arrays that broadcast against each other become products of matrices (contractions.cpp).
std::vector<NodePtr> find_contractions(const std::vector<NodePtr>& roots);

// Reductions over what a mask selects read the array where it lies (selections.cpp).
bool is_selection(const expr::Node& node);
std::vector<NodePtr> reduce_where_selected(const std::vector<NodePtr>& roots);

// Which elementwise nodes get storage of their own between stages (see materialise.cpp for the rule), besides the
// roots.
std::vector<NodePtr> choose_materialised(const std::vector<NodePtr>& roots);

// A stage per group of planned arrays.
void make_stages(Draft& draft);

// Views of one array that differ only in where they begin are read as one (offsets.cpp).
void share_offsets(Draft& draft);

// Data sets that several stages read at the same time are read once (reads.cpp).
void share_reads(Draft& draft);

// Elementwise work before and behind operators that make their chunks one by one runs in their tasks
// (task_fusion.cpp).
void fuse_prologues(Draft& draft);
void fuse_epilogues(Draft& draft);

// Takes stages that nobody reads, and that are no results, out of a plan.
void drop_unread(Plan& plan);
// Whether an output of the stage is one.
bool is_result(const Plan& plan, size_t stage);

}  // namespace quarry::plan
