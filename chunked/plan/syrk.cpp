// a b is a SYRK when a is the conjugate transpose of b. Views have been pushed down by now, so transpose(b) is pushed
// the same way and compared by structure: z.T @ z is found however z is spelled.
#include <numeric>
#include <unordered_map>

#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/plan/passes.h"

namespace quarry::plan {

namespace {

bool is_conjugate_transpose(const NodePtr& a, const NodePtr& b) {
  if (a->shape.size() != 2 || b->shape.size() != 2 || a->dtype != b->dtype) return false;
  const int64_t order[] = {1, 0};
  const NodePtr transposed = expr::transpose(b, order);
  std::vector<NodePtr> spellings;
  if (local::is_complex(b->dtype)) {
    spellings.push_back(expr::elementwise("conjugate"_op, {transposed}));
    spellings.push_back(expr::transpose(expr::elementwise("conjugate"_op, {b}), order));
  } else {
    spellings.push_back(transposed);
  }
  for (const NodePtr& spelling : spellings)
    if (eliminate_common(push_views({spelling}))[0]->hash == a->hash) return true;
  // The other way round: conj(a).T as b.
  const NodePtr back = expr::transpose(a, order);
  const NodePtr other = local::is_complex(a->dtype) ? expr::elementwise("conjugate"_op, {back}) : back;
  return eliminate_common(push_views({other}))[0]->hash == b->hash;
}

}  // namespace

std::vector<NodePtr> detect_syrk(const std::vector<NodePtr>& roots) {
  std::unordered_map<const expr::Node*, NodePtr> replaced;
  for (const NodePtr& node : expr::topological(roots)) {
    std::vector<NodePtr> args = expr::arguments(*node);
    for (NodePtr& arg : args) arg = replaced.at(arg.get());
    NodePtr result = expr::with_arguments(node, args);
    const auto* product = result->as<expr::MatMul>();
    // The engines have no SYRK of integers.
    const bool inexact = local::is_float(result->dtype) || local::is_complex(result->dtype);
    if (product && !product->syrk && inexact && is_conjugate_transpose(product->a, product->b))
      result = expr::matmul(product->b, product->b, /*syrk=*/true);
    replaced.emplace(node.get(), std::move(result));
  }
  std::vector<NodePtr> result;
  for (const NodePtr& root : roots) result.push_back(replaced.at(root.get()));
  return result;
}

}  // namespace quarry::plan
