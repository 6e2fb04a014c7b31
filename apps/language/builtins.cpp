#include "quarry/apps/language/builtins.h"

#include <algorithm>

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

namespace {

bool is_array(const Value& value) {
  return value.is<Array>() || value.is<local::NdArray>() || value.is<MaskedValue>() || value.is<SparseValue>();
}

constexpr int64_t kMostItems = 1 << 20;

// What a builtin is called with.
struct PythonCall {
  const char* name;
  std::vector<Value> args;
  const DictValue& keywords;
  Session& session;

  const Value* keyword(std::string_view key) const { return keywords.find(key); }
  void takes(size_t least, size_t most) const {
    if (args.size() >= least && args.size() <= most) return;
    throw TypeError(std::string(name) + " expected " +
                    (least == most         ? std::to_string(least) + " argument" + (least == 1 ? "" : "s")
                     : args.size() < least ? "at least " + std::to_string(least) + " argument" + (least == 1 ? "" : "s")
                                           : "at most " + std::to_string(most) + " argument" + (most == 1 ? "" : "s")) +
                    ", got " + std::to_string(args.size()));
  }
};

// The items of a Python value; nothing if it has none.
std::optional<std::vector<Value>> items_in(const Value& value) {
  if (const SequenceValue* sequence = value.sequence()) return sequence->items;
  std::vector<Value> items;
  if (const auto* text = value.as<std::string>()) {
    for (const std::string& character : characters(*text)) items.emplace_back(character);
    return items;
  }
  if (const auto* bytes = value.as<Bytes>()) {
    for (const char c : bytes->text) items.emplace_back(Int(static_cast<unsigned char>(c)));
    return items;
  }
  if (const DictValue* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) items.push_back(key);
    return items;
  }
  return std::nullopt;
}

std::vector<Value> iterate(const Value& value) {
  std::optional<std::vector<Value>> items = items_in(value);
  if (!items) throw TypeError("'" + type_name(value) + "' object is not iterable");
  return *std::move(items);
}

Value called(const Value& function, const Value& argument, Session& session) {
  if (const auto* type = function.as<DTypeValue>(); type != nullptr && type->python_type)
    return call_python_type(type->dtype, {argument}, {});
  const auto* callee = function.as<FunctionValue>();
  if (callee == nullptr) throw TypeError("'" + type_name(function) + "' object is not callable");
  std::vector<Value> args;
  if (callee->self != nullptr) args.push_back(*callee->self);
  args.push_back(argument);
  return callee->function->handler(bind(*callee->function, std::move(args), {}), session);
}

// As Python's <.
bool is_less(const Value& a, const Value& b) {
  const std::optional<Number> x = a.number(), y = b.number();
  if (x && y) return compare(CompareOp::less, *x, *y);
  if (a.is<std::string>() && b.is<std::string>()) return *a.as<std::string>() < *b.as<std::string>();
  if (a.is<Bytes>() && b.is<Bytes>()) return a.as<Bytes>()->text < b.as<Bytes>()->text;
  const SequenceValue* s = a.sequence();
  const SequenceValue* t = b.sequence();
  if (s != nullptr && t != nullptr && s->is_list == t->is_list) {
    for (size_t i = 0; i < std::min(s->items.size(), t->items.size()); ++i) {
      if (!same_value(s->items[i], t->items[i])) return is_less(s->items[i], t->items[i]);
    }
    return s->items.size() < t->items.size();
  }
  throw TypeError("'<' not supported between instances of '" + type_name(a) + "' and '" + type_name(b) + "'");
}

Number number_of(const Value& value, const char* function) {
  const std::optional<Number> number = value.number();
  if (!number) throw TypeError(std::string("bad operand type for ") + function + "(): '" + type_name(value) + "'");
  return *number;
}

Value python_abs(const PythonCall& call) {
  call.takes(1, 1);
  return absolute(number_of(call.args[0], "abs"));
}

Value python_round(const PythonCall& call) {
  std::vector<Value> args = call.args;
  if (const Value* digits = call.keyword("ndigits")) args.push_back(*digits);
  if (args.empty() || args.size() > 2) call.takes(1, 2);
  std::optional<Int> digits;
  if (args.size() == 2 && !args[1].is_none()) {
    const std::optional<Number> given = args[1].number();
    if (!given || given->index() > 1)
      throw TypeError("'" + type_name(args[1]) + "' object cannot be interpreted as an integer");
    digits = to_integer(*given);
  }
  return round(number_of(args[0], "round"), digits);
}

Value python_pow(const PythonCall& call) {
  call.takes(2, 3);
  const Number base = number_of(call.args[0], "pow"), exponent = number_of(call.args[1], "pow");
  if (call.args.size() == 2 || call.args[2].is_none()) return binary(BinaryOp::power, base, exponent);
  return power_modulo(base, exponent, number_of(call.args[2], "pow"));
}

