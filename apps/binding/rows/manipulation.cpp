#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/apps/binding/binding.h"
#include "quarry/chunked/api/joining.h"

namespace quarry::apps::expression {

template <>
struct Convert<local::Slice> {
  static bool fits(const Value& value) { return value.is<local::Slice>(); }
  static local::Slice from(const Value& value, const std::string& what, Keep&) {
    if (!fits(value)) throw local::TypeError(what + " must be a slice, not " + type_name(value));
    return *value.as<local::Slice>();
  }
};

// Nested lists; anything else is an array, tuples too.
template <class T, class A>
struct ConvertBlocks {
  static bool fits(const Value&) { return true; }
  static T from(const Value& value, const std::string& what, Keep& keep) {
    const SequenceValue* list = value.sequence();
    if (list == nullptr) return Convert<A>::from(value, what, keep);
    if (!list->is_list) throw local::TypeError(what + " is a tuple. Only lists can be used to arrange blocks");
    std::vector<T> parts;
    for (const Value& item : list->items) parts.push_back(from(item, what, keep));
    return parts;
  }
};
template <>
struct Convert<local::Blocks> : ConvertBlocks<local::Blocks, NdArray> {};
template <>
struct Convert<quarry::Blocks> : ConvertBlocks<quarry::Blocks, Array> {};

template <>
struct Convert<local::ops::AxisWidths> {
  static bool fits(const Value& value) { return value.dict() != nullptr; }
  static local::ops::AxisWidths from(const Value& value, const std::string& what, Keep& keep) {
    local::ops::AxisWidths widths;
    for (const auto& [axis, width] : value.dict()->items) {
      const bool both = width.is<Int>();
      if (!both && !Convert<std::pair<int64_t, int64_t>>::fits(width))
        throw local::TypeError(what + " must hold integers and pairs of integers, not " + type_name(width));
      const int64_t n = both ? to_int64(width, what) : 0;
      widths.emplace_back(to_int64(axis, what),
                          both ? std::pair(n, n) : Convert<std::pair<int64_t, int64_t>>::from(width, what, keep));
    }
    return widths;
  }
};

// function(vector, widths, axis, kwargs), as NumPy calls it.
template <>
struct Convert<local::ops::PadFunction> {
  static bool fits(const Value& value) { return value.is<FunctionValue>(); }
  static local::ops::PadFunction from(const Value& value, const std::string&, Keep&) {
    return [value](const NdArray& line, std::pair<int64_t, int64_t> widths, int64_t axis) {
      call_function(value, {line, to_value(widths), Value(axis), Value::dict({})});
    };
  }
};

}  // namespace quarry::apps::expression

#define QUARRY_CHAPTER_ROWS manipulation_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/manipulation.def"
#include "quarry/apps/binding/rows/chapter.inl"
