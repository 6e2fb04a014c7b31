// Who takes memory in one step of a small network: per function, per source line, and as a tree of callers.
#include <cmath>

#include "quarry/apps/examples/options.h"
namespace ql = quarry::local;

namespace {

struct Layer {
  ql::NdArray weights, bias;
};

// The functions stay apart in the report: a compiler may not merge them.
[[gnu::noinline]] ql::NdArray linear(const ql::NdArray& x, const Layer& layer) {
  return ql::matmul(x, layer.weights) + layer.bias;
}

[[gnu::noinline]] ql::NdArray relu(const ql::NdArray& x) { return ql::maximum(x, 0); }

[[gnu::noinline]] ql::NdArray softmax(const ql::NdArray& x) {
  const ql::NdArray powers = ql::exp(x - ql::max(x, -1, {.keepdims = true}));
  return powers / ql::sum(powers, -1, {.keepdims = true});
}

[[gnu::noinline]] double cross_entropy(const ql::NdArray& p, const ql::NdArray& labels) {
  return -ql::mean(ql::log(ql::take_along_axis(p, labels, 1))).item<double>();
}

[[gnu::noinline]] double network(const ql::NdArray& x, const ql::NdArray& labels, const Layer& first,
                                 const Layer& second) {
  const ql::NdArray hidden = relu(linear(x, first));
  return cross_entropy(softmax(linear(hidden, second)), labels);
}

Layer random_layer(ql::Generator& generator, int64_t inputs, int64_t outputs) {
  const double scale = 1 / std::sqrt(static_cast<double>(inputs));
  return {generator.normal(0.0, scale, ql::Ints{inputs, outputs}, ql::DType::float32),
          ql::zeros({outputs}, ql::DType::float32)};
}

}  // namespace

int main(int argc, char** argv) {
  const examples::Options options(argc, argv, 4096);
  const ql::DeviceScope scope(options.device);
  examples::Checks checks;
  constexpr int64_t kInputs = 784, kHidden = 1000, kClasses = 10;
  ql::Generator generator = ql::default_rng(1);
  const ql::NdArray x = generator.random(ql::Ints{options.size, kInputs}, ql::DType::float32);
  const ql::NdArray labels = generator.integers(0, kClasses, ql::Ints{options.size, 1});
  const Layer first = random_layer(generator, kInputs, kHidden), second = random_layer(generator, kHidden, kClasses);

  ql::MemoryProfile profile;
  double loss = 0;
  {
    const ql::MemoryHookScope hook(profile);
    loss = network(x, labels, first, second);
  }
  std::cout << profile.function_table() << "\n" << profile.line_table() << "\n" << profile.tree() << "\n";
  std::cout << to_string(ql::default_memory_pool().statistics());

  checks.expect(loss > 2 && loss < 3, "the loss of random weights is about log(10): " + std::to_string(loss));
  int64_t used = 0, of_linear = 0;
  for (const ql::MemoryUse& use : profile.by_function()) {
    used += use.used_bytes;
    if (use.name.find("linear") != std::string::npos) of_linear = use.used_bytes;
  }
  const int64_t hidden_bytes = options.size * kHidden * 4;
  checks.expect(used >= 3 * hidden_bytes, "the report counts the hidden layer's arrays");
  // A stripped program has no names.
  if (of_linear > 0) checks.expect(of_linear >= 2 * hidden_bytes, "linear makes products and sums");
  options.time("network", [&] { network(x, labels, first, second); });
  return checks.status();
}
