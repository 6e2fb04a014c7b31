#include "quarry/apps/language/evaluator.h"

#include <algorithm>
#include <cmath>

#include "quarry/apps/language/builtins.h"
#include "quarry/local/base/dtype_text.h"
#include "quarry/local/base/message.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

namespace {

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
  const std::vector<std::string> items = characters(text);
  if (const auto* slice = index.as<local::Slice>()) {
    std::string result;
    for (const size_t i : slice_positions(*slice, items.size())) result += items[i];
    return result;
  }
  return items[position_in(to_int64(index, "string indices"), items.size(), "string")];
}

Value bytes_subscript(const std::string& bytes, const Value& index) {
  if (const auto* slice = index.as<local::Slice>()) {
    Bytes result;
    for (const size_t i : slice_positions(*slice, bytes.size())) result.text += bytes[i];
    return result;
  }
  const char byte = bytes[position_in(to_int64(index, "byte indices"), bytes.size(), "index")];
  return Int(static_cast<unsigned char>(byte));
}

Value dict_subscript(const DictValue& dict, const Value& key) {
  for (const auto& [name, value] : dict.items) {
    if (same_value(name, key)) return value;
  }
  throw local::IndexError("the dict has no key " + repr(key, [](const Value&) { return std::string("array"); }));
}

bool is_numpy(std::string_view name) { return name == "np" || name == "numpy"; }

class Evaluator {
 public:
  using Locals = std::map<std::string, Value, std::less<>>;
  Evaluator(const Source& source, Environment& environment)
      : Evaluator(source, environment, *environment.library, {}) {}
  Evaluator(const Source& source, Environment& environment, const Library& library, Locals locals)
      : source_(source), environment_(environment), library_(library), locals_(std::move(locals)) {}

  Value run(const Expr& expr) {
    return std::visit([&](const auto& node) { return eval(expr, node); }, expr.node);
  }

