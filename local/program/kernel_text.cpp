#include "quarry/local/program/kernel_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <sstream>

namespace quarry::local {
namespace {

constexpr const char* kTypeNames[] = {
    "bool",           "signed char",        "short",   "int",      "long long", "unsigned char", "unsigned short",
    "unsigned int",   "unsigned long long", "float16", "bfloat16", "float",     "double",        "complex<float>",
    "complex<double>"};
static_assert(std::size(kTypeNames) == kDTypeCount);

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_element(const KernelParameter& parameter) { return parameter.kind == KernelParameter::Kind::element; }

int64_t product(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<>());
}

int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

// The user's text between directives that make compilers count its own lines.
std::string quoted(const KernelCode& code, const char* part, const std::string& text) {
  return fmt::format("#line 1 \"{}.{}\"\n{}\n#line 1 \"quarry\"\n", code.name, part, text);
}

// ---- What compilers say ----

struct Complaint {
  std::string file;
  int64_t line = 0;
  std::string message;
};

// "file:3:5: error: text" (GCC, Clang) or "file(3): error: text" (NVRTC); nothing for any other line.
std::optional<Complaint> parse_complaint(const std::string& line) {
  const size_t error = std::min(line.find("error:"), line.find("error #"));
  if (error == std::string::npos) return std::nullopt;
  const std::string place = line.substr(0, error);
  Complaint complaint;
  if (const size_t open = place.find('('); open != std::string::npos && place.find("):", open) != std::string::npos) {
    complaint.file = place.substr(0, open);
    complaint.line = std::strtoll(place.c_str() + open + 1, nullptr, 10);
  } else {
    const size_t colon = place.find(':');
    if (colon == std::string::npos) return std::nullopt;
    complaint.file = place.substr(0, colon);
    complaint.line = std::strtoll(place.c_str() + colon + 1, nullptr, 10);
  }
  const size_t text = line.find(": ", error);
  const size_t colon = line.find(':', error);
  complaint.message = line.substr(text != std::string::npos ? text + 2 : colon + 1);
  return complaint;
}

std::string line_of(const std::string& text, int64_t number) {
  std::istringstream lines(text);
  std::string line;
  for (int64_t i = 0; i < number; ++i)
    if (!std::getline(lines, line)) return "";
  return line;
}

struct Part {
  std::string file;   // as the compiler knows it
  std::string label;  // as the user does
  const std::string* text;
};

[[noreturn]] void refuse(const std::string& name, const std::vector<Part>& parts, const std::string& log) {
  constexpr int kMost = 5;  // complaints, and lines of a log without any
  std::string message = fmt::format("kernel '{}' does not compile", name);
  int complaints = 0;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line) && complaints < kMost;) {
    const auto complaint = parse_complaint(line);
    if (!complaint) continue;
    const auto part =
        std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.file == complaint->file; });
    if (part == parts.end()) continue;
    ++complaints;
    message += fmt::format("\n{}, line {}: {}\n    {}", part->label, complaint->line, complaint->message,
                           line_of(*part->text, complaint->line));
  }
  if (complaints == 0) {
    std::istringstream again(log);
    int shown = 0;
    for (std::string line; std::getline(again, line) && shown < kMost;)
      if (!line.empty()) message += "\n" + line, ++shown;
  }
  throw CompileError(message, log);
}

}  // namespace

bool mentions(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word(text[at - 1]);
    const bool ends = at + word.size() >= text.size() || !is_word(text[at + word.size()]);
    if (begins && ends) return true;
  }
  return false;
}

namespace {

std::string key_of(const KernelCode& code) {
  std::string key = code.name + '\1' + code.preamble + '\1' + code.operation + '\1' + code.map + '\1' + code.reduce +
                    '\1' + code.post + '\1' + code.identity + '\1' + code.reduce_type + (code.reduces ? "\1r" : "\1e");
  for (const std::string& option : code.options) key += '\1' + option;
  for (const auto& [type, dtype] : code.types) key += fmt::format("\1{}={}", type, local::name(dtype));
  for (const KernelParameter& p : code.parameters)
    key += fmt::format("\1{} {} {}{}", p.name, local::name(p.dtype), static_cast<int>(p.kind), p.output ? "o" : "i");
  return key;
}

KernelUses uses_of(const KernelCode& code) {
  KernelUses uses;
  const auto look = [&uses](const std::string& text) {
    uses.indexer = uses.indexer || mentions(text, "_ind");
    uses.index = uses.index || uses.indexer || mentions(text, "i");
    uses.complex = uses.complex || mentions(text, "complex");
  };
  for (const std::string* text :
       {&code.preamble, &code.operation, &code.map, &code.post, &code.reduce, &code.identity, &code.reduce_type})
    look(*text);
  for (const std::string& option : code.options) look(option);
  for (const KernelParameter& parameter : code.parameters) uses.complex = uses.complex || is_complex(parameter.dtype);
  for (const auto& [type, dtype] : code.types) uses.complex = uses.complex || is_complex(dtype);
  return uses;
}

}  // namespace

