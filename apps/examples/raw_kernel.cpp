// The product of --size (4096) layers of 512 x 512 float64 numbers into one layer: by a raw kernel that accumulates in
// global memory, by one that accumulates in a register, and, as CUDA source needs a GPU, by an elementwise kernel that
// runs everywhere; checked against the CPU.
#include "quarry/apps/examples/layers_kernel.h"
#include "quarry/apps/examples/options.h"
namespace ql = quarry::local;

int main(int argc, char** argv) {
  const examples::Options options(argc, argv, 4096);
  const ql::DeviceScope scope(options.device);
  examples::Checks checks;
  const int count = static_cast<int>(options.size), side = 512, size = side * side;
  const ql::NdArray layers = 0.9 + 0.2 * ql::default_rng(1).random(ql::Ints{count, side, side});
  const ql::NdArray wanted = ql::prod(layers.to(ql::kCpu), 0);
  const auto check = [&](const ql::NdArray& product, const std::string& what) {
    checks.expect(ql::allclose(product.to(ql::kCpu), wanted, 1e-12, 0), what);
  };

  const ql::ElementwiseKernel anywhere("raw T layers, int64 count", "T product", examples::kLayersSnippet,
                                       "multiply_layers");
  const ql::NdArray product = ql::zeros(ql::Dims{side, side});
  check(anywhere(layers, count, product), "the elementwise kernel");
  options.time("elementwise kernel", [&] { anywhere(layers, count, product); });

  const ql::RawModule module(examples::kLayersSource, {"in_memory", "in_register"});
  for (const char* name : {"in_memory", "in_register"}) {
    const ql::RawKernel kernel = module.function(name);
    const ql::NdArray out = ql::zeros(ql::Dims{side, side});
    const auto run = [&] { kernel({(size + 255) / 256}, {256}, {layers, out, count, size}); };
    try {
      run();
    } catch (const ql::NotSupported& error) {
      checks.expect(options.device.kind != ql::DeviceKind::cuda, error.what());
      continue;
    }
    check(out, name);
    const ql::RawAttributes attributes = kernel.attributes();
    std::cout << name << ": " << attributes.registers << " registers, " << attributes.max_threads_per_block
              << " threads per block at most\n";
    options.time(name, run);
  }
  return checks.status();
}
