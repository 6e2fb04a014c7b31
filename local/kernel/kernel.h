// Kernels from the user's code: a snippet of C++ for each element, or for each term of a reduction; and CUDA source.
//
//   const ElementwiseKernel squared_distance("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_distance");
//   const NdArray z = squared_distance(x, 5);
//
//   const ReductionKernel norm("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm");
//   const NdArray rows = norm.call({x}, {.axis = 1})[0];
//
//   const RawKernel add(R"(extern "C" __global__ void add(const float* x, float* y, int n) { ... })", "add");
//   add({blocks}, {256}, {x, y, int(x.size())});
//
// The first two run on every device, the last on GPUs. What the code may say is in docs/howto/user-kernels.md. Code is
// compiled at the first call with new types and kept, also on disk.
#pragma once

#include <array>
#include <complex>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/kernel_facts.h"

namespace quarry::local {

struct KernelOptions {
  std::string preamble = {};              // C++ before the kernel: functions, macros, structs
  std::vector<std::string> options = {};  // of the compiler, as NVRTC takes them ("-DWIDTH=3", "--use_fast_math")
  std::string reduce_type = {};           // ReductionKernel: the C++ type of a and b; else that of the first output, or
                                          // float where this has 16 bits
};

namespace detail {
struct KernelCode;      // local/program/kernels.h
class KernelCodes;      // signature.h
class KernelSignature;  // signature.h
}  // namespace detail

// What kernels made of snippets have in common: declared parameters, and how they are called.
//
// Parameters are "TYPE NAME", separated by commas. TYPE is a dtype's name, or generic (one letter, or a name that
// begins with a capital): then the arguments that have it decide it, and must agree. "raw TYPE NAME" is the whole
// array, which the snippet indexes.
template <class Options>
class SnippetKernel {
 public:
  using CallOptions = Options;

  // The outputs: those given after the inputs, or new ones, with their axes in memory as the inputs' where these agree,
  // else in C order. Literals are weak. Throws TypeError (number of arguments, types), InvalidArgument (shapes,
  // devices), CompileError, NotSupported (no compiler), OutOfMemory. Does not wait for the results.
  std::vector<NdArray> call(std::initializer_list<Arg> args, const Options& options = {}) const {
    return run(std::span(args.begin(), args.size()), options);
  }
  // The one output, with default options. Throws InvalidArgument where there are several.
  template <class... Args>
  NdArray operator()(const Args&... args) const {
    check_one_output();
    return call({Arg(args)...})[0];
  }

 protected:
  SnippetKernel(std::shared_ptr<const detail::KernelSignature> signature, detail::KernelCode code);
  SnippetKernel(const SnippetKernel&) = default;
  SnippetKernel(SnippetKernel&&) noexcept = default;
  SnippetKernel& operator=(const SnippetKernel&) = default;
  SnippetKernel& operator=(SnippetKernel&&) noexcept = default;
  ~SnippetKernel() = default;

  std::shared_ptr<const detail::KernelSignature> signature_;
  std::shared_ptr<detail::KernelCodes> codes_;
  std::shared_ptr<const detail::KernelCode> code_;  // without types

 private:
  virtual std::vector<NdArray> run(std::span<const Arg> args, const Options& options) const = 0;
  void check_one_output() const;
};

struct ElementwiseOptions {
  std::optional<int64_t> size = std::nullopt;  // of the loop, where every array is raw
};
struct ReductionOptions {
  Axes axis = {};  // all axes
  bool keepdims = false;
};

// For each element of the broadcast arguments, a snippet that sets the outputs.
class ElementwiseKernel final : public SnippetKernel<ElementwiseOptions> {
 public:
  // Throws InvalidArgument for declarations that make no sense. Compiles nothing.
  ElementwiseKernel(const std::string& inputs, const std::string& outputs, const std::string& operation,
                    const std::string& name = "kernel", const KernelOptions& options = {});

 private:
  std::vector<NdArray> run(std::span<const Arg> args, const ElementwiseOptions& options) const override;
};

// y = post(reduce(map(x0), map(x1), ...)) over all axes or some: `map` is an expression over the inputs, `reduce` one
// over a and b, which is associative and commutative, `post` a snippet that sets the outputs from a. `identity` is an
// expression; empty for none. Terms are combined in an order that depends on shapes and strides only.
class ReductionKernel final : public SnippetKernel<ReductionOptions> {
 public:
  // As ElementwiseKernel's. Calls throw IndexError besides for axes, InvalidArgument for no terms where there is no
  // identity.
  ReductionKernel(const std::string& inputs, const std::string& outputs, const std::string& map,
                  const std::string& reduce, const std::string& post, const std::string& identity = "",
                  const std::string& name = "reduce_kernel", const KernelOptions& options = {});

