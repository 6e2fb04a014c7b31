// Text of any origin, made safe for HTML, SVG and JSON. Bytes that are no UTF-8 become '?'.
#pragma once

#include <string>
#include <string_view>

namespace quarry::local {

std::string escape_html(std::string_view text);
std::string escape_json(std::string_view text);  // with the quotes

}  // namespace quarry::local
