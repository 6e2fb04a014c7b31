#include "quarry/apps/binding/masked.h"
#include "quarry/apps/binding/tables.h"
#include "quarry/apps/language/builtins.h"
#include "quarry/apps/language/library.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/ufunc/apply.h"

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

using Masked = MaskedLibrary<local::ma::Local>;
bool is_masked(const Value& value) { return masked_in<local::ma::Local>(value) != nullptr; }

class LocalLibrary final : public Library {
 public:
  LocalLibrary() {
    add_rows<NdArray>(registry_);
    add_local_ufuncs(registry_);
    add_local_reductions(registry_);
    add_python_functions(registry_);
    add_local_builtins(registry_);
    add_builtins(registry_);
    add_masked_ufuncs<local::ma::Local>(registry_);
    add_local_methods(registry_);
    add_methods_of_functions(registry_);
  }

  const Registry& registry() const override { return registry_; }

  std::optional<Value> constant(std::string_view name) const override {
    if (std::optional<Value> masked = masked_constant(name, /*is_local=*/true)) return masked;
    return Library::constant(name);
  }

  bool is_module(std::string_view name) const override {
    return name == "s_" || name == "linalg" || name == "fft" || name == "random" || name == "lib" || name == "scipy" ||
           name == "special" || name == "stride_tricks" || name == "ma";
  }

  bool is_array(const Value& value) const override { return value.is<NdArray>() || is_masked(value); }
  bool is_operand(const Value& value) const override { return is_local_operand(value) || is_masked(value); }
  const Function* method(const Value& array, std::string_view name) const override {
    return is_masked(array) ? masked_method(registry_, name) : registry_.method(name);
  }

  Value unary(UnaryOp op, const Value& operand) const override {
    return apply_local(ufunc(op), std::span(&operand, 1));
  }
  Value binary(BinaryOp op, const Value& left, const Value& right) const override {
    const Value args[] = {left, right};
    if (op != BinaryOp::matmul) return apply_local(ufunc(op), args);
    const Function* matmul = registry_.function("matmul");
    if (is_masked(left) || is_masked(right))
      throw local::NotSupported("@ of masked arrays; ma.dot() takes masked elements as 0");
    if (matmul == nullptr) return local::linalg::matmul(to_ndarray(left), to_ndarray(right));
    Session session;
    return matmul->handler(bind(*matmul, {left, right}, {}), session);
  }
  Value compare(CompareOp op, const Value& left, const Value& right) const override {
    const Value args[] = {left, right};
    return apply_local(ufunc(op), args);
  }
  Value subscript(const Value& array, const Value& index) const override {
    if (is_masked(array)) return Masked::subscript(array, index);
    return local_subscript(*array.as<NdArray>(), plain_index(index));
  }
  Value assign(const Value& array, const Value& index, std::optional<BinaryOp> update,
               const Value& value) const override {
    if (is_masked(array)) return Masked::assign(array, index, update, value);
    const NdArray& target = *array.as<NdArray>();
    if (!is_local_operand(value)) throw TypeError("an array's elements cannot be a " + type_name(value));
    Keep keep;
    if (update)
      local::ops::update(target, index_terms(plain_index(index)), ufunc(*update),
                         Convert<local::Arg>::from(value, "value", keep));
    else
      local_assign(target, plain_index(index), value);
    return array;
  }

  std::optional<Value> attribute(const Value& array, std::string_view name) const override {
    if (is_masked(array)) return Masked::attribute(array, name);
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
    if (is_masked(value)) return Masked::convert(type, value);
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
    if (is_masked(value)) return Masked::truth(value);
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
  Registry registry_;
};

}  // namespace

const Library& local_library() {
  static const LocalLibrary library;
  return library;
}

}  // namespace quarry::apps::expression
