#include "quarry/apps/binding/masked.h"

#include <algorithm>

#include "quarry/apps/binding/arrays.h"
#include "quarry/apps/binding/both.h"
#include "quarry/apps/binding/tables.h"
#include "quarry/apps/language/library.h"
#include "quarry/local/ndarray/launch.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

Value decayed_value(const LocalMasked& array) {
  if (array.ndim() > 0) return masked_value(array);
  if (!array.mask_or_none() || !local::item_or(*array.mask_or_none(), false).as_bool()) return array.data();
  return masked_value(array);
}
Value decayed_value(const ChunkedMasked& array) {
  if (array.ndim() == 0 && !array.mask_or_none()) return array.data();
  return masked_value(array);
}

template <class K>
std::optional<Value> MaskedLibrary<K>::ufunc(local::Op op, std::span<const Value> args) {
  if (!any_masked<K>(args)) return std::nullopt;
  Keep keep;
  std::vector<local::ma::BasicMaskedOperand<K>> operands;
  for (const Value& arg : args) {
    const std::string what = std::string(local::info(op).name) + "(): an argument";
    operands.push_back(Convert<local::ma::BasicMaskedOperand<K>>::from(arg, what, keep));
  }
  return decayed_value(local::ma::MaskedOperators<K>::apply(op, operands));
}

template <class K>
std::optional<Value> MaskedLibrary<K>::reduction(const Registry& registry, const Arguments& args, Session& session) {
  if (masked_in<K>(args.values()[0]) == nullptr) return std::nullopt;
  const std::string& name = args.function().name;
  const Function* function = registry.function("ma." + name);
  if (function == nullptr)
    throw local::NotSupported(name + "() of masked arrays; filled() and compressed() give plain ones");
  std::vector<KeywordValue> given;
  const std::vector<Parameter>& parameters = args.function().parameters();
  for (size_t i = 1; i < parameters.size(); ++i)
    if (args.given(parameters[i].name)) given.push_back({parameters[i].name, args.values()[i]});
  return function->handler(bind(*function, {args.values()[0]}, std::move(given)), session);
}

Value plain_index(const Value& index) {
  if (const LocalMasked* array = masked_in<local::ma::Local>(index)) return array->data();
  if (const ChunkedMasked* array = masked_in<ma::Chunked>(index)) return array->data();
  const SequenceValue* tuple = index.sequence();
  if (tuple == nullptr || tuple->is_list) return index;
  std::vector<Value> items;
  for (const Value& item : tuple->items) items.push_back(plain_index(item));
  return Value::tuple(std::move(items));
}

namespace {

template <class K>
std::vector<typename K::IndexTerm> terms_of(const Value& index) {
  if constexpr (std::is_same_v<K, local::ma::Local>)
    return index_terms(plain_index(index));
  else
    return array_index_terms(plain_index(index));
}

}  // namespace

template <class K>
Value MaskedLibrary<K>::subscript(const Value& array, const Value& index) {
  return decayed_value(masked_in<K>(array)->get(terms_of<K>(index)));
}

template <class K>
Value MaskedLibrary<K>::assign(const Value& array, const Value& index, std::optional<BinaryOp> update,
                               const Value& value) {
  Keep keep;
  using Operand = local::ma::BasicMaskedOperand<K>;
  const std::vector<typename K::IndexTerm> terms = terms_of<K>(index);
  Operand given = Convert<Operand>::from(value, "value", keep);
  MaskedOf<K>& old = *masked_in<K>(array);
  if (update) {
    const Operand args[] = {old.get(terms), given};
    given = local::ma::MaskedOperators<K>::apply(expression::ufunc(*update), args).astype(old.dtype());
  }
  if constexpr (std::is_same_v<K, local::ma::Local>) {
    old.set(terms, given);
    return array;
  } else {
    // The statement rebinds its name: other names keep the old elements.
    MaskedOf<K> changed = old;
    changed.set(terms, given);
    return masked_value(std::move(changed));
  }
}

