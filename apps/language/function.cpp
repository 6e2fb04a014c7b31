#include "quarry/apps/language/function.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "quarry/apps/language/parser.h"
#include "quarry/local/base/dtype_text.h"
#include "quarry/local/base/message.h"

namespace quarry::apps::expression {

using local::TypeError;

size_t Arguments::position(std::string_view parameter) const {
  const auto& parameters = function_.parameters();
  const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == parameter; });
  QUARRY_CHECK(found != parameters.end());
  return static_cast<size_t>(found - parameters.begin());
}

namespace {

// The value of a default: a literal, possibly negative, a dtype's name or a tuple or list of such.
Value default_of(const Expr& expr) {
  if (std::holds_alternative<NoneLiteral>(expr.node)) return None{};
  if (const auto* literal = std::get_if<Literal>(&expr.node)) {
    return std::visit([](const auto& value) { return Value(value); }, literal->value);
  }
  if (const auto* negative = std::get_if<Unary>(&expr.node)) {
    return unary(negative->op, default_of(*negative->operand).number().value());
  }
  if (const auto* name = std::get_if<Name>(&expr.node)) {
    const std::optional<DTypeValue> dtype = dtype_name(name->name);
    QUARRY_CHECK(dtype.has_value());
    return *dtype;
  }
  const auto* sequence = std::get_if<Sequence>(&expr.node);
  QUARRY_CHECK(sequence != nullptr);
  std::vector<Value> items;
  for (const ExprPtr& item : sequence->items) items.push_back(default_of(*item));
  return sequence->is_list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// What stands between the commas of a signature that are in no tuple, without spaces around it.
std::vector<std::string_view> items_of(std::string_view signature) {
  QUARRY_CHECK(signature.size() >= 2 && signature.front() == '(' && signature.back() == ')');
  const std::string_view inner = signature.substr(1, signature.size() - 2);
  std::vector<std::string_view> items;
  for (size_t begin = 0; begin < inner.size();) {
    size_t end = begin;
    for (int depth = 0; end < inner.size() && (depth > 0 || inner[end] != ','); ++end) {
      depth += inner[end] == '(' ? 1 : inner[end] == ')' ? -1 : 0;
    }
    items.push_back(trim(inner.substr(begin, end - begin)));
    begin = end + 1;
  }
  return items;
}

std::vector<Parameter> parse_signature(std::string_view signature) {
  std::vector<Parameter> parameters;
  Parameter::Kind kind = Parameter::Kind::positional;
  for (const std::string_view item : items_of(signature)) {
    if (item == "/") {
      for (Parameter& p : parameters) p.kind = Parameter::Kind::positional_only;
    } else if (item == "*") {
      kind = Parameter::Kind::keyword_only;
    } else if (item.starts_with("**")) {
      parameters.push_back({Parameter::Kind::keywords, std::string(item.substr(2)), Value::dict({})});
    } else if (item.starts_with('*')) {
      const Value none = Value::tuple(std::vector<Value>{});
      parameters.push_back({Parameter::Kind::variadic, std::string(item.substr(1)), none});
      kind = Parameter::Kind::keyword_only;
    } else {
      const size_t equals = item.find('=');
      Parameter parameter{kind, std::string(trim(item.substr(0, equals))), std::nullopt};
      if (equals != std::string_view::npos)
        parameter.default_value = default_of(*parse({std::string(item.substr(equals + 1)), "", 0}));
      parameters.push_back(std::move(parameter));
    }
  }
  return parameters;
}

}  // namespace

struct Signature::Parsed {
  std::once_flag once;
  std::vector<Parameter> parameters;
};

Signature::Signature(std::string text) : text_(std::move(text)), parsed_(std::make_shared<Parsed>()) {}

Signature::Signature(std::vector<Parameter> parameters) : parsed_(std::make_shared<Parsed>()) {
  std::call_once(parsed_->once, [&] { parsed_->parameters = std::move(parameters); });
}

const std::vector<Parameter>& Signature::parameters() const {
  std::call_once(parsed_->once, [&] { parsed_->parameters = parse_signature(text_); });
  return parsed_->parameters;
}

bool Signature::takes_keywords() const { return text_.find("**") != std::string::npos; }

size_t Signature::count() const {
  const std::vector<std::string_view> items = items_of(text_);
  return static_cast<size_t>(
      std::count_if(items.begin(), items.end(), [](std::string_view item) { return item != "/" && item != "*"; }));
}

namespace {

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "'" : i + 1 == names.size() ? " and '" : ", '") + names[i] + "'";
  }
  return text;
}

[[noreturn]] void too_many(const Function& function, size_t given) {
  size_t least = 0, most = 0;
  for (const Parameter& p : function.parameters()) {
    if (p.kind == Parameter::Kind::keyword_only || p.kind == Parameter::Kind::keywords) continue;
    ++most;
    least += p.default_value ? 0 : 1;
  }
  const std::string takes =
      least == most ? std::to_string(most) : "from " + std::to_string(least) + " to " + std::to_string(most);
  throw TypeError(function.name + "() takes " + takes + " positional argument" + (most == 1 ? "" : "s") + " but " +
                  std::to_string(given) + (given == 1 ? " was" : " were") + " given");
}

}  // namespace

