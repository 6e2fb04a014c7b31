#include "quarry/local/kernel/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "quarry/local/ndarray/launch.h"

namespace quarry::local {
namespace {

bool is_identifier(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

// One letter, or a name that begins with a capital: a type that the arguments decide.
bool is_generic(const std::string& type) {
  return is_identifier(type) && (type.size() == 1 || std::isupper(static_cast<unsigned char>(type[0])) != 0);
}

int rank_of(DType dtype) {
  if (dtype == DType::bool_) return 0;
  return is_integer(dtype) ? 1 : is_float(dtype) ? 2 : 3;
}

// Elements of `a` lie where those of `b` do, and in the same order.
bool same_elements(const NdArray& a, const NdArray& b, const Dims& space) {
  return a.raw() == b.raw() && a.itemsize() == b.itemsize() && operand(a, space).strides == operand(b, space).strides;
}

}  // namespace

void check_kernel_name(const std::string& name) {
  if (!is_identifier(name)) throw InvalidArgument(fmt::format("the name of a kernel is an identifier, not '{}'", name));
}

KernelSignature::KernelSignature(std::string kernel, const std::string& inputs, const std::string& outputs,
                                 std::span<const char* const> also_reserved)
    : kernel_(std::move(kernel)) {
  check_kernel_name(kernel_);
  declare(inputs, false, also_reserved);
  inputs_ = parameters_.size();
  declare(outputs, true, also_reserved);
  if (this->outputs() == 0) throw InvalidArgument(fmt::format("kernel '{}' has no output parameter", kernel_));
}

void KernelSignature::declare(const std::string& list, bool outputs, std::span<const char* const> also_reserved) {
  const auto refuse = [&](const std::string& declaration, const std::string& why) {
    throw InvalidArgument(fmt::format("kernel '{}': parameter '{}': {}", kernel_, declaration, why));
  };
  if (list.find_first_not_of(" \t\n") == std::string::npos) return;
  std::istringstream declarations(list);
  for (std::string declaration; std::getline(declarations, declaration, ',');) {
    std::istringstream words(declaration);
    std::vector<std::string> parts;
    for (std::string word; words >> word;) parts.push_back(word);
    DeclaredParameter parameter;
    parameter.output = outputs;
    parameter.raw = !parts.empty() && parts[0] == "raw";
    if (parameter.raw) parts.erase(parts.begin());
    if (parts.size() != 2) refuse(declaration, "expected a type and a name");
    parameter.type = parts[0];
    parameter.name = parts[1];
    if (!is_generic(parameter.type)) {
      parameter.dtype = parse_dtype(parameter.type);
      if (!parameter.dtype)
        refuse(declaration, fmt::format("'{}' is neither a dtype nor a generic name (one letter, or a name that begins "
                                        "with a capital)",
                                        parameter.type));
    }
    const std::string& name = parameter.name;
    if (!is_identifier(name)) refuse(declaration, fmt::format("'{}' is no name", name));
    const bool reserved =
        name == "n" || name == "i" || name[0] == '_' || name.starts_with("quarry_") ||
        std::any_of(also_reserved.begin(), also_reserved.end(), [&](const char* word) { return name == word; });
    if (reserved) refuse(declaration, fmt::format("the name '{}' is reserved", name));
    for (const DeclaredParameter& other : parameters_)
      if (other.name == name) refuse(declaration, fmt::format("the name '{}' stands twice", name));
    parameters_.push_back(std::move(parameter));
  }
}

std::vector<std::pair<std::string, DType>> KernelSignature::types(std::span<const Arg> arguments) const {
  struct Generic {
    std::string name;
    std::optional<DType> dtype;
    std::string decided_by;
    std::vector<PromotionOperand> literals;
  };
  std::vector<Generic> generics;
  const auto generic = [&](const std::string& name) -> Generic& {
    for (Generic& g : generics)
      if (g.name == name) return g;
    generics.push_back({name, std::nullopt, "", {}});
    return generics.back();
  };
  for (const DeclaredParameter& parameter : parameters_)
    if (!parameter.dtype) generic(parameter.type);
  for (size_t p = 0; p < arguments.size(); ++p) {
    const DeclaredParameter& parameter = parameters_[p];
    const PromotionOperand operand = arguments[p].promotion();
    const bool is_array = arguments[p].array() != nullptr;
    if (parameter.dtype) {
      if (is_array && operand.dtype != *parameter.dtype)
        throw TypeError(fmt::format("kernel '{}': parameter '{}' is {}, the argument {}", kernel_, parameter.name,
                                    local::name(*parameter.dtype), local::name(operand.dtype)));
      continue;
    }
    Generic& g = generic(parameter.type);
    if (operand.weak) {
      g.literals.push_back(operand);
    } else if (!g.dtype) {
      g.dtype = operand.dtype;
      g.decided_by = parameter.name;
    } else if (is_array && *g.dtype != operand.dtype) {
      throw TypeError(fmt::format("kernel '{}': type '{}' is {} by parameter '{}' and {} by parameter '{}'", kernel_,
                                  g.name, local::name(*g.dtype), g.decided_by, local::name(operand.dtype),
                                  parameter.name));
    }
  }
  std::vector<std::pair<std::string, DType>> decided;
  for (Generic& g : generics) {
    if (!g.dtype && !g.literals.empty()) g.dtype = result_type(g.literals);
    if (!g.dtype)
      throw TypeError(
          fmt::format("kernel '{}': no argument decides the type '{}': give the output array", kernel_, g.name));
    decided.emplace_back(g.name, *g.dtype);
  }
  return decided;
}

DType KernelSignature::dtype(const DeclaredParameter& parameter,
                             std::span<const std::pair<std::string, DType>> types) const {
  if (parameter.dtype) return *parameter.dtype;
  for (const auto& [name, dtype] : types)
    if (name == parameter.type) return dtype;
  QUARRY_CHECK(!"a generic type without dtype");
  return DType::float64;
}

Scalar KernelSignature::value(const DeclaredParameter& parameter, const Scalar& scalar, DType dtype) const {
  if (rank_of(scalar.dtype()) > rank_of(dtype))
    throw TypeError(fmt::format("kernel '{}': parameter '{}' is {}, which a number of dtype {} does not convert to",
                                kernel_, parameter.name, local::name(dtype), local::name(scalar.dtype())));
  if (scalar.weak()) check_weak_fits(scalar, dtype);
  return Scalar::strong(scalar, dtype);
}

BoundArguments::BoundArguments(const KernelSignature& signature, std::span<const Arg> arguments)
    : signature_(signature), arguments_(arguments) {
  const size_t inputs = signature.inputs(), all = signature.parameters().size();
  if (arguments.size() != inputs && arguments.size() != all)
    throw TypeError(fmt::format("kernel '{}' takes {} arguments, or {} with its outputs; got {}", signature.kernel(),
                                inputs, all, arguments.size()));
  arrays_.resize(all, nullptr);
  for (size_t p = 0; p < arguments.size(); ++p) {
    arrays_[p] = arguments[p].array();
    const DeclaredParameter& parameter = signature.parameters()[p];
    if (arrays_[p] == nullptr && (parameter.raw || parameter.output))
      throw TypeError(fmt::format("kernel '{}': the {} parameter '{}' needs an array, not a number", signature.kernel(),
                                  parameter.output ? "output" : "raw", parameter.name));
  }
  types_ = signature.types(arguments);
}

std::shared_ptr<const KernelCode> KernelCodes::get(const std::string& key, const std::function<KernelCode()>& make) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const KernelCode>& entry = codes_[key];
  if (!entry) {
    KernelCode code = make();
    code.complete();
    entry = std::make_shared<const KernelCode>(std::move(code));
  }
  return entry;
}

std::string BoundArguments::key() const {
  std::string key;
  for (const auto& [name, dtype] : types_) key += static_cast<char>('a' + static_cast<int>(dtype));
  for (const NdArray* array : arrays_) key += array != nullptr ? 'x' : '-';
  return key;
}

std::vector<KernelParameter> BoundArguments::parameters() const {
  std::vector<KernelParameter> list;
  for (size_t p = 0; p < arrays_.size(); ++p) {
    const DeclaredParameter& declared = signature_.parameters()[p];
    KernelParameter parameter;
    parameter.name = declared.name;
    parameter.dtype = signature_.dtype(declared, types_);
    parameter.output = declared.output;
    if (declared.raw)
      parameter.kind = KernelParameter::Kind::raw;
    else if (arrays_[p] == nullptr && !declared.output)
      parameter.kind = KernelParameter::Kind::scalar;
    list.push_back(std::move(parameter));
  }
  return list;
}

bool BoundArguments::has_elements() const {
  for (size_t p = 0; p < arrays_.size(); ++p)
    if (arrays_[p] != nullptr && !signature_.parameters()[p].raw) return true;
  return false;
}

bool BoundArguments::has_raw() const {
  return std::any_of(signature_.parameters().begin(), signature_.parameters().end(),
                     [](const DeclaredParameter& parameter) { return parameter.raw; });
}

Dims BoundArguments::shape(bool outputs) const {
  std::vector<Dims> shapes{Dims{}};
  for (size_t p = 0; p < arrays_.size(); ++p) {
    const DeclaredParameter& declared = signature_.parameters()[p];
    if (arrays_[p] != nullptr && !declared.raw && (outputs || !declared.output)) shapes.push_back(arrays_[p]->shape());
  }
  return broadcast_shapes(shapes);
}

Device BoundArguments::device() const {
  std::vector<const NdArray*> arrays;
  for (const NdArray* array : arrays_)
    if (array != nullptr) arrays.push_back(array);
  return common_device(arrays);
}

std::vector<KernelArgument> BoundArguments::launch(std::span<const KernelParameter> all, const Dims& space,
                                                   std::span<const NdArray> outputs, const ExecContext& context) {
  std::vector<KernelArgument> list(all.size());
  copies_.reserve(all.size());
  for (size_t p = 0; p < all.size(); ++p) {
    KernelArgument& argument = list[p];
    const DeclaredParameter& declared = signature_.parameters()[p];
    if (all[p].kind == KernelParameter::Kind::scalar) {
      argument.value = signature_.value(declared, arguments_[p].scalar(), all[p].dtype);
      continue;
    }
    const NdArray* array = declared.output ? &outputs[p - signature_.inputs()] : arrays_[p];
    if (!declared.output && !declared.raw) {
      const bool clear = std::all_of(outputs.begin(), outputs.end(), [&](const NdArray& output) {
        return !may_overlap(*array, output) || (output.shape() == space && same_elements(*array, output, space));
      });
      if (!clear) {
        copies_.push_back(array->copy(context));
        array = &copies_.back();
      }
    }
    declared.output ? array->begin_write(context.stream) : array->begin_read(context.stream);
    argument.data = array->raw();
    if (declared.raw) {
      argument.shape = array->shape();
      argument.strides = array->strides();
    } else {
      argument.strides = operand(*array, space).strides;
    }
  }
  return list;
}

}  // namespace quarry::local
