// The sum of two random vectors of --size (5 * 10^7) elements: by the operator, and by a kernel of the user's.
#include "quarry/apps/examples/options.h"
namespace ql = quarry::local;

int main(int argc, char** argv) {
  const examples::Options options(argc, argv, 50'000'000);
  const ql::DeviceScope scope(options.device);
  examples::Checks checks;
  ql::Generator random = ql::default_rng(1);
  const ql::NdArray x = random.random(ql::Ints{options.size}), y = random.random(ql::Ints{options.size});

  const ql::ElementwiseKernel add("float64 x, float64 y", "float64 z", "z = x + y", "add");
  checks.expect(ql::array_equal(add(x, y), x + y), "the kernel's sum is the operator's");
  options.time("x + y", [&] { x + y; });
  options.time("add(x, y)", [&] { add(x, y); });
  return checks.status();
}