 private:
  std::vector<NdArray> run(std::span<const Arg> args, const ReductionOptions& options) const override;
};

// A grid or a block.
struct Dim3 {
  int64_t x = 1, y = 1, z = 1;
};

// An argument of a raw kernel: an array, passed as the address of its first element, or a value, passed as it is.
class RawArgument {
 public:
  RawArgument(const NdArray& array) : array_(array) {}
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16> ||
           std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) RawArgument(T value)
      : bytes_(sizeof(T)) {
    std::memcpy(value_.data(), &value, sizeof(T));
    if constexpr (std::is_same_v<T, bool>)
      scalar_ = DType::bool_;
    else if constexpr (std::is_integral_v<T>)
      scalar_ = integer(sizeof(T), std::is_signed_v<T>);
    else if constexpr (!std::is_same_v<T, long double>)
      scalar_ = dtype_of_v<T>;
  }
  // A struct, as the kernel declares it too.
  template <class T>
  requires(std::is_class_v<T>&& std::is_trivially_copyable_v<T>) static RawArgument structure(const T& value) {
    RawArgument argument;
    argument.large_.assign(reinterpret_cast<const char*>(&value), reinterpret_cast<const char*>(&value) + sizeof(T));
    argument.bytes_ = sizeof(T);
    return argument;
  }

  const std::optional<NdArray>& array() const { return array_; }
  std::optional<DType> scalar() const { return scalar_; }  // of a number
  int64_t bytes() const { return bytes_; }                 // of what is passed
  const void* value() const { return large_.empty() ? static_cast<const void*>(value_.data()) : large_.data(); }

 private:
  RawArgument() = default;
  static DType integer(size_t bytes, bool is_signed) {
    if (bytes == 1) return is_signed ? DType::int8 : DType::uint8;
    if (bytes == 2) return is_signed ? DType::int16 : DType::uint16;
    if (bytes == 4) return is_signed ? DType::int32 : DType::uint32;
    return is_signed ? DType::int64 : DType::uint64;
  }

  std::optional<NdArray> array_;
  std::optional<DType> scalar_;
  std::array<char, 16> value_{};
  std::vector<char> large_;
  int64_t bytes_ = 8;
};

// A kernel of CUDA source: by its name, as C++ writes it ("add", "add<float>"), with C or C++ linkage.
class RawKernel {
 public:
  RawKernel(const std::string& source, const std::string& name, const std::vector<std::string>& options = {});

  // A read-only array goes only where the source declares a pointer to const; else this throws InvalidArgument.
  // Queues the kernel on the arrays' device, or, without arrays, on the current one. The arguments must be those of the
  // kernel's parameters, by number, size and, where the source shows it, type. More dynamic shared memory than 48 KiB
  // is opted into. Throws NotSupported off GPUs, CompileError, TypeError (arguments), InvalidArgument (a grid or block
  // of no threads or too many, more shared memory than the device has, with both numbers).
  void operator()(const Dim3& grid, const Dim3& block, const std::vector<RawArgument>& args,
                  int64_t shared_bytes = 0) const;
  // Compiles for the device, if that has not happened.
  void compile(Device device = current_device()) const;
  RawAttributes attributes(Device device = current_device()) const;
  // The most dynamic shared memory that a launch may ask for. Throws InvalidArgument for more than the device has.
  void set_max_dynamic_shared_bytes(int64_t bytes, Device device = current_device()) const;

 private:
  friend class RawModule;
  class State;  // raw.cpp
  explicit RawKernel(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

// CUDA source with several kernels. `names` lists what function() and variable() are asked for; templates are
// instantiated by being named.
class RawModule {
 public:
  RawModule(const std::string& source, const std::vector<std::string>& names,
            const std::vector<std::string>& options = {});

  // Throws InvalidArgument for a name that was not listed.
  RawKernel function(const std::string& name) const;
  // A __device__ or __constant__ variable ("&name" in the list of names) as a 1-d array over its memory. Throws
  // NotSupported off GPUs, InvalidArgument where its size is no multiple of the dtype's.
  NdArray variable(const std::string& name, DType dtype, Device device = current_device()) const;
  void compile(Device device = current_device()) const;

 private:
  RawKernel listed(const std::string& name) const;
  std::vector<RawKernel> kernels_;  // one per name
};

}  // namespace quarry::local
