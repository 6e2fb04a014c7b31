#include "quarry/local/ops/types/types.h"
#include "quarry/apps/binding/binding.h"
#include "quarry/local/ndarray/print.h"

namespace quarry::apps::expression {

template <>
struct Convert<local::ElementTexts> {
  static bool fits(const Value& value) { return value.dict() != nullptr; }
  static local::ElementTexts from(const Value& value, const std::string& what, Keep& keep) {
    if (!fits(value)) throw local::TypeError(what + " must be a dict, not " + type_name(value));
    local::ElementTexts texts;
    for (const auto& [key, function] : value.dict()->items) {
      const auto* name = key.as<std::string>();
      if (name == nullptr || function.is_none()) continue;  // NumPy looks for the names that it knows
      texts.emplace(*name, Convert<local::ElementTexts::mapped_type>::from(function, what, keep));
    }
    return texts;
  }
};

}  // namespace quarry::apps::expression

#define QUARRY_CHAPTER_ROWS types_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/types.def"
#include "quarry/apps/binding/rows/chapter.inl"
