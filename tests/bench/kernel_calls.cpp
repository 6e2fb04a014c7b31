#include "tests/bench/kernel_calls.h"

#include <fmt/format.h>

#include <map>

#include "quarry/apps/examples/layers_kernel.h"
#include "quarry/local/local.h"

namespace quarry {
namespace {

namespace ql = local;
using ql::NdArray;

// On the CPU, where raw kernels do not run, the same by an elementwise kernel.
void multiply_layers(const NdArray& x, const char* name) {
  const NdArray product(ql::Dims{x.shape(1), x.shape(2)}, ql::DType::float64);
  if (x.device().kind != ql::DeviceKind::cuda) {
    static const ql::ElementwiseKernel layers("raw T layers, int64 count", "T product", examples::kLayersSnippet,
                                              "bench_layers");
    layers(x, x.shape(0), product);
    return;
  }
  static const ql::RawModule module(examples::kLayersSource, {"in_memory", "in_register"});
  const int64_t size = product.size();
  module.function(name)({(size + 255) / 256}, {256},
                        {x, product, static_cast<int>(x.shape(0)), static_cast<int>(size)});
}

ql::Generator& generator() {
  static ql::Generator instance = ql::default_rng(1);
  return instance;
}

const std::map<std::string, KernelCall>& calls() {
  using Arrays = std::span<const NdArray>;
  static const ql::ElementwiseKernel add("T x, T y", "T z", "z = x + y", "bench_add");
  static const ql::ElementwiseKernel generic("T x, T y, T z", "T w", "w = (x * y) + z", "bench_generic");
  static const ql::ElementwiseKernel chain("T x", "T z", "z = sqrt(x * x + 1) * exp(-x)", "bench_chain");
  static const ql::ReductionKernel norm("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "bench_norm");
  static const auto expression = [](const auto& x) { return ql::sqrt(x * x + 1) * ql::exp(-x); };
  static const auto fused_generic = ql::fuse([](auto x, auto y, auto z) { return x * y + z; });
  static const auto fused_chain = ql::fuse(expression);
  static const auto fused_sum = ql::fuse([](auto x) { return ql::sum(expression(x)); });
  static const std::map<std::string, KernelCall> table = {
      {"add", [](Arrays x) { add(x[0], x[1]); }},
      {"generic", [](Arrays x) { generic(x[0], x[1], x[2]); }},
      {"chain", [](Arrays x) { chain(x[0]); }},
      {"norm", [](Arrays x) { norm(x[0]); }},
      {"norm0", [](Arrays x) { norm.call({x[0]}, {.axis = 0}); }},
      {"norm1", [](Arrays x) { norm.call({x[0]}, {.axis = 1}); }},
      {"fused_generic", [](Arrays x) { fused_generic(x[0], x[1], x[2]); }},
      {"fused_chain", [](Arrays x) { fused_chain(x[0]); }},
      {"fused_sum", [](Arrays x) { fused_sum(x[0]); }},
      // Small calls as a program makes them, without the evaluation of an expression around them.
      {"plus", [](Arrays x) { static_cast<void>(x[0] + x[1]); }},
      {"exp", [](Arrays x) { ql::ops::exp(x[0]); }},
      {"twice", [](Arrays x) { static_cast<void>(x[0] * 2); }},
      {"sum", [](Arrays x) { ql::ops::sum(x[0]); }},
      {"take", [](Arrays x) { ql::ops::get(x[0], {x[1]}); }},
      {"sort", [](Arrays x) { ql::ops::sort(x[0]); }},
      {"cumsum", [](Arrays x) { ql::ops::cumsum(x[0]); }},
      {"concatenate",
       [](Arrays x) {
         ql::ops::concatenate({x[0], x[1]});
       }},
      {"where", [](Arrays x) { ql::ops::where(ql::ops::less(x[0], x[1]), x[0], x[1]); }},
      {"random", [](Arrays x) { generator().random(x[0].shape()); }},
      {"layers_in_memory", [](Arrays x) { multiply_layers(x[0], "in_memory"); }},
      {"layers_in_register", [](Arrays x) { multiply_layers(x[0], "in_register"); }},
  };
  return table;
}

}  // namespace

const KernelCall& kernel_call(const std::string& name) {
  const auto found = calls().find(name);
  if (found == calls().end()) throw local::InvalidArgument(fmt::format("no kernel '{}' to time", name));
  return found->second;
}

}  // namespace quarry
