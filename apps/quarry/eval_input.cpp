#include "quarry/apps/quarry/eval_input.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "quarry/apps/language/parser.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"

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
  const FileObject place = parse_array(text.substr(equals + 1), "-i " + name);
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

namespace {

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    const size_t first = part.find_first_not_of(" \t"), last = part.find_last_not_of(" \t");
    parts.push_back(first == std::string::npos ? "" : part.substr(first, last - first + 1));
  }
  return parts;
}

// "[0:10, :, 3]", "..." and the like, with brackets or without.
std::vector<local::IndexItem> parse_region(std::string text) {
  const auto fail = [given = text] {
    throw InvalidArgument("--region takes integers, slices and ... of a data set, as '0:10, :', not '" +
                          local::excerpt(given) + "'");
  };
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  std::vector<local::IndexItem> items;
  for (const std::string& part : split_at_commas(text)) {
    if (part == "...") {
      items.emplace_back(local::ellipsis);
      continue;
    }
    std::vector<std::optional<int64_t>> numbers;
    size_t begin = 0;
    for (size_t end = 0; end != std::string::npos; begin = end + 1) {
      end = part.find(':', begin);
      std::string number = part.substr(begin, end == std::string::npos ? end : end - begin);
      std::erase(number, ' ');
      numbers.push_back(local::parse_integer(number));
      if (!number.empty() && !numbers.back()) fail();
    }
    if (numbers.size() > 3 || (numbers.size() == 1 && !numbers[0])) fail();
    if (numbers.size() == 1) {
      items.emplace_back(*numbers[0]);
    } else {
      numbers.resize(3);
      items.emplace_back(local::Slice{numbers[0], numbers[1], numbers[2]});
    }
  }
  if (items.empty()) fail();
  return items;
}

int parse_axis(const std::string& text, const std::string& option) {
  const int64_t axis = parse_integer(text, option);
  if (axis < -local::kMaxDims || axis >= local::kMaxDims)
    throw InvalidArgument(option + ": no array has an axis " + std::to_string(axis));
  return static_cast<int>(axis);
}

}  // namespace

void read_change_options(const EvalOptions& options, StoreOptions& store) {
  if (!options.append.empty()) store.append = parse_axis(options.append, "--append");
  if (!options.region.empty()) store.region = parse_region(options.region);
  for (const std::string& axis : split_at_commas(options.unlimited))
    store.unlimited.push_back(parse_axis(axis, "--unlimited"));
  if (!options.dims.empty()) store.dims = split_at_commas(options.dims);
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
