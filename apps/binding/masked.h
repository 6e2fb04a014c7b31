// Masked arrays as values of the language, one text for both kinds.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/apps/binding/binding.h"
#include "quarry/chunked/api/ma.h"
#include "quarry/local/ops/masked/masked.h"

namespace quarry::apps::expression {

template <class K>
using MaskedOf = local::ma::BasicMaskedArray<K>;
using LocalMasked = MaskedOf<local::ma::Local>;
using ChunkedMasked = MaskedOf<ma::Chunked>;

// The masked array of that kind that the value is, or null.
template <class K>
MaskedOf<K>* masked_in(const Value& value) {
  const auto* masked = value.as<MaskedValue>();
  if (masked == nullptr) return nullptr;
  if constexpr (std::is_same_v<K, local::ma::Local>)
    return masked->local.get();
  else
    return masked->chunked.get();
}
template <class K>
bool any_masked(std::span<const Value> values) {
  for (const Value& value : values)
    if (masked_in<K>(value) != nullptr) return true;
  return false;
}

inline Value masked_value(LocalMasked array) {
  return MaskedValue{std::make_shared<LocalMasked>(std::move(array)), nullptr};
}
inline Value masked_value(ChunkedMasked array) {
  return MaskedValue{nullptr, std::make_shared<ChunkedMasked>(std::move(array))};
}
// As numpy.ma gives results: an array without axes is its element, or masked. A chunked one is not known yet.
Value decayed_value(const LocalMasked& array);
Value decayed_value(const ChunkedMasked& array);
// What decays.
template <class K>
struct Decaying {
  MaskedOf<K> array;
};
// Arguments that numpy.ma has and that mean nothing here, and those that are refused.
struct Ignored {};
struct Refused {};
// A masked array that the function changes; null of other values.
template <class K>
struct Changed {
  MaskedOf<K>* array = nullptr;
};

// The array or number that a value is to a kind.
template <class K>
bool is_plain_operand(const Value& value) {
  if constexpr (std::is_same_v<K, local::ma::Local>)
    return is_local_operand(value);
  else
    return is_operand(value);
}
template <class K>
typename K::Array plain_array(const Value& value) {
  if constexpr (std::is_same_v<K, local::ma::Local>)
    return to_ndarray(value);
  else
    return to_array(value);
}

template <class K>
struct Convert<local::ma::BasicMaskedArray<K>> {
  static bool fits(const Value& value) { return masked_in<K>(value) != nullptr || is_plain_operand<K>(value); }
  static MaskedOf<K> from(const Value& value, const std::string& what, Keep&) {
    if (const MaskedOf<K>* masked = masked_in<K>(value)) return *masked;
    if (!is_plain_operand<K>(value)) throw local::TypeError(what + " must be an array, not " + type_name(value));
    return plain_array<K>(value);
  }
};
template <class K>
struct Convert<local::ma::BasicMaskedOperand<K>> {
  using Operand = local::ma::BasicMaskedOperand<K>;
  static bool fits(const Value& value) { return Convert<MaskedOf<K>>::fits(value); }
  static Operand from(const Value& value, const std::string& what, Keep& keep) {
    if (const auto* masked = value.as<MaskedValue>(); masked != nullptr && masked->is_word) return local::ma::masked;
    if (const std::optional<Number> number = value.number()) return to_scalar(*number);
    return Convert<MaskedOf<K>>::from(value, what, keep);
  }
};
template <class K>
struct Convert<Changed<K>> {
  static bool fits(const Value&) { return true; }
  static Changed<K> from(const Value& value, const std::string&, Keep&) { return {masked_in<K>(value)}; }
};
template <>
struct Convert<Ignored> {
  static bool fits(const Value&) { return true; }
  static Ignored from(const Value&, const std::string&, Keep&) { return {}; }
};
template <>
struct Convert<Refused> {
  static bool fits(const Value& value) { return !value.is_none(); }
  static Refused from(const Value&, const std::string& what, Keep&) {
    throw local::NotSupported(what + " is not for masked arrays here");
  }
};
template <class K>
struct ToValue<local::ma::BasicMaskedArray<K>> {
  static Value of(const MaskedOf<K>& array) { return masked_value(array); }
};
template <class K>
struct ToValue<Decaying<K>> {
  static Value of(const Decaying<K>& result) { return decayed_value(result.array); }
};

// What the libraries do with masked arrays of their kind.
template <class K>
struct MaskedLibrary {
  // Where an argument is masked: numpy.ma's function.
  static std::optional<Value> ufunc(local::Op op, std::span<const Value> args);
  // sum(x), x.mean(0) ... of a masked array: numpy.ma's function of that name, with what is given.
  static std::optional<Value> reduction(const Registry& registry, const Arguments& args, Session& session);
  static Value subscript(const Value& array, const Value& index);
  static Value assign(const Value& array, const Value& index, std::optional<BinaryOp> update, const Value& value);
  static std::optional<Value> attribute(const Value& array, std::string_view name);
  static Value convert(const DTypeValue& type, const Value& value);
  static bool truth(const Value& array);
};
extern template struct MaskedLibrary<local::ma::Local>;
extern template struct MaskedLibrary<ma::Chunked>;

// An index in which masked arrays are their data.
Value plain_index(const Value& index);
// ma.masked and ma.nomask.
std::optional<Value> masked_constant(std::string_view name, bool is_local);
// ma.sqrt, ma.add ...: the ufuncs that numpy.ma has.
template <class K>
void add_masked_ufuncs(Registry& registry);
// The method of masked arrays.
const Function* masked_method(const Registry& registry, std::string_view name);
// As NumPy's str() and repr() of a masked array in an expression's value.
std::string masked_text(const LocalMasked& array);
std::string masked_repr(const LocalMasked& array);

}  // namespace quarry::apps::expression
