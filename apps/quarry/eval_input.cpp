#include "quarry/apps/quarry/eval_input.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "quarry/apps/language/parser.h"
#include "quarry/io/format.h"

namespace quarry::apps {

using local::InvalidArgument;

// NAME=FILE:/PATH, or NAME=FILE of a file that is one array.
Input parse_input(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const bool is_name =
      equals != std::string::npos && !name.empty() &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos &&
      (name[0] < '0' || name[0] > '9');
  if (!is_name) throw InvalidArgument("-i takes NAME=FILE:/PATH, not '" + text + "'");
  FileObject place = parse_file_object(text.substr(equals + 1));
  if (place.file.empty()) throw InvalidArgument("-i " + name + ": no file is given");
  if (place.object.empty() && io::format_to_write(place.file).is_one_array()) place.object = "/";
  if (place.object.empty()) {
    throw InvalidArgument("-i " + name + ": give the object too, " + name + "=" + place.file + ":/PATH");
  }
  return {name, place.file, place.object};
}

namespace {

bool is_variable(const std::string& name) {
  try {
    return std::holds_alternative<expression::Name>(expression::parse({name, "", 0})->node);
  } catch (const local::Error&) {  // a keyword
    return false;
  }
}

}  // namespace

std::vector<Input> parse_inputs(const std::vector<std::string>& texts) {
  std::vector<Input> inputs;
  for (const std::string& text : texts) {
    Input input = parse_input(text);
    if (!is_variable(input.name))
      throw InvalidArgument("-i: '" + input.name + "' is a word of the expression language and cannot name an input");
    if (std::any_of(inputs.begin(), inputs.end(), [&](const Input& other) { return other.name == input.name; }))
      throw InvalidArgument("-i: the name '" + input.name + "' is given twice");
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw InvalidArgument("cannot read the script " + path);
  return text.str();
}

std::string output_path(const std::string& name, const std::string& object) {
  if (name.empty()) return object.empty() || object == "/" ? "/result" : object;
  return (object == "/" ? "" : object) + "/" + name;
}

}  // namespace quarry::apps
