// w = (x * y) + z over --size (10^7) elements: by operators, by a generic kernel, and by a fused function.
#include "quarry/apps/examples/options.h"
namespace ql = quarry::local;

int main(int argc, char** argv) {
  const examples::Options options(argc, argv, 10'000'000);
  const ql::DeviceScope scope(options.device);
  examples::Checks checks;

  const ql::ElementwiseKernel generic("T x, T y, T z", "T w", "w = (x * y) + z", "multiply_add");
  const auto plain = [](const auto& x, const auto& y, const auto& z) { return x * y + z; };
  const auto fused = ql::fuse(plain);
  for (const ql::DType dtype : {ql::DType::float32, ql::DType::float64, ql::DType::int64}) {
    const ql::NdArray x = ql::remainder(ql::arange(options.size), 1000).astype(dtype), y = x + 1, z = x * 3;
    const std::string type = ql::name(dtype);
    const ql::NdArray w = plain(x, y, z);
    checks.expect(ql::array_equal(generic(x, y, z), w), "the generic kernel, " + type);
    checks.expect(ql::array_equal(fused(x, y, z), w), "the fused function, " + type);
    checks.expect(ql::array_equal(fused(x, 2, z), x * 2 + z), "and with a number, " + type);
    options.time("operators, " + type, [&] { plain(x, y, z); });
    options.time("generic kernel, " + type, [&] { generic(x, y, z); });
    options.time("fused, " + type, [&] { fused(x, y, z); });
  }
  return checks.status();
}