Value python_divmod(const PythonCall& call) {
  call.takes(2, 2);
  const Number a = number_of(call.args[0], "divmod"), b = number_of(call.args[1], "divmod");
  return Value::tuple({Value(binary(BinaryOp::floor_divide, a, b)), Value(binary(BinaryOp::remainder, a, b))});
}

bool python_truth(const Value& value) {
  if (const std::optional<Number> number = value.number()) return truth(*number);
  if (const std::optional<std::vector<Value>> items = items_in(value)) return !items->empty();
  return !value.is_none();
}

Value python_all(const PythonCall& call) {
  call.takes(1, 1);
  const std::vector<Value> items = iterate(call.args[0]);
  return std::all_of(items.begin(), items.end(), python_truth);
}
Value python_any(const PythonCall& call) {
  call.takes(1, 1);
  const std::vector<Value> items = iterate(call.args[0]);
  return std::any_of(items.begin(), items.end(), python_truth);
}

Value python_sum(const PythonCall& call) {
  call.takes(1, 2);
  const Value* start = call.keyword("start");
  Number total = start != nullptr ? number_of(*start, "sum") : Int(0);
  if (call.args.size() == 2) total = number_of(call.args[1], "sum");
  for (const Value& item : iterate(call.args[0])) total = binary(BinaryOp::add, total, number_of(item, "sum"));
  return total;
}

// max(items, default=..., key=...) or max(a, b, ...); the first of equal ones.
Value extreme(const PythonCall& call, bool largest) {
  if (call.args.empty()) throw TypeError(std::string(call.name) + " expected at least 1 argument, got 0");
  const std::vector<Value> items = call.args.size() == 1 ? iterate(call.args[0]) : call.args;
  const Value* key = call.keyword("key");
  const Value* otherwise = call.keyword("default");
  if (items.empty()) {
    if (otherwise != nullptr) return *otherwise;
    throw InvalidArgument(std::string(call.name) + "() iterable argument is empty");
  }
  const auto rank = [&](const Value& item) {
    return key == nullptr || key->is_none() ? item : called(*key, item, call.session);
  };
  size_t best = 0;
  Value best_rank = rank(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value now = rank(items[i]);
    if (largest ? is_less(best_rank, now) : is_less(now, best_rank)) {
      best = i;
      best_rank = std::move(now);
    }
  }
  return items[best];
}
Value python_max(const PythonCall& call) { return extreme(call, /*largest=*/true); }
Value python_min(const PythonCall& call) { return extreme(call, /*largest=*/false); }

Value python_sorted(const PythonCall& call) {
  call.takes(1, 1);
  const Value* key = call.keyword("key");
  const Value* reverse = call.keyword("reverse");
  const bool descending = reverse != nullptr && python_truth(*reverse);
  std::vector<std::pair<Value, Value>> ranked;
  for (Value& item : iterate(call.args[0])) {
    Value rank = key == nullptr || key->is_none() ? item : called(*key, item, call.session);
    ranked.emplace_back(std::move(rank), std::move(item));
  }
  std::stable_sort(ranked.begin(), ranked.end(), [descending](const auto& a, const auto& b) {
    return descending ? is_less(b.first, a.first) : is_less(a.first, b.first);
  });
  std::vector<Value> items;
  for (auto& [rank, item] : ranked) items.push_back(std::move(item));
  return Value::list(std::move(items));
}

Value python_reversed(const PythonCall& call) {
  call.takes(1, 1);
  std::vector<Value> items = iterate(call.args[0]);
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items));
}

Value python_len(const PythonCall& call) {
  call.takes(1, 1);
  const std::optional<std::vector<Value>> items = items_in(call.args[0]);
  if (!items) throw TypeError("object of type '" + type_name(call.args[0]) + "' has no len()");
  return Value(static_cast<int64_t>(items->size()));
}

Value python_list(const PythonCall& call) {
  call.takes(0, 1);
  return Value::list(call.args.empty() ? std::vector<Value>() : iterate(call.args[0]));
}
Value python_tuple(const PythonCall& call) {
  call.takes(0, 1);
  return Value::tuple(call.args.empty() ? std::vector<Value>() : iterate(call.args[0]));
}

Int whole(const Value& value) {
  const std::optional<Number> number = value.number();
  if (!number || number->index() > 1)
    throw TypeError("'" + type_name(value) + "' object cannot be interpreted as an integer");
  return to_integer(*number);
}