void KernelCode::complete() {
  key = key_of(*this);
  uses = uses_of(*this);
}

int64_t KernelNest::results() const { return product(kept); }
int64_t KernelNest::terms() const { return product(reduced); }

KernelAccess KernelNest::access(const KernelCode& code, size_t argument) const {
  const Steps& steps = arguments[argument];
  const bool inner_kept = !code.reduces || columns;
  const int64_t step = inner_kept ? steps.kept.back() : steps.reduced.back();
  if (step == 0) return KernelAccess::broadcast;
  return step == itemsize(code.parameters[argument].dtype) ? KernelAccess::contiguous : KernelAccess::strided;
}

namespace {

// Where operands disagree on the axis along which memory runs, that of one which disagrees with the last of `order`
// becomes the last but one: true then, and neighbours there are to be done together.
bool cross_axes(const KernelCode& code, const KernelLaunch& launch, std::vector<int>& order) {
  if (order.size() < 2) return false;
  for (size_t a = 0; a < code.parameters.size(); ++a) {
    if (!is_element(code.parameters[a])) continue;
    const Dims& strides = launch.arguments[a].strides;
    const auto distance = [&](int axis) { return strides[axis] == 0 ? INT64_MAX : magnitude(strides[axis]); };
    const auto nearest =
        std::min_element(order.begin(), order.end(), [&](int x, int y) { return distance(x) < distance(y); });
    if (*nearest == order.back() || distance(*nearest) == distance(order.back()) || strides[order.back()] == 0)
      continue;
    std::rotate(nearest, nearest + 1, order.end() - 1);
    return true;
  }
  return false;
}

}  // namespace

KernelNest make_nest(const KernelCode& code, const KernelLaunch& launch) {
  const Dims& shape = launch.shape;
  const Dims positions = contiguous_strides(shape, 1);
  // The operand whose memory order decides the order of the loops.
  const Dims* leading = nullptr;
  for (size_t a = 0; a < code.parameters.size(); ++a)
    if (is_element(code.parameters[a]) && (leading == nullptr || (code.parameters[a].output && !code.reduces)))
      leading = &launch.arguments[a].strides;
  std::vector<int> axes[2];
  for (int d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) axes[launch.reduce_axes >> d & 1u].push_back(d);
  KernelNest nest;
  nest.arguments.resize(code.parameters.size());
  for (int part = 0; part < 2; ++part) {
    auto& order = axes[part];
    if (leading != nullptr)
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return magnitude((*leading)[a]) > magnitude((*leading)[b]); });
    if (part == 0 && !code.reduces) nest.crossed = cross_axes(code, launch, order);
    // Every walker: the element operands, and the position where it is wanted.
    struct Walker {
      const Dims* strides;
      std::vector<int64_t>* steps;
    };
    std::vector<Walker> walkers;
    for (size_t a = 0; a < code.parameters.size(); ++a)
      if (is_element(code.parameters[a]))
        walkers.push_back(
            {&launch.arguments[a].strides, part == 0 ? &nest.arguments[a].kept : &nest.arguments[a].reduced});
    if (code.uses.index) walkers.push_back({&positions, part == 0 ? &nest.index.kept : &nest.index.reduced});
    auto& extents = part == 0 ? nest.kept : nest.reduced;
    for (const int axis : order) {
      const bool merges = !extents.empty() && std::all_of(walkers.begin(), walkers.end(), [&](const Walker& w) {
        return w.steps->back() == (*w.strides)[axis] * shape[axis];
      });
      if (merges)
        extents.back() *= shape[axis];
      else
        extents.push_back(shape[axis]);
      for (const Walker& w : walkers) {
        if (merges)
          w.steps->back() = (*w.strides)[axis];
        else
          w.steps->push_back((*w.strides)[axis]);
      }
    }
    if (std::find(extents.begin(), extents.end(), 0) != extents.end()) {
      extents.clear();
      for (const Walker& w : walkers) w.steps->clear();
    }
    if (extents.empty()) {
      const bool nothing = std::any_of(order.begin(), order.end(), [&](int axis) { return shape[axis] == 0; });
      extents.push_back(nothing ? 0 : 1);
      for (const Walker& w : walkers) w.steps->push_back(0);
    }
  }
  nest.crossed = nest.crossed && nest.kept.size() > 1;
  if (code.reduces && leading != nullptr) {
    constexpr int64_t kFewColumns = 8;
    const auto first = std::find_if(code.parameters.begin(), code.parameters.end(), is_element);
    const auto& steps = nest.arguments[static_cast<size_t>(first - code.parameters.begin())];
    nest.columns = nest.kept.back() >= kFewColumns && steps.kept.back() != 0 &&
                   (nest.terms() == 1 || magnitude(steps.kept.back()) < magnitude(steps.reduced.back()));
  }
  return nest;
}

