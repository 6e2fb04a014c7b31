#include <fmt/format.h>

#include "quarry/io/hdf5/describe.h"

namespace quarry::io::hdf5 {
namespace {

Handle variable_text() {
  Handle type = check_handle(H5Tcopy(H5T_C_S1), "string type");
  check_call(H5Tset_size(type, H5T_VARIABLE), "string type");
  check_call(H5Tset_cset(type, H5T_CSET_UTF8), "string type");
  return type;
}

}  // namespace

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
      const Handle type = variable_text();
      const char* const pointer = text->c_str();
      write(name, type, space, &pointer);
    }
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      const hsize_t count = texts->size();
      space = check_handle(H5Screate_simple(1, &count, nullptr), "attribute");
      std::vector<const char*> pointers;
      for (const std::string& each : *texts) pointers.push_back(each.c_str());
      const Handle type = variable_text();
      write(name, type, space, pointers.data());
    }
    if (const auto* values = std::get_if<std::vector<double>>(&value)) {
      const hsize_t count = values->size();
      space = check_handle(H5Screate_simple(1, &count, nullptr), "attribute");
      write(name, H5T_IEEE_F64LE, space, values->data());
    }
    if (const auto* values = std::get_if<std::vector<int64_t>>(&value)) {
      const hsize_t count = values->size();
      space = check_handle(H5Screate_simple(1, &count, nullptr), "attribute");
      write(name, H5T_STD_I64LE, space, values->data());
    }
  }
}

}  // namespace quarry::io::hdf5
