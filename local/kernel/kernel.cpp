#include "quarry/local/kernel/kernel.h"

#include <fmt/format.h>

#include "quarry/local/kernel/signature.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/results.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/program/kernel_text.h"

namespace quarry::local {
namespace {

// What a reduction's snippets call their values.
constexpr const char* kReductionNames[] = {"a", "b"};

// Throws InvalidArgument where an element would be written twice.
void check_outputs(const KernelSignature& signature, std::span<const NdArray> outputs) {
  for (size_t a = 0; a < outputs.size(); ++a) {
    check_writable(outputs[a]);
    for (size_t b = 0; b < a; ++b)
      if (may_overlap(outputs[a], outputs[b]))
        throw InvalidArgument(fmt::format("kernel '{}': two outputs share memory", signature.kernel()));
  }
}

KernelCode typed(const KernelCode& code, const BoundArguments& bound) {
  KernelCode made = code;
  made.types = bound.types();
  made.parameters = bound.parameters();
  return made;
}

// The C++ type that states of a reduction have.
std::string reduce_type_of(const std::string& wanted, const BoundArguments& bound,
                           const std::vector<KernelParameter>& parameters, size_t inputs) {
  if (wanted.empty()) return kernel_type_name(widened(parameters[inputs].dtype));
  for (const auto& [name, dtype] : bound.types())
    if (name == wanted) return kernel_type_name(dtype);
  const std::optional<DType> dtype = parse_dtype(wanted);
  // "float" and "int" are C++ here, as in the code beside it.
  return dtype && wanted != "float" && wanted != "int" ? kernel_type_name(*dtype) : wanted;
}

KernelCode code_of(const std::string& name, const KernelOptions& options) {
  KernelCode code;
  code.name = name;
  code.preamble = options.preamble;
  code.options = options.options;
  return code;
}

KernelCode elementwise_code(const std::string& name, const std::string& operation, const KernelOptions& options) {
  KernelCode code = code_of(name, options);
  code.operation = operation;
  return code;
}

KernelCode reduction_code(const std::string& name, const std::string& map, const std::string& reduce,
                          const std::string& post, const std::string& identity, const KernelOptions& options) {
  KernelCode code = code_of(name, options);
  code.reduces = true;
  code.map = map;
  code.reduce = reduce;
  code.post = post;
  code.identity = identity;
  code.reduce_type = options.reduce_type;
  return code;
}

std::shared_ptr<const KernelSignature> reduction_signature(const std::string& name, const std::string& inputs,
                                                           const std::string& outputs) {
  auto signature = std::make_shared<KernelSignature>(name, inputs, outputs, kReductionNames);
  for (size_t p = signature->inputs(); p < signature->parameters().size(); ++p)
    if (signature->parameters()[p].raw)
      throw InvalidArgument(fmt::format("kernel '{}': an output of a reduction is not raw", name));
  return signature;
}

}  // namespace

template <class Options>
SnippetKernel<Options>::SnippetKernel(std::shared_ptr<const KernelSignature> signature, KernelCode code)
    : signature_(std::move(signature)),
      codes_(std::make_shared<KernelCodes>()),
      code_(std::make_shared<const KernelCode>(std::move(code))) {}

template <class Options>
void SnippetKernel<Options>::check_one_output() const {
  if (signature_->outputs() != 1)
    throw InvalidArgument(fmt::format("kernel '{}' has {} outputs: use call()", code_->name, signature_->outputs()));
}

template class SnippetKernel<ElementwiseOptions>;
template class SnippetKernel<ReductionOptions>;

ElementwiseKernel::ElementwiseKernel(const std::string& inputs, const std::string& outputs,
                                     const std::string& operation, const std::string& name,
                                     const KernelOptions& options)
    : SnippetKernel(std::make_shared<KernelSignature>(name, inputs, outputs),
                    elementwise_code(name, operation, options)) {}

std::vector<NdArray> ElementwiseKernel::run(std::span<const Arg> args, const ElementwiseOptions& options) const {
  BoundArguments bound(*signature_, args);
  Dims space = bound.shape(/*outputs=*/true);
  if (options.size) {
    if (bound.has_elements())
      throw InvalidArgument(fmt::format("kernel '{}': size is for calls whose arrays are all raw", code_->name));
    if (*options.size < 0)
      throw InvalidArgument(fmt::format("kernel '{}': the size {} is negative", code_->name, *options.size));
    space = Dims{*options.size};
  } else if (bound.has_raw() && !bound.has_elements()) {
    throw InvalidArgument(
        fmt::format("kernel '{}': the size of the loop is undecided: every array is raw, so give size", code_->name));
  }
  const ExecContext context = context_for(bound.device());
  const std::shared_ptr<const KernelCode> found = codes_->get(bound.key(), [&] { return typed(*code_, bound); });
  const KernelCode& code = *found;
  std::vector<const NdArray*> elements;  // the inputs that take part element by element
  for (size_t p = 0; p < signature_->inputs(); ++p)
    if (bound.array(p) != nullptr && code.parameters[p].kind != KernelParameter::Kind::raw)
      elements.push_back(bound.array(p));
  std::vector<NdArray> outputs;
  for (size_t p = signature_->inputs(); p < code.parameters.size(); ++p) {
    const NdArray* given = bound.array(p);
    const bool raw = code.parameters[p].kind == KernelParameter::Kind::raw;
    if (given == nullptr && raw)
      throw InvalidArgument(
          fmt::format("kernel '{}': the raw output '{}' must be given", code_->name, code.parameters[p].name));
    if (given != nullptr && !raw && !(given->shape() == space))
      throw InvalidArgument(fmt::format("kernel '{}': output '{}' has shape {}, the arguments broadcast to {}",
                                        code_->name, code.parameters[p].name, to_string(given->shape()),
                                        to_string(space)));
    outputs.push_back(given != nullptr ? *given : new_result(elements, space, code.parameters[p].dtype, context));
  }
  check_outputs(*signature_, outputs);
  KernelLaunch launch;
  launch.shape = space;
  launch.arguments = bound.launch(code.parameters, space, outputs, context);
  if (element_count(space) != 0) engine(context.device).kernels().run(code, launch, context);
  return outputs;
}

ReductionKernel::ReductionKernel(const std::string& inputs, const std::string& outputs, const std::string& map,
                                 const std::string& reduce, const std::string& post, const std::string& identity,
                                 const std::string& name, const KernelOptions& options)
    : SnippetKernel(reduction_signature(name, inputs, outputs),
                    reduction_code(name, map, reduce, post, identity, options)) {}

std::vector<NdArray> ReductionKernel::run(std::span<const Arg> args, const ReductionOptions& options) const {
  BoundArguments bound(*signature_, args);
  if (!bound.has_elements())
    throw InvalidArgument(
        fmt::format("kernel '{}' has nothing to reduce: no input is an array, but for raw ones", code_->name));
  const Dims space = bound.shape(/*outputs=*/false);
  const uint32_t mask = options.axis.mask(space.size());
  const Dims kept = reduced_shape(space, mask, /*keepdims=*/true);
  const Dims shape = reduced_shape(space, mask, options.keepdims);
  if (code_->identity.empty() && element_count(space) == 0 && element_count(kept) != 0)
    throw InvalidArgument(fmt::format("zero-size array to reduction operation {} which has no identity", code_->name));
  const ExecContext context = context_for(bound.device());
  const std::shared_ptr<const KernelCode> found = codes_->get(bound.key(), [&] {
    KernelCode made = typed(*code_, bound);
    made.reduce_type = reduce_type_of(code_->reduce_type, bound, made.parameters, signature_->inputs());
    return made;
  });
  const KernelCode& code = *found;
  std::vector<NdArray> outputs, aligned;  // as they are returned, and with the reduced axes as 1
  for (size_t p = signature_->inputs(); p < code.parameters.size(); ++p) {
    const NdArray* given = bound.array(p);
    if (given != nullptr && !(given->shape() == shape))
      throw InvalidArgument(fmt::format("kernel '{}': output '{}' has shape {}, the result {}", code_->name,
                                        code.parameters[p].name, to_string(given->shape()), to_string(shape)));
    outputs.push_back(given != nullptr ? *given : NdArray(shape, code.parameters[p].dtype, context));
    Dims strides;
    for (int d = 0, own = 0; d < space.size(); ++d) {
      const bool reduced = (mask >> d & 1u) != 0;
      strides.push_back(reduced ? 0 : outputs.back().strides()[own]);
      own += !reduced || options.keepdims ? 1 : 0;
    }
    aligned.push_back(outputs.back().restrided(kept, strides, outputs.back().offset()));
  }
  check_outputs(*signature_, outputs);
  KernelLaunch launch;
  launch.shape = space;
  launch.reduce_axes = mask;
  launch.arguments = bound.launch(code.parameters, space, aligned, context);
  if (element_count(kept) != 0) engine(context.device).kernels().run(code, launch, context);
  return outputs;
}

}  // namespace quarry::local