template <class K>
std::optional<Value> MaskedLibrary<K>::attribute(const Value& value, std::string_view name) {
  const MaskedOf<K>& array = *masked_in<K>(value);
  if (name == "data") return Value(array.data());
  if (name == "mask") return array.mask_or_none() ? Value(*array.mask_or_none()) : Value(false);
  if (name == "fill_value") {
    Value number = from_scalar(array.fill_value());
    return std::is_same_v<K, local::ma::Local> ? number : chunked_result(std::move(number));
  }
  if (name == "shape") return Value::tuple(array.shape());
  if (name == "ndim") return Value(array.ndim());
  if (name == "size") return Value(array.size());
  if (name == "dtype") return Value(DTypeValue{array.dtype()});
  if (name == "itemsize") return Value(local::itemsize(array.dtype()));
  if (name == "nbytes") return Value(array.size() * local::itemsize(array.dtype()));
  if (name == "T") return masked_value(array.T());
  if (name == "real") return masked_value(array.real());
  if (name == "imag") return masked_value(array.imag());
  return std::nullopt;
}

template <class K>
Value MaskedLibrary<K>::convert(const DTypeValue& type, const Value& value) {
  const MaskedOf<K>& array = *masked_in<K>(value);
  if (type.python_type && array.ndim() != 0) throw TypeError("Only length-1 arrays can be converted to Python scalars");
  return decayed_value(array.astype(type.dtype));
}

template <class K>
bool MaskedLibrary<K>::truth(const Value& value) {
  const MaskedOf<K>& array = *masked_in<K>(value);
  if (array.size() != 1)
    throw InvalidArgument(
        "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()");
  const Scalar zero(0);
  return array.filled(local::ma::BasicMaskedOperand<K>(zero)).template item<bool>();
}

template struct MaskedLibrary<local::ma::Local>;
template struct MaskedLibrary<ma::Chunked>;

std::optional<Value> masked_constant(std::string_view name, bool is_local) {
  if (name == "ma.nomask") return Value(false);
  if (name != "ma.masked") return std::nullopt;
  Value value =
      is_local ? masked_value(LocalMasked(local::ma::masked)) : masked_value(ChunkedMasked(local::ma::masked));
  MaskedValue word = *value.as<MaskedValue>();
  word.is_word = true;
  return word;
}

template <class K>
void add_masked_ufuncs(Registry& registry) {
  constexpr const char* kNames[] = {
      "exp",         "conjugate",   "sin",          "cos",         "arctan",        "arcsinh",     "sinh",
      "cosh",        "tanh",        "abs",          "absolute",    "fabs",          "negative",    "floor",
      "ceil",        "logical_not", "sqrt",         "log",         "log2",          "log10",       "tan",
      "arcsin",      "arccos",      "arccosh",      "arctanh",     "add",           "subtract",    "multiply",
      "arctan2",     "equal",       "not_equal",    "less_equal",  "greater_equal", "less",        "greater",
      "logical_and", "logical_or",  "logical_xor",  "bitwise_and", "bitwise_or",    "bitwise_xor", "hypot",
      "divide",      "true_divide", "floor_divide", "remainder",   "fmod",          "mod",         "power",
      "left_shift",  "right_shift", "maximum",      "minimum"};
  for (const char* name : kNames) {
    const std::optional<local::Op> op = local::find_op(name);
    QUARRY_CHECK(op.has_value());
    const bool is_unary = local::info(*op).arity == 1;
    const Handler handler = [op = *op](const Arguments& args, Session&) -> Value {
      Keep keep;
      std::vector<local::ma::BasicMaskedOperand<K>> operands;
      for (size_t i = 0; i < args.values().size(); ++i)
        operands.push_back(Convert<local::ma::BasicMaskedOperand<K>>::from(
            args.values()[i], args.function().name + "(): " + args.function().parameters()[i].name, keep));
      return decayed_value(local::ma::MaskedOperators<K>::apply(op, operands));
    };
    const char* const signature = is_unary ? "(a)" : std::string_view(name).ends_with("_shift") ? "(a, n)" : "(a, b)";
    registry.add_function(std::string("ma.") + name, signature, handler,
                          "The ufunc; masks are united, and what is outside of its domain is masked.",
                          std::is_same_v<K, ma::Chunked> ? Memory::streams : Memory::unknown);
  }
}
template void add_masked_ufuncs<local::ma::Local>(Registry& registry);
template void add_masked_ufuncs<ma::Chunked>(Registry& registry);

const Function* masked_method(const Registry& registry, std::string_view name) {
  return registry.function("ma.MaskedArray." + std::string(name));
}

std::string masked_text(const LocalMasked& array) { return array.to_string(); }
std::string masked_repr(const LocalMasked& array) {
  if (array.ndim() == 0 && array.mask_or_none() && array.mask().item().as_bool()) return "masked";
  return array.repr();
}

}  // namespace quarry::apps::expression
