// What arrays are to the evaluator: the functions, operators, indexing and attributes of one kind of array.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/apps/language/function.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/program/op.h"

namespace quarry::apps::expression {

class Library {
 public:
  Library() = default;
  virtual ~Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  virtual const Registry& registry() const = 0;
  // A name that is neither a function nor a dtype ("pi"); nothing if unknown.
  virtual std::optional<Value> constant(std::string_view name) const;
  // "random": whether functions "random.x" may exist.
  virtual bool is_module(std::string_view name) const = 0;

  virtual bool is_array(const Value& value) const = 0;
  // Whether NumPy takes the value as an array operand: a number, an array, or a sequence of such.
  virtual bool is_operand(const Value& value) const = 0;
  virtual Value unary(UnaryOp op, const Value& operand) const = 0;  // of an array
  virtual Value binary(BinaryOp op, const Value& left, const Value& right) const = 0;
  virtual Value compare(CompareOp op, const Value& left, const Value& right) const = 0;
  virtual Value subscript(const Value& array, const Value& index) const = 0;
  // array[index] = value or, with an operation, array[index] op= value: the array that has it.
  virtual Value assign(const Value& array, const Value& index, std::optional<BinaryOp> update,
                       const Value& value) const = 0;
  virtual std::optional<Value> attribute(const Value& array, std::string_view name) const = 0;
  virtual std::vector<std::string> attribute_names() const = 0;
  // A method of such an array; null if unknown.
  virtual const Function* method(const Value&, std::string_view name) const { return registry().method(name); }
  // Of a function: add.nin.
  virtual std::optional<Value> function_attribute(std::string_view, std::string_view) const { return std::nullopt; }
  // dtype(value) and, for Python's types, int(value) of an array; numbers of Python's types are the evaluator's.
  virtual Value convert(const DTypeValue& type, const Value& value) const = 0;

  // Python's truth value of an array; nothing where it is not known before it is computed. Throws InvalidArgument where
  // there is none.
  virtual std::optional<bool> truth(const Value& array) const = 0;
  // `then` where `condition` holds, else `otherwise`, for a condition whose truth is not known.
  virtual Value choose(const Value& condition, const Value& then, const Value& otherwise) const = 0;
  // a < b < c: whether the chain ends with `all`, the conjunction so far; and its conjunction with the next comparison.
  virtual bool chain_ends(const Value& all) const = 0;
  virtual Value chain(const Value& all, const Value& next) const = 0;
};

// The ufunc behind an operator. matmul has none: InternalError.
local::Op ufunc(UnaryOp op);
local::Op ufunc(BinaryOp op);
local::Op ufunc(CompareOp op);

// Lazy chunked arrays. Building never computes.
const Library& chunked_library();
// Local arrays, computed at once on the calling thread's current device.
const Library& local_library();
// Rows of local/ops/functions/function.def whose signature does not fit the C++ function, one a line; empty if all do.
std::string table_problems();

}  // namespace quarry::apps::expression
