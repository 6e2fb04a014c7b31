#include <fmt/format.h>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/types.h"

namespace quarry::io::hdf5 {
namespace {

constexpr hssize_t kMaxElements = 4096;  // of an attribute's array
constexpr size_t kMaxText = 1 << 20;
constexpr size_t kMaxAttributes = 4096;

// Fixed strings may fill their room without a terminator, padded with zeros or spaces.
std::string fixed_text(std::string text, H5T_str_t padding) {
  text.resize(std::min(text.size(), text.find('\0')));
  if (padding == H5T_STR_SPACEPAD) text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::optional<Attribute> read_text(hid_t attribute, hid_t type, hssize_t elements) {
  if (elements != 1) return std::nullopt;
  const Handle memory = check_handle(H5Tcopy(H5T_C_S1), "string type");
  if (H5Tset_cset(memory, H5Tget_cset(type)) < 0) return std::nullopt;
  if (H5Tis_variable_str(type) > 0) {
    char* text = nullptr;
    H5Tset_size(memory, H5T_VARIABLE);
    if (H5Aread(attribute, memory, &text) < 0) return std::nullopt;
    std::string value = text ? text : "";
    H5free_memory(text);
    return value;
  }
  const size_t bytes = H5Tget_size(type);
  if (bytes == 0 || bytes > kMaxText) return std::nullopt;
  std::string value(bytes, '\0');
  const H5T_str_t padding = H5Tget_strpad(type);
  if (H5Tset_size(memory, bytes) < 0 || H5Tset_strpad(memory, padding) < 0 ||
      H5Aread(attribute, memory, value.data()) < 0)
    return std::nullopt;
  return fixed_text(std::move(value), padding);
}

std::optional<Attribute> read_numbers(hid_t attribute, hid_t type, hssize_t elements, bool scalar) {
  const bool integer = H5Tget_class(type) == H5T_INTEGER || H5Tget_class(type) == H5T_ENUM;
  const bool wide = integer && H5Tget_size(type) >= 8 && H5Tget_sign(type) == H5T_SGN_NONE;
  if ((scalar || elements == 1) && integer && !wide) {
    int64_t value = 0;
    if (H5Aread(attribute, H5T_NATIVE_INT64, &value) < 0) return std::nullopt;
    return value;
  }
  std::vector<double> values(static_cast<size_t>(elements));
  if (elements > 0 && H5Aread(attribute, H5T_NATIVE_DOUBLE, values.data()) < 0) return std::nullopt;
  if (scalar || elements == 1) return values.at(0);
  return values;
}

std::optional<Attribute> read_attribute(hid_t attribute) {
  const Handle type(H5Aget_type(attribute)), space(H5Aget_space(attribute));
  if (!type || !space) return std::nullopt;
  const H5S_class_t extent = H5Sget_simple_extent_type(space);
  const hssize_t elements = H5Sget_simple_extent_npoints(space);
  if (extent == H5S_NULL || elements < 0 || elements > kMaxElements) return std::nullopt;
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_STRING) return read_text(attribute, type, elements);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) return std::nullopt;
  return read_numbers(attribute, type, elements, extent == H5S_SCALAR);
}

herr_t collect_attribute(hid_t object, const char* name, const H5A_info_t* info, void* out) {
  auto& attributes = *static_cast<std::map<std::string, Attribute>*>(out);
  if (attributes.size() >= kMaxAttributes || info->data_size > kMaxText) return 0;
  try {
    const Handle attribute(H5Aopen(object, name, H5P_DEFAULT));
    if (!attribute) return 0;
    if (auto value = read_attribute(attribute)) attributes.emplace(name, std::move(*value));
  } catch (const std::exception&) {  // an unreadable attribute is left out; exceptions must not cross the library
  }
  return 0;
}

}  // namespace

std::map<std::string, Attribute> read_attributes(hid_t object) {
  std::map<std::string, Attribute> attributes;
  hsize_t at = 0;
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, &at, collect_attribute, &attributes);
  H5Eclear2(H5E_DEFAULT);
  return attributes;
}

void write_attributes(hid_t object, const std::map<std::string, Attribute>& attributes) {
  const auto write = [&](const std::string& name, hid_t type, const Handle& space, const void* value) {
    const Handle attribute = check_handle(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                                          fmt::format("attribute '{}'", name));
    check_call(H5Awrite(attribute, type, value), fmt::format("attribute '{}'", name));
  };
  for (const auto& [name, value] : attributes) {
    Handle space = check_handle(H5Screate(H5S_SCALAR), "attribute");
    if (const auto* integer = std::get_if<int64_t>(&value)) write(name, H5T_STD_I64LE, space, integer);
    if (const auto* real = std::get_if<double>(&value)) write(name, H5T_IEEE_F64LE, space, real);
    if (const auto* text = std::get_if<std::string>(&value)) {
      const Handle type = check_handle(H5Tcopy(H5T_C_S1), "string type");
      check_call(H5Tset_size(type, H5T_VARIABLE), "string type");
      check_call(H5Tset_cset(type, H5T_CSET_UTF8), "string type");
      const char* const pointer = text->c_str();
      write(name, type, space, &pointer);
    }
    if (const auto* values = std::get_if<std::vector<double>>(&value)) {
      const hsize_t count = values->size();
      space = check_handle(H5Screate_simple(1, &count, nullptr), "attribute");
      write(name, H5T_IEEE_F64LE, space, values->data());
    }
  }
}

}  // namespace quarry::io::hdf5
