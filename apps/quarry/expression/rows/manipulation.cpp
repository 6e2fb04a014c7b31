#include "local/ops/manipulation.h"
#include "apps/quarry/expression/local_binding.h"

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
template <>
struct Convert<local::Blocks> {
  static bool fits(const Value&) { return true; }
  static local::Blocks from(const Value& value, const std::string& what, Keep& keep) {
    const SequenceValue* list = value.sequence();
    if (list == nullptr) return Convert<NdArray>::from(value, what, keep);
    if (!list->is_list) throw local::TypeError(what + " is a tuple. Only lists can be used to arrange blocks");
    std::vector<local::Blocks> parts;
    for (const Value& item : list->items) parts.push_back(from(item, what, keep));
    return parts;
  }
};

std::vector<Row> manipulation_rows() {
  return {
#define QUARRY_FUNCTION(symbol, names, signature, summary) QUARRY_BOUND_ROW(false, symbol, names, signature, summary)
#define QUARRY_METHOD(symbol, names, signature, summary) QUARRY_BOUND_ROW(true, symbol, names, signature, summary)
#include "local/ops/functions/manipulation.def"
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD
  };
}

}  // namespace quarry::apps::expression
