// The passes of make_plan. Logical passes take roots and give equivalent roots of the same shapes and dtypes; the last
// one makes stages. One file each.
#pragma once

#include <vector>

#include "quarry/chunked/plan/stage.h"

namespace quarry::plan {

using expr::NodePtr;

// Equal subexpressions become one node.
std::vector<NodePtr> eliminate_common(const std::vector<NodePtr>& roots);

// Views move towards the sources: through elementwise operations, and their slicing part through reductions, products
// and concatenations that nothing else reads. What remains are views of sources and of materialised arrays, and
// broadcasts.
std::vector<NodePtr> push_views(const std::vector<NodePtr>& roots);

// A product of a matrix's conjugate transpose with the matrix becomes one that reads the matrix once.
std::vector<NodePtr> detect_syrk(const std::vector<NodePtr>& roots);

// Which elementwise nodes get storage of their own between stages (see materialise.cpp for the rule), besides the
// roots.
std::vector<NodePtr> choose_materialised(const std::vector<NodePtr>& roots);

// The stages of a graph. Chunks that the user did not choose are halved until a task takes at most `room` bytes (0: as
// they are), where that is possible.
Plan build_stages(const std::vector<NodePtr>& roots, const PlanOptions& options, int64_t room);

// Bytes of the input that a box of the space reads.
int64_t region_bytes(const Input& input, const Dims& box);
// Products of chunks along k that one task of a matrix product adds up, as the lowering has it.
int64_t products_in_task(int64_t k, int64_t chunk);

// Bytes of the largest task of each stage: its inputs and outputs for one chunk. An estimate; the executor has the last
// word.
int64_t estimated_task_bytes(const Plan& plan, const Stage& stage);

}  // namespace quarry::plan
