#include "quarry/chunked/expr/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/expr/node_table.h"
#include "quarry/local/program/op.h"

namespace quarry::expr {

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

// The nodes that a payload names, const as it is.
template <class P>
auto arguments_in(P& payload) {
  using Arguments = std::span<std::conditional_t<std::is_const_v<P>, const NodePtr, NodePtr>>;
  return std::visit(
      [](auto& n) {
        if constexpr (requires { n.args; })
          return Arguments(n.args);
        else if constexpr (requires { n.arg; })
          return Arguments(&n.arg, 1);
        else
          return Arguments();
      },
      payload);
}

}  // namespace

// One after the other: a graph may be deeper than the stack.
Node::~Node() {
  static thread_local std::vector<NodePtr>* dying = nullptr;  // of the outermost destructor of this thread
  const std::span<NodePtr> own = arguments_in(payload);
  if (own.empty()) return;
  if (dying != nullptr) {
    std::ranges::move(own, std::back_inserter(*dying));
    return;
  }
  std::vector<NodePtr> args(std::move_iterator(own.begin()), std::move_iterator(own.end()));
  dying = &args;
  while (!args.empty()) {
    const NodePtr last = std::move(args.back());
    args.pop_back();
  }
  dying = nullptr;
}

op::ArraySpec spec_of(const Node& node) {
  return {node.shape, node.dtype, node.grid, node.chosen_grid, node.generated};
}

std::vector<op::ArraySpec> specs_of(std::span<const NodePtr> nodes) {
  std::vector<op::ArraySpec> specs;
  specs.reserve(nodes.size());
  for (const NodePtr& node : nodes) specs.push_back(spec_of(*node));
  return specs;
}

std::span<const NodePtr> arguments(const Node& node) { return arguments_in(node.payload); }

NodePtr with_arguments(const NodePtr& node, std::span<const NodePtr> args) {
  if (std::ranges::equal(arguments(*node), args)) return node;
  const auto copied = [&] { return std::vector<NodePtr>(args.begin(), args.end()); };
  return std::visit(Overloaded{
                        [&](const Source&) { return node; },
                        [&](const Stored&) { return node; },
                        [&](const Constant&) { return node; },
                        [&](const Index&) { return node; },
                        [&](const Elementwise&) { return elementwise_like(*node, copied()); },
                        [&](const Reduce& n) {
                          return n.chunks ? fold_chunks(n.reduction, args[0], n.axes, *n.chunks, n.accumulate, n.ddof)
                                          : reduce(n.reduction, args[0], n.axes, n.accumulate, n.ddof);
                        },
                        [&](const View& n) {
                          if (n.beside.empty()) return view(args[0], n.axes, n.fixed, node->shape);
                          const auto& [axis, column] = n.beside[0];
                          const View::Axis& row = n.axes[static_cast<size_t>(axis)];
                          return diagonal(args[0], row.source, column.source, row.start, column.start,
                                          node->shape[axis]);
                        },
                        [&](const Rechunk&) { return rechunk(args[0], node->grid); },
                        [&](const MatMul& n) { return matmul(args[0], args.back(), n.syrk, n.precision); },
                        [&](const Apply& n) { return apply(n.op, copied()); },
                        [&](const Item& n) { return item(args[0], n.output); },
                    },
                    node->payload);
}

std::vector<NodePtr> topological(std::span<const NodePtr> roots) {
  struct Frame {
    const NodePtr* node;
    std::span<const NodePtr> unseen;  // of its arguments
  };
  constexpr size_t kUsual = 32;  // nodes
  std::vector<NodePtr> order;
  std::vector<Frame> stack;
  NodeTable<bool> is_seen;
  order.reserve(kUsual);
  stack.reserve(kUsual);
  const auto see = [&](const NodePtr& node) {
    if (!std::exchange(is_seen[*node], true)) stack.push_back({&node, arguments(*node)});
  };
  for (const NodePtr& root : roots) {
    see(root);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.unseen.empty()) {
        order.push_back(*top.node);
        stack.pop_back();
        continue;
      }
      const NodePtr& next = top.unseen.front();
      top.unseen = top.unseen.subspan(1);
      see(next);
    }
  }
  return order;
}

std::vector<NodePtr> rewritten(std::span<const NodePtr> roots, const Change& change) {
  const std::vector<NodePtr> order = topological(roots);
  NodeTable<NodePtr> became(order.size());
  const auto follow = [&](std::span<const NodePtr> nodes, std::vector<NodePtr>& result) {
    result.clear();
    for (const NodePtr& node : nodes) result.push_back(became[*node]);
  };
  std::vector<NodePtr> args, result;
  for (const NodePtr& node : order) {
    follow(arguments(*node), args);
    NodePtr made = change(node, args);
    became[*node] = std::move(made);
  }
  follow(roots, result);
  return result;
}

