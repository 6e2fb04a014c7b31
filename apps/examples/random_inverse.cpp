// Random square matrices of side 1, 10, ... up to --size (10000): created, and created and inverted.
#include <cmath>

#include "quarry/apps/examples/options.h"
namespace ql = quarry::local;

int main(int argc, char** argv) {
  const examples::Options options(argc, argv, 10'000, /*default_repeat=*/20);
  const ql::DeviceScope scope(options.device);
  examples::Checks checks;
  ql::Generator generator = ql::default_rng(1);
  for (int64_t side = 1; side <= options.size; side *= 10) {
    const auto created = [&] { return generator.random(ql::Ints{side, side}); };
    const ql::NdArray a = created();
    const ql::NdArray b = ql::linalg::inv(a);
    // |a b - 1| <= c n eps |a| |b| for an inverse by LU.
    const double error = ql::linalg::norm(ql::matmul(a, b) - ql::eye(side)).item<double>();
    const double scale =
        ql::linalg::norm(a).item<double>() * ql::linalg::norm(b).item<double>() * static_cast<double>(side);
    const std::string label = "side " + std::to_string(side);
    checks.expect(error <= 10 * 0x1p-52 * scale, label + ": a @ inv(a) is the identity");
    options.time(label + ", created", created);
    options.time(label + ", inverted", [&] { return ql::linalg::inv(created()); });
  }
  return checks.status();
}
