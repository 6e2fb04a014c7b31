// arange(size).reshape(1000, -1).T * 2 for sizes from 10^4 to --size (10^8).
#include "quarry/apps/examples/options.h"
namespace ql = quarry::local;

int main(int argc, char** argv) {
  const examples::Options options(argc, argv, 100'000'000);
  const ql::DeviceScope scope(options.device);
  examples::Checks checks;
  for (int64_t size = 10'000; size <= options.size; size *= 10) {
    const auto doubled = [size] { return ql::arange(size).reshape({1000, -1}).T() * 2; };
    const ql::NdArray result = doubled();
    const std::string label = "size " + std::to_string(size);
    checks.expect(result.shape() == ql::Dims{size / 1000, 1000} &&
                      ql::sum(result).item<int64_t>() == size * (size - 1) &&
                      result[{1, 2}].item<int64_t>() == 2 * (2 * (size / 1000) + 1),
                  label);
    options.time(label, doubled);
  }
  return checks.status();
}
