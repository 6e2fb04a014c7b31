#include "quarry/apps/binding/large_ints.h"
#include "quarry/apps/binding/local_tables.h"
#include "quarry/apps/binding/table_names.h"
#include "quarry/apps/language/builtins.h"
#include "quarry/apps/language/library.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/ufunc/apply.h"

#include <fmt/format.h>

#include <algorithm>

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

namespace {

// Integers, slices, None and ... make views; anything else is an index array.
std::optional<local::IndexItem> basic_item(const Value& value) {
  if (const Int* integer = value.as<Int>(); integer != nullptr && !integer->as_int64())
    throw local::IndexError("cannot fit 'int' into an index-sized integer");
  if (value.is<Int>()) return to_int64(value, "an index");
  if (const auto* slice = value.as<local::Slice>()) return *slice;
  if (value.is_none()) return local::newaxis;
  if (value.is<EllipsisValue>()) return local::ellipsis;
  return std::nullopt;
}

[[noreturn]] void bad_index(const Value& value) {
  throw local::IndexError(
      "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid "
      "indices, not " +
      type_name(value));
}

}  // namespace

std::vector<local::IndexTerm> index_terms(const Value& index) {
  std::vector<Value> items;
  const SequenceValue* tuple = index.sequence();
  if (tuple != nullptr && !tuple->is_list) {
    items = tuple->items;
  } else {
    items.push_back(index);
  }
  std::vector<local::IndexTerm> terms;
  for (const Value& item : items) {
    if (const std::optional<local::IndexItem> basic = basic_item(item)) {
      std::visit([&](const auto& part) { terms.emplace_back(part); }, *basic);
    } else if (const bool* b = item.as<bool>()) {
      terms.emplace_back(*b);
    } else if (is_local_operand(item) && !item.number()) {
      const NdArray array = to_ndarray(item);
      // An empty list is an empty index.
      terms.emplace_back(array.size() == 0 && item.sequence() != nullptr ? array.astype(DType::int64) : array);
    } else {
      bad_index(item);
    }
  }
  return terms;
}

Value local_subscript(const NdArray& array, const Value& index) {
  std::vector<local::IndexItem> items;
  const SequenceValue* tuple = index.sequence();
  const bool several = tuple != nullptr && !tuple->is_list;
  const std::span<const Value> parts = several ? std::span<const Value>(tuple->items) : std::span(&index, 1);
  for (const Value& part : parts) {
    const std::optional<local::IndexItem> item = basic_item(part);
    if (!item) return local::ops::get(array, index_terms(index));
    items.push_back(*item);
  }
  return array[std::span<const local::IndexItem>(items)];
}

