// softplus written once, run on the CPU and on the device.
#include "quarry/apps/examples/options.h"
namespace ql = quarry::local;

// log(1 + exp(x)) without overflow, on the device of x.
ql::NdArray softplus(const ql::NdArray& x) { return ql::maximum(0, x) + ql::log1p(ql::exp(-ql::absolute(x))); }

int main(int argc, char** argv) {
  const examples::Options options(argc, argv, 10'000'000);
  examples::Checks checks;
  const ql::NdArray on_cpu = ql::arange(-800.0, 800.0, 1600.0 / static_cast<double>(options.size));
  const ql::NdArray on_device = on_cpu.to(options.device);
  const ql::NdArray here = softplus(on_cpu), there = softplus(on_device);
  checks.expect(there.device() == options.device, "the result is on the device of its argument");
  checks.expect(ql::allclose(here, there.to(ql::kCpu), 1e-14, 1e-300), "both devices agree");
  checks.expect(ql::all(ql::isfinite(here)).item<bool>(), "no overflow");
  options.time("softplus, cpu", [&] { softplus(on_cpu); });
  const ql::DeviceScope scope(options.device);
  options.time("softplus, " + to_string(options.device), [&] { softplus(on_device); });
  return checks.status();
}