KernelWords make_words(const KernelCode& code, const KernelLaunch& launch, const KernelNest& nest) {
  KernelWords words;
  const auto add_all = [&words](const auto& values) {
    const int first = static_cast<int>(words.values.size());
    for (const int64_t value : values) words.add(value);
    return first;
  };
  words.elements = words.add(element_count(launch.shape));
  words.ndim = launch.shape.size();
  words.space = add_all(launch.shape);
  words.kept = add_all(nest.kept);
  words.reduced = add_all(nest.reduced);
  words.index_kept = add_all(nest.index.kept);
  words.index_reduced = add_all(nest.index.reduced);
  for (size_t a = 0; a < code.parameters.size(); ++a) {
    const KernelArgument& argument = launch.arguments[a];
    KernelWords::Argument place;
    const auto address = static_cast<int64_t>(reinterpret_cast<intptr_t>(argument.data));
    switch (code.parameters[a].kind) {
      case KernelParameter::Kind::element:
        place.pointer = words.add(address);
        place.kept = add_all(nest.arguments[a].kept);
        place.reduced = add_all(nest.arguments[a].reduced);
        break;
      case KernelParameter::Kind::raw: {
        place.pointer = words.add(address);
        place.count = words.add(element_count(argument.shape));
        place.ndim = argument.shape.size();
        place.shape = add_all(argument.shape);
        place.strides = add_all(argument.strides);
        const Dims dense = contiguous_strides(argument.shape, itemsize(code.parameters[a].dtype));
        place.contiguous = true;
        for (int d = 0; d < place.ndim; ++d)
          place.contiguous = place.contiguous && (argument.shape[d] == 1 || argument.strides[d] == dense[d]);
        break;
      }
      case KernelParameter::Kind::scalar: {
        int64_t bits[2] = {0, 0};
        argument.value.store(code.parameters[a].dtype, bits);
        place.value = words.add(bits[0]);
        words.add(bits[1]);
        break;
      }
    }
    words.arguments.push_back(place);
  }
  return words;
}

const char* kernel_type_name(DType dtype) { return kTypeNames[static_cast<size_t>(dtype)]; }

std::string KernelWriter::element_type(size_t argument) const {
  const KernelParameter& parameter = code_.parameters[argument];
  return fmt::format("{}{}", parameter.output ? "" : "const ", kernel_type_name(parameter.dtype));
}

std::string KernelWriter::key() const {
  std::string key = fmt::format("{}.{}.{}{}", nest_.kept.size(), nest_.reduced.size(), nest_.columns ? "c" : "r",
                                uses_.indexer ? words_.ndim : -1);
  for (size_t a = 0; a < code_.parameters.size(); ++a) {
    const KernelWords::Argument& place = words_.arguments[a];
    switch (code_.parameters[a].kind) {
      case KernelParameter::Kind::element:
        key += static_cast<char>(nest_.access(code_, a));
        break;
      case KernelParameter::Kind::raw:
        key += fmt::format("r{}{}", place.ndim, place.contiguous ? "c" : "s");
        break;
      case KernelParameter::Kind::scalar:
        key += 'v';
        break;
    }
  }
  return key + fmt::format("@{}", words_.ndim);
}