namespace {

NdArray swapped(const NdArray& a) {
  if (a.ndim() < 2) throw InvalidArgument("matrix transpose with ndim < 2 is undefined");
  std::vector<int64_t> axes;
  for (int64_t d = 0; d < a.ndim(); ++d) axes.push_back(d);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return a.transpose(axes);
}

// The memory layout, as far as arrays of handles to shared buffers have one: who owns memory, and whether it may be
// written, is not said of an array.
Value flags_of(const NdArray& a) {
  static constexpr const char* kFields[] = {"c_contiguous", "f_contiguous", "contiguous", "forc",
                                            "fnc",          "aligned",      "writeable"};
  const bool c = a.is_contiguous(), f = local::is_fortran_contiguous(a);
  SequenceValue tuple{false, {c, f, c, c || f, f && !c, true, true}, kFields};
  return std::make_shared<const SequenceValue>(std::move(tuple));
}

struct AttributeRow {
  std::string_view name;
  Value (*get)(const NdArray& array);
};

const AttributeRow kAttributes[] = {
    {"T", [](const NdArray& a) { return Value(a.T()); }},
    {"mT", [](const NdArray& a) { return Value(swapped(a)); }},
    {"shape", [](const NdArray& a) { return Value::tuple(a.shape()); }},
    {"ndim", [](const NdArray& a) { return Value(a.ndim()); }},
    {"size", [](const NdArray& a) { return Value(a.size()); }},
    {"dtype", [](const NdArray& a) { return Value(DTypeValue{a.dtype()}); }},
    {"itemsize", [](const NdArray& a) { return Value(a.itemsize()); }},
    {"nbytes", [](const NdArray& a) { return Value(a.nbytes()); }},
    {"strides", [](const NdArray& a) { return Value::tuple(a.strides()); }},
    {"real", [](const NdArray& a) { return Value(a.real()); }},
    {"imag", [](const NdArray& a) { return Value(a.imag()); }},
    {"flat", [](const NdArray& a) { return Value(a.reshape({-1})); }},
    {"flags", flags_of},
    {"device", [](const NdArray& a) { return Value(local::to_string(a.device())); }},
};

std::vector<Row> all_rows() {
  std::vector<Row> all;
  for (auto* rows : {&indexing_rows, &scans_rows, &ufuncs_rows, &sorting_rows, &statistics_rows, &manipulation_rows,
                     &creation_rows, &types_rows, &math_rows, &fft_rows, &special_rows, &random_rows, &linalg_rows}) {
    for (Row& row : rows()) all.push_back(std::move(row));
  }
  return all;
}

// What is wrong with a row, or nothing.
std::string problem(const Row& row) {
  const std::vector<Parameter> signature = parse_signature(row.signature);
  const auto parameters = static_cast<size_t>(std::count_if(
      signature.begin(), signature.end(), [](const Parameter& p) { return p.kind != Parameter::Kind::keywords; }));
  if (parameters == row.parameters) return "";
  return fmt::format("{}{}: the C++ function has {} parameters, the signature {}", row.symbol, row.signature,
                     row.parameters, parameters);
}

// The functions among the arguments get the keywords that the signature has no name for, as NumPy passes them on.
Value with_keywords(const Value& value, const DictValue& keywords) {
  if (const SequenceValue* sequence = value.sequence()) {
    std::vector<Value> items;
    for (const Value& item : sequence->items) items.push_back(with_keywords(item, keywords));
    return sequence->is_list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  if (!value.is<FunctionValue>()) return value;
  std::vector<KeywordValue> more;
  for (const auto& [name, item] : keywords.items) more.push_back({*name.as<std::string>(), item});
  auto function = std::make_shared<Function>();
  function->name = "<function>";
  function->parameters = parse_signature("(*args)");
  function->handler = [value, more](const Arguments& args, Session&) {
    return call_function(value, args["args"].sequence()->items, more);
  };
  return FunctionValue{function.get(), nullptr, function};
}

Handler passing_keywords(const Handler& handler) {
  return [handler](const Arguments& args, Session& session) -> Value {
    std::vector<Value> values = args.values();
    const DictValue& keywords = *values.back().dict();
    if (keywords.items.empty()) return handler(args, session);
    bool any = false;
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      values[i] = with_keywords(values[i], keywords);
      any = any || values[i].is<FunctionValue>() || values[i].sequence() != nullptr;
    }
    if (!any)
      throw TypeError(args.function().name + "() got an unexpected keyword argument '" +
                      *keywords.items[0].first.as<std::string>() + "'");
    return handler(Arguments(args.function(), std::move(values), std::vector<bool>(args.values().size(), true)),
                   session);
  };
}

Handler fitting_ints(const Handler& handler) {
  return [handler](const Arguments& args, Session& session) -> Value {
    std::vector<Value> values = args.values();
    std::vector<bool> given;
    for (const Parameter& parameter : args.function().parameters) given.push_back(args.given(parameter.name));
    bool any = holds_large_int(values);
    for (size_t i = 0; i < values.size(); ++i) {  // *args
      if (args.function().parameters[i].kind != Parameter::Kind::variadic) continue;
      const std::vector<Value>& items = values[i].sequence()->items;
      if (!holds_large_int(items)) continue;
      any = true;
      values[i] = Value::tuple(with_large_ints_as_floats(items));
    }
    if (!any) return handler(args, session);
    values = with_large_ints_as_floats(values);
    return handler(Arguments(args.function(), std::move(values), std::move(given)), session);
  };
}

// A view in the other byte order would have other values than its elements.
Handler in_own_order(const Handler& handler) {
  return [handler](const Arguments& args, Session& session) -> Value {
    const std::optional<DTypeValue> dtype = as_dtype(args["dtype"]);
    if (dtype && dtype->swapped)
      throw local::NotSupported("view(): arrays hold the machine's byte order only; frombuffer() reads the other one");
    return handler(args, session);
  };
}

// Arguments whose Python numbers become elements of a known dtype one by one, so that those that do not fit raise.
struct Elements {
  std::string_view function;
  size_t values, target;  // the target is an array or a dtype
};
constexpr Elements kElements[] = {{"array", 0, 1},          {"asarray", 0, 1},
                                  {"asanyarray", 0, 1},     {"ascontiguousarray", 0, 1},
                                  {"asfortranarray", 0, 1}, {"put", 2, 0},
                                  {"putmask", 2, 0},        {"place", 2, 0},
                                  {"insert", 2, 0},         {"put_along_axis", 2, 0},
                                  {"fill_diagonal", 1, 0}};

Handler converting_elements(const Handler& handler, const Elements& row) {
  return [handler, row](const Arguments& args, Session& session) -> Value {
    std::vector<Value> values = args.values();
    Value& given = values[row.values];
    const Value& target = values[row.target];
    for (size_t i = 0; i < values.size(); ++i) {
      const bool* copies = args.function().parameters[i].name == "copy" ? values[i].as<bool>() : nullptr;
      if (copies != nullptr && !*copies && !given.is<NdArray>())
        throw InvalidArgument("Unable to avoid copy while creating an array as requested.");
    }
    const bool known = target.is<NdArray>() || Convert<DType>::fits(target);
    if (known && !given.is<NdArray>() && is_local_operand(given))
      given = to_ndarray(given, target.is<NdArray>() ? target.as<NdArray>()->dtype() : to_dtype(target, "dtype"));
    return handler(Arguments(args.function(), std::move(values), std::vector<bool>(args.values().size(), true)),
                   session);
  };
}

class LocalLibrary final : public Library {
 public:
  LocalLibrary() {
    for (const Row& row : all_rows()) add(row);
    add_local_ufuncs(registry_);
    add_local_reductions(registry_);
    add_local_builtins(registry_);
    add_builtins(registry_);
    add_local_methods(registry_);
  }

