// Binds C++ functions to the language by their parameter types (local/ops/functions/function.def). The conversions are
// one for local and for chunked arrays; apps/binding/both.h binds a row's function of each.
#pragma once

#include <deque>
#include <string_view>
#include <tuple>
#include <utility>

#include "quarry/apps/binding/arrays.h"
#include "quarry/apps/binding/local_values.h"
#include "quarry/apps/language/function.h"
#include "quarry/chunked/api/operand.h"
#include "quarry/local/program/precision.h"

namespace quarry::apps::expression {

// What arguments refer to lives until the call is over.
struct Keep {
  std::deque<NdArray> arrays;
};

// Calls a function or a dtype of the language, over local arrays if those are given.
Value call_function(const Value& function, std::vector<Value> positional, std::vector<KeywordValue> keywords = {});
inline Value to_value_of(const NdArray& array) { return array; }
inline Value to_value_of(const Scalar& scalar) { return from_scalar(scalar); }

// Whether a value is meant for a parameter of type T (which decides between the types of a std::variant), and its
// conversion; `what` names the parameter.
template <class T>
struct Convert;

template <>
struct Convert<NdArray> {
  static bool fits(const Value& value) { return is_local_operand(value); }
  static NdArray from(const Value& value, const std::string& what, Keep&) {
    if (!fits(value)) throw local::TypeError(what + " must be an array, not " + type_name(value));
    return to_ndarray(value);
  }
};
template <>
struct Convert<local::Arg> {
  static bool fits(const Value& value) { return is_local_operand(value); }
  static local::Arg from(const Value& value, const std::string& what, Keep& keep) {
    if (const std::optional<Number> number = value.number()) return to_scalar(*number);
    if (const NdArray* array = value.as<NdArray>()) return *array;
    return keep.arrays.emplace_back(Convert<NdArray>::from(value, what, keep));
  }
};
template <>
struct Convert<Array> {
  static bool fits(const Value& value) { return is_operand(value); }
  static Array from(const Value& value, const std::string& what, Keep&) {
    if (!fits(value)) throw local::TypeError(what + " must be an array, not " + type_name(value));
    return to_array(value);
  }
};
template <>
struct Convert<Operand> {
  static bool fits(const Value& value) { return is_operand(value); }
  static Operand from(const Value& value, const std::string& what, Keep& keep) {
    if (const std::optional<Number> number = value.number()) return to_scalar(*number);
    return Convert<Array>::from(value, what, keep);
  }
};
template <>
struct Convert<bool> {
  static bool fits(const Value& value) { return value.is<bool>(); }
  static bool from(const Value& value, const std::string& what, Keep&) { return to_truth(value, what); }
};
// The dtype of an array without axes, which is a number: one of this process, or a chunked one that is computed then.
inline std::optional<DType> dtype_of_number(const Value& value) {
  if (const NdArray* array = value.as<NdArray>())
    return array->ndim() == 0 ? std::optional(array->dtype()) : std::nullopt;
  const Array* array = value.as<Array>();
  return array != nullptr && array->ndim() == 0 ? std::optional(array->dtype()) : std::nullopt;
}
template <std::integral T>
struct Convert<T> {
  static bool fits(const Value& value) {
    const std::optional<DType> dtype = dtype_of_number(value);
    return value.is<Int>() || value.is<bool>() || (dtype && local::is_integer(*dtype));
  }
  static T from(const Value& value, const std::string& what, Keep&) { return static_cast<T>(to_index(value, what)); }
};
template <>
struct Convert<double> {
  static bool fits(const Value& value) {
    const std::optional<DType> dtype = dtype_of_number(value);
    return (value.number() && !value.is<std::complex<double>>()) || (dtype && !local::is_complex(*dtype));
  }
  static double from(const Value& value, const std::string& what, Keep&) { return to_real_number(value, what); }
};
template <>
struct Convert<Scalar> {
  static bool fits(const Value& value) { return value.number() || dtype_of_number(value); }
  static Scalar from(const Value& value, const std::string& what, Keep&) { return to_local_scalar(value, what); }
};
template <>
struct Convert<std::string_view> {
  static bool fits(const Value& value) { return value.is<std::string>(); }
  static std::string_view from(const Value& value, const std::string& what, Keep&) {
    if (!fits(value)) throw local::TypeError(what + " must be a string, not " + type_name(value));
    return *value.as<std::string>();
  }
};
template <>
struct Convert<std::string> {
  static bool fits(const Value& value) { return value.is<std::string>(); }
  static std::string from(const Value& value, const std::string& what, Keep& keep) {
    return std::string(Convert<std::string_view>::from(value, what, keep));
  }
};
template <>
struct Convert<DType> {
  static bool fits(const Value& value) { return as_dtype(value).has_value(); }
  static DType from(const Value& value, const std::string& what, Keep&) { return to_dtype(value, what); }
};
template <>
struct Convert<local::Device> {
  static bool fits(const Value& value) { return value.is<std::string>(); }
  static local::Device from(const Value& value, const std::string& what, Keep&);
};
template <>
struct Convert<local::Casting> {
  static bool fits(const Value& value) { return value.is<std::string>(); }
  static local::Casting from(const Value& value, const std::string& what, Keep&);
};
template <>
struct Convert<local::Precision> {
  static bool fits(const Value& value) { return value.is<std::string>(); }
  static local::Precision from(const Value& value, const std::string& what, Keep& keep) {
    return local::parse_precision(Convert<std::string_view>::from(value, what, keep));
  }
};
template <>
struct Convert<local::Axes> {
  static bool fits(const Value& value) { return value.is_none() || Convert<int64_t>::fits(value) || value.sequence(); }
  static local::Axes from(const Value& value, const std::string& what, Keep&) {
    if (value.is_none()) return {};
    const NdArray* array = value.as<NdArray>();
    if (value.sequence() != nullptr || (array != nullptr && array->ndim() == 1)) return to_indices(value, what);
    return to_index(value, what);
  }
};
template <>
struct Convert<local::Ints> {
  static bool fits(const Value& value) {
    const NdArray* array = value.as<NdArray>();
    if (array != nullptr) return array->ndim() <= 1 && local::is_integer(array->dtype());
    const SequenceValue* sequence = value.sequence();
    if (sequence == nullptr) return Convert<int64_t>::fits(value);
    return std::all_of(sequence->items.begin(), sequence->items.end(), Convert<int64_t>::fits);
  }
  static local::Ints from(const Value& value, const std::string& what, Keep&) {
    const NdArray* array = value.as<NdArray>();
    if (value.sequence() != nullptr || (array != nullptr && array->ndim() == 1)) return to_indices(value, what);
    return to_index(value, what);
  }
};
template <>
struct Convert<Dims> {
  static bool fits(const Value& value) { return Convert<local::Ints>::fits(value); }
  static Dims from(const Value& value, const std::string& what, Keep& keep) {
    const std::vector<int64_t> values = Convert<local::Ints>::from(value, what, keep).values();
    if (values.size() > local::kMaxDims) {
      throw local::InvalidArgument("maximum supported dimension for an array is 32, found " +
                                   std::to_string(values.size()));
    }
    return Dims(values);
  }
};
template <>
struct Convert<local::ArrayFunction> {
  static bool fits(const Value& value) { return value.is<FunctionValue>() || value.is<DTypeValue>(); }
  static local::ArrayFunction from(const Value& value, const std::string& what, Keep&);
};
template <>
struct Convert<local::Ellipsis> {
  static bool fits(const Value& value) { return value.is<EllipsisValue>(); }
  static local::Ellipsis from(const Value&, const std::string&, Keep&) { return local::ellipsis; }
};
template <>
struct Convert<std::monostate> {
  static bool fits(const Value& value) { return value.is_none(); }
  static std::monostate from(const Value&, const std::string&, Keep&) { return {}; }
};
// Functions that return text: of an element (a 0-d array) or of an array.
template <class T>
struct Convert<std::function<std::string(const T&)>> {
  static bool fits(const Value& value) { return value.is<FunctionValue>() || value.is<DTypeValue>(); }
  static std::function<std::string(const T&)> from(const Value& value, const std::string& what, Keep&) {
    if (!fits(value)) throw local::TypeError(what + " must be a function, not " + type_name(value));
    return [value, what](const T& argument) {
      const Value result = call_function(value, {Value(to_value_of(argument))});
      const auto* text = result.as<std::string>();
      if (text == nullptr) throw local::TypeError(what + " must return a string, not " + type_name(result));
      return *text;
    };
  }
};
template <class T>
struct Convert<std::optional<T>> {
  static bool fits(const Value& value) { return value.is_none() || Convert<T>::fits(value); }
  static std::optional<T> from(const Value& value, const std::string& what, Keep& keep) {
    if (value.is_none()) return std::nullopt;
    return Convert<T>::from(value, what, keep);
  }
};
template <>
struct Convert<local::Size> {
  static bool fits(const Value& value) { return Convert<std::optional<local::Ints>>::fits(value); }
  static local::Size from(const Value& value, const std::string& what, Keep& keep) {
    const std::optional<local::Ints> shape = Convert<std::optional<local::Ints>>::from(value, what, keep);
    return shape ? local::Size(*shape) : local::Size();
  }
};
template <class T>
struct Convert<std::vector<T>> {
  static bool fits(const Value& value) {
    if (const NdArray* array = value.as<NdArray>()) {
      if (array->ndim() == 0) return false;
      if constexpr (std::is_same_v<T, int64_t>) return array->ndim() == 1 && local::is_integer(array->dtype());
      if constexpr (std::is_same_v<T, double>) return array->ndim() == 1 && !local::is_complex(array->dtype());
      return std::is_same_v<T, NdArray> || std::is_same_v<T, local::Arg>;
    }
    if (const Array* array = value.as<Array>())
      return array->ndim() > 0 && (std::is_same_v<T, Array> || std::is_same_v<T, Operand>);
    const SequenceValue* sequence = value.sequence();
    return sequence != nullptr && std::all_of(sequence->items.begin(), sequence->items.end(), Convert<T>::fits);
  }
  static std::vector<T> from(const Value& value, const std::string& what, Keep& keep) {
    if constexpr (std::is_same_v<T, int64_t>) {
      return to_indices(value, what);
    } else {
      std::vector<T> result;
      // The items of a sequence outlive the call; those of an array must be kept for the arguments that refer to them.
      if (const SequenceValue* sequence = value.sequence()) {
        for (const Value& item : sequence->items) result.push_back(Convert<T>::from(item, what, keep));
        return result;
      }
      for (const Value& item : items_of(value, what)) {
        if constexpr (std::is_same_v<T, local::Arg>)
          result.push_back(keep.arrays.emplace_back(*item.as<NdArray>()));
        else
          result.push_back(Convert<T>::from(item, what, keep));
      }
      return result;
    }
  }
};
// Sequences of arrays; unlike vectors never the rows of one array.
struct ChunkedTuple : std::vector<Array> {
  using std::vector<Array>::vector;
};
template <>
struct Convert<ChunkedTuple> {
  static bool fits(const Value& value) { return value.sequence() != nullptr; }
  static ChunkedTuple from(const Value& value, const std::string& what, Keep& keep) {
    ChunkedTuple result;
    for (const Value& item : items_of(value, what)) result.push_back(Convert<Array>::from(item, what, keep));
    return result;
  }
};
template <>
struct Convert<local::ArrayTuple> {
  static bool fits(const Value& value) { return value.sequence() != nullptr; }
  static local::ArrayTuple from(const Value& value, const std::string& what, Keep& keep) {
    local::ArrayTuple result;
    for (const Value& item : items_of(value, what)) result.push_back(Convert<NdArray>::from(item, what, keep));
    return result;
  }
};
template <class T, class U>
struct Convert<std::pair<T, U>> {
  static bool fits(const Value& value) {
    const SequenceValue* pair = value.sequence();
    return pair != nullptr && pair->items.size() == 2 && Convert<T>::fits(pair->items[0]) &&
           Convert<U>::fits(pair->items[1]);
  }
  static std::pair<T, U> from(const Value& value, const std::string& what, Keep& keep) {
    const std::vector<Value> items = items_of(value, what);
    if (items.size() != 2) throw local::InvalidArgument(what + " must be a pair");
    return {Convert<T>::from(items[0], what, keep), Convert<U>::from(items[1], what, keep)};
  }
};
template <class... T>
struct Convert<std::variant<T...>> {
  static bool fits(const Value& value) { return (Convert<T>::fits(value) || ...); }
  static std::variant<T...> from(const Value& value, const std::string& what, Keep& keep) {
    std::optional<std::variant<T...>> result;
    const bool found =
        ((Convert<T>::fits(value) && (result.emplace(Convert<T>::from(value, what, keep)), true)) || ...);
    if (!found) throw local::TypeError(what + " cannot be a " + type_name(value));
    return std::move(*result);
  }
};

// Results as values. A type that is none of those below specialises ToValue, with a function of().
template <class T>
struct ToValue {};
template <class T>
concept NamedTuple = requires(const T& value) {
  T::kFields;
  value.tie();
};
template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};
template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
template <class T>
struct is_variant : std::false_type {};
template <class... T>
struct is_variant<std::variant<T...>> : std::true_type {};
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