std::string KernelWriter::parameters(bool inputs, bool outputs) const {
  std::string text;
  for (size_t a = 0; a < code_.parameters.size(); ++a) {
    const KernelParameter& parameter = code_.parameters[a];
    const KernelWords::Argument& place = words_.arguments[a];
    switch (parameter.kind) {
      case KernelParameter::Kind::element:
        if (parameter.output ? outputs : inputs)
          text += fmt::format("{}{} {}, ", element_type(a), parameter.output ? "&" : "", parameter.name);
        break;
      case KernelParameter::Kind::raw:
        text += fmt::format("const quarry_kernel::raw_array<{}, {}, {}>& {}, ", element_type(a), place.ndim,
                            place.contiguous, parameter.name);
        break;
      case KernelParameter::Kind::scalar:
        text += fmt::format("{} {}, ", element_type(a), parameter.name);
        break;
    }
  }
  return text;
}

std::string KernelWriter::arguments(const std::vector<std::string>& elements, bool inputs, bool outputs) const {
  std::string text;
  for (size_t a = 0; a < code_.parameters.size(); ++a) {
    const KernelParameter& parameter = code_.parameters[a];
    if (is_element(parameter) && !(parameter.output ? outputs : inputs)) continue;
    text += is_element(parameter) ? elements[a] : fmt::format("v_{}", parameter.name);
    text += ", ";
  }
  return text;
}

std::string KernelWriter::declarations() const {
  std::string text;
  for (const auto& [type, dtype] : code_.types) text += fmt::format("typedef {} {};\n", kernel_type_name(dtype), type);
  if (!code_.preamble.empty()) text += quoted(code_, "preamble", code_.preamble);
  const std::string indexer =
      uses_.indexer ? fmt::format(", const quarry_kernel::indexer<{}>& _ind", words_.ndim) : std::string();
  const std::string names_in = uses_.indexer ? "static_cast<void>(_ind); " : "";
  constexpr const char* kBody = "do {\n";
  constexpr const char* kEnd = ";\n} while (false);\n}\n";
  if (!code_.reduces) {
    text += fmt::format(
        "static QUARRY_KERNEL_FN void quarry_operation({}const long long i, const long long n{}) {{\n"
        "static_cast<void>(i); static_cast<void>(n); {}\n",
        parameters(true, true), indexer, names_in);
    return text + kBody + quoted(code_, "operation", code_.operation) + kEnd;
  }
  const std::string counts = ", const quarry_kernel::counted _in_ind, const quarry_kernel::counted _out_ind";
  const std::string ignored = "static_cast<void>(n); static_cast<void>(_in_ind); static_cast<void>(_out_ind);\n";
  text += fmt::format("typedef {} quarry_type;\ntypedef quarry_type _type_reduce;\n", code_.reduce_type);
  text += fmt::format(
      "static QUARRY_KERNEL_FN quarry_type quarry_map({}const long long i, const long long n{}{}) {{\n"
      "static_cast<void>(i); {}{}return static_cast<quarry_type>(\n",
      parameters(true, false), counts, indexer, names_in, ignored);
  text += quoted(code_, "map", code_.map) + ");\n}\n";
  text +=
      "static QUARRY_KERNEL_FN quarry_type quarry_reduce(const quarry_type& a, const quarry_type& b) {\n"
      "return static_cast<quarry_type>(\n" +
      quoted(code_, "reduce", code_.reduce) + ");\n}\n";
  if (code_.identity.empty()) {
    text += R"(struct quarry_state {
  quarry_type value;
  bool some;
};
static QUARRY_KERNEL_FN quarry_state start() { quarry_state s; s.some = false; return s; }
static QUARRY_KERNEL_FN void push(quarry_state& s, const quarry_type& x) {
  s.value = s.some ? quarry_reduce(s.value, x) : x;
  s.some = true;
}
static QUARRY_KERNEL_FN void merge(quarry_state& s, const quarry_state& x) {
  if (x.some) push(s, x.value);
}
)";
  } else {
    text +=
        "struct quarry_state {\n  quarry_type value;\n};\n"
        "static QUARRY_KERNEL_FN quarry_state start() {\nquarry_state s;\ns.value = static_cast<quarry_type>(\n" +
        quoted(code_, "identity", code_.identity) + R"();
return s;
}
static QUARRY_KERNEL_FN void push(quarry_state& s, const quarry_type& x) { s.value = quarry_reduce(s.value, x); }
static QUARRY_KERNEL_FN void merge(quarry_state& s, const quarry_state& x) { push(s, x.value); }
)";
  }
  text += "static_assert(sizeof(quarry_state) <= 64, \"the reduced type is larger than 56 bytes\");\n";
  text += fmt::format("static QUARRY_KERNEL_FN void quarry_post(const quarry_type& a, {}const long long n{}) {{\n{}",
                      parameters(false, true), counts, ignored);
  return text + kBody + quoted(code_, "post", code_.post) + kEnd;
}