  const Registry& registry() const override { return registry_; }

  std::optional<Value> constant(std::string_view name) const override {
    if (name == "euler_gamma") return Value(0.57721566490153286060651209008240243);
    // The names of abstract dtypes, for issubdtype().
    for (const std::string_view kind : {"generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact",
                                        "floating", "complexfloating"}) {
      if (name == kind) return Value(std::string(kind));
    }
    return Library::constant(name);
  }

  bool is_module(std::string_view name) const override {
    return name == "s_" || name == "linalg" || name == "fft" || name == "random" || name == "lib" || name == "scipy" ||
           name == "special" || name == "stride_tricks";
  }

  bool is_array(const Value& value) const override { return value.is<NdArray>(); }
  bool is_operand(const Value& value) const override { return is_local_operand(value); }

  Value unary(UnaryOp op, const Value& operand) const override {
    return apply_local(ufunc(op), std::span(&operand, 1));
  }
  Value binary(BinaryOp op, const Value& left, const Value& right) const override {
    const Value args[] = {left, right};
    if (op != BinaryOp::matmul) return apply_local(ufunc(op), args);
    const Function* matmul = registry_.function("matmul");
    if (matmul == nullptr) return local::linalg::matmul(to_ndarray(left), to_ndarray(right));
    Session session;
    return matmul->handler(bind(*matmul, {left, right}, {}), session);
  }
  Value compare(CompareOp op, const Value& left, const Value& right) const override {
    const Value args[] = {left, right};
    return apply_local(ufunc(op), args);
  }
  Value subscript(const Value& array, const Value& index) const override {
    return local_subscript(*array.as<NdArray>(), index);
  }

