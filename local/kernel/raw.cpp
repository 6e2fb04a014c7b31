// Raw kernels: what can be checked about a launch without a GPU, and the way to the engine that has one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <sstream>

#include "quarry/local/kernel/kernel.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/program/kernel_text.h"

namespace quarry::local {
namespace {

// A parameter of a __global__ function, as far as its text tells.
struct RawParameter {
  std::string text;
  bool pointer = false;
  bool reads_only = false;     // a pointer to const
  std::optional<DType> dtype;  // of what is passed or pointed to; nothing for types that are not built in
};

struct BuiltIn {
  const char* name;  // words in order, qualifiers left out
  DType dtype;
};
constexpr BuiltIn kBuiltIn[] = {
    {"bool", DType::bool_},
    {"char", DType::int8},
    {"signed char", DType::int8},
    {"unsigned char", DType::uint8},
    {"short", DType::int16},
    {"unsigned short", DType::uint16},
    {"int", DType::int32},
    {"unsigned", DType::uint32},
    {"unsigned int", DType::uint32},
    {"long", DType::int64},
    {"long long", DType::int64},
    {"long int", DType::int64},
    {"long long int", DType::int64},
    {"unsigned long", DType::uint64},
    {"unsigned long long", DType::uint64},
    {"float", DType::float32},
    {"double", DType::float64},
    {"int8_t", DType::int8},
    {"int16_t", DType::int16},
    {"int32_t", DType::int32},
    {"int64_t", DType::int64},
    {"uint8_t", DType::uint8},
    {"uint16_t", DType::uint16},
    {"uint32_t", DType::uint32},
    {"uint64_t", DType::uint64},
    {"size_t", DType::uint64},
    {"ptrdiff_t", DType::int64},
    {"float16", DType::float16},
    {"__half", DType::float16},
    {"half", DType::float16},
    {"bfloat16", DType::bfloat16},
    {"__nv_bfloat16", DType::bfloat16},
    {"complex<float>", DType::complex64},
    {"complex<double>", DType::complex128},
};

RawParameter parse_parameter(const std::string& text) {
  RawParameter parameter;
  parameter.text = text;
  std::string spaced;
  for (const char c : text.substr(0, text.find('='))) {
    if (c == '*' || c == '&') spaced += ' ';
    spaced += c;
    if (c == '*' || c == '&') spaced += ' ';
  }
  std::istringstream words(spaced);
  std::vector<std::string> type;
  bool constant = false;  // what is pointed to
  for (std::string word; words >> word;) {
    if (word == "const" && !parameter.pointer) constant = true;
    if (word == "const" || word == "volatile" || word == "__restrict__" || word == "__grid_constant__") continue;
    if (word == "*") {
      if (parameter.pointer) return {text, true, false, std::nullopt};  // a pointer to pointers
      parameter.pointer = true;
      continue;
    }
    type.push_back(word);
  }
  // With the parameter's name, or without one.
  for (size_t used = type.size(); used > 0 && used + 1 >= type.size(); --used) {
    std::string joined;
    for (size_t w = 0; w < used; ++w) joined += (w == 0 ? "" : " ") + type[w];
    for (const BuiltIn& known : kBuiltIn)
      if (joined == known.name) parameter.dtype = known.dtype;
    if (parameter.dtype) break;
  }
  parameter.reads_only = parameter.pointer && constant;
  return parameter;
}

// Comments and strings as blanks.
std::string without_comments(const std::string& source) {
  std::string text = source;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const std::string_view two(text.data() + i, 2);
    if (two != "//" && two != "/*") continue;
    const std::string_view stop = two == "//" ? "\n" : "*/";
    const size_t end = std::min(text.find(stop, i + 2), text.size() - stop.size());
    for (size_t k = i; k < end + (two == "/*" ? 2 : 0); ++k)
      if (text[k] != '\n') text[k] = ' ';
  }
  return text;
}

// The parameters of the kernel, where the source declares one function of that name; nothing for templates and where
// the text is not that plain.
std::optional<std::vector<RawParameter>> parameters_of(const std::string& source, const std::string& name) {
  const std::string text = without_comments(source);
  std::optional<std::vector<RawParameter>> found;
  for (size_t at = text.find("__global__"); at != std::string::npos; at = text.find("__global__", at + 1)) {
    const size_t end = text.find_first_of("{;", at);
    if (end == std::string::npos) break;
    const std::string head = text.substr(at, end - at);
    if (!mentions(head, name)) continue;
    size_t open = head.find(name);
    while (open != std::string::npos && !mentions(head.substr(open, name.size() + 1), name))
      open = head.find(name, open + 1);
    if (open == std::string::npos) continue;
    open = head.find('(', open);
    const size_t close = head.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
    const std::string list = head.substr(open + 1, close - open - 1);
    if (list.find('(') != std::string::npos || text.substr(0, at).ends_with("> ")) return std::nullopt;
    std::vector<RawParameter> parameters;
    int depth = 0;
    std::string part;
    for (const char c : list + ",") {
      depth += c == '<' ? 1 : c == '>' ? -1 : 0;
      if (c == ',' && depth == 0) {
        if (part.find_first_not_of(" \t\n") != std::string::npos) parameters.push_back(parse_parameter(part));
        part.clear();
      } else {
        part += c;
      }
    }
    if (found && found->size() != parameters.size()) return std::nullopt;
    found = std::move(parameters);
  }
  return found;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::string described(const RawArgument& argument) {
  if (argument.array()) return fmt::format("an array of {}", local::name(argument.array()->dtype()));
  if (argument.scalar()) return fmt::format("a value of {}", local::name(*argument.scalar()));
  return fmt::format("a value of {} bytes", argument.bytes());
}

// Throws TypeError where the source shows that an argument is none for its parameter.
void check_arguments(const std::optional<std::vector<RawParameter>>& parameters, const std::string& name,
                     const std::vector<RawArgument>& args) {
  if (!parameters) return;
  if (parameters->size() != args.size())
    throw TypeError(fmt::format("kernel '{}' takes {} arguments, got {}", name, parameters->size(), args.size()));
  for (size_t a = 0; a < args.size(); ++a) {
    const RawParameter& parameter = (*parameters)[a];
    const bool array = args[a].array().has_value();
    const std::optional<DType> dtype = array ? args[a].array()->dtype() : args[a].scalar();
    const bool address = parameter.pointer && !array && dtype && itemsize(*dtype) == 8 && is_integer(*dtype);
    const bool known = parameter.dtype.has_value() && dtype.has_value();
    if (address || (!known && (parameter.pointer == array || !parameter.dtype))) continue;
    if (parameter.pointer == array && known && *parameter.dtype == *dtype) continue;
    throw TypeError(fmt::format("kernel '{}': argument {} is {}, the parameter is '{}'", name, a, described(args[a]),
                                trimmed(parameter.text)));
  }
}

void check_dimensions(const std::string& name, const char* what, const Dim3& dim) {
  if (dim.x < 1 || dim.y < 1 || dim.z < 1)
    throw InvalidArgument(
        fmt::format("kernel '{}': a {} of ({}, {}, {}) has no threads", name, what, dim.x, dim.y, dim.z));
}

std::shared_ptr<const RawSource> make_source(const std::string& source, const std::vector<std::string>& names,
                                             const std::vector<std::string>& options) {
  for (const std::string& name : names)
    if (trimmed(name).empty()) throw InvalidArgument("the name of a raw kernel is empty");
  return std::make_shared<RawSource>(RawSource{source, options, names});
}

}  // namespace

// What a kernel keeps from launch to launch.
class RawKernel::State {
 public:
  State(std::shared_ptr<const RawSource> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)), parameters_(parameters_of(source_->text, name_)) {}

