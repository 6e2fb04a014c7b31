#include "quarry/apps/binding/arrays.h"
#include "quarry/apps/language/builtins.h"
#include "quarry/apps/language/library.h"

namespace quarry::apps::expression {

namespace {

class ChunkedLibrary final : public Library {
 public:
  ChunkedLibrary() {
    add_all_functions(registry_);
    add_builtins(registry_);
  }

  const Registry& registry() const override { return registry_; }
  bool is_module(std::string_view name) const override {
    return name == "random" || name == "linalg" || name == "special" || name == "scipy";
  }
  bool is_array(const Value& value) const override { return value.is<Array>(); }
  bool is_operand(const Value& value) const override { return expression::is_operand(value); }
  Value unary(UnaryOp op, const Value& operand) const override { return array_unary(op, operand); }
  Value binary(BinaryOp op, const Value& left, const Value& right) const override {
    return array_binary(op, left, right);
  }
  Value compare(CompareOp op, const Value& left, const Value& right) const override {
    return array_compare(op, left, right);
  }
  Value subscript(const Value& array, const Value& index) const override {
    return array_subscript(*array.as<Array>(), index);
  }
  std::optional<Value> attribute(const Value& array, std::string_view name) const override {
    return array_attribute(*array.as<Array>(), name);
  }
  std::vector<std::string> attribute_names() const override { return array_attribute_names(); }
  Value convert(const DTypeValue& type, const Value& value) const override {
    return apply("cast"_op, std::span(&value, 1), type.dtype);
  }

  std::optional<bool> truth(const Value& array) const override {
    if (array.as<Array>()->ndim() == 0) return std::nullopt;
    throw local::InvalidArgument(
        "the truth value of an array is not known before it is computed; use &, |, ~ or where(), any(), all()");
  }
  Value choose(const Value& condition, const Value& then, const Value& otherwise) const override {
    const Value choice[] = {condition, then, otherwise};
    for (const Value& value : choice) {
      if (!is_operand(value)) throw local::TypeError("a computed condition cannot choose a " + type_name(value));
    }
    return apply("where"_op, choice);
  }
  // Element by element.
  bool chain_ends(const Value&) const override { return false; }
  Value chain(const Value& all, const Value& next) const override { return array_binary(BinaryOp::bit_and, all, next); }

 private:
  Registry registry_;
};

}  // namespace

const Library& chunked_library() {
  static const ChunkedLibrary library;
  return library;
}

}  // namespace quarry::apps::expression
