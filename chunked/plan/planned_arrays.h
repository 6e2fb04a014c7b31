// From nodes to planned arrays: what every requested, stored, reduced or multiplied array is made from.
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quarry/chunked/expr/node_table.h"
#include "quarry/chunked/plan/grids.h"
#include "quarry/chunked/plan/grouping.h"
#include "quarry/chunked/plan/node_map.h"
#include "quarry/chunked/plan/passes.h"

namespace quarry::plan {

inline constexpr size_t kLabelLength = 100;  // characters

class PlannedArrays {
 public:
  // `options` must outlive it. `materialised`: nodes that get storage though they could be computed where they are
  // read.
  PlannedArrays(const std::vector<NodePtr>& roots, const std::vector<NodePtr>& materialised, const PlanOptions& options,
                int64_t room);

  const std::vector<PlannedArray>& all() const { return planned_; }
  // An array of kind stage names a planned array in place of the stage, here and in what `all()` reads.
  const std::vector<Input>& results() const { return results_; }

  // Nodes whose value exists chunk-wise; everything else is computed where it is read.
  bool is_stored_whole(const expr::Node& node) const;
  // Whether a node has storage though it could be computed where it is read.
  bool is_materialised(const expr::Node& node) const { return materialised_.contains(node); }
  // A node that is_stored_whole(), in its own chunks.
  Input array_of(const NodePtr& node);
  // The input as a stage with chunks `grid` reads it: an array whose cuts do not fit is put together first.
  Input fitted(const Input& input, const Grid& grid);

 private:
  struct Viewed {  // a node under views and rechunks, and how they read it
    NodePtr base;
    NodeMap map;
  };
  struct Gathered {
    Input input;
    Grid grid;
    int planned;
  };

  int add(PlannedArray product);
  Input output_of(int planned, int output = 0) const;
  Input other(std::shared_ptr<Stage> stage, std::vector<Input> inputs, const NodePtr& node, const Grid& grid);
  Grid fitting(const expr::Node& node, const std::vector<Input>& inputs, bool reduces = false) const {
    return fitting_grid(node, inputs, room_, reduces);
  }

  // planned_arrays.cpp
  Viewed under_views(const NodePtr& node) const;
  Input produce(const NodePtr& node, const std::optional<Grid>& grid);
  Input make_in(const NodePtr& node, const std::optional<Grid>& grid);
  Input readable(const NodePtr& node, bool any_byte_order);
  std::vector<Input> leaves_of(const NodePtr& top, bool compute_top);
  Input gathered(const Input& input, const Grid& grid);
  Input assembled(const Input& input, const Grid& grid, const std::string& label);
  Input read(const Input& input, const Grid& grid);
  bool is_read_at_once(const Input& input, const Grid& grid) const;
  std::vector<Grid> stages_to(const Input& input, const Grid& grid) const;
  Input fused_output(const NodePtr& node, const std::optional<Grid>& grid);
  Input reduction(const NodePtr& node, const expr::Reduce& reduce);
  Input applied(const NodePtr& node, const expr::Apply& n);

  // operands.cpp: matrix products, and arguments that come in given chunks
  Input operand(const NodePtr& node, const Grid& grid);
  void separate(Input& input, const Input& other);
  Input matmul(const NodePtr& node, const expr::MatMul& n);

  const PlanOptions& options_;
  const int64_t room_;  // for one task; 0: unlimited
  expr::NodeTable<bool> materialised_;
  std::unordered_map<const expr::Node*, Input> arrays_;
  std::unordered_map<const expr::Node*, std::vector<std::pair<std::optional<Grid>, Input>>> produced_;
  std::vector<Gathered> gathered_;
  std::unordered_map<const io::Dataset*, NodePtr> sources_;
  std::vector<std::pair<Input, Grid>> read_at_once_;  // files, in the chunks that are asked for
  std::vector<PlannedArray> planned_;
  std::vector<Input> results_;
  std::vector<NodePtr> keep_;  // nodes whose addresses are keys
};

}  // namespace quarry::plan
