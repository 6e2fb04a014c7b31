// Kernels that users write: snippets of C++ over elements of arrays, on every device, and CUDA sources on GPUs.
// Part of Engine: the same contract (queued on context.stream, thread-safe for different streams). The first run of a
// kernel with new types or a new kind of layout compiles it and holds up the caller; compiled code is kept in memory
// and in the disk cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/shape.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/program/kernel_facts.h"

namespace quarry::local {

struct KernelParameter {
  enum class Kind : uint8_t {
    element,  // one element of an array at each point of the space
    raw,      // a whole array, indexed by the user's code
    scalar,   // one value for all points
  };
  std::string name;
  DType dtype = DType::float64;
  Kind kind = Kind::element;
  bool output = false;
};

// Which names the snippets mention.
struct KernelUses {
  bool index = false;    // i, or _ind
  bool indexer = false;  // _ind
  bool complex = false;
};

namespace detail {

// A kernel with all its types. Snippets are C++ over the names of the parameters (see docs/howto/user-kernels.md).
struct KernelCode {
  std::string name;  // an identifier
  std::vector<std::pair<std::string, DType>> types;
  std::vector<KernelParameter> parameters;
  std::string preamble;
  std::vector<std::string> options;
  bool reduces = false;
  std::string operation;                                 // !reduces
  std::string map, reduce, post, identity, reduce_type;  // reduces; identity may be empty, reduce_type is C++

  // Of what is above; complete() sets them.
  std::string key;
  KernelUses uses;
  void complete();
};

}  // namespace detail

struct KernelArgument {
  void* data = nullptr;  // of arrays
  Dims shape;            // raw
  Dims strides;          // element: over the space, 0 along broadcast (for outputs: reduced) axes; raw: over its shape
  Scalar value;          // scalar: of the parameter's dtype
};

struct KernelLaunch {
  Dims shape;
  uint32_t reduce_axes = 0;  // bit d: axis d
  std::vector<KernelArgument> arguments;
};

struct RawLaunch {
  int64_t grid[3] = {1, 1, 1};
  int64_t block[3] = {1, 1, 1};
  int64_t shared_bytes = 0;
  std::vector<void*> arguments;             // where each argument's bytes are
  std::vector<int64_t> bytes;               // of each
  std::function<std::string(size_t)> text;  // an argument as an error message names it
};

// CUDA source and the names of what is to be found in it: functions and variables, as C++ writes them ("f<float>").
struct RawSource {
  std::string text;
  std::vector<std::string> options;
  std::vector<std::string> names;
};

// Compiled CUDA source on one device; lives as long as the process.
class RawCode {
 public:
  virtual ~RawCode() = default;
  // Throw InvalidArgument where there is no such function or variable.
  virtual RawAttributes attributes(const std::string& function) const = 0;
  // Throws InvalidArgument, with the number asked for and that of the device, where the device has less.
  virtual void allow_dynamic_shared(const std::string& function, int64_t bytes) const = 0;
  virtual void launch(const std::string& function, const RawLaunch& launch, const ExecContext& context) const = 0;
  // Address and size in bytes.
  virtual std::pair<void*, int64_t> variable(const std::string& name) const = 0;
};

class UserKernels {
 public:
  virtual ~UserKernels() = default;
  // Elementwise: no scratch. A reduction takes what the function says. Throws CompileError, and NotSupported where
  // there is no compiler.
  virtual int64_t run_scratch_bytes(const KernelCode& code, const KernelLaunch& launch) = 0;
  virtual void run(const KernelCode& code, const KernelLaunch& launch, const ExecContext& context) = 0;
  // Throws CompileError, NotSupported on devices that run no CUDA code.
  virtual const RawCode& load(const RawSource& source, Device device) = 0;
};

}  // namespace quarry::local
