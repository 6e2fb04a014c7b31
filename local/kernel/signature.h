// Parameter lists of user kernels, and arguments bound to them. Private to local/kernel.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/kernels.h"

namespace quarry::local {

// One parameter as declared: "T x", "raw float32 y".
struct DeclaredParameter {
  std::string type;            // a generic name, where `dtype` is empty
  std::optional<DType> dtype;  // a concrete type
  std::string name;
  bool raw = false;
  bool output = false;
};

namespace detail {

class KernelSignature {
 public:
  // Throws InvalidArgument, quoting the declaration, for unknown types, names that are none, are reserved (n, i, names
  // that begin with an underscore, and `also_reserved`) or stand twice, and where nothing is returned.
  KernelSignature(std::string kernel, const std::string& inputs, const std::string& outputs,
                  std::span<const char* const> also_reserved = {});

  const std::vector<DeclaredParameter>& parameters() const { return parameters_; }
  size_t inputs() const { return inputs_; }
  size_t outputs() const { return parameters_.size() - inputs_; }
  const std::string& kernel() const { return kernel_; }

  // The dtypes of the generic names, from the arguments (some or all parameters, in order). Arrays and strong scalars
  // decide first, then literals. Throws TypeError where they disagree among themselves or with a concrete type, or
  // leave a name open.
  std::vector<std::pair<std::string, DType>> types(std::span<const Arg> arguments) const;
  // The dtype of a parameter, given types().
  DType dtype(const DeclaredParameter& parameter, std::span<const std::pair<std::string, DType>> types) const;
  // A literal or scalar as a value of that dtype. Throws TypeError where it is of a larger kind, InvalidArgument where
  // an integer does not fit.
  Scalar value(const DeclaredParameter& parameter, const Scalar& scalar, DType dtype) const;

 private:
  void declare(const std::string& list, bool outputs, std::span<const char* const> also_reserved);

  std::string kernel_;
  std::vector<DeclaredParameter> parameters_;
  size_t inputs_ = 0;
};

// The codes of a kernel by its arguments' types, made at the first call with each. Thread-safe.
class KernelCodes {
 public:
  std::shared_ptr<const KernelCode> get(const std::string& key, const std::function<KernelCode()>& make);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const KernelCode>> codes_;
};

}  // namespace detail

// Throws InvalidArgument unless `name` is an identifier of C++.
void check_kernel_name(const std::string& name);

// Arguments of a launch, with the arrays that they point to.
class BoundArguments {
 public:
  BoundArguments(const KernelSignature& signature, std::span<const Arg> arguments);

  // Different for arguments that make parameters() differ.
  std::string key() const;
  // The parameters with their dtypes and kinds.
  std::vector<KernelParameter> parameters() const;
  const std::vector<std::pair<std::string, DType>>& types() const { return types_; }
  // What the arrays that are not raw broadcast to, given outputs included if `outputs`.
  Dims shape(bool outputs) const;
  bool has_elements() const;  // some array is not raw
  bool has_raw() const;
  Device device() const;
  // Null for numbers and for what is not given.
  const NdArray* array(size_t parameter) const { return arrays_[parameter]; }
  // The launch's arguments over `space` for parameters(); `outputs` are used for output parameters. Copies inputs that
  // an output would run over before they are read. Keep this object until the launch is queued.
  std::vector<KernelArgument> launch(std::span<const KernelParameter> parameters, const Dims& space,
                                     std::span<const NdArray> outputs, const ExecContext& context);

 private:
  const KernelSignature& signature_;
  std::span<const Arg> arguments_;
  std::vector<std::pair<std::string, DType>> types_;
  std::vector<const NdArray*> arrays_;  // per parameter
  std::vector<NdArray> copies_;
};

}  // namespace quarry::local
