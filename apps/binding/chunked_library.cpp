#include "quarry/apps/binding/arrays.h"
#include "quarry/apps/binding/masked.h"
#include "quarry/apps/binding/sparse_values.h"
#include "quarry/apps/binding/tables.h"
#include "quarry/apps/language/builtins.h"
#include "quarry/apps/language/library.h"

#include <set>

namespace quarry::apps::expression {

namespace {

// Complex numbers conjugated; anything else is the array itself.
Value conjugated(const Arguments& args, Session&) {
  const Value& self = args.values()[0];
  return local::is_complex(self.as<Array>()->dtype()) ? apply("conjugate"_op, std::span(&self, 1)) : self;
}

// random.normal(...) is default_generator.normal(...): a function for every method of generators.
void add_draws(Registry& registry) {
  const std::string module = "random.", methods = "random.Generator.";
  for (const std::string& name : registry.function_names()) {
    if (!name.starts_with(methods)) continue;
    auto method = std::make_shared<Function>(*registry.function(name));
    method->name = module + name.substr(methods.size());
    const std::string first = "(self, ";
    QUARRY_CHECK(method->signature.text().starts_with(first));
    const Handler handler = [method](const Arguments& args, Session& session) {
      std::vector<Value> values = args.values();
      std::vector<bool> given = {true};
      values.insert(values.begin(), GeneratorValue{nullptr, session.random});
      for (const Parameter& parameter : args.function().parameters()) given.push_back(args.given(parameter.name));
      return method->handler(Arguments(*method, std::move(values), std::move(given)), session);
    };
    registry.add_function(method->name, "(" + method->signature.text().substr(first.size()), handler, method->summary,
                          method->memory);
  }
}

using Masked = MaskedLibrary<ma::Chunked>;
bool is_masked(const Value& value) { return masked_in<ma::Chunked>(value) != nullptr; }

class ChunkedLibrary final : public Library {
 public:
  ChunkedLibrary() {
    add_rows<Array>(registry_);
    add_chunked_ufuncs(registry_);
    add_chunked_reductions(registry_);
    add_draws(registry_);
    add_python_functions(registry_);
    for (const char* name : {"conj", "conjugate"})
      registry_.add_method(name, "(self, /)", conjugated, "Complex conjugates.", Memory::streams);
    add_methods_of_functions(registry_);
    add_masked_ufuncs<ma::Chunked>(registry_);
    for (const char* name : {"blocks", "partitions", "vindex"}) registry_.add_subscript(name);
    for (const std::string& name : registry_.function_names()) {
      for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
        modules_.insert(name.substr(0, dot));
    }
    add_builtins(registry_);
  }

  const Registry& registry() const override { return registry_; }
  bool is_module(std::string_view name) const override {
    return name == "s_" || name == "scipy" || modules_.contains(name);
  }
  std::optional<Value> constant(std::string_view name) const override {
    if (std::optional<Value> masked = masked_constant(name, /*is_local=*/false)) return masked;
    return Library::constant(name);
  }
  bool is_array(const Value& value) const override {
    return value.is<Array>() || is_masked(value) || value.is<SparseValue>();
  }
  bool is_operand(const Value& value) const override {
    return expression::is_operand(value) || is_masked(value) || value.is<SparseValue>();
  }
  const Function* method(const Value& array, std::string_view name) const override {
    if (array.is<SparseValue>()) return sparse_method(registry_, name);
    return is_masked(array) ? masked_method(registry_, name) : registry_.method(name);
  }
  Value unary(UnaryOp op, const Value& operand) const override {
    if (operand.is<SparseValue>()) return sparse_unary(op, operand);
    return array_unary(op, operand);
  }
  Value binary(BinaryOp op, const Value& left, const Value& right) const override {
    if (op == BinaryOp::matmul && (is_masked(left) || is_masked(right)))
      throw local::NotSupported("@ of masked arrays; ma.dot() takes masked elements as 0");
    if (left.is<SparseValue>() || right.is<SparseValue>()) return sparse_binary(op, left, right);
    return array_binary(op, left, right);
  }
  Value compare(CompareOp op, const Value& left, const Value& right) const override {
    if (left.is<SparseValue>() || right.is<SparseValue>()) refuse_sparse("comparisons");
    return array_compare(op, left, right);
  }
  Value subscript(const Value& array, const Value& index) const override {
    if (is_masked(array)) return Masked::subscript(array, index);
    if (array.is<SparseValue>()) return sparse_subscript(array, index);
    return array_subscript(*array.as<Array>(), plain_index(index));
  }
  Value assign(const Value& array, const Value& index, std::optional<BinaryOp> update,
               const Value& value) const override {
    if (is_masked(array)) return Masked::assign(array, index, update, value);
    if (array.is<SparseValue>()) refuse_sparse("assignment to elements");
    return array_assign(*array.as<Array>(), plain_index(index), update, value);
  }
  std::optional<Value> attribute(const Value& array, std::string_view name) const override {
    if (is_masked(array)) return Masked::attribute(array, name);
    if (array.is<SparseValue>()) return sparse_attribute(registry_, array, name);
    return array_attribute(*array.as<Array>(), name);
  }
  std::vector<std::string> attribute_names() const override { return array_attribute_names(); }
  std::optional<Value> function_attribute(std::string_view function, std::string_view name) const override {
    return ufunc_attribute(function, name);
  }
  Value convert(const DTypeValue& type, const Value& value) const override {
    if (is_masked(value)) return Masked::convert(type, value);
    if (value.is<SparseValue>()) refuse_sparse("conversions but A.astype()");
    return apply("cast"_op, std::span(&value, 1), type.dtype);
  }

  std::optional<bool> truth(const Value& array) const override {
    if (array.is<SparseValue>()) refuse_sparse("a truth value");
    if (!is_masked(array) && array.as<Array>()->ndim() == 0) return std::nullopt;
    throw local::InvalidArgument(
        "the truth value of an array is not known before it is computed; use &, |, ~ or where(), any(), all()");
  }
  Value choose(const Value& condition, const Value& then, const Value& otherwise) const override {
    const Value choice[] = {condition, then, otherwise};
    for (const Value& value : choice) {
      if (!is_operand(value) || value.is<SparseValue>())
        throw local::TypeError("a computed condition cannot choose a " + type_name(value));
    }
    return apply("where"_op, choice);
  }
  // Element by element.
  bool chain_ends(const Value&) const override { return false; }
  Value chain(const Value& all, const Value& next) const override { return array_binary(BinaryOp::bit_and, all, next); }

 private:
  Registry registry_;
  std::set<std::string, std::less<>> modules_;
};

}  // namespace

const Library& chunked_library() {
  static const ChunkedLibrary library;
  return library;
}

}  // namespace quarry::apps::expression
