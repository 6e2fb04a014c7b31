#include "quarry/apps/quarry/display.h"

#include <algorithm>

#include "quarry/apps/binding/masked.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/local/base/detail.h"

namespace quarry::apps {

using expression::Value;

namespace {

// NumPy's print options.
constexpr int64_t kThreshold = 1000;
constexpr int64_t kEdgeItems = 3;

bool summarised(const Array& array) { return array.size() > kThreshold; }

std::string array_str(const Array& array, const NdArray& shown) {
  return summarised(array) ? local::summary_string(shown, array.shape()) : shown.to_string();
}

// A 0-d array prints as the NumPy scalar that NumPy would have made: np.float64(1.5).
std::string array_repr(const Array& array, const NdArray& shown) {
  if (summarised(array)) return local::summary_repr(shown, array.shape());
  if (array.ndim() > 0) return shown.repr();
  if (array.dtype() == DType::bool_) return "np." + shown.to_string() + "_";
  return std::string("np.") + local::name(array.dtype()) + "(" + shown.to_string() + ")";
}

using expression::ChunkedMasked;
const ChunkedMasked* masked_in(const Value& value) { return expression::masked_in<ma::Chunked>(value); }

// What is shown of a masked array, of the next parts.
local::ma::MaskedArray shown_masked(const ChunkedMasked& array, const std::vector<NdArray>& shown, size_t& next) {
  const NdArray& data = shown[next++];
  std::optional<NdArray> mask;
  if (array.mask_or_none()) mask = shown[next++];
  return {data, mask, array.given_fill_value()};
}

std::string masked_str(const ChunkedMasked& array, const local::ma::MaskedArray& shown) {
  return array.size() > kThreshold ? local::ma::summary_string(shown, array.shape()) : shown.to_string();
}

}  // namespace

void collect_arrays(const Value& value, std::vector<Array>& arrays) {
  if (const Array* array = value.as<Array>()) arrays.push_back(*array);
  if (const ChunkedMasked* masked = masked_in(value)) {
    arrays.push_back(masked->data());
    if (masked->mask_or_none()) arrays.push_back(*masked->mask_or_none());
  }
  if (const expression::SequenceValue* sequence = value.sequence()) {
    for (const Value& item : sequence->items) collect_arrays(item, arrays);
  }
}

Array shown_part(const Array& array) {
  Array part = array;
  if (!summarised(array)) return part;
  for (int axis = 0; axis < array.ndim(); ++axis) {
    if (array.shape(axis) <= 2 * kEdgeItems) continue;
    std::vector<local::IndexItem> head(static_cast<size_t>(axis), local::full_slice), tail = head;
    head.emplace_back(local::Slice{std::nullopt, kEdgeItems, std::nullopt});
    tail.emplace_back(local::Slice{-kEdgeItems, std::nullopt, std::nullopt});
    part = concatenate({part[std::span<const local::IndexItem>(head)], part[std::span<const local::IndexItem>(tail)]},
                       axis);
  }
  return part;
}

std::vector<std::string> display(std::span<const Value> values) {
  std::vector<Array> arrays;
  for (const Value& value : values) collect_arrays(value, arrays);
  std::vector<Array> parts;
  std::transform(arrays.begin(), arrays.end(), std::back_inserter(parts), shown_part);
  const std::vector<NdArray> shown = parts.empty() ? std::vector<NdArray>() : to_host(parts);

  size_t next = 0;
  std::vector<std::string> texts;
  for (const Value& value : values) {
    if (const Array* array = value.as<Array>()) {
      texts.push_back(array_str(*array, shown[next++]));
    } else if (const ChunkedMasked* masked = masked_in(value)) {
      texts.push_back(masked_str(*masked, shown_masked(*masked, shown, next)));
    } else if (const auto* text = value.as<std::string>()) {
      texts.push_back(*text);
    } else if (const auto* dtype = value.as<expression::DTypeValue>()) {
      texts.emplace_back(local::name(dtype->dtype));
    } else {
      texts.push_back(repr(value, [&](const Value& item) {
        const ChunkedMasked* masked = masked_in(item);
        if (masked == nullptr) return array_repr(*item.as<Array>(), shown[next++]);
        const local::ma::MaskedArray part = shown_masked(*masked, shown, next);
        return masked->size() > kThreshold ? masked_str(*masked, part) : expression::masked_repr(part);
      }));
    }
  }
  return texts;
}

}  // namespace quarry::apps