template <class T>
Value to_value(T&& result) {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<Plain, NdArray> || std::is_same_v<Plain, Array> || std::is_same_v<Plain, bool> ||
                std::is_same_v<Plain, Value> || std::is_same_v<Plain, std::complex<double>> ||
                std::is_same_v<Plain, std::string> || std::is_same_v<Plain, local::Slice>) {
    return Value(std::forward<T>(result));
  } else if constexpr (requires { ToValue<Plain>::of(result); }) {
    return ToValue<Plain>::of(result);
  } else if constexpr (std::is_integral_v<Plain>) {
    return Value(Int{result});
  } else if constexpr (std::is_floating_point_v<Plain>) {
    return Value(static_cast<double>(result));
  } else if constexpr (std::is_same_v<Plain, Scalar>) {
    return from_scalar(result);
  } else if constexpr (std::is_convertible_v<Plain, std::string_view>) {
    return Value(std::string(std::string_view(result)));
  } else if constexpr (std::is_same_v<Plain, DType>) {
    return Value(DTypeValue{result});
  } else if constexpr (std::is_same_v<Plain, Dims>) {
    return Value::tuple(result);
  } else if constexpr (std::is_same_v<Plain, std::monostate>) {
    return Value();
  } else if constexpr (is_vector<Plain>::value) {
    std::vector<Value> items;
    for (const auto& item : result) items.push_back(to_value(item));
    return Value::list(std::move(items));
  } else if constexpr (std::is_base_of_v<std::vector<NdArray>, Plain> ||  // an ArrayTuple
                       std::is_base_of_v<std::vector<Array>, Plain>) {
    return Value::tuple(std::vector<Value>(result.begin(), result.end()));
  } else if constexpr (is_optional<Plain>::value) {
    return result ? to_value(*result) : Value();
  } else if constexpr (is_variant<Plain>::value) {
    return std::visit([](const auto& item) { return to_value(item); }, result);
  } else if constexpr (NamedTuple<Plain>) {
    SequenceValue tuple;
    std::apply([&](const auto&... items) { (tuple.items.push_back(to_value(items)), ...); }, result.tie());
    tuple.fields = std::span<const char* const>(Plain::kFields);
    QUARRY_CHECK(tuple.fields.size() == tuple.items.size());
    return std::make_shared<const SequenceValue>(std::move(tuple));
  } else {
    static_assert(TupleLike<Plain>, "a result type that local/ops/functions/function.def does not list");
    std::vector<Value> items;
    std::apply([&](const auto&... parts) { (items.push_back(to_value(parts)), ...); }, result);
    return Value::tuple(std::move(items));
  }
}