std::string KernelWriter::locals() const {
  std::string text = fmt::format("const long long v_n = p[{}];\nstatic_cast<void>(v_n);\n", words_.elements);
  const auto list = [](int first, int count) {
    std::string items;
    for (int d = 0; d < count; ++d) items += fmt::format("{}p[{}]", d == 0 ? "" : ", ", first + d);
    return count == 0 ? std::string("0") : items;
  };
  for (size_t a = 0; a < code_.parameters.size(); ++a) {
    const KernelParameter& parameter = code_.parameters[a];
    const KernelWords::Argument& place = words_.arguments[a];
    if (parameter.kind == KernelParameter::Kind::raw)
      text += fmt::format(
          "const quarry_kernel::raw_array<{0}, {1}, {2}> v_{3}{{reinterpret_cast<{0}*>(p[{4}]), p[{5}], {{{6}}}, "
          "{{{7}}}}};\n",
          element_type(a), place.ndim, place.contiguous, parameter.name, place.pointer, place.count,
          list(place.shape, place.ndim), list(place.strides, place.ndim));
    if (parameter.kind == KernelParameter::Kind::scalar)
      text += fmt::format("const {0} v_{1} = quarry_kernel::scalar<{0}>(p + {2});\n", kernel_type_name(parameter.dtype),
                          parameter.name, place.value);
  }
  if (code_.reduces)
    text += fmt::format("const quarry_kernel::counted v_in{{v_n}};\nconst quarry_kernel::counted v_out{{{}}};\n", [&] {
      std::string product = "1";
      for (size_t d = 0; d < nest_.kept.size(); ++d)
        product += fmt::format(" * p[{}]", words_.kept + static_cast<int>(d));
      return product;
    }());
  if (uses_.indexer)
    text += fmt::format("quarry_kernel::indexer<{}> v_ind{{p[{}], {{{}}}, {{}}}};\n", words_.ndim, words_.elements,
                        list(words_.space, words_.ndim));
  return text;
}

std::string KernelWriter::call_operation(const std::vector<std::string>& elements, const std::string& index) const {
  return fmt::format("{}quarry_operation({}{}, v_n{});",
                     uses_.indexer ? fmt::format("v_ind.set({}); ", index) : std::string(),
                     arguments(elements, true, true), index, uses_.indexer ? ", v_ind" : "");
}

std::string KernelWriter::call_map(const std::vector<std::string>& elements, const std::string& index) const {
  return fmt::format("({}quarry_map({}{}, v_n, v_in, v_out{}))",
                     uses_.indexer ? fmt::format("v_ind.set({}), ", index) : std::string(),
                     arguments(elements, true, false), index, uses_.indexer ? ", v_ind" : "");
}

std::string KernelWriter::call_post(const std::string& state, const std::vector<std::string>& elements) const {
  return fmt::format("quarry_post({}, {}v_n, v_in, v_out);", state, arguments(elements, false, true));
}

void refuse_kernel(const KernelCode& code, const std::string& log) {
  std::vector<Part> parts;
  const auto add = [&](const char* label, const std::string& text) {
    parts.push_back({fmt::format("{}.{}", code.name, label), label, &text});
  };
  add("preamble", code.preamble);
  add("operation", code.operation);
  add("map", code.map);
  add("reduce", code.reduce);
  add("identity", code.identity);
  add("post", code.post);
  refuse(code.name, parts, log);
}

void refuse_source(const std::string& name, const std::string& source, const std::string& log) {
  refuse(name, {{"source", "source", &source}}, log);
}

}  // namespace quarry::local