namespace {

std::string scalar_text(const local::Scalar& value) {
  switch (local::kind(value.dtype())) {
    case 'b':
      return value.as_bool() ? "True" : "False";
    case 'i':
      return std::to_string(value.as_int64());
    case 'u':
      return std::to_string(value.as_uint64());
    case 'c':
      return fmt::format("({}{:+}j)", value.as_complex().real(), value.as_complex().imag());
  }
  return fmt::format("{}", value.as_double());
}

std::string view_text(const View& view, const Node& node) {
  // As an index of the argument where the axes are in order, else axis by axis.
  std::string text;
  const int ndim = view.arg->shape.size();
  int last = -1;
  bool ordered = view.beside.empty();
  for (const View::Axis& axis : view.axes) {
    if (axis.source < 0) continue;
    ordered = ordered && axis.source > last;
    last = axis.source;
  }
  auto slice = [&](const View::Axis& axis, int64_t count) {
    const int64_t extent = view.arg->shape[axis.source];
    if (axis.start == 0 && axis.step == 1 && count == extent) return std::string(":");
    std::string s = std::to_string(axis.start) + ":" + std::to_string(axis.start + axis.step * count);
    if (axis.step != 1) s += ":" + std::to_string(axis.step);
    return s;
  };
  if (!ordered) {
    std::string order;
    for (size_t i = 0; i < view.axes.size(); ++i) {
      const View::Axis& axis = view.axes[i];
      if (i) text += ", ";
      text += axis.source < 0 ? fmt::format("new({})", node.shape[static_cast<int>(i)])
                              : fmt::format("{}[{}]", axis.source, slice(axis, node.shape[static_cast<int>(i)]));
    }
    for (const auto& [axis, with] : view.beside)
      text += fmt::format(" with {}[{}]", with.source, slice(with, node.shape[axis]));
    for (const auto& [axis, position] : view.fixed) text += fmt::format(", {}={}", axis, position);
    return "{" + text + "}";
  }
  int next = 0;
  auto fixed_until = [&](int axis) {
    for (; next < axis; ++next)
      for (const auto& [fixed, position] : view.fixed)
        if (fixed == next) text += (text.empty() ? "" : ", ") + std::to_string(position);
  };
  for (size_t i = 0; i < view.axes.size(); ++i) {
    const View::Axis& axis = view.axes[i];
    const int64_t count = node.shape[static_cast<int>(i)];
    if (axis.source >= 0) fixed_until(axis.source);
    if (!text.empty()) text += ", ";
    if (axis.source < 0) {
      text += count == 1 ? "None" : fmt::format("new({})", count);
    } else {
      text += slice(axis, count);
      next = axis.source + 1;
    }
  }
  fixed_until(ndim);
  return "[" + text + "]";
}

void append(const NodePtr& node, size_t limit, std::string& text) {
  if (text.size() > limit) return;
  const auto call = [&](std::string_view name, std::string_view rest = "") {
    text.append(name).append("(");
    std::string_view comma;
    for (const NodePtr& arg : arguments(*node)) {
      text += std::exchange(comma, ", ");
      append(arg, limit, text);
    }
    text.append(rest).append(")");
  };
  std::visit(
      Overloaded{
          [&](const Source& n) { text += n.dataset->info().object; },
          [&](const Stored& n) {
            text += "stored" + local::to_string(node->shape);
            if (!n.how.empty()) text += fmt::format(", {}", n.how);
          },
          [&](const Constant& n) { text += scalar_text(n.value); },
          [&](const Index& n) { text += fmt::format("index{}", n.axis); },
          [&](const Elementwise& n) { call(n.op == "cast"_op ? local::name(node->dtype) : local::info(n.op).name); },
          [&](const Reduce& n) {
            std::string axes;
            for (int d = 0; d < n.arg->shape.size(); ++d)
              if (n.axes >> d & 1) axes += (axes.empty() ? "" : " ") + std::to_string(d);
            call(local::info(n.reduction).name, ", axis=" + axes + (n.chunks ? ", per chunk" : ""));
          },
          [&](const View& n) {
            append(n.arg, limit, text);
            text += view_text(n, *node);
          },
          [&](const Rechunk&) { call("rechunk"); },
          [&](const MatMul& n) {
            const bool is_exact = n.precision == local::Precision::exact;
            call(n.syrk ? "syrk" : "matmul", is_exact ? "" : fmt::format(", precision={}", local::name(n.precision)));
          },
          [&](const Apply& n) { call(n.op->name(), n.op->parameters()); },
          [&](const Item& n) {
            append(n.arg, limit, text);
            text += fmt::format("#{}", n.output);
          },
      },
      node->payload);
}

}  // namespace

std::string to_string(const NodePtr& node, size_t limit) {
  std::string text;
  append(node, limit, text);
  if (text.size() > limit) text = text.substr(0, limit - 3) + "...";
  return text;
}

}  // namespace quarry::expr