Arguments bind(const Function& function, std::vector<Value> positional, std::vector<KeywordValue> keywords) {
  const std::vector<Parameter>& parameters = function.parameters();
  std::vector<Value> values(parameters.size());
  std::vector<bool> given(parameters.size(), false);

  size_t next = 0;
  for (size_t i = 0; i < positional.size(); ++next) {
    if (next == parameters.size() || parameters[next].kind == Parameter::Kind::keyword_only ||
        parameters[next].kind == Parameter::Kind::keywords) {
      too_many(function, positional.size());
    }
    given[next] = true;
    if (parameters[next].kind == Parameter::Kind::variadic) {
      values[next] =
          Value::tuple(std::vector<Value>(positional.begin() + static_cast<std::ptrdiff_t>(i), positional.end()));
      break;
    }
    values[next] = std::move(positional[i++]);
  }

  const bool takes_any = !parameters.empty() && parameters.back().kind == Parameter::Kind::keywords;
  std::vector<std::pair<Value, Value>> others;
  for (KeywordValue& keyword : keywords) {
    const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) {
      return p.name == keyword.name && p.kind != Parameter::Kind::variadic && p.kind != Parameter::Kind::keywords;
    });
    if (found == parameters.end() && takes_any) {
      others.emplace_back(std::move(keyword.name), std::move(keyword.value));
      continue;
    }
    if (found == parameters.end()) {
      std::vector<std::string> names;
      for (const Parameter& p : parameters) {
        if (p.kind == Parameter::Kind::positional || p.kind == Parameter::Kind::keyword_only) names.push_back(p.name);
      }
      throw TypeError(function.name + "() got an unexpected keyword argument '" + local::excerpt(keyword.name) + "'" +
                      local::suggestion(keyword.name, names));
    }
    const auto position = static_cast<size_t>(found - parameters.begin());
    if (found->kind == Parameter::Kind::positional_only) {
      throw TypeError(function.name + "() takes '" + keyword.name + "' as a positional argument only");
    }
    if (given[position]) {
      throw TypeError(function.name + "() got multiple values for argument '" + keyword.name + "'");
    }
    values[position] = std::move(keyword.value);
    given[position] = true;
  }

  if (!others.empty()) {
    values.back() = Value::dict(std::move(others));
    given.back() = true;
  }

  std::vector<std::string> missing;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (given[i]) continue;
    if (parameters[i].default_value)
      values[i] = *parameters[i].default_value;
    else
      missing.push_back(parameters[i].name);
  }
  if (!missing.empty()) {
    throw TypeError(function.name + "() missing " + std::to_string(missing.size()) + " required argument" +
                    (missing.size() == 1 ? "" : "s") + ": " + quoted_list(missing));
  }
  return {function, std::move(values), std::move(given)};
}

const Function* Registry::function(std::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : &found->second;
}

const Function* Registry::method(std::string_view name) const {
  const auto found = methods_.find(name);
  return found == methods_.end() ? nullptr : &found->second;
}

const Function* builtin(const Registry& registry, std::string_view name) {
  return registry.function("builtins." + std::string(name));
}

std::vector<std::string> Registry::function_names() const {
  std::vector<std::string> names;
  for (const auto& [name, function] : functions_) names.push_back(name);
  return names;
}

std::vector<std::string> Registry::method_names() const {
  std::vector<std::string> names;
  for (const auto& [name, function] : methods_) names.push_back(name);
  return names;
}

void Registry::add_function(const std::string& name, const std::string& signature, const Handler& handler,
                            const std::string& summary, Memory memory) {
  Function function{name, Signature(signature), handler, summary, memory};
  QUARRY_CHECK(functions_.emplace(name, std::move(function)).second);
}

void Registry::add_method(const std::string& name, const std::string& signature, const Handler& handler,
                          const std::string& summary, Memory memory) {
  Function function{name, Signature(signature), handler, summary, memory};
  QUARRY_CHECK(methods_.emplace(name, std::move(function)).second);
}

void Registry::add_subscript(const std::string& method) { methods_.at(method).is_subscripted = true; }

namespace {

bool is_python_type(std::string_view name) {
  return name == "bool" || name == "int" || name == "float" || name == "complex";
}

constexpr std::string_view kOwnNames[] = {
#define QUARRY_DTYPE(enumerator, text, type, kind, compute) text,
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
};

}  // namespace

std::optional<DTypeValue> dtype_name(std::string_view name) {
  const std::span<const local::DTypeAlias> aliases = local::dtype_aliases();
  const bool known = std::find(std::begin(kOwnNames), std::end(kOwnNames), name) != std::end(kOwnNames) ||
                     std::any_of(aliases.begin(), aliases.end(),
                                 [&](const local::DTypeAlias& alias) { return !alias.is_code && alias.text == name; });
  if (!known) return std::nullopt;
  return DTypeValue{*local::parse_dtype(name), is_python_type(name)};
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names(std::begin(kOwnNames), std::end(kOwnNames));
  for (const local::DTypeAlias& alias : local::dtype_aliases()) {
    if (!alias.is_code) names.emplace_back(alias.text);
  }
  return names;
}

}  // namespace quarry::apps::expression
