#include "apps/quarry/expression/evaluator.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "apps/quarry/expression/arrays.h"
#include "apps/quarry/suggest.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

namespace {

constexpr std::string_view kModules[] = {"np", "numpy", "random", "linalg"};

std::optional<Value> constant(std::string_view name) {
  if (name == "pi") return Value(std::numbers::pi);
  if (name == "e") return Value(std::numbers::e);
  if (name == "inf") return Value(std::numeric_limits<double>::infinity());
  if (name == "nan") return Value(std::numeric_limits<double>::quiet_NaN());
  if (name == "newaxis") return Value(None{});
  return std::nullopt;
}

// Python's slicing of a sequence: the positions selected.
std::vector<size_t> slice_positions(const local::Slice& slice, size_t size) {
  const local::IndexItem item = slice;
  const local::BasicIndex index =
      local::resolve_index(std::span<const local::IndexItem>(&item, 1), Dims{static_cast<int64_t>(size)});
  std::vector<size_t> positions;
  const local::BasicIndex::Axis& axis = index.axes[0];
  for (int64_t i = 0; i < axis.count; ++i) positions.push_back(static_cast<size_t>(axis.start + i * axis.step));
  return positions;
}

size_t position_in(int64_t index, size_t size, const std::string& what) {
  const int64_t position = index < 0 ? index + static_cast<int64_t>(size) : index;
  if (position < 0 || position >= static_cast<int64_t>(size)) throw local::IndexError(what + " index out of range");
  return static_cast<size_t>(position);
}

Value sequence_subscript(const SequenceValue& sequence, const Value& index) {
  if (const auto* slice = index.as<local::Slice>()) {
    std::vector<Value> items;
    for (const size_t i : slice_positions(*slice, sequence.items.size())) items.push_back(sequence.items[i]);
    return sequence.is_list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  const char* kind = sequence.is_list ? "list" : "tuple";
  return sequence.items[position_in(to_int64(index, std::string(kind) + " indices"), sequence.items.size(), kind)];
}

Value string_subscript(const std::string& text, const Value& index) {
  if (const auto* slice = index.as<local::Slice>()) {
    std::string result;
    for (const size_t i : slice_positions(*slice, text.size())) result += text[i];
    return result;
  }
  return std::string(1, text[position_in(to_int64(index, "string indices"), text.size(), "string")]);
}

bool any_array(const Value& a, const Value& b) { return a.is<Array>() || b.is<Array>(); }

bool equal_values(const Value& a, const Value& b) {
  const std::optional<Number> x = a.number(), y = b.number();
  if (x && y) return compare(CompareOp::equal, *x, *y);
  if (a.is<std::string>() && b.is<std::string>()) return *a.as<std::string>() == *b.as<std::string>();
  if (a.is<DTypeValue>() && b.is<DTypeValue>()) return a.as<DTypeValue>()->dtype == b.as<DTypeValue>()->dtype;
  // As NumPy: a dtype equals its name.
  if (a.is<DTypeValue>() && b.is<std::string>()) {
    return local::parse_dtype(*b.as<std::string>()) == a.as<DTypeValue>()->dtype;
  }
  if (a.is<std::string>() && b.is<DTypeValue>()) return equal_values(b, a);
  const SequenceValue* s = a.sequence();
  const SequenceValue* t = b.sequence();
  if (s != nullptr && t != nullptr) {
    if (s->is_list != t->is_list || s->items.size() != t->items.size()) return false;
    for (size_t i = 0; i < s->items.size(); ++i) {
      if (!equal_values(s->items[i], t->items[i])) return false;
    }
    return true;
  }
  if (any_array(a, b)) throw TypeError("'" + type_name(a) + "' and '" + type_name(b) + "' cannot be compared");
  return a.variant().index() == b.variant().index() && (a.is_none() || a.is<EllipsisValue>());
}

Value binary_values(BinaryOp op, const Value& left, const Value& right) {
  if (any_array(left, right) && is_operand(left) && is_operand(right)) return array_binary(op, left, right);
  const std::optional<Number> a = left.number(), b = right.number();
  if (a && b) return binary(op, *a, *b);
  if (op == BinaryOp::add && left.is<std::string>() && right.is<std::string>()) {
    return *left.as<std::string>() + *right.as<std::string>();
  }
  const SequenceValue* s = left.sequence();
  const SequenceValue* t = right.sequence();
  if (op == BinaryOp::add && s != nullptr && t != nullptr && s->is_list == t->is_list) {
    std::vector<Value> items = s->items;
    items.insert(items.end(), t->items.begin(), t->items.end());
    return s->is_list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  if (op == BinaryOp::multiply && t != nullptr && left.is<Int>()) return binary_values(op, right, left);
  if (op == BinaryOp::multiply && s != nullptr && right.is<Int>()) {
    constexpr int64_t kMostItems = 1 << 20;
    const int64_t count = std::max<int64_t>(0, to_int64(right, "the repeat count"));
    if (count > 0 && static_cast<int64_t>(s->items.size()) > kMostItems / count) {
      throw InvalidArgument("the repeated sequence is too long");
    }
    std::vector<Value> items;
    for (int64_t i = 0; i < count; ++i) items.insert(items.end(), s->items.begin(), s->items.end());
    return s->is_list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  throw TypeError(std::string("unsupported operand type(s) for ") + symbol(op) + ": '" + type_name(left) + "' and '" +
                  type_name(right) + "'");
}

Value compare_values(CompareOp op, const Value& left, const Value& right) {
  if (any_array(left, right) && is_operand(left) && is_operand(right)) return array_compare(op, left, right);
  if (op == CompareOp::equal) return equal_values(left, right);
  if (op == CompareOp::not_equal) return !equal_values(left, right);
  const std::optional<Number> a = left.number(), b = right.number();
  if (a && b) return compare(op, *a, *b);
  if (left.is<std::string>() && right.is<std::string>()) {
    const int order = left.as<std::string>()->compare(*right.as<std::string>());
    return compare(op, Number(Int{order}), Number(Int{0}));
  }
  throw TypeError(std::string("'") + symbol(op) + "' not supported between instances of '" + type_name(left) +
                  "' and '" + type_name(right) + "'");
}

// Python's truth value of anything but an array.
bool truth_value(const Value& value) {
  if (const std::optional<Number> number = value.number()) return truth(*number);
  if (const auto* text = value.as<std::string>()) return !text->empty();
  if (const SequenceValue* sequence = value.sequence()) return !sequence->items.empty();
  if (value.is<Array>()) {
    throw InvalidArgument(
        "the truth value of an array is not known before it is computed; use &, |, ~ or where(), any(), all()");
  }
  return !value.is_none();
}

bool zero_dimensional(const Value& value) {
  const Array* array = value.as<Array>();
  return array != nullptr && array->ndim() == 0;
}

Value convert_python(const DTypeValue& type, const Value& value) {
  if (const auto* text = value.as<std::string>()) {
    if (type.dtype == DType::float64 && type.python_type) {
      size_t used = 0;
      try {
        const double parsed = std::stod(*text, &used);
        if (used == text->size()) return parsed;
      } catch (const std::logic_error&) {  // no number, or out of range: the message below
      }
    }
    throw InvalidArgument("could not convert the string " + repr(*text) + " to " + local::name(type.dtype));
  }
  const std::optional<Number> number = value.number();
  if (!type.python_type && number) local::check_weak_fits(to_scalar(*number), type.dtype);
  if (!type.python_type || !number) return apply(local::Op::cast, std::span(&value, 1), type.dtype);
  const Scalar scalar = to_scalar(*number);
  if (type.dtype == DType::bool_) return truth(*number);
  if (number->index() == 3 && type.dtype != DType::complex128) {
    throw TypeError("a complex does not convert to " + std::string(local::name(type.dtype)));
  }
  if (type.dtype == DType::complex128) return scalar.as_complex();
  if (type.dtype == DType::float64) return to_double(value, "float()'s argument");
  if (const double* d = std::get_if<double>(&*number)) {
    if (!(std::abs(*d) < 0x1p63)) throw InvalidArgument("cannot convert " + repr(*d) + " to an integer");
    return Int{static_cast<int64_t>(*d)};
  }
  return value.is<bool>() ? Value(Int{*value.as<bool>() ? 1 : 0}) : value;
}

class Evaluator {
 public:
  Evaluator(const Source& source, Environment& environment) : source_(source), environment_(environment) {}

  Value run(const Expr& expr) {
    return std::visit([&](const auto& node) { return eval(expr, node); }, expr.node);
  }

 private:
  // Runs f; a user's mistake inside becomes an ExpressionError that points at `span`.
  template <class F>
  auto at(Span span, F&& f) {
    try {
      return f();
    } catch (const ExpressionError&) {
      throw;
    } catch (const local::BudgetError&) {
      throw;
    } catch (const InvalidArgument& e) {
      throw ExpressionError(source_, span, e.what());
    }
  }

  Value eval(const Expr&, const NoneLiteral&) { return None{}; }
  Value eval(const Expr&, const EllipsisLiteral&) { return EllipsisValue{}; }
  Value eval(const Expr&, const Literal& node) {
    return std::visit([](const auto& value) { return Value(value); }, node.value);
  }

  Value eval(const Expr& expr, const Name& node) {
    const auto variable = environment_.variables.find(node.name);
    if (variable != environment_.variables.end()) return variable->second;
    const auto failed = environment_.failed.find(node.name);
    if (failed != environment_.failed.end()) {
      throw ExpressionError(
          source_, expr.span,
          "'" + node.name + "' has no value because line " + std::to_string(failed->second) + " failed");
    }
    if (std::optional<Value> value = constant(node.name)) return *value;
    if (const std::optional<DTypeValue> dtype = dtype_name(node.name)) return *dtype;
    if (const Function* function = Registry::instance().function(node.name)) return FunctionValue{function, nullptr};
    for (const std::string_view module : kModules) {
      if (node.name == module) return ModuleValue{node.name};
    }
    std::vector<std::string> names;
    for (const auto& [name, value] : environment_.variables) names.push_back(name);
    for (const std::string& name : Registry::instance().function_names()) names.push_back(name);
    for (const std::string& name : dtype_names()) names.push_back(name);
    for (const std::string_view name : kModules) names.emplace_back(name);
    throw ExpressionError(source_, expr.span, "name '" + node.name + "' is not defined" + suggestion(node.name, names));
  }

  Value eval(const Expr& expr, const Unary& node) {
    const Value operand = run(*node.operand);
    return at(expr.span, [&]() -> Value {
      if (operand.is<Array>()) {
        if (node.op == UnaryOp::logical_not && !zero_dimensional(operand)) truth_value(operand);
        return array_unary(node.op, operand);
      }
      if (node.op == UnaryOp::logical_not) return !truth_value(operand);
      if (const std::optional<Number> number = operand.number()) return unary(node.op, *number);
      throw TypeError(std::string("bad operand type for unary ") + symbol(node.op) + ": '" + type_name(operand) + "'");
    });
  }

  Value eval(const Expr&, const Binary& node) {
    const Value left = run(*node.left);
    const Value right = run(*node.right);
    return at(node.op_span, [&] { return binary_values(node.op, left, right); });
  }

  // a < b < c is (a < b) and (b < c), element by element where arrays take part.
  Value eval(const Expr& expr, const Compare& node) {
    Value left = run(*node.first);
    std::optional<Value> all;
    for (size_t i = 0; i < node.ops.size(); ++i) {
      const Value right = run(*node.rest[i]);
      at(expr.span, [&] {
        const Value now = compare_values(node.ops[i], left, right);
        if (!all)
          all = now;
        else if (any_array(*all, now))
          all = array_binary(BinaryOp::bit_and, *all, now);
        else
          all = Value(truth_value(*all) && truth_value(now));
      });
      if (!all->is<Array>() && !truth_value(*all)) return false;
      left = right;
    }
    return *all;
  }

  // As Python; where the left side is a 0-d array, the choice is made when it is computed.
  Value eval(const Expr& expr, const BoolOp& node) {
    const Value left = run(*node.left);
    if (!zero_dimensional(left)) {
      const bool is_true = at(node.left->span, [&] { return truth_value(left); });
      return is_true == node.is_and ? run(*node.right) : left;
    }
    const Value right = run(*node.right);
    return at(expr.span, [&] {
      if (!right.number() && !zero_dimensional(right)) truth_value(right);
      const Value choice[] = {left, node.is_and ? right : left, node.is_and ? left : right};
      return apply(local::Op::where, choice);
    });
  }

  Value eval(const Expr& expr, const Conditional& node) {
    const Value condition = run(*node.condition);
    if (!zero_dimensional(condition)) {
      const bool is_true = at(node.condition->span, [&] { return truth_value(condition); });
      return run(is_true ? *node.then : *node.otherwise);
    }
    const Value choice[] = {condition, run(*node.then), run(*node.otherwise)};
    return at(expr.span, [&] {
      for (const Value& value : choice) {
        if (!is_operand(value)) throw TypeError("a computed condition cannot choose a " + type_name(value));
      }
      return apply(local::Op::where, choice);
    });
  }

  Value eval(const Expr& expr, const Call& node) {
    const Value callee = run(*node.function);
    std::vector<Value> positional;
    for (const ExprPtr& arg : node.args) positional.push_back(run(*arg));
    std::vector<KeywordValue> keywords;
    for (const Keyword& keyword : node.keywords) keywords.push_back({keyword.name, run(*keyword.value)});
    if (const auto* dtype = callee.as<DTypeValue>()) {
      return at(expr.span, [&]() -> Value {
        if (!keywords.empty() || positional.size() > 1) throw TypeError("a dtype takes one argument when called");
        return convert_python(*dtype, positional.empty() ? Value(Int{0}) : positional[0]);
      });
    }
    const auto* function = callee.as<FunctionValue>();
    if (function == nullptr) {
      throw ExpressionError(source_, node.function->span, "'" + type_name(callee) + "' object is not callable");
    }
    if (function->self != nullptr) positional.insert(positional.begin(), *function->self);
    return at(call_span(expr, node, *function->function), [&] {
      return function->function->handler(bind(*function->function, std::move(positional), std::move(keywords)),
                                         environment_.session);
    });
  }

  // An unknown keyword is pointed at itself; everything else at the call.
  static Span call_span(const Expr& expr, const Call& node, const Function& function) {
    for (const Keyword& keyword : node.keywords) {
      bool known = false;
      for (const Parameter& parameter : function.parameters) known = known || parameter.name == keyword.name;
      if (!known) return keyword.span;
    }
    return expr.span;
  }

  Value eval(const Expr&, const Attribute& node) {
    const Value object = run(*node.object);
    if (const auto* module = object.as<ModuleValue>()) return module_member(*module, node);
    if (const Array* array = object.as<Array>()) {
      if (std::optional<Value> value = at(node.name_span, [&] { return array_attribute(*array, node.name); })) {
        return *value;
      }
      if (const Function* method = Registry::instance().method(node.name)) {
        return FunctionValue{method, std::make_shared<const Value>(object)};
      }
      std::vector<std::string> names = array_attribute_names();
      for (const std::string& name : Registry::instance().method_names()) names.push_back(name);
      throw ExpressionError(source_, node.name_span,
                            "arrays have no attribute '" + node.name + "'" + suggestion(node.name, names));
    }
    if (std::optional<Value> value = scalar_attribute(object, node.name)) return *value;
    throw ExpressionError(source_, node.name_span,
                          "'" + type_name(object) + "' object has no attribute '" + node.name + "'");
  }

  static std::optional<Value> scalar_attribute(const Value& object, std::string_view name) {
    if (const auto* dtype = object.as<DTypeValue>()) {
      if (name == "itemsize") return Value(local::itemsize(dtype->dtype));
      if (name == "name") return Value(std::string(local::name(dtype->dtype)));
      if (name == "kind") return Value(std::string(1, local::kind(dtype->dtype)));
      return std::nullopt;
    }
    const std::optional<Number> number = object.number();
    if (!number || (name != "real" && name != "imag")) return std::nullopt;
    if (const auto* c = object.as<std::complex<double>>()) return Value(name == "real" ? c->real() : c->imag());
    if (name == "real") return Value(unary(UnaryOp::plus, *number));
    return object.is<double>() ? Value(0.0) : Value(Int{0});
  }

  Value module_member(const ModuleValue& module, const Attribute& node) {
    const bool top = module.name == "np" || module.name == "numpy";
    const std::string prefix = top ? "" : module.name + ".";
    if (const Function* function = Registry::instance().function(prefix + node.name)) {
      return FunctionValue{function, nullptr};
    }
    if (top) {
      if (std::optional<Value> value = constant(node.name)) return *value;
      if (const std::optional<DTypeValue> dtype = dtype_name(node.name)) return *dtype;
      if (node.name == "random" || node.name == "linalg") return ModuleValue{node.name};
    }
    std::vector<std::string> names;
    for (const std::string& name : Registry::instance().function_names()) {
      if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
    }
    throw ExpressionError(source_, node.name_span,
                          "'" + module.name + "' has no function '" + node.name + "'" + suggestion(node.name, names));
  }

  Value eval(const Expr& expr, const Subscript& node) {
    const Value object = run(*node.object);
    const Value index = run(*node.index);
    return at(node.index->span, [&]() -> Value {
      if (const Array* array = object.as<Array>()) return array_subscript(*array, index);
      if (const SequenceValue* sequence = object.sequence()) return sequence_subscript(*sequence, index);
      if (const auto* text = object.as<std::string>()) return string_subscript(*text, index);
      throw ExpressionError(source_, expr.span, "'" + type_name(object) + "' object is not subscriptable");
    });
  }

  Value eval(const Expr& expr, const SliceRange& node) {
    const auto bound = [&](const ExprPtr& part) -> std::optional<int64_t> {
      if (!part) return std::nullopt;
      const Value value = run(*part);
      if (value.is_none()) return std::nullopt;
      return at(part->span, [&] { return to_int64(value, "slice indices"); });
    };
    local::Slice slice{bound(node.start), bound(node.stop), bound(node.step)};
    if (slice.step == 0) throw ExpressionError(source_, expr.span, "slice step cannot be zero");
    return slice;
  }

  Value eval(const Expr&, const Sequence& node) {
    std::vector<Value> items;
    for (const ExprPtr& item : node.items) items.push_back(run(*item));
    return node.is_list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }

  const Source& source_;
  Environment& environment_;
};

}  // namespace

Value evaluate(const Source& source, const Expr& expr, Environment& environment) {
  return Evaluator(source, environment).run(expr);
}

}  // namespace quarry::apps::expression