  const std::string& name() const { return name_; }
  bool reads_only(size_t argument) const { return parameters_ && (*parameters_)[argument].reads_only; }
  void check(const std::vector<RawArgument>& args) const { check_arguments(parameters_, name_, args); }

  // Compiled for the device.
  const RawCode& code(Device device) {
    if (device.kind != DeviceKind::cuda)
      throw NotSupported(
          fmt::format("the raw kernel '{}' is CUDA source and needs a GPU; its arrays, or the current "
                      "device, are on {}",
                      name_, to_string(device)));
    std::atomic<const RawCode*>& known = codes_[static_cast<size_t>(device.index) % codes_.size()];
    if (const RawCode* code = known.load(std::memory_order_acquire)) return *code;
    const RawCode& code = engine(device).kernels().load(*source_, device);
    known.store(&code, std::memory_order_release);
    return code;
  }

 private:
  const std::shared_ptr<const RawSource> source_;
  const std::string name_;
  const std::optional<std::vector<RawParameter>> parameters_;
  std::array<std::atomic<const RawCode*>, 64> codes_{};  // per device
};

RawKernel::RawKernel(const std::string& source, const std::string& name, const std::vector<std::string>& options)
    : RawKernel(std::make_shared<State>(make_source(source, {name}, options), name)) {}