  std::optional<Value> attribute(const Value& array, std::string_view name) const override {
    for (const AttributeRow& row : kAttributes) {
      if (row.name == name) return row.get(*array.as<NdArray>());
    }
    return std::nullopt;
  }
  std::vector<std::string> attribute_names() const override {
    std::vector<std::string> names;
    for (const AttributeRow& row : kAttributes) names.emplace_back(row.name);
    return names;
  }

  std::optional<Value> function_attribute(std::string_view function, std::string_view name) const override {
    return ufunc_attribute(function, name);
  }

  Value convert(const DTypeValue& type, const Value& value) const override {
    if (!type.python_type) return to_ndarray(value, type.dtype);
    const NdArray array = to_ndarray(value);
    if (type.dtype == DType::bool_) return *truth(array);
    if (array.size() != 1 || array.ndim() != 0) {
      throw TypeError("only 0-dimensional arrays can be converted to Python scalars");
    }
    const Scalar item = array.item();
    if (type.dtype == DType::complex128) return item.as_complex();
    if (local::is_complex(array.dtype())) throw TypeError("a complex does not convert to a real number");
    if (type.dtype == DType::float64) return item.as_double();
    // Of a float the whole part, which may need more than 64 bits.
    if (local::is_float(item.dtype())) return to_integer(item.as_double());
    return item.dtype() == DType::uint64 ? Value(Int(item.as_uint64())) : Value(Int(item.as_int64()));
  }

  std::optional<bool> truth(const Value& value) const override {
    const NdArray& array = *value.as<NdArray>();
    if (array.size() == 1) return array.item().as_bool();
    throw InvalidArgument(array.size() == 0 ? "The truth value of an empty array is ambiguous. Use `array.size > 0` "
                                              "to check that an array is not empty."
                                            : "The truth value of an array with more than one element is ambiguous. "
                                              "Use a.any() or a.all()");
  }
  Value choose(const Value&, const Value&, const Value&) const override {
    QUARRY_CHECK(false);  // truth is always known
    return {};
  }
  bool chain_ends(const Value& all) const override { return !*truth(all); }
  Value chain(const Value&, const Value& next) const override { return next; }

 private:
  void add(const Row& row) {
    Handler handler = row.handler;
    if (const std::string wrong = problem(row); !wrong.empty()) {
      handler = [wrong](const Arguments&, Session&) -> Value { throw local::InternalError(wrong); };
    }
    if (const std::vector<Parameter> all = parse_signature(row.signature);
        !all.empty() && all.back().kind == Parameter::Kind::keywords) {
      handler = passing_keywords(handler);
    }
    handler = fitting_ints(handler);
    for (const std::string& name : words(row.names)) {
      const auto* found = std::find_if(std::begin(kElements), std::end(kElements),
                                       [&](const Elements& one) { return one.function == name; });
      if (found != std::end(kElements)) handler = converting_elements(handler, *found);
      if (row.is_method && name == "view") handler = in_own_order(handler);
      if (row.is_method) {
        registry_.add_method(name, row.signature, handler, row.summary);
      } else {
        registry_.add_function(name, row.signature, handler, row.summary);
      }
    }
  }

  Registry registry_;
};

}  // namespace

std::string table_problems() {
  std::string problems;
  for (const Row& row : all_rows()) {
    if (const std::string wrong = problem(row); !wrong.empty()) problems += wrong + "\n";
  }
  return problems;
}

const Library& local_library() {
  static const LocalLibrary library;
  return library;
}

}  // namespace quarry::apps::expression
