// x *= 3; x *= x on a random cube of side --size (1024: 8 GiB), without a second array.
#include "quarry/apps/examples/options.h"
namespace ql = quarry::local;

int main(int argc, char** argv) {
  const examples::Options options(argc, argv, 1024);
  const ql::DeviceScope scope(options.device);
  examples::Checks checks;
  const int64_t side = options.size;
  const ql::NdArray x = ql::default_rng(1).random(ql::Ints{side, side, side});
  const double first = x[{0, 0, 0}].item<double>(), last = x[{-1, -1, -1}].item<double>();

  ql::SlabPool& pool = ql::default_memory_pool();
  pool.reset_peak();
  const int64_t before = pool.used_bytes();
  x *= 3;
  x *= x;
  checks.expect(x[{0, 0, 0}].item<double>() == first * 3 * (first * 3), "the first element");
  checks.expect(x[{-1, -1, -1}].item<double>() == last * 3 * (last * 3), "the last element");
  checks.expect(pool.peak_bytes() - before < x.nbytes() / 4 + 4096, "no second array");

  const ql::NdArray y = ql::ones_like(x);
  options.time("y *= 3", [&] { y *= 3; });
  y.fill(1);
  options.time("y *= y", [&] { y *= y; });
  return checks.status();
}
