// The functions of the expression language: names, signatures, binding of arguments.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/apps/language/value.h"
#include "quarry/chunked/api/random.h"

namespace quarry::apps::expression {

// What evaluation of one program shares.
struct Session {
  // Of chunked arrays: each call of a function of `random` takes a stream of its own.
  std::shared_ptr<random::Generator> random = std::make_shared<random::Generator>(0);
  int64_t unseeded = 0;  // generators made without a seed: default_rng()
};

struct Parameter {
  enum class Kind : uint8_t { positional_only, positional, variadic, keyword_only, keywords } kind;
  std::string name;
  std::optional<Value> default_value;
};

// Bound arguments: one value per parameter; *args holds a tuple, **kwargs a dict.
class Arguments {
 public:
  Arguments(const Function& function, std::vector<Value> values, std::vector<bool> given)
      : function_(function), values_(std::move(values)), given_(std::move(given)) {}
  const Value& operator[](std::string_view parameter) const { return values_[position(parameter)]; }
  bool given(std::string_view parameter) const { return given_[position(parameter)]; }
  // Whether a parameter at or behind that position is given.
  bool given_from(size_t position) const {
    return std::find(given_.begin() + static_cast<std::ptrdiff_t>(position), given_.end(), true) != given_.end();
  }
  const std::vector<Value>& values() const { return values_; }  // in the order of the parameters
  const Function& function() const { return function_; }

 private:
  size_t position(std::string_view parameter) const;
  const Function& function_;
  std::vector<Value> values_;
  std::vector<bool> given_;
};

using Handler = std::function<Value(const Arguments&, Session&)>;

// How a function over chunked arrays meets arrays that no memory holds.
enum class Memory : uint8_t {
  unknown,
  streams,  // chunk by chunk
  settles,  // the call computes what the result's shape depends on, and what the result is made of streams
  whole,    // one device holds the whole array
};

// "(a, axis=None, *, keepdims=False)", as Python writes it. Parsed when its parameters are first asked for: a start
// does without those of a thousand functions. Thread-safe; copies share what was parsed.
class Signature {
 public:
  Signature() : Signature("()") {}
  explicit Signature(std::string text);
  explicit Signature(std::vector<Parameter> parameters);  // without a text
  const std::string& text() const { return text_; }
  // Throws InternalError where the text is malformed.
  const std::vector<Parameter>& parameters() const;
  bool takes_keywords() const;  // ends in **kwargs
  size_t count() const;         // of parameters, without parsing

 private:
  struct Parsed;
  std::string text_;
  std::shared_ptr<Parsed> parsed_;
};

struct Function {
  std::string name;
  Signature signature;
  Handler handler;
  std::string summary;  // one sentence for the documentation; may be empty
  Memory memory = Memory::unknown;
  bool is_subscripted = false;  // x.name[index] calls it with the index
  const std::vector<Parameter>& parameters() const { return signature.parameters(); }
};

// A keyword argument in a call.
struct KeywordValue {
  std::string name;
  Value value;
};

// Binds as Python does. Throws TypeError with Python's messages ("f() got an unexpected keyword argument 'x'", with the
// nearest parameter).
Arguments bind(const Function& function, std::vector<Value> positional, std::vector<KeywordValue> keywords);

// All functions by name ("mean", "random.normal", "linalg.eigh", "add.reduce") and all methods of arrays.
class Registry {
 public:
  const Function* function(std::string_view name) const;
  const Function* method(std::string_view name) const;
  std::vector<std::string> function_names() const;
  std::vector<std::string> method_names() const;

  // Replaces nothing: the name must be new.
  void add_function(const std::string& name, const std::string& signature, const Handler& handler,
                    const std::string& summary = "", Memory memory = Memory::unknown);
  void add_method(const std::string& name, const std::string& signature, const Handler& handler,
                  const std::string& summary = "", Memory memory = Memory::unknown);
  void add_subscript(const std::string& method);  // which is there

 private:
  std::map<std::string, Function, std::less<>> functions_, methods_;
};

// A Python function that a name alone means before NumPy's of the same name (builtins.h), or null.
const Function* builtin(const Registry& registry, std::string_view name);

// Every dtype's name, with NumPy's and Python's aliases, as values.
std::optional<DTypeValue> dtype_name(std::string_view name);
std::vector<std::string> dtype_names();

}  // namespace quarry::apps::expression