// As a list.
Value python_range(const PythonCall& call) {
  call.takes(1, 3);
  const std::vector<Value>& given = call.args;
  const Int start = given.size() == 1 ? Int(0) : whole(given[0]), stop = whole(given[given.size() == 1 ? 0 : 1]);
  const Int step = given.size() == 3 ? whole(given[2]) : Int(1);
  if (step.is_zero()) throw InvalidArgument("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (Int i = start; step.is_negative() ? i > stop : i < stop; i = i + step) {
    if (items.size() >= kMostItems) throw InvalidArgument("the range is too long");
    items.emplace_back(i);
  }
  return Value::list(std::move(items));
}

// bytes(), bytes(length), bytes(integers), bytes(text, encoding).
Value python_bytes(const PythonCall& call) {
  call.takes(0, 2);
  if (call.args.empty()) return Bytes{};
  const Value& source = call.args[0];
  if (const auto* text = source.as<std::string>()) {
    if (call.args.size() == 1) throw TypeError("string argument without an encoding");
    const auto* encoding = call.args[1].as<std::string>();
    if (encoding == nullptr || (*encoding != "utf-8" && *encoding != "utf8" && *encoding != "ascii"))
      throw InvalidArgument("bytes(): the encoding must be 'utf-8' or 'ascii'");
    return Bytes{*text};
  }
  if (call.args.size() == 2) throw TypeError("encoding without a string argument");
  if (source.is<Bytes>()) return source;
  if (source.number()) {
    const std::optional<int64_t> length = whole(source).as_int64();
    if (!length || *length > kMostItems) throw InvalidArgument("bytes(): the length is too large");
    if (*length < 0) throw InvalidArgument("negative count");
    return Bytes{std::string(static_cast<size_t>(*length), '\0')};
  }
  Bytes result;
  for (const Value& item : iterate(source)) {
    const Int byte = whole(item);
    if (byte < 0 || byte > 255) throw InvalidArgument("bytes must be in range(0, 256)");
    result.text += static_cast<char>(*byte.as_int64());
  }
  return result;
}

struct Builtin {
  const char* name;
  Value (*function)(const PythonCall& call);
  std::vector<std::string_view> keywords;
  bool of_flat_items;  // nested sequences are NumPy's
};
const Builtin kBuiltins[] = {
    {"abs", python_abs, {}, true},
    {"all", python_all, {}, true},
    {"any", python_any, {}, true},
    {"bytes", python_bytes, {}, false},
    {"divmod", python_divmod, {}, true},
    {"len", python_len, {}, false},
    {"list", python_list, {}, false},
    {"max", python_max, {"key", "default"}, true},
    {"min", python_min, {"key", "default"}, true},
    {"pow", python_pow, {}, true},
    {"range", python_range, {}, false},
    {"reversed", python_reversed, {}, false},
    {"round", python_round, {"ndigits"}, true},
    {"sorted", python_sorted, {"key", "reverse"}, false},
    {"sum", python_sum, {"start"}, true},
    {"tuple", python_tuple, {}, false},
};

// Whether NumPy's function of the same name is meant.
bool is_numpys(const Builtin& row, const std::vector<Value>& args, const DictValue& keywords) {
  for (const auto& [key, value] : keywords.items) {
    if (std::find(row.keywords.begin(), row.keywords.end(), *key.as<std::string>()) == row.keywords.end()) return true;
  }
  const bool takes_items = row.function == python_all || row.function == python_any || row.function == python_max ||
                           row.function == python_min || row.function == python_sum;
  // round(2.675, 2) is 2.68 to NumPy and 2.67 to Python.
  if (row.function == python_round && args.size() == 2 && args[0].as<double>() != nullptr && args[1].number())
    return true;
  // sum(3) and sum([]) are NumPy's, as one value and no elements are to it.
  if (takes_items && args.size() == 1 && keywords.find("default") == nullptr) {
    const SequenceValue* items = args[0].sequence();
    if (args[0].number() || (row.function == python_sum && items != nullptr && items->items.empty())) return true;
  }
  for (size_t i = 0; i < args.size(); ++i) {
    if (is_array(args[i])) return true;
    const SequenceValue* sequence = args[i].sequence();
    if (sequence == nullptr) continue;
    const bool nested = std::any_of(sequence->items.begin(), sequence->items.end(),
                                    [](const Value& item) { return is_array(item) || item.sequence() != nullptr; });
    if (row.of_flat_items && keywords.items.empty() && (nested || !takes_items)) return true;
  }
  return false;
}

}  // namespace

