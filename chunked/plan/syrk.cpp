// a b is a SYRK when a is the conjugate transpose of b. Views have been pushed down by now, so transpose(b) is pushed
// the same way and compared by structure: z.T @ z is found however z is spelled.
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/plan/passes.h"

namespace quarry::plan {

namespace {

// The operation that makes a matrix, seen through views, which change nothing about it; null: it is none.
const expr::Elementwise* operation_of(const NodePtr& matrix) {
  const expr::Node* node = matrix.get();
  while (node->as<expr::View>() || node->as<expr::Rechunk>()) node = expr::arguments(*node)[0].get();
  return node->as<expr::Elementwise>();
}

bool have_unlike_operations(const NodePtr& a, const NodePtr& b) {
  const expr::Elementwise *of_a = operation_of(a), *of_b = operation_of(b);
  return of_a == nullptr || of_b == nullptr ? of_a != of_b : of_a->op != of_b->op;
}

bool is_conjugate_transpose(const NodePtr& a, const NodePtr& b) {
  if (a->shape.size() != 2 || b->shape.size() != 2 || a->dtype != b->dtype) return false;
  if (a->shape[0] != b->shape[1] || a->shape[1] != b->shape[0]) return false;
  if (!local::is_complex(a->dtype) && have_unlike_operations(a, b)) return false;
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
    if (push_views({spelling})[0]->hash == a->hash) return true;
  // The other way round: conj(a).T as b.
  const NodePtr back = expr::transpose(a, order);
  const NodePtr other = local::is_complex(a->dtype) ? expr::elementwise("conjugate"_op, {back}) : back;
  return push_views({other})[0]->hash == b->hash;
}

}  // namespace

std::vector<NodePtr> detect_syrk(const std::vector<NodePtr>& roots) {
  return expr::rewritten(roots, [](const NodePtr& node, std::span<const NodePtr> args) {
    NodePtr made = expr::with_arguments(node, args);
    const auto* product = made->as<expr::MatMul>();
    // The engines have no SYRK of integers.
    const bool inexact = local::is_float(made->dtype) || local::is_complex(made->dtype);
    if (product != nullptr && !product->syrk && inexact && is_conjugate_transpose(product->a(), product->b()))
      made = expr::matmul(product->b(), product->b(), /*syrk=*/true, product->precision);
    return made;
  });
}

}  // namespace quarry::plan
