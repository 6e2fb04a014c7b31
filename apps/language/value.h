// What an expression evaluates to.
#pragma once

#include <complex>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "quarry/apps/language/python.h"
#include "quarry/chunked/api/array.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::local {
class Generator;
class SeedSequence;
}  // namespace quarry::local
namespace quarry::random {
class Generator;
}  // namespace quarry::random
namespace quarry::local::ma {
struct Local;
template <class Kind>
class BasicMaskedArray;
}  // namespace quarry::local::ma
namespace quarry::ma {
struct Chunked;
}  // namespace quarry::ma
namespace quarry::sparse {
class SparseArray;
}  // namespace quarry::sparse

namespace quarry::apps::expression {

class Value;
struct Function;

struct None {};
struct EllipsisValue {};
// A dtype's name as a value; the Python types bool, int, float and complex too, which convert when called.
struct DTypeValue {
  DType dtype;
  bool python_type = false;
  bool swapped = false;  // of bytes in the other order; arrays never are
};
struct DictValue;
struct SequenceValue {
  bool is_list = false;
  std::vector<Value> items;
  std::span<const char* const> fields = {};  // of a named tuple: a name per item
};
// A function, or a method of `self`.
struct FunctionValue {
  const Function* function = nullptr;
  std::shared_ptr<const Value> self;
  std::shared_ptr<const Function> owner = nullptr;  // of a lambda
};
struct ModuleValue {
  std::string name;  // "np", "random", "linalg"
};
// random.default_rng(): a state that every copy of the value shares, of the generator of local or of chunked arrays.
struct GeneratorValue {
  std::shared_ptr<local::Generator> generator = nullptr;
  std::shared_ptr<random::Generator> chunked = nullptr;
};

// random.SeedSequence(): its count of children is shared by every copy of the value.
struct SeedSequenceValue {
  std::shared_ptr<local::SeedSequence> sequence;
};

// A masked array of one process or a chunked one. Copies of the value share it, as Python's names do.
struct MaskedValue {
  std::shared_ptr<local::ma::BasicMaskedArray<local::ma::Local>> local = nullptr;
  std::shared_ptr<local::ma::BasicMaskedArray<ma::Chunked>> chunked = nullptr;
  bool is_word = false;  // ma.masked
};

// A sparse matrix in chunks of rows.
struct SparseValue {
  std::shared_ptr<const sparse::SparseArray> matrix;
};

class Value {
 public:
  using Variant =
      std::variant<None, bool, Int, double, std::complex<double>, std::string, Bytes, EllipsisValue, DTypeValue,
                   local::Slice, std::shared_ptr<const SequenceValue>, std::shared_ptr<const DictValue>, FunctionValue,
                   ModuleValue, GeneratorValue, SeedSequenceValue, MaskedValue, SparseValue, Array, local::NdArray>;
  Value() = default;
  template <class T>
  requires std::is_constructible_v<Variant, T> &&(!std::is_same_v<std::remove_cvref_t<T>, Value>)Value(T&& value)
      : value_(std::forward<T>(value)) {}
  Value(int value) : value_(Int{value}) {}
  Value(int64_t value) : value_(Int{value}) {}
  Value(const Number& number) {
    std::visit([&](const auto& v) { value_ = v; }, number);
  }
  static Value tuple(std::vector<Value> items);
  static Value list(std::vector<Value> items);
  static Value tuple(const Dims& dims);
  static Value dict(std::vector<std::pair<Value, Value>> items);

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&value_);
  }
  bool is_none() const { return is<None>(); }
  // The items of a tuple or list, or null.
  const SequenceValue* sequence() const;
  const DictValue* dict() const;  // or null
  // A Python number (bool, int, float, complex), if it is one.
  std::optional<Number> number() const;
  const Variant& variant() const { return value_; }

 private:
  Variant value_ = None{};
};

// As Python's == of numbers, strings, dtypes, None, and tuples and lists of such; false for anything else.
bool same_value(const Value& a, const Value& b);

struct DictValue {
  std::vector<std::pair<Value, Value>> items;  // each key once
  // The value of a string key, or null.
  const Value* find(std::string_view key) const;
};
// The code points of UTF-8 text; of anything else its bytes.
std::vector<std::string> characters(const std::string& text);
std::string type_name(const Value& value);  // as Python's type(x).__name__
// Python's repr() of anything but arrays; those are given by `array`, called with each array in turn.
std::string repr(const Value& value, const std::function<std::string(const Value&)>& array);

// Conversions of arguments; `what` names the argument in messages. Throw TypeError, InvalidArgument.
int64_t to_int64(const Value& value, const std::string& what);
bool to_bool(const Value& value, const std::string& what);
double to_double(const Value& value, const std::string& what);
// A dtype, or the text of one as NumPy writes it (local/base/dtype_text.h). Arrays have the machine's byte order, so a
// dtype of the other order ('>i4') asks for the same numbers in the machine's own; frombuffer() alone reads bytes in
// it.
std::optional<DTypeValue> as_dtype(const Value& value);  // nothing if it is none
DType to_dtype(const Value& value, const std::string& what);
std::optional<DType> to_optional_dtype(const Value& value, const std::string& what);
Dims to_shape(const Value& value, const std::string& what);  // an int or a sequence of ints
// A weak scalar for arrays to adapt, with a `dtype` for elements of it: a float takes ints beyond 64 bits. Throws
// InvalidArgument where an int fits no 64-bit type.
Scalar to_scalar(const Number& number, std::optional<DType> dtype = std::nullopt);

}  // namespace quarry::apps::expression
