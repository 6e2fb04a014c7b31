// The determinant of five copies of a vector below one another, and the norm of a vector of --size on both devices.
#include <cmath>

#include "quarry/apps/examples/options.h"
namespace ql = quarry::local;

int main(int argc, char** argv) {
  const examples::Options options(argc, argv, 10'000'000);
  examples::Checks checks;
  const ql::NdArray values = ql::default_rng(1).random(options.size);
  const double expected = std::sqrt(ql::sum(values * values).item<double>());
  for (const ql::Device& device : {ql::kCpu, options.device}) {
    const ql::DeviceScope scope(device);
    const ql::NdArray v = ql::arange(1.0, 6.0);
    const ql::NdArray stacked = ql::vstack({v, v, v, v, v});
    checks.expect(stacked.shape() == ql::Dims{5, 5} && std::abs(ql::linalg::det(stacked).item<double>()) < 1e-12,
                  to_string(device) + ": a matrix of equal rows is singular");
    const ql::NdArray x = values.to(device);
    checks.expect(std::abs(ql::linalg::norm(x).item<double>() - expected) <= 1e-13 * expected,
                  to_string(device) + ": norm");
    options.time("vstack, det", [&] { ql::linalg::det(ql::vstack({v, v, v, v, v})); });
    options.time("norm", [&] { ql::linalg::norm(x); });
  }
  return checks.status();
}