void add_builtins(Registry& registry) {
  for (const Builtin& row : kBuiltins) {
    const auto handler = [&row, &registry](const Arguments& given, Session& session) {
      const std::vector<Value>& args = given["args"].sequence()->items;
      const DictValue& keywords = *given["kwargs"].dict();
      const Function* numpys = registry.function(row.name);
      if (numpys != nullptr && is_numpys(row, args, keywords)) {
        std::vector<KeywordValue> named;
        for (const auto& [key, value] : keywords.items) named.push_back({*key.as<std::string>(), value});
        return numpys->handler(bind(*numpys, args, std::move(named)), session);
      }
      for (const auto& [key, value] : keywords.items) {
        const std::string& name = *key.as<std::string>();
        if (std::find(row.keywords.begin(), row.keywords.end(), name) == row.keywords.end())
          throw TypeError(std::string(row.name) + "() got an unexpected keyword argument '" + name + "'");
      }
      return row.function(PythonCall{row.name, args, keywords, session});
    };
    registry.add_function(std::string("builtins.") + row.name, "(*args, **kwargs)", handler);
  }
}

Value call_python_type(DType type, const std::vector<Value>& args, const std::vector<KeywordValue>& keywords) {
  const bool is_complex = type == DType::complex128;
  const char* name = type == DType::bool_     ? "bool"
                     : type == DType::int64   ? "int"
                     : type == DType::float64 ? "float"
                                              : "complex";
  std::optional<Value> first, second;
  if (!args.empty()) first = args[0];
  if (args.size() > 1) second = args[1];
  for (const KeywordValue& keyword : keywords) {
    std::optional<Value>* const place = is_complex && keyword.name == "real"             ? &first
                                        : is_complex && keyword.name == "imag"           ? &second
                                        : type == DType::int64 && keyword.name == "base" ? &second
                                                                                         : nullptr;
    if (place == nullptr)
      throw TypeError(std::string(name) + "() got an unexpected keyword argument '" + keyword.name + "'");
    if (*place) throw TypeError(std::string(name) + "() got multiple values for argument '" + keyword.name + "'");
    *place = keyword.value;
  }
  const bool takes_two = is_complex || type == DType::int64;
  if (args.size() > (takes_two ? 2u : 1u))
    throw TypeError(std::string(name) + "() takes at most " + (takes_two ? "2 arguments" : "1 argument") + " (" +
                    std::to_string(args.size()) + " given)");
  if (type == DType::bool_) return first && python_truth(*first);

  const auto* bytes = first ? first->as<Bytes>() : nullptr;
  const auto* text = bytes != nullptr ? &bytes->text : first ? first->as<std::string>() : nullptr;
  if (text != nullptr && !(bytes != nullptr && is_complex)) {
    if (type == DType::float64) return parse_float(*text);
    if (is_complex && second) throw TypeError("complex() can't take second arg if first is a string");
    if (is_complex) return parse_complex(*text);
    int64_t base = 10;
    if (second) {
      // A base that fits no int64 is out of range as well.
      base = whole(*second).as_int64().value_or(-1);
      if (base != 0 && (base < 2 || base > 36)) throw InvalidArgument("int() base must be >= 2 and <= 36, or 0");
    }
    return parse_integer(*text, static_cast<int>(base));
  }
  if (type == DType::int64 && second) throw TypeError("int() can't convert non-string with explicit base");
  const auto number = [&](const std::optional<Value>& value) -> Number {
    if (!value) return Int(0);
    const std::optional<Number> given = value->number();
    if (!given) {
      throw TypeError(std::string(name) + "() argument must be a " +
                      (is_complex ? "number" : "string or a real number") + ", not '" + type_name(*value) + "'");
    }
    return *given;
  };
  const Number value = number(first);
  if (is_complex) {
    const std::complex<double> real = to_complex(value), imag = to_complex(number(second));
    const bool one_is_complex = second && (value.index() == 3 || number(second).index() == 3);
    if (!second) return real;
    return one_is_complex ? std::complex<double>(real.real() - imag.imag(), real.imag() + imag.real())
                          : std::complex<double>(real.real(), imag.real());
  }
  if (value.index() == 3)
    throw TypeError(std::string(name) + "() argument must be a string or a real number, not 'complex'");
  if (type == DType::int64) return to_integer(value);
  return to_float(value);
}

namespace {

std::string hexadecimal(const std::string& bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) text += {kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 15]};
  return text;
}

// A method without arguments.
Value method(const char* name, std::function<Value()> call) {
  auto function = std::make_shared<Function>();
  function->name = name;
  function->handler = [call = std::move(call)](const Arguments&, Session&) { return call(); };
  return FunctionValue{function.get(), nullptr, function};
}

}  // namespace

std::optional<Value> text_attribute(const Value& text, std::string_view name) {
  if (const auto* bytes = text.as<Bytes>()) {
    if (name == "hex") return method("hex", [b = bytes->text]() -> Value { return hexadecimal(b); });
    if (name == "decode") return method("decode", [b = bytes->text]() -> Value { return b; });
  }
  if (const auto* characters = text.as<std::string>(); characters != nullptr && name == "encode")
    return method("encode", [s = *characters]() -> Value { return Bytes{s}; });
  return std::nullopt;
}

}  // namespace quarry::apps::expression
