// JSON as Zarr has it, which is what Python writes: NaN and infinities may stand where numbers do.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "quarry/io/attribute.h"

namespace quarry::io::zarr {

// Throws IoError where the text is no JSON object; `name`: what errors call it.
nlohmann::json parse_object(const std::string& text, const std::string& name);
std::string to_text(const nlohmann::json& value);

// Numbers, texts and lists of numbers or of texts; a list of one number is given as the number. What is something else
// is left out.
std::map<std::string, Attribute> attributes_of(const nlohmann::json& object);
nlohmann::json json_of(const Attribute& attribute);

// What stands for a number where JSON has none: "NaN", "Infinity", "-Infinity".
nlohmann::json json_of_real(double value);

// A number as xarray writes _FillValue of floats in version 3: the bytes of a double in base64. None where the text is
// something else.
std::string real_text(double value);
std::optional<double> real_of_text(const std::string& text);

}  // namespace quarry::io::zarr