  Value execute(const Statement& statement);

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
      throw ExpressionError(source_, span, e.what(), e.code());
    } catch (const local::OutOfMemory& e) {
      throw local::OutOfMemory(point_at(source_, span, place(source_, span) + e.what()));
    }
  }

  bool any_array(const Value& a, const Value& b) const { return library_.is_array(a) || library_.is_array(b); }

  bool holds_array(const Value& value) const {
    const SequenceValue* sequence = value.sequence();
    if (sequence == nullptr) return library_.is_array(value);
    return std::any_of(sequence->items.begin(), sequence->items.end(), [&](const Value& v) { return holds_array(v); });
  }
  bool equal_values(const Value& a, const Value& b) const {
    if (holds_array(a) || holds_array(b))
      throw TypeError("'" + type_name(a) + "' and '" + type_name(b) + "' cannot be compared");
    return same_value(a, b);
  }

  Value binary_values(BinaryOp op, const Value& left, const Value& right) {
    if (any_array(left, right) && library_.is_operand(left) && library_.is_operand(right))
      return library_.binary(op, left, right);
    const std::optional<Number> a = left.number(), b = right.number();
    if (a && b) return binary(op, *a, *b);
    if (op == BinaryOp::add && left.is<std::string>() && right.is<std::string>()) {
      return *left.as<std::string>() + *right.as<std::string>();
    }
    if (op == BinaryOp::add && left.is<Bytes>() && right.is<Bytes>())
      return Bytes{left.as<Bytes>()->text + right.as<Bytes>()->text};
    if (op == BinaryOp::multiply && (left.is<std::string>() || left.is<Bytes>()) && is_whole(right))
      return repeated_text(left, right);
    if (op == BinaryOp::multiply && (right.is<std::string>() || right.is<Bytes>()) && is_whole(left))
      return repeated_text(right, left);
    const SequenceValue* s = left.sequence();
    const SequenceValue* t = right.sequence();
    if (op == BinaryOp::add && s != nullptr && t != nullptr && s->is_list == t->is_list) {
      std::vector<Value> items = s->items;
      items.insert(items.end(), t->items.begin(), t->items.end());
      return s->is_list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
    }
    if (op == BinaryOp::multiply && t != nullptr && is_whole(left)) return binary_values(op, right, left);
    if (op == BinaryOp::multiply && s != nullptr && is_whole(right)) {
      const int64_t count = repetitions(right, s->items.size());
      std::vector<Value> items;
      for (int64_t i = 0; i < count; ++i) items.insert(items.end(), s->items.begin(), s->items.end());
      return s->is_list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
    }
    throw TypeError(std::string("unsupported operand type(s) for ") + symbol(op) + ": '" + type_name(left) + "' and '" +
                    type_name(right) + "'");
  }

  static bool is_whole(const Value& value) { return value.is<Int>() || value.is<bool>(); }

  static int64_t repetitions(const Value& count, size_t size) {
    constexpr int64_t kMostItems = 1 << 20;
    const int64_t wanted = std::max<int64_t>(0, to_int64(count, "the repeat count"));
    if (wanted > 0 && static_cast<int64_t>(size) > kMostItems / wanted)
      throw InvalidArgument("the repeated sequence is too long");
    return size == 0 ? 0 : wanted;
  }
  static Value repeated_text(const Value& value, const Value& count) {
    const std::string& text = value.is<Bytes>() ? value.as<Bytes>()->text : *value.as<std::string>();
    std::string result;
    for (int64_t i = repetitions(count, text.size()); i > 0; --i) result += text;
    return value.is<Bytes>() ? Value(Bytes{std::move(result)}) : Value(std::move(result));
  }

  Value compare_values(CompareOp op, const Value& left, const Value& right) {
    if (any_array(left, right) && library_.is_operand(left) && library_.is_operand(right))
      return library_.compare(op, left, right);
    if (op == CompareOp::equal) return equal_values(left, right);
    if (op == CompareOp::not_equal) return !equal_values(left, right);
    const std::optional<Number> a = left.number(), b = right.number();
    if (a && b) return compare(op, *a, *b);
    if (left.is<std::string>() && right.is<std::string>()) {
      const int order = left.as<std::string>()->compare(*right.as<std::string>());
      return compare(op, Number(Int{order}), Number(Int{0}));
    }
    if (left.is<Bytes>() && right.is<Bytes>()) {
      const int order = left.as<Bytes>()->text.compare(right.as<Bytes>()->text);
      return compare(op, Number(Int{order}), Number(Int{0}));
    }
    throw TypeError(std::string("'") + symbol(op) + "' not supported between instances of '" + type_name(left) +
                    "' and '" + type_name(right) + "'");
  }

  // Python's truth value; nothing for an array whose value is not known yet.
  std::optional<bool> truth_value(const Value& value) {
    if (library_.is_array(value)) return library_.truth(value);
    if (const std::optional<Number> number = value.number()) return truth(*number);
    if (const auto* text = value.as<std::string>()) return !text->empty();
    if (const auto* bytes = value.as<Bytes>()) return !bytes->text.empty();
    if (const SequenceValue* sequence = value.sequence()) return !sequence->items.empty();
    if (const DictValue* dict = value.dict()) return !dict->items.empty();
    return !value.is_none();
  }

  // A dtype that is called: float64(2), int("7", 8), complex(1, 2).
  Value call_type(const DTypeValue& type, std::vector<Value> args, std::vector<KeywordValue> keywords) {
    const auto holds = [&](const Value& value) { return library_.is_array(value); };
    const bool any = std::any_of(args.begin(), args.end(), holds) ||
                     std::any_of(keywords.begin(), keywords.end(),
                                 [&](const KeywordValue& keyword) { return holds(keyword.value); });
    if (type.python_type && !any) return call_python_type(type.dtype, args, keywords);
    if (type.python_type && type.dtype == DType::complex128 && args.size() + keywords.size() == 2)
      return complex_of_arrays(args, keywords);
    if (!keywords.empty() || args.size() > 1) throw TypeError("a dtype takes one argument when called");
    if (args.empty()) return library_.convert(type, Value(Int(0)));
    Value value = args[0];
    if (const auto* text = value.as<std::string>()) {  // as NumPy: of the Python type of its kind
      const DType python_type = local::is_complex(type.dtype)   ? DType::complex128
                                : local::is_float(type.dtype)   ? DType::float64
                                : local::is_integer(type.dtype) ? DType::int64
                                                                : DType::bool_;
      value = call_python_type(python_type, {*text}, {});
    }
    if (const std::optional<Number> number = value.number(); number && !type.python_type)
      local::check_weak_fits(to_scalar(*number, type.dtype), type.dtype);
    return library_.convert(type, value);
  }

  // complex(real, imag) where one of them is an array.
  Value complex_of_arrays(const std::vector<Value>& args, const std::vector<KeywordValue>& keywords) {
    std::vector<Value> parts = args;
    for (const KeywordValue& keyword : keywords) {
      const bool is_next = keyword.name == (parts.empty() ? "real" : "imag");
      if (!is_next) throw TypeError("complex() got an unexpected keyword argument '" + keyword.name + "'");
      parts.push_back(keyword.value);
    }
    for (Value& part : parts) part = call_type({DType::complex128, true}, {part}, {});
    return binary_values(BinaryOp::add, parts[0],
                         binary_values(BinaryOp::multiply, parts[1], std::complex<double>(0, 1)));
  }

  Value eval(const Expr&, const NoneLiteral&) { return None{}; }
  Value eval(const Expr&, const EllipsisLiteral&) { return EllipsisValue{}; }
  Value eval(const Expr&, const Literal& node) {
    return std::visit([](const auto& value) { return Value(value); }, node.value);
  }

  Value eval(const Expr& expr, const Name& node) {
    if (const auto local = locals_.find(node.name); local != locals_.end()) return local->second;
    const auto variable = environment_.variables.find(node.name);
    if (variable != environment_.variables.end()) return variable->second;
    const auto failed = environment_.failed.find(node.name);
    if (failed != environment_.failed.end()) {
      throw ExpressionError(
          source_, expr.span,
          "'" + node.name + "' has no value because line " + std::to_string(failed->second) + " failed");
    }
    if (std::optional<Value> value = library_.constant(node.name)) return *value;
    if (const std::optional<DTypeValue> dtype = dtype_name(node.name)) return *dtype;
    if (node.name == "Ellipsis") return EllipsisValue{};
    if (const Function* function = builtin(library_.registry(), node.name)) return FunctionValue{function, nullptr};
    if (const Function* function = library_.registry().function(node.name)) return FunctionValue{function, nullptr};
    if (is_numpy(node.name) || library_.is_module(node.name)) return ModuleValue{node.name};
    std::vector<std::string> names;
    for (const auto& [name, value] : environment_.variables) names.push_back(name);
    for (const std::string& name : library_.registry().function_names()) names.push_back(name);
    for (const std::string& name : dtype_names()) names.push_back(name);
    names.emplace_back("np");
    throw ExpressionError(source_, expr.span,
                          "name '" + local::excerpt(node.name) + "' is not defined" +
                              elsewhere(
                                  [&](const Library& other) {
                                    return other.registry().function(node.name) != nullptr ||
                                           other.is_module(node.name) || other.constant(node.name);
                                  },
                                  node.name, names));
  }

  Value eval(const Expr& expr, const Unary& node) {
    const Value operand = run(*node.operand);
    return at(expr.span, [&]() -> Value {
      if (node.op == UnaryOp::logical_not) {
        const std::optional<bool> is_true = truth_value(operand);
        return is_true ? Value(!*is_true) : library_.unary(node.op, operand);
      }
      if (library_.is_array(operand)) return library_.unary(node.op, operand);
      if (const std::optional<Number> number = operand.number()) return unary(node.op, *number);
      throw TypeError(std::string("bad operand type for unary ") + symbol(node.op) + ": '" + type_name(operand) + "'");
    });
  }

  Value eval(const Expr&, const Binary& node) {
    const Value left = run(*node.left);
    const Value right = run(*node.right);
    return at(node.op_span, [&] { return binary_values(node.op, left, right); });
  }

  // a < b < c is (a < b) and (b < c); the library says what that is for arrays.
  Value eval(const Expr& expr, const Compare& node) {
    Value left = run(*node.first);
    std::optional<Value> all;
    for (size_t i = 0; i < node.ops.size(); ++i) {
      const Value right = run(*node.rest[i]);
      const bool ends = at(expr.span, [&] {
        const Value now = compare_values(node.ops[i], left, right);
        all = !all ? now : any_array(*all, now) ? library_.chain(*all, now) : now;
        if (i + 1 == node.ops.size()) return true;
        return library_.is_array(*all) ? library_.chain_ends(*all) : !truth_value(*all).value();
      });
      if (ends) break;
      left = right;
    }
    return *all;
  }

  // As Python; where the truth of the left side is not known yet, the choice is made when it is computed.
  Value eval(const Expr& expr, const BoolOp& node) {
    const Value left = run(*node.left);
    const std::optional<bool> is_true = at(node.left->span, [&] { return truth_value(left); });
    if (is_true) return *is_true == node.is_and ? run(*node.right) : left;
    const Value right = run(*node.right);
    return at(expr.span, [&] {
      if (!right.number()) truth_value(right);  // complains where there is none
      return library_.choose(left, node.is_and ? right : left, node.is_and ? left : right);
    });
  }

  Value eval(const Expr& expr, const Conditional& node) {
    const Value condition = run(*node.condition);
    const std::optional<bool> is_true = at(node.condition->span, [&] { return truth_value(condition); });
    if (is_true) return run(*is_true ? *node.then : *node.otherwise);
    const Value then = run(*node.then), otherwise = run(*node.otherwise);
    return at(expr.span, [&] { return library_.choose(condition, then, otherwise); });
  }

  Value eval(const Expr& expr, const Call& node) {
    const Value callee = run(*node.function);
    std::vector<Value> positional;
    for (const ExprPtr& arg : node.args) positional.push_back(run(*arg));
    std::vector<KeywordValue> keywords;
    for (const Keyword& keyword : node.keywords) keywords.push_back({keyword.name, run(*keyword.value)});
    if (const auto* dtype = callee.as<DTypeValue>()) {
      return at(expr.span, [&] { return call_type(*dtype, positional, keywords); });
    }
    const auto* function = callee.as<FunctionValue>();
    if (function == nullptr) {
      throw ExpressionError(source_, node.function->span, "'" + type_name(callee) + "' object is not callable");
    }
    check_keywords(*function->function, function->self != nullptr, node);
    if (function->self != nullptr) positional.insert(positional.begin(), *function->self);
    return at(call_span(expr, node, *function->function), [&] {
      try {
        return function->function->handler(bind(*function->function, std::move(positional), std::move(keywords)),
                                           environment_.session);
      } catch (const local::NotSupported& error) {
        throw local::NotSupported(error.what() + elsewhere_too(*function->function, function->self != nullptr));
      } catch (const TypeError& error) {
        if (!names_sparse(error)) throw;
        throw TypeError(std::string(error.what()) + "; A.toarray() is a dense matrix");
      }
    });
  }

  // Whether an argument was wrong because it is a sparse matrix: the type is named, not a function of its own.
  static bool names_sparse(const TypeError& error) {
    const std::string_view message = error.what();
    const size_t name = message.find(type_name(SparseValue()));
    return name != std::string_view::npos && (name == 0 || message[name - 1] != '.');
  }

  // What a function of chunked arrays does not do yet, the local one of the same name may.
  std::string elsewhere_too(const Function& function, bool is_method) const {
    const OtherLibrary& other = environment_.other;
    if (other.library == nullptr || &library_ != &chunked_library()) return "";
    const Registry& registry = other.library->registry();
    const Function* same = is_method ? registry.method(function.name) : registry.function(function.name);
    return same == nullptr ? "" : "; " + other.hint;
  }

  // An unknown keyword is pointed at itself; everything else at the call, also where a function takes any keyword.
  static Span call_span(const Expr& expr, const Call& node, const Function& function) {
    if (function.signature.takes_keywords()) return expr.span;
    for (const Keyword& keyword : node.keywords) {
      bool known = false;
      for (const Parameter& parameter : function.parameters()) known = known || parameter.name == keyword.name;
      if (!known) return keyword.span;
    }
    return expr.span;
  }

  Value eval(const Expr&, const Attribute& node) {
    const Value object = run(*node.object);
    if (const auto* module = object.as<ModuleValue>()) return module_member(*module, node);
    if (library_.is_array(object)) {
      if (std::optional<Value> value = at(node.name_span, [&] { return library_.attribute(object, node.name); })) {
        return *value;
      }
      if (const Function* method = library_.method(object, node.name)) {
        return FunctionValue{method, std::make_shared<const Value>(object)};
      }
      std::vector<std::string> names = library_.attribute_names();
      for (const std::string& name : library_.registry().method_names()) names.push_back(name);
      throw ExpressionError(source_, node.name_span,
                            "arrays have no attribute '" + local::excerpt(node.name) + "'" +
                                elsewhere(
                                    [&](const Library& other) {
                                      const std::vector<std::string> attributes = other.attribute_names();
                                      return other.registry().method(node.name) != nullptr ||
                                             std::find(attributes.begin(), attributes.end(), node.name) !=
                                                 attributes.end();
                                    },
                                    node.name, names));
    }
    if (object.is<GeneratorValue>()) return method_of(object, "random.Generator.", "generators", node);
    if (object.is<SeedSequenceValue>()) return method_of(object, "random.SeedSequence.", "seed sequences", node);
    if (std::optional<Value> value = text_attribute(object, node.name)) return *value;
    if (std::optional<Value> value = scalar_attribute(object, node.name)) return *value;
    if (const auto* function = object.as<FunctionValue>(); function != nullptr && function->self == nullptr) {
      // The methods of ufuncs: add.reduce; of NumPy's function where a name alone is Python's: divmod.nin.
      std::string name = function->function->name;
      if (constexpr std::string_view prefix = "builtins."; name.starts_with(prefix)) name.erase(0, prefix.size());
      if (const Function* found = library_.registry().function(name + "." + node.name)) {
        return FunctionValue{found, nullptr};
      }
      if (std::optional<Value> value = library_.function_attribute(name, node.name)) return *value;
      if (node.name == "__name__") return name;
    }
    throw ExpressionError(source_, node.name_span,
                          "'" + type_name(object) + "' object has no attribute '" + node.name + "'");
  }

  Value method_of(const Value& object, const std::string& prefix, const std::string& kind, const Attribute& node) {
    if (const Function* method = library_.registry().function(prefix + node.name)) {
      return FunctionValue{method, std::make_shared<const Value>(object)};
    }
    std::vector<std::string> names;
    for (const std::string& name : library_.registry().function_names()) {
      if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
    }
    throw ExpressionError(
        source_, node.name_span,
        kind + " have no method '" + local::excerpt(node.name) + "'" +
            elsewhere([&](const Library& other) { return other.registry().function(prefix + node.name) != nullptr; },
                      node.name, names));
  }

  static std::optional<Value> scalar_attribute(const Value& object, std::string_view name) {
    if (const SequenceValue* tuple = object.sequence()) {
      for (size_t i = 0; i < tuple->fields.size(); ++i) {
        if (name == tuple->fields[i]) return tuple->items[i];
      }
      return std::nullopt;
    }
    if (const auto* dtype = object.as<DTypeValue>()) {
      if (name == "itemsize") return Value(local::itemsize(dtype->dtype));
      if (name == "name") return Value(std::string(local::name(dtype->dtype)));
      if (name == "kind") return Value(std::string(1, local::kind(dtype->dtype)));
      if (name == "char") return Value(std::string(1, local::letter(dtype->dtype)));
      if (name == "alignment") return Value(local::itemsize(local::real_type(dtype->dtype)));
      if (name == "isnative") return Value(!dtype->swapped);
      if (name == "byteorder" || name == "str") {
        const bool has_order = local::itemsize(dtype->dtype) > 1;
        if (name == "byteorder") return Value(std::string(!has_order ? "|" : dtype->swapped ? ">" : "="));
        return Value(std::string(!has_order       ? "|"
                                 : dtype->swapped ? ">"
                                                  : "<") +
                     local::kind(dtype->dtype) + std::to_string(local::itemsize(dtype->dtype)));
      }
      return std::nullopt;
    }
    const std::optional<Number> number = object.number();
    if (!number || (name != "real" && name != "imag")) return std::nullopt;
    if (const auto* c = object.as<std::complex<double>>()) return Value(name == "real" ? c->real() : c->imag());
    if (name == "real") return Value(unary(UnaryOp::plus, *number));
    return object.is<double>() ? Value(0.0) : Value(Int{0});
  }

  Value module_member(const ModuleValue& module, const Attribute& node) {
    // SciPy's modules go by their own names.
    if (module.name == "scipy" && library_.is_module(node.name)) return ModuleValue{node.name};
    const bool top = is_numpy(module.name);
    const std::string prefix = top ? "" : module.name + ".";
    if (const Function* function = library_.registry().function(prefix + node.name)) {
      return FunctionValue{function, nullptr};
    }
    if (!top) {
      if (std::optional<Value> value = library_.constant(prefix + node.name)) return *value;
    }
    if (top) {
      if (std::optional<Value> value = library_.constant(node.name)) return *value;
      // np.bool is NumPy's own; the other types of Python are not NumPy's names.
      if (const std::optional<DTypeValue> dtype = dtype_name(node.name))
        return DTypeValue{dtype->dtype, dtype->python_type && node.name != "bool"};
      if (library_.is_module(node.name)) return ModuleValue{node.name};
    }
    std::vector<std::string> names;
    for (const std::string& name : library_.registry().function_names()) {
      if (name.starts_with(prefix + node.name + ".") && !top) return ModuleValue{prefix + node.name};
      if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
    }
    throw ExpressionError(source_, node.name_span,
                          "'" + module.name + "' has no function '" + local::excerpt(node.name) + "'" +
                              elsewhere(
                                  [&](const Library& other) {
                                    return other.registry().function(prefix + node.name) != nullptr ||
                                           (top && (other.is_module(node.name) || other.constant(node.name)));
                                  },
                                  node.name, names));
  }

  // The end of a message on a missing name: that the other library has it, or a name that is like it.
  template <class F>
  std::string elsewhere(F&& has, const std::string& name, const std::vector<std::string>& names) const {
    const OtherLibrary& other = environment_.other;
    if (other.library != nullptr && has(*other.library)) return "; " + other.hint;
    return local::suggestion(name, names);
  }
  // A keyword that the other library's function of the same name takes.
  void check_keywords(const Function& function, bool is_method, const Call& node) const {
    const OtherLibrary& other = environment_.other;
    if (other.library == nullptr) return;
    const auto takes = [](const Function& f, const std::string& keyword) {
      return std::any_of(f.parameters().begin(), f.parameters().end(),
                         [&](const Parameter& p) { return p.name == keyword || p.kind == Parameter::Kind::keywords; });
    };
    // Of Python's functions those of NumPy that they pass their keywords on to.
    const std::string prefix = "builtins.";
    const bool is_builtin = function.name.starts_with(prefix);
    const std::string name = is_builtin ? function.name.substr(prefix.size()) : function.name;
    const auto of = [&](const Registry& registry) {
      return is_method ? registry.method(name) : registry.function(name);
    };
    const Function* mine = is_builtin ? of(library_.registry()) : &function;
    const Function* theirs = of(other.library->registry());
    if (mine == nullptr || theirs == nullptr) return;
    for (const Keyword& keyword : node.keywords) {
      if (!takes(*mine, keyword.name) && takes(*theirs, keyword.name))
        throw ExpressionError(source_, keyword.span, name + "() takes no '" + keyword.name + "' here; " + other.hint);
    }
  }

  Value eval(const Expr& expr, const Subscript& node) {
    const Value object = run(*node.object);
    Value index = run(*node.index);
    return at(node.index->span, [&]() -> Value {
      if (library_.is_array(object)) return library_.subscript(object, index);
      if (const auto* module = object.as<ModuleValue>(); module != nullptr && module->name == "s_") return index;
      if (const SequenceValue* sequence = object.sequence()) return sequence_subscript(*sequence, index);
      if (const auto* text = object.as<std::string>()) return string_subscript(*text, index);
      if (const auto* bytes = object.as<Bytes>()) return bytes_subscript(bytes->text, index);
      if (const DictValue* dict = object.dict()) return dict_subscript(*dict, index);
      if (const auto* method = object.as<FunctionValue>(); method != nullptr && method->function->is_subscripted)
        return method->function->handler(bind(*method->function, {*method->self, index}, {}), environment_.session);
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

  // As Python's: the last value of a key counts, in the place of the first.
  Value eval(const Expr&, const Dict& node) {
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [key_expr, value_expr] : node.items) {
      Value key = run(*key_expr), value = run(*value_expr);
      if (!key.number() && !key.is<std::string>() && !key.is<Bytes>() && !key.is_none()) {
        throw ExpressionError(source_, key_expr->span, "a " + type_name(key) + " cannot be a key of a dict");
      }
      const auto found =
          std::find_if(items.begin(), items.end(), [&](const auto& item) { return same_value(item.first, key); });
      if (found != items.end())
        found->second = std::move(value);
      else
        items.emplace_back(std::move(key), std::move(value));
    }
    return Value::dict(std::move(items));
  }

  // The parameters of the lambdas around are captured by value; variables are looked up when it is called. What it is
  // called with says the library: a function over chunked arrays may call it with the local arrays of a chunk.
  Value eval(const Expr&, const Lambda& node) {
    auto function = std::make_shared<Function>();
    function->name = "<lambda>";
    std::vector<Parameter> parameters;
    for (size_t i = 0; i < node.parameters.size(); ++i) {
      std::optional<Value> value;
      if (node.defaults[i]) value = run(*node.defaults[i]);
      parameters.push_back({Parameter::Kind::positional, node.parameters[i], std::move(value)});
    }
    function->signature = Signature(std::move(parameters));
    function->handler = [body = node.body, source = source_, environment = &environment_, locals = locals_](
                            const Arguments& args, Session&) {
      Locals inner = locals;
      for (size_t i = 0; i < args.values().size(); ++i) {
        inner.insert_or_assign(args.function().parameters()[i].name, args.values()[i]);
      }
      const bool is_local = std::any_of(args.values().begin(), args.values().end(), [](const Value& value) {
        const auto* masked = value.as<MaskedValue>();
        return value.is<local::NdArray>() || (masked != nullptr && masked->local);
      });
      const Library& library = is_local ? local_library() : *environment->library;
      return Evaluator(source, *environment, library, std::move(inner)).run(*body);
    };
    return FunctionValue{function.get(), nullptr, function};
  }

  const Source& source_;
  Environment& environment_;
  const Library& library_;
  const Locals locals_;  // parameters of the lambdas around
};

Value Evaluator::execute(const Statement& statement) {
  Value value = run(*statement.value);
  if (!statement.target) return value;
  const auto& target = std::get<Subscript>(statement.target->node);
  const Value object = run(*target.object), index = run(*target.index);
  if (!library_.is_array(object))
    throw ExpressionError(source_, statement.target->span,
                          "'" + type_name(object) + "' object does not support item assignment");
  return at(statement.target->span, [&] { return library_.assign(object, index, statement.update, value); });
}

}  // namespace

Value evaluate(const Source& source, const Expr& expr, Environment& environment) {
  return Evaluator(source, environment).run(expr);
}

Value execute(const Source& source, const Statement& statement, Environment& environment) {
  return Evaluator(source, environment).execute(statement);
}

}  // namespace quarry::apps::expression