// Arguments in the order of the parameters, to the parameters of a C++ function.
template <class R, class... A, size_t... I>
Value call_with(R (*function)(A...), const Arguments& args, std::index_sequence<I...>) {
  Keep keep;
  const std::vector<Value>& values = args.values();
  const std::vector<Parameter>& parameters = args.function().parameters();
  const auto what = [&](size_t i) { return args.function().name + "(): " + parameters[i].name; };
  if constexpr (std::is_void_v<R>) {
    function(Convert<std::remove_cvref_t<A>>::from(values[I], what(I), keep)...);
    return Value();
  } else {
    return to_value(function(Convert<std::remove_cvref_t<A>>::from(values[I], what(I), keep)...));
  }
}

template <class R, class... A>
Handler bound_handler(R (*function)(A...)) {
  return [function](const Arguments& args, Session&) -> Value {
    return call_with(function, args, std::index_sequence_for<A...>{});
  };
}
template <class R, class... A>
constexpr size_t parameter_count(R (*)(A...)) {
  return sizeof...(A);
}

// A row of local/ops/functions/function.def: its handlers, of which the other is empty where one kind of arrays has no
// such function.
struct Row {
  bool is_method = false;
  const char* symbol;
  const char* names;
  const char* signature;
  const char* summary;
  size_t parameters = 0;  // of the C++ function
  Handler local = {}, chunked = {};
  Memory memory = Memory::unknown;  // of chunked arrays
};

// One translation unit per chapter (apps/binding/rows).
std::vector<Row> indexing_rows();
std::vector<Row> scans_rows();
std::vector<Row> ufuncs_rows();
std::vector<Row> sorting_rows();
std::vector<Row> statistics_rows();
std::vector<Row> manipulation_rows();
std::vector<Row> creation_rows();
std::vector<Row> types_rows();
std::vector<Row> linalg_rows();
std::vector<Row> math_rows();
std::vector<Row> fft_rows();
std::vector<Row> special_rows();
std::vector<Row> random_rows();
std::vector<Row> chunks_rows();
std::vector<Row> masked_rows();
std::vector<Row> sparse_rows();
const std::vector<Row>& all_rows();

}  // namespace quarry::apps::expression
