// An operation on arrays of two devices fails with an error that names them; after a copy it works.
#include "quarry/apps/examples/options.h"
namespace ql = quarry::local;

int main(int argc, char** argv) {
  const examples::Options options(argc, argv, 1'000'000);
  examples::Checks checks;
  // The second GPU where there is one; beside the CPU alone the pretended one.
  ql::Device other = ql::kCpu;
  if (options.device == ql::kCpu)
    other = {ql::DeviceKind::emulated, 0};
  else if (ql::device_count(options.device.kind) > 1)
    other = {options.device.kind, 1};
  const ql::DeviceScope scope(options.device);
  const ql::NdArray x = ql::arange(static_cast<double>(options.size)), y = x.to(other);
  try {
    const ql::NdArray z = x + y;
    checks.expect(false, "the sum of arrays on two devices must not work");
  } catch (const ql::InvalidArgument& error) {
    std::cout << error.what() << "\n";
    const std::string message = error.what();
    checks.expect(message.find(to_string(x.device())) != std::string::npos &&
                      message.find(to_string(y.device())) != std::string::npos,
                  "the error names both devices");
  }
  checks.expect(ql::array_equal(x + y.to(x.device()), 2 * x), "a copy to the other device makes it work");
  options.time("copy and add", [&] { x + y.to(x.device()); });
  return checks.status();
}