void RawKernel::operator()(const Dim3& grid, const Dim3& block, const std::vector<RawArgument>& args,
                           int64_t shared_bytes) const {
  const std::string& name = state_->name();
  std::vector<const NdArray*> arrays;
  for (const RawArgument& arg : args)
    if (arg.array()) arrays.push_back(&*arg.array());
  const ExecContext context = context_for(common_device(arrays));
  check_dimensions(name, "grid", grid);
  check_dimensions(name, "block", block);
  if (shared_bytes < 0)
    throw InvalidArgument(fmt::format("kernel '{}': {} bytes of shared memory", name, shared_bytes));
  state_->check(args);
  const RawCode& code = state_->code(context.device);
  RawLaunch launch;
  launch.grid[0] = grid.x, launch.grid[1] = grid.y, launch.grid[2] = grid.z;
  launch.block[0] = block.x, launch.block[1] = block.y, launch.block[2] = block.z;
  launch.shared_bytes = shared_bytes;
  std::vector<void*> addresses;
  addresses.reserve(args.size());
  for (const RawArgument& arg : args) {
    if (arg.array()) {
      // A kernel may write to whatever it does not declare const.
      state_->reads_only(launch.bytes.size()) ? arg.array()->begin_read(context.stream)
                                              : arg.array()->begin_write(context.stream);
      addresses.push_back(arg.array()->raw());
      launch.arguments.push_back(&addresses.back());
    } else {
      launch.arguments.push_back(const_cast<void*>(arg.value()));  // the driver reads only
    }
    launch.bytes.push_back(arg.bytes());
  }
  launch.text = [&args](size_t a) { return described(args[a]); };
  code.launch(name, launch, context);
}

void RawKernel::compile(Device device) const { state_->code(device); }

RawAttributes RawKernel::attributes(Device device) const { return state_->code(device).attributes(state_->name()); }

void RawKernel::set_max_dynamic_shared_bytes(int64_t bytes, Device device) const {
  state_->code(device).allow_dynamic_shared(state_->name(), bytes);
}

RawModule::RawModule(const std::string& source, const std::vector<std::string>& names,
                     const std::vector<std::string>& options) {
  if (names.empty()) throw InvalidArgument("a raw module needs the names that it is asked for");
  const auto shared = make_source(source, names, options);
  for (const std::string& name : names) kernels_.push_back(RawKernel(std::make_shared<RawKernel::State>(shared, name)));
}

RawKernel RawModule::listed(const std::string& name) const {
  for (const RawKernel& kernel : kernels_)
    if (kernel.state_->name() == name) return kernel;
  throw InvalidArgument(fmt::format("'{}' is not among the names that this raw module was made with", name));
}

RawKernel RawModule::function(const std::string& name) const { return listed(name); }

NdArray RawModule::variable(const std::string& name, DType dtype, Device device) const {
  const auto [data, bytes] = listed('&' + name).state_->code(device).variable('&' + name);
  if (bytes % itemsize(dtype) != 0)
    throw InvalidArgument(
        fmt::format("the variable '{}' has {} bytes, no multiple of {}'s", name, bytes, local::name(dtype)));
  auto buffer = std::make_shared<Buffer>(data, bytes, device, nullptr);  // code is never unloaded
  return {std::move(buffer), dtype, Dims{bytes / itemsize(dtype)}, Dims{itemsize(dtype)}, 0};
}

void RawModule::compile(Device device) const { kernels_[0].compile(device); }

}  // namespace quarry::local
